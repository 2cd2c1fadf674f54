//! Virtual hosts, by name.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use anyhow::Context;
use log::warn;
use quiche::path_state::PrefixLengths;

use crate::config::file::Host;
use crate::config::host_map::HostMap;
use crate::config::subnets::Subnets;
use crate::config::Config;
use crate::content::access::resources::AccessResources;
use crate::content::access::rule_limiters::RuleLimiters;
use crate::content::access_gaps;
use crate::content::cache::disk::DiskStore;
use crate::content::cache::purge;
use crate::content::cache::purge::PurgeTarget;
use crate::content::cache::store::ResponseCache;
use crate::content::compression::Compressor;
use crate::content::lookup_cache::LookupCache;
use crate::content::origin_gaps;
use crate::content::root::Root;
use crate::content::VirtualHost;
use crate::http::request::host_of;
use crate::http::trusted_proxies::TrustedProxies;

/// Virtual hosts of the server.
#[derive(Clone, Debug)]
pub struct VirtualHosts {
    named: HostMap<VirtualHost>,

    /// Host for all other names.
    default: VirtualHost,

    /// Compressor of all hosts, if there is one.
    compressor: Option<Arc<Compressor>>,

    /// Limiters of the access rules of all hosts.
    limiters: Arc<RuleLimiters>,

    /// Cache of the origins of all hosts, if there is one.
    response_cache: Option<Arc<ResponseCache>>,

    pub trusted_proxies: TrustedProxies,
}

impl VirtualHosts {
    /// Opens the hosts of a configuration.
    ///
    /// # Errors
    ///
    /// One line that names the host, and the unusable key or folder.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        Self::open_after(config, Arc::default(), None)
    }

    /// Opens the hosts of a new configuration, whose access rules go on limiting if they are unchanged.
    ///
    /// # Errors
    ///
    /// One line that names the host, and the unusable key or folder.
    pub fn reopen(&self, config: &Config) -> anyhow::Result<Self> {
        Self::open_after(config, Arc::clone(&self.limiters), self.response_cache.as_ref())
    }

    fn open_after(
        config: &Config,
        limiters: Arc<RuleLimiters>,
        response_cache: Option<&Arc<ResponseCache>>,
    ) -> anyhow::Result<Self> {
        let bytes_max = config.flags.cache_memory_max;
        let kept = response_cache.filter(|cache| cache.memory_max() == bytes_max).cloned();
        let disk = response_cache.and_then(|cache| cache.disk()).cloned();
        let new = || {
            let cache = ResponseCache::new(bytes_max);
            disk.into_iter().for_each(|disk| cache.set_disk(disk));
            (bytes_max > 0).then(|| Arc::new(cache))
        };
        let response_cache = kept.or_else(new);
        let bytes_max = config.flags.file_cache_max;
        let cache = (bytes_max > 0).then(|| Arc::new(LookupCache::new(bytes_max)));
        let bytes_max = config.flags.compression_cache_max;
        let compressor = (bytes_max > 0).then(|| Arc::new(Compressor::new(bytes_max)));
        let lengths = PrefixLengths { v4: config.flags.prefix_v4, v6: config.flags.prefix_v6 };
        let mut resources = AccessResources::new(lengths, limiters);
        let mut open = |host: &Host, number: u32| {
            let mut opened = open(config, host, &mut resources)?;
            if let Some(cache) = &cache {
                opened = opened.with_cache(cache, number);
            }
            if let Some(compressor) = &compressor {
                opened = opened.with_compressor(compressor);
            }
            if let Some(cache) = &response_cache {
                opened = opened.with_response_cache(cache);
            }
            Ok::<_, anyhow::Error>(opened)
        };
        // Others inherit its rules, and are not at fault if those are invalid.
        let default = open(&config.file.default_host(), 0)?;
        let mut named = HostMap::default();
        for (host, number) in config.file.named().zip(1..) {
            let virtual_host = open(&host, number)?;
            for name in &host.names {
                let inserted = named.insert(name, virtual_host.clone());
                inserted.map_err(|e| config.host_error(&host, &e))?;
            }
        }
        let gaps = access_gaps::find(config).into_iter().chain(origin_gaps::find(config));
        gaps.for_each(|line| warn!("{line}"));
        let limiters = resources.into_limiters();
        let trusted_proxies = TrustedProxies::new(Subnets::new(&config.flags.trusted_proxies));
        Ok(Self { named, default, compressor, limiters, response_cache, trusted_proxies })
    }

    /// Starts the threads that compress files.
    ///
    /// # Errors
    ///
    /// The process cannot start more threads.
    pub fn start_compression(&self) -> anyhow::Result<()> {
        let started = self.compressor.as_ref().map(|compressor| compressor.start_threads());
        started.transpose().context("cannot start the threads that compress files")?;
        Ok(())
    }

    /// Has responses of origins kept in the folder of a configuration, too, if it names one.
    ///
    /// # Errors
    ///
    /// The folder cannot be used.
    pub fn open_cache_dir(&self, config: &Config) -> anyhow::Result<()> {
        let Some((dir, cache)) = config.flags.cache_dir.as_ref().zip(self.response_cache.as_ref())
        else {
            return Ok(());
        };
        let disk = DiskStore::open(dir, config.flags.cache_disk_max);
        cache.set_disk(disk.map_err(|e| config.unusable("cache-dir", e))?);
        Ok(())
    }

    /// Warns of a folder of the cache that another process has, which is none that hands over.
    pub fn warn_of_shared_cache_dir(&self, config: &Config) {
        let disk = self.response_cache.as_ref().and_then(|cache| cache.disk());
        let is_shared = disk.is_some_and(|disk| !disk.is_ours());
        if let Some(dir) = config.flags.cache_dir.as_ref().filter(|_| is_shared) {
            warn!(
                "--cache-dir {}: another process has it; responses stay in memory alone until that ends; \
                 give each server a folder of its own",
                dir.display()
            );
        }
    }

    /// Warns of error pages and files of `try-files` that do not exist: they may come later.
    pub fn warn_of_missing_files(&self, config: &Config) {
        self.missing_files(config).iter().for_each(|line| warn!("{line}"));
    }

    /// Returns a line for each error page and each file of `try-files` that does not exist.
    fn missing_files(&self, config: &Config) -> Vec<String> {
        let mut lines =
            self.missing(config, |host| host.error.is_some(), VirtualHost::missing_error_pages);
        let pages = lines.iter_mut();
        pages.for_each(|line| line.push_str("; until then clients get a line of text"));
        let mut files =
            self.missing(config, |host| host.try_files.is_some(), VirtualHost::missing_try_files);
        files.iter_mut().for_each(|line| line.push_str("; until then clients get 404"));
        lines.append(&mut files);
        lines
    }

    /// Returns a line for each problem that hosts have with files of a key, with the place of the key.
    fn missing(
        &self,
        config: &Config,
        has_key: impl Fn(&Host) -> bool,
        problems: impl Fn(&VirtualHost) -> Vec<String>,
    ) -> Vec<String> {
        let of_default = problems(&self.default);
        let default = config.file.default_host();
        let line =
            |host: &Host, problem: &str| config.host_error(host, &anyhow!("{problem}")).to_string();
        let mut lines: Vec<_> = of_default.iter().map(|problem| line(&default, problem)).collect();
        for (host, own) in config.file.named().zip(config.file.named_alone()) {
            let found = problems(host.names.first().map_or(&self.default, |name| self.find(name)));
            if has_key(own) {
                lines.extend(found.iter().map(|problem| line(&host, problem)));
                continue;
            }
            // That of the same folder has been told.
            let of_other_folder = found.into_iter().filter(|problem| !of_default.contains(problem));
            let name = host.first_name();
            lines.extend(
                of_other_folder
                    .map(|problem| format!("{}, for [[host]] {name}", line(&default, &problem))),
            );
        }
        lines
    }

    /// Has the cache of origins forget what is meant. Returns how many responses there were, or `None` if
    /// there is no cache.
    pub fn purge(&self, target: &PurgeTarget) -> Option<usize> {
        let cache = self.response_cache.as_ref()?;
        let PurgeTarget::Url(key) = target else { return Some(cache.purge(target)) };
        // Some parameters of the query may not count.
        let (authority, path, query) = purge::parts_of(key);
        let host = host_of(authority).unwrap_or_default();
        let key = self.find(host).cache_key(authority, path, query);
        Some(cache.purge(&PurgeTarget::Url(key)))
    }

    /// Returns the host of a name.
    pub fn find(&self, host: &str) -> &VirtualHost {
        self.named.find(host).unwrap_or(&self.default)
    }
}

fn open(
    config: &Config,
    host: &Host,
    resources: &mut AccessResources,
) -> anyhow::Result<VirtualHost> {
    let unusable = |path: &Path| format!("{}; name an existing folder", path.display());
    let root = match &host.root {
        Some(path) => Root::open(path)
            .with_context(|| format!("cannot serve root = {}", unusable(path)))
            .map_err(|e| config.host_error(host, &e))?,
        None => Root::open(&config.flags.root)
            .with_context(|| format!("cannot serve --root {}", unusable(&config.flags.root)))
            .map_err(|e| config.option_error("root", &e))?,
    };
    let virtual_host = VirtualHost::new(root, host, config.flags.speedtest, resources);
    Ok(virtual_host.map_err(|e| config.host_error(host, &e))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    use crate::content::tests::request;

    #[test]
    fn limiters_of_unchanged_hosts_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (dir.path().to_str().unwrap(), dir.path().join("edge.toml"));
        let rule = "[[host.access]]\nrequests-per-second = 1\n";
        let host = |name: &str| format!("[[host]]\nnames = ['{name}']\n{rule}");
        let open = |toml: &str, previous: Option<&VirtualHosts>| {
            std::fs::write(&file, toml).unwrap();
            let args = ["edge-server", "--listen", "[::1]:0", "--root", root, "--config"];
            let config = crate::config::parse(args.into_iter().chain(file.to_str())).unwrap();
            previous
                .map_or_else(|| VirtualHosts::open(&config), |previous| previous.reopen(&config))
        };
        let respond = |hosts: &VirtualHosts, name: &str| {
            request(hosts.find(name), "GET", "/edge.toml", &[], Duration::ZERO).status
        };
        let _clock = quiche::clock::Simulation::start(1, Duration::ZERO);
        let mut hosts = open(&(host("a") + &host("b")), None).unwrap();
        assert_eq!(respond(&hosts, "a"), 200);
        for (toml, statuses) in [
            (host("a") + &host("b"), [429, 200]),
            (format!("{}[[host]]\n{rule}", host("b")), [200, 429]),
        ] {
            hosts = open(&toml, Some(&hosts)).unwrap();
            let found = ["a", "b"].map(|name| respond(&hosts, name));
            assert_eq!(found, statuses, "{toml}");
        }
    }

    #[test]
    fn missing_file_is_named_with_the_place_of_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (dir.path().to_str().unwrap(), dir.path().join("edge.toml"));
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        std::fs::write(dir.path().join("x.html"), "").unwrap();
        let named = "[[host]]\nnames = ['a']\n";
        let of_root = format!("{named}root = '{root}/folder'\n");
        let nameless = "--config F: [[host]] without names, line 1, column 1: ";
        let none = format!("'/none': no such file in {root}; create it there");
        let text = "; until then clients get a line of text";
        for (toml, expected) in [
            ("[[host]]\ntry-files = ['/x.html', '{path}.html']".to_owned(), vec![]),
            (
                "[[host]]\ntry-files = ['/x.html', '/none']".to_owned(),
                vec![format!("{nameless}try-files: {none}; until then clients get 404")],
            ),
            (
                format!("{named}try-files = ['/folder']"),
                vec![format!(
                    "--config F: [[host]] a, line 1, column 1: try-files: '/folder': is a directory \
                     in {root}; name a readable file; until then clients get 404"
                )],
            ),
            (
                format!("{named}error = {{ 404 = '/none' }}\n[[host]]\nnames = ['c']"),
                vec![format!("--config F: [[host]] a, line 1, column 1: error 404 = {none}{text}")],
            ),
            (
                format!("[[host]]\nerror = {{ 404 = '/none', 403 = '/x.html' }}\n{named}"),
                vec![format!("{nameless}error 404 = {none}{text}")],
            ),
            (
                format!("[[host]]\nerror = {{ 404 = '/x.html' }}\n{of_root}"),
                vec![format!(
                    "{nameless}error 404 = '/x.html': no such file in {root}/folder; create it \
                     there, for [[host]] a{text}"
                )],
            ),
        ] {
            std::fs::write(&file, &toml).unwrap();
            let args = ["edge-server", "--listen", "[::1]:0", "--root", root, "--config"];
            let config = crate::config::parse(args.into_iter().chain(file.to_str())).unwrap();
            let lines = VirtualHosts::open(&config).unwrap().missing_files(&config);
            let shown = lines.iter().map(|line| line.replace(file.to_str().unwrap(), "F"));
            assert_eq!(shown.collect::<Vec<_>>(), expected, "{toml}");
        }
    }

    #[test]
    fn nothing_is_compressed_without_memory_or_if_the_host_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (dir.path().to_str().unwrap(), dir.path().join("edge.toml"));
        for (bytes_max, toml, expected) in [
            ("1000000", "", true),
            ("0", "", false),
            ("1000000", "[[host]]\ncompress = false", false),
            (
                "1000000",
                "[[host]]\ncompress = false\n[[host]]\nnames = ['a']\ncompress = true",
                true,
            ),
        ] {
            std::fs::write(&file, toml).unwrap();
            let args = ["edge-server", "--listen", "[::1]:0", "--root", root, "--config"];
            let more = [file.to_str().unwrap(), "--compression-cache-max", bytes_max];
            let config = crate::config::parse([&args[..], &more].concat()).unwrap();
            let hosts = VirtualHosts::open(&config).unwrap();
            assert_eq!(hosts.find("a").compressor.is_some(), expected, "{bytes_max} {toml}");
            hosts.start_compression().unwrap();
        }
    }

    #[test]
    fn error_names_file_line_and_host() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edge.toml");
        let origin = "[[host.origin]]\nurl = 'http://a'\n";
        let bad_origin = "[[host.origin]]\nurl = 'ftp://a'\n";
        let app = "[[host.origin]]\npath = '/app/**'\nurl = 'http://a'\n";
        let bad = "[[host.header]]\npath = '**'\nset = { Bad = 'x' }\n";
        let (named, nameless) = ("[[host]]\nnames = ['a.example']\n", "[[host]]\n");
        let root = format!("root = '{}'\n", dir.path().display());
        for (toml, place) in [
            // Others inherit the rules, and are not at fault.
            (
                format!("{root}[[host]]\nnames = ['a']\n{nameless}{bad}"),
                "[[host]] without names, line 6, column 1: header: 'Bad'",
            ),
            (
                format!("{root}{nameless}{named}{bad}"),
                "[[host]] a.example, line 6, column 1: header: 'Bad'",
            ),
            (
                format!("{root}{named}{bad_origin}"),
                "[[host]] a.example, line 5, column 1: origin: url = 'ftp://a': write http://host",
            ),
            (
                format!("{root}{named}{origin}{origin}"),
                "[[host]] a.example, line 7, column 1: origin: gets no request, as an earlier one",
            ),
            (
                format!("{root}{named}{app}{app}"),
                "[[host]] a.example, line 8, column 1: origin: path = '/app/**' is that of an earlier",
            ),
            (
                format!("{root}{named}root = '/nonexistent'"),
                "[[host]] a.example, line 3, column 1: cannot serve root = /nonexistent; name",
            ),
            ("root = '/nonexistent'".to_owned(), "line 2, column 1: cannot serve --root /none"),
            (
                format!("{root}{named}[[host]]\nnames = ['b', 'A.example']"),
                "[[host]] b, line 5, column 1: two hosts have the name 'A.example'",
            ),
            (
                format!("{root}{named}[[host]]\nerror = {{ 404 = '/../no' }}"),
                "[[host]] without names, line 5, column 1: error: 404 = '/../no': write the path",
            ),
        ] {
            std::fs::write(&file, format!("[server]\n{toml}")).unwrap();
            let args = ["edge-server", "--listen", "[::1]:0", "--config", file.to_str().unwrap()];
            let config = crate::config::parse(args).unwrap();
            let error = VirtualHosts::open(&config).unwrap_err();
            assert!(error.is::<crate::config::ConfigError>(), "{toml}: {error:#}");
            let error = format!("{error:#}");
            let place = format!("--config {}: {place}", file.display());
            assert!(error.starts_with(&place), "{toml}: {error}");
            assert_eq!(error.matches("line").count(), place.matches("line").count(), "{error}");
        }
    }
}
