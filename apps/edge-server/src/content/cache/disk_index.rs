//! Index of the responses on disk, by key, and by how long ago they were used.

use std::collections::BTreeMap;
use std::collections::HashMap;

use crate::content::cache::counts;
use crate::content::cache::disk_file::DiskHead;
use crate::content::cache::invalidation_log::InvalidationLog;
use crate::content::cache::purge::PurgeTarget;
use crate::content::cache::slices;
use crate::content::cache::vary::RequestFields;
use crate::content::cache::vary::SelectingFields;

/// Purges that are remembered before the folder is read, beyond which all in it is removed.
const EARLY_PURGES_MAX: usize = 1000;

/// Responses on disk.
#[derive(Debug, Default)]
pub struct DiskIndex {
    /// By the names of their files.
    entries: HashMap<Box<str>, DiskEntry>,
    names: HashMap<Box<str>, Vec<Box<str>>>,

    /// By the number of the last use.
    uses: BTreeMap<u64, Box<str>>,
    next_use: u64,
    bytes: u64,

    /// What was forgotten, by a purge or as another response is newer.
    pub invalidations: InvalidationLog,

    /// The folder has been read.
    is_open: bool,
    early_purges: Vec<PurgeTarget>,
}

#[derive(Debug)]
struct DiskEntry {
    key: Box<str>,
    selecting: SelectingFields,
    tags: Vec<String>,
    bytes: u64,
    used: u64,
}

impl DiskIndex {
    /// Returns the file with the response to a request, if there is one.
    pub fn find(&mut self, key: &str, request: &impl RequestFields) -> Option<Box<str>> {
        if !self.is_open {
            return None;
        }
        let name = self.names.get(key)?.iter().find(|name| {
            self.entries.get(*name).is_some_and(|entry| entry.selecting.match_request(request))
        })?;
        let name = name.clone();
        let entry = self.entries.get_mut(&name)?;
        self.uses.remove(&entry.used);
        entry.used = self.next_use;
        self.uses.insert(self.next_use, name.clone());
        self.next_use += 1;
        Some(name)
    }

    /// Adds a file, in place of another of its name.
    pub fn insert(&mut self, name: &str, head: &DiskHead, bytes: u64) {
        self.remove(name);
        let (selecting, tags) = (head.selecting(), head.tags());
        let key = head.key.as_str().into();
        let entry = DiskEntry { key, selecting, tags, bytes, used: self.next_use };
        self.names.entry(entry.key.clone()).or_default().push(name.into());
        self.uses.insert(self.next_use, name.into());
        self.next_use += 1;
        self.bytes += bytes;
        self.entries.insert(name.into(), entry);
        counts::set_disk(self.entries.len(), self.bytes);
    }

    /// Removes a file.
    pub fn remove(&mut self, name: &str) {
        let Some(entry) = self.entries.remove(name) else { return };
        self.uses.remove(&entry.used);
        self.bytes -= entry.bytes;
        counts::set_disk(self.entries.len(), self.bytes);
        if let Some(names) = self.names.get_mut(&entry.key) {
            names.retain(|own| **own != *name);
            if names.is_empty() {
                self.names.remove(&entry.key);
            }
        }
    }

    /// Removes the file that was not used for the longest time, if all have more than so many bytes.
    pub fn evict(&mut self, bytes_max: u64) -> Option<Box<str>> {
        let name = self.uses.values().next().filter(|_| self.bytes > bytes_max)?.clone();
        self.remove(&name);
        Some(name)
    }

    /// Removes what is meant. Returns the names of the files, and how many responses they have: slices are not
    /// counted.
    pub fn purge(&mut self, target: &PurgeTarget) -> (Vec<Box<str>>, usize) {
        self.invalidations.add(target);
        if !self.is_open {
            match self.early_purges.len() < EARLY_PURGES_MAX {
                true => self.early_purges.push(target.clone()),
                false => self.early_purges = vec![PurgeTarget::All],
            }
        }
        self.take(target)
    }

    /// Notes that the folder has been read. Returns the names of files that were purged before.
    pub fn open(&mut self) -> Vec<Box<str>> {
        self.is_open = true;
        let purges = std::mem::take(&mut self.early_purges);
        purges.iter().flat_map(|target| self.take(target).0).collect()
    }

    /// Returns whether the folder has been read.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    fn take(&mut self, target: &PurgeTarget) -> (Vec<Box<str>>, usize) {
        let names = match target {
            PurgeTarget::Url(url) => self.names.get(url.as_str()).cloned().unwrap_or_default(),
            _ => {
                let entries = self.entries.iter();
                let meant = entries.filter(|(_, entry)| {
                    target.means(&entry.key, entry.tags.iter().map(String::as_str))
                });
                meant.map(|(name, _)| name.clone()).collect()
            }
        };
        let entries = names.iter().filter_map(|name| self.entries.get(name));
        let responses = entries.filter(|entry| !slices::is_slice(&entry.key)).count();
        names.iter().for_each(|name| self.remove(name));
        (names, responses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::HeaderMap;

    fn head(key: &str, tag: &str) -> DiskHead {
        DiskHead {
            key: key.to_owned(),
            fields: vec![("surrogate-key".to_owned(), tag.to_owned())],
            ..DiskHead::default()
        }
    }

    fn index() -> DiskIndex {
        let mut index = DiskIndex::default();
        for (name, key, tag) in [("1", "a/x", "t u"), ("2", "a/y", "t"), ("3", "b/x", "v")] {
            index.insert(name, &head(key, tag), 10);
        }
        index
    }

    fn found(index: &mut DiskIndex) -> Vec<&'static str> {
        let keys = ["a/x", "a/y", "b/x"].into_iter();
        keys.filter(|key| index.find(key, &HeaderMap::new()).is_some()).collect()
    }

    #[test]
    fn purge_removes_what_is_meant_even_before_the_folder_is_read() {
        for (target, left) in [
            ("url=https://a/x", &["a/y", "b/x"][..]),
            ("prefix=https://a/", &["b/x"]),
            ("tag=t", &["b/x"]),
            ("tag=u", &["a/y", "b/x"]),
            ("all", &[]),
        ] {
            let target = PurgeTarget::parse(target).unwrap();
            let mut read = index();
            assert!(read.open().is_empty());
            assert_eq!(read.purge(&target).1, 3 - left.len(), "{target:?}");
            assert_eq!(found(&mut read), left, "{target:?}");
            let mut early = DiskIndex::default();
            early.purge(&target);
            for (name, key, tag) in [("1", "a/x", "t u"), ("2", "a/y", "t"), ("3", "b/x", "v")] {
                early.insert(name, &head(key, tag), 10);
            }
            assert!(found(&mut early).is_empty());
            assert_eq!(early.open().len(), 3 - left.len(), "{target:?}");
            assert_eq!(found(&mut early), left, "{target:?}");
        }
    }

    #[test]
    fn least_recently_used_file_makes_room() {
        let mut index = index();
        index.open();
        assert!(index.find("a/x", &HeaderMap::new()).is_some());
        assert_eq!(index.evict(30), None);
        assert_eq!(index.evict(15).as_deref(), Some("2"));
        assert_eq!(index.evict(15).as_deref(), Some("3"));
        assert_eq!((index.evict(15), index.bytes), (None, 10));
    }
}
