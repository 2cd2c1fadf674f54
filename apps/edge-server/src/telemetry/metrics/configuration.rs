//! Metrics of what the server was configured with: reloads, key files, certificates, build.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::SystemTime;

use path_store::key_file::LastRead;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use quiche::clock;

use crate::telemetry::metrics::collected::encode;
use crate::telemetry::metrics::collected::unix_seconds;

type TimeGauge = Gauge<f64, AtomicU64>;

/// Tells how the last reading of a file ended.
type LastReadOf = Box<dyn Fn() -> LastRead + Send>;

/// The metrics.
#[derive(Clone, Default)]
pub struct ConfigurationMetrics {
    reloads: Family<OutcomeLabels, Counter>,
    last_reload_successful: Gauge,
    last_success_s: TimeGauge,
    watched: WatchedFiles,
}

/// What is read at each scrape.
#[derive(Clone, Default)]
struct WatchedFiles(Arc<Mutex<FileStates>>);

#[derive(Default)]
struct FileStates {
    key_files: Vec<(&'static str, LastReadOf)>,

    /// Ends of validity, by host.
    certificates: Vec<(String, SystemTime)>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FileLabels {
    file: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HostLabels {
    host: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    careful_resume: &'static str,
}

impl ConfigurationMetrics {
    /// Registers the metrics of a server that has just read its configuration.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "edge_server_reloads",
            "Reloads of the configuration, by outcome",
            metrics.reloads.clone(),
        );
        registry.register(
            "edge_server_last_reload_successful",
            "1 if the last reload succeeded, or there was none",
            metrics.last_reload_successful.clone(),
        );
        registry.register(
            "edge_server_last_reload_success_timestamp_seconds",
            "Time of the last successful reload, or of the start, in seconds since 1970",
            metrics.last_success_s.clone(),
        );
        let build = Family::<BuildLabels, Gauge>::default();
        let careful_resume = if quiche::HAS_CAREFUL_RESUME { "true" } else { "false" };
        let labels = BuildLabels { version: env!("CARGO_PKG_VERSION"), careful_resume };
        build.get_or_create(&labels).set(1);
        registry.register("edge_server_build_info", "Version of the server", build);
        registry.register_collector(Box::new(metrics.watched.clone()));
        for succeeded in [true, false] {
            drop(metrics.reloads_with(succeeded));
        }
        metrics.last_reload_successful.set(1);
        metrics.last_success_s.set(unix_seconds(clock::wall_now()));
        metrics
    }

    /// Counts a reload.
    pub fn on_reload(&self, succeeded: bool) {
        self.reloads_with(succeeded).inc();
        self.last_reload_successful.set(succeeded.into());
        if succeeded {
            self.last_success_s.set(unix_seconds(clock::wall_now()));
        }
    }

    /// Sets the certificates in use: the end of validity, by host.
    pub fn set_certificates(&self, certificates: Vec<(String, SystemTime)>) {
        self.watched.lock(|watched| watched.certificates = certificates);
    }

    /// Adds a key file, whose last reading `last_read` tells.
    pub fn watch_key_file(
        &self,
        file: &'static str,
        last_read: impl Fn() -> LastRead + Send + 'static,
    ) {
        self.watched.lock(|watched| watched.key_files.push((file, Box::new(last_read))));
    }

    fn reloads_with(&self, succeeded: bool) -> Counter {
        let outcome = if succeeded { "succeeded" } else { "failed" };
        self.reloads.get_or_create_owned(&OutcomeLabels { outcome })
    }
}

impl WatchedFiles {
    fn lock<T>(&self, apply: impl FnOnce(&mut FileStates) -> T) -> T {
        apply(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for WatchedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchedFiles").finish_non_exhaustive()
    }
}

impl Collector for WatchedFiles {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (successful, success_s) =
            (Family::<FileLabels, Gauge>::default(), Family::<FileLabels, TimeGauge>::default());
        let expiry_s = Family::<HostLabels, TimeGauge>::default();
        self.lock(|watched| {
            for (file, last_read) in &watched.key_files {
                let LastRead { is_successful, last_success } = last_read();
                let labels = FileLabels { file };
                successful.get_or_create(&labels).set(is_successful.into());
                success_s.get_or_create(&labels).set(unix_seconds(last_success));
            }
            for (host, expiry) in &watched.certificates {
                let labels = HostLabels { host: host.clone() };
                expiry_s.get_or_create(&labels).set(unix_seconds(*expiry));
            }
        });
        let help = "1 if the last reading of a file of secrets or keys succeeded";
        encode(&mut encoder, "edge_server_key_file_last_read_successful", help, &successful)?;
        let help = "Time of the last successful reading of a file, in seconds since 1970";
        encode(
            &mut encoder,
            "edge_server_key_file_last_success_timestamp_seconds",
            help,
            &success_s,
        )?;
        let help = "End of the validity of a host's certificate chain, in seconds since 1970";
        encode(&mut encoder, "edge_server_certificate_expiry_timestamp_seconds", help, &expiry_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::tests::page_of;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    #[test]
    fn reloads_key_files_and_certificates_are_exported() {
        let mut registry = Registry::default();
        let metrics = ConfigurationMetrics::register(&mut registry);
        let expect = |lines: &[&str]| {
            let page = page_of(&registry);
            for line in lines {
                let line = format!("edge_server_{line}");
                assert!(page.lines().any(|exported| exported.starts_with(&line)), "{line}: {page}");
            }
        };
        expect(&[
            "reloads_total{outcome=\"failed\"} 0",
            "last_reload_successful 1",
            "build_info{version=",
        ]);
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        metrics.on_reload(true);
        metrics.on_reload(false);
        metrics.watch_key_file("secrets", move || LastRead {
            is_successful: false,
            last_success: at(1000),
        });
        metrics.set_certificates(vec![("*".into(), at(3000)), ("gone.example".into(), at(1))]);
        metrics.set_certificates(vec![("*".into(), at(2000)), ("a.example".into(), at(5))]);
        expect(&[
            "reloads_total{outcome=\"succeeded\"} 1",
            "reloads_total{outcome=\"failed\"} 1",
            "last_reload_successful 0",
            "last_reload_success_timestamp_seconds 1",
            "key_file_last_read_successful{file=\"secrets\"} 0",
            "key_file_last_success_timestamp_seconds{file=\"secrets\"} 1000.0",
            "certificate_expiry_timestamp_seconds{host=\"*\"} 2000.0",
            "certificate_expiry_timestamp_seconds{host=\"a.example\"} 5.0",
        ]);
        assert!(!page_of(&registry).contains("gone.example"));
    }
}
