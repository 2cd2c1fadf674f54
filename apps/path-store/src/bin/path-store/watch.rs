//! Changes of a store as they happen: the difference of two snapshots.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;
use std::time::Duration;

use path_store::Admin;
use path_store::Entry;

use crate::failure::Failure;
use crate::show;

/// A change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Recorded,
    Claimed,
    Released,
    Forgotten,
    Gone,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Claimed => "claimed",
            Self::Released => "released",
            Self::Forgotten => "forgotten",
            Self::Gone => "gone",
        }
    }
}

/// Prints changes until the output is closed.
pub fn watch(admin: &dyn Admin, interval: Duration, json: bool) -> Result<(), Failure> {
    let mut before = snapshot(admin)?;
    loop {
        std::thread::sleep(interval);
        let now = snapshot(admin)?;
        let wall_now = quiche::clock::wall_now();
        let mut out = io::stdout().lock();
        for (change, entry) in changes(&before, &now) {
            match json {
                true => writeln!(out, "{}", show::change_json(change.name(), entry)?)?,
                false => writeln!(out, "{}", show::change(change.name(), entry, wall_now))?,
            }
        }
        out.flush()?;
        before = now;
    }
}

fn snapshot(admin: &dyn Admin) -> Result<BTreeMap<String, Entry>, Failure> {
    let mut entries = BTreeMap::new();
    admin.entries(&mut |entry| {
        entries.insert(entry.endpoint.clone(), entry);
    })?;

    Ok(entries)
}

/// Returns the changes between two snapshots.
pub fn changes<'a>(
    before: &'a BTreeMap<String, Entry>,
    now: &'a BTreeMap<String, Entry>,
) -> Vec<(Change, &'a Entry)> {
    let mut changes = Vec::new();
    for (key, entry) in now {
        let old = before.get(key);
        let state = old.and_then(|old| old.state);
        let was_claimed = old.is_some_and(|old| old.lease.is_some());
        if entry.state.is_some() && entry.state != state {
            changes.push((Change::Recorded, entry));
        }
        if entry.retreats > old.map_or(0, |old| old.retreats) {
            changes.push((Change::Forgotten, entry));
        } else if entry.lease.is_some() && !was_claimed {
            changes.push((Change::Claimed, entry));
        } else if entry.lease.is_none() && was_claimed {
            changes.push((Change::Released, entry));
        }
    }
    let gone = before.iter().filter(|(key, _)| !now.contains_key(*key));
    changes.extend(gone.map(|(_, entry)| (Change::Gone, entry)));

    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use path_store::RecordStatus;
    use quiche::path_state::PathState;
    use std::time::UNIX_EPOCH;

    fn entry(key: &str, cwnd: Option<u64>, claimed: bool, retreats: u32) -> (String, Entry) {
        let state = cwnd.map(|saved_cwnd| PathState {
            saved_cwnd,
            saved_rtt: Duration::from_millis(50),
            observed: UNIX_EPOCH,
            expires: UNIX_EPOCH,
            limited: false,
            validated: false,
        });
        let entry = Entry {
            endpoint: key.to_string(),
            state,
            lease: claimed.then_some(Duration::from_secs(1)),
            retreats,
            hold_off: None,
            status: RecordStatus::Sound,
        };
        (key.to_string(), entry)
    }

    #[test]
    fn changes_are_what_differs_between_snapshots() {
        let before = BTreeMap::from([
            entry("claimed", Some(1), false, 0),
            entry("forgotten", Some(1), true, 0),
            entry("gone", Some(1), false, 0),
            entry("released", Some(1), true, 0),
            entry("same", Some(1), false, 0),
        ]);
        let now = BTreeMap::from([
            entry("claimed", Some(1), true, 0),
            entry("forgotten", None, false, 1),
            entry("new", Some(1), false, 0),
            entry("released", Some(2), false, 0),
            entry("same", Some(1), false, 0),
        ]);
        let changes: Vec<_> = changes(&before, &now)
            .into_iter()
            .map(|(change, entry)| (change, entry.endpoint.as_str()))
            .collect();
        assert_eq!(
            changes,
            [
                (Change::Claimed, "claimed"),
                (Change::Forgotten, "forgotten"),
                (Change::Recorded, "new"),
                (Change::Recorded, "released"),
                (Change::Released, "released"),
                (Change::Gone, "gone"),
            ]
        );
    }
}
