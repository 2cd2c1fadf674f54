//! Process metrics under the names that Prometheus' client libraries share, read from procfs at
//! each scrape.

use procfs::process::LimitValue;
use procfs::process::Process;
use procfs::ProcResult;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use quiche::clock;

use crate::telemetry::metrics::collected::encode;
use crate::telemetry::metrics::collected::unix_seconds;

/// Collector of this process.
#[derive(Debug)]
pub struct ProcessCollector {
    start_s: f64,
}

/// What procfs tells of the process.
struct ProcessStatus {
    cpu_s: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_files: u64,

    /// Absent if there is no limit.
    open_files_max: Option<u64>,
}

impl ProcessCollector {
    /// Returns the collector of a process that starts now.
    pub fn new() -> Self {
        Self { start_s: unix_seconds(clock::wall_now()) }
    }
}

impl ProcessStatus {
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let open_files_max = match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(limit) => Some(limit),
            LimitValue::Unlimited => None,
        };
        Ok(Self {
            cpu_s: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
            resident_bytes: stat.rss * procfs::page_size(),
            virtual_bytes: stat.vsize,
            open_files: process.fd_count()? as u64,
            open_files_max,
        })
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let help = "Start of the process, in seconds since 1970";
        let start_s = ConstGauge::new(self.start_s);
        encode(&mut encoder, "process_start_time_seconds", help, &start_s)?;
        let Ok(status) = ProcessStatus::read() else { return Ok(()) };
        let help = "CPU time of the process, in seconds";
        encode(&mut encoder, "process_cpu_seconds", help, &ConstCounter::new(status.cpu_s))?;
        for (name, help, value) in [
            ("resident_memory_bytes", "Resident memory, in bytes", Some(status.resident_bytes)),
            ("virtual_memory_bytes", "Virtual memory, in bytes", Some(status.virtual_bytes)),
            ("open_fds", "Open file descriptors", Some(status.open_files)),
            ("max_fds", "Limit of open file descriptors", status.open_files_max),
        ] {
            let Some(value) = value else { continue };
            encode(&mut encoder, &format!("process_{name}"), help, &ConstGauge::new(value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::tests::page_of;
    use prometheus_client::registry::Registry;
    use std::fs::File;

    fn sample(page: &str, name: &str) -> f64 {
        let line = page.lines().find(|line| line.starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("no {name}: {page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn process_metrics_follow_the_process() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector::new()));
        let before = page_of(&registry);
        let files: Vec<_> = (0..20).map(|_| File::open("/dev/null").unwrap()).collect();
        let after = page_of(&registry);
        // Other tests of this process open and close files as well.
        let more = sample(&after, "process_open_fds") - sample(&before, "process_open_fds");
        drop(files);
        assert!(more > 0.0, "{more}");
        assert!(sample(&after, "process_max_fds") >= sample(&after, "process_open_fds"));
        assert!(sample(&after, "process_resident_memory_bytes") > 1e6);
        let virtual_bytes = sample(&after, "process_virtual_memory_bytes");
        assert!(virtual_bytes >= sample(&after, "process_resident_memory_bytes"));
        let cpu_s = |page| sample(page, "process_cpu_seconds_total");
        assert!(cpu_s(&after) >= cpu_s(&before));
        let start_s = sample(&after, "process_start_time_seconds");
        assert_eq!(start_s, sample(&before, "process_start_time_seconds"));
        assert!(start_s > 1.7e9, "{start_s}");
    }
}
