//! Remote downloads: the client half alone, from any server, over a real path.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::client_report::ClientReport;
use crate::process::Running;
use crate::progress::Progress;
use report::provenance::Provenance;
use report::record::Download;
use report::record::Mode;
use report::record::Source;

/// Time for the server to save its observations before the next connection.
const PAUSE: Duration = Duration::from_secs(1);

/// One download may take this long.
const LIMIT: Duration = Duration::from_secs(600);

/// Downloads `url` once, then `runs` times more, each on a new connection
/// from a new client process.
///
/// # Errors
///
/// A download fails, or `stop` is set meanwhile.
pub fn run(
    client: &Path,
    url: &str,
    runs: u32,
    insecure: bool,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Vec<Download>> {
    let progress = Progress::new(u64::from(runs) + 1);
    let mut downloads = Vec::new();
    for number in 0..=runs {
        let (mode, run) = if number == 0 { (Mode::First, 1) } else { (Mode::Later, number) };
        let title = format!("{url}, {mode}, run {run}");
        progress.begin(&title);
        if number > 0 {
            thread::sleep(PAUSE);
        }
        let mut command = Command::new(client);
        command.args([url, "--json"]);
        if insecure {
            command.arg("--insecure");
        }
        let output = Running::start(&mut command, stop)?.finish(LIMIT).context(title.clone())?;
        let report = ClientReport::parse_any(&output).context(title.clone())?;
        progress.done(1, &format!("{title}: {:.0} ms", report.ttlb_ms));
        downloads.push(record(url, mode, run, &report));
    }

    // One RTT for all, so that times can be told in round trips.
    let rtt_ms = downloads.iter().filter_map(|d| d.min_rtt_ms).reduce(f64::min);
    for download in &mut downloads {
        download.rtt_ms = rtt_ms;
    }
    Ok(downloads)
}

fn record(url: &str, mode: Mode, run: u32, report: &ClientReport) -> Download {
    Download {
        source: Source::Real,
        path: url.into(),
        rate_mbps: None,
        rtt_ms: None,
        buffer_bytes: None,
        object_bytes: report.bytes,
        cc: None,
        mode,
        run,
        ttfb_ms: report.ttfb_ms,
        ttlb_ms: report.ttlb_ms,
        lost_packets: None,
        phases: Vec::new(),
        server: None,
        min_rtt_ms: report.min_rtt_ms,
        saved_cwnd_bytes: None,
        saved_rtt_ms: None,
        jump_lost_packets: None,
        overrun_packets: None,
        late_ms: None,
        late_limit_ms: None,
        visit: None,
        qlog: None,
        seed: None,
        varies: false,
        provenance: Provenance::new(
            "speed-test",
            format!("speed-test --remote {url}"),
            serde_json::json!({ "url": url }),
        ),
    }
}

/// Returns the page's notes on a path that only the client saw.
pub fn about(url: &str, runs: u32) -> Vec<String> {
    vec![
        format!(
            "{url} was downloaded once, then {runs} times more, each time on a new connection \
             from a new client process."
        ),
        "Only the client's side was measured. Not known, and therefore not shown: the path's \
         rate and buffer, and with them every bound; whether the server resumed, and from what; \
         its congestion control, its phases, and the packets it lost. The first download need \
         not have been a slow start: the server may have known this path before. The RTT is the \
         least that the client saw."
            .into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::groups;
    use crate::verdict::failures;

    /// Writes a client that reports 600 ms at first and 300 ms afterwards.
    fn fake_client(folder: &Path) -> std::path::PathBuf {
        let file = folder.join("client");
        let seen = folder.join("seen").display().to_string();
        let script = format!(
            "#!/bin/sh\n[ \"$2\" = --json ] || exit 2\nt=600\n[ -e {seen} ] && t=300\ntouch {seen}\n\
             echo '{{\"url\":\"u\",\"bytes\":5,\"ttfb_ms\":1,\"ttlb_ms\":'$t',\"min_rtt_ms\":50,\"status\":200}}'\n"
        );
        std::fs::write(&file, script).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).expect("executable");
        file
    }

    #[test]
    fn first_download_differs_from_later_ones() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let stop = Arc::new(AtomicBool::new(false));
        let all = run(&fake_client(dir.path()), "https://x/", 2, false, &stop).expect("done");
        let modes: Vec<Mode> = all.iter().map(|d| d.mode).collect();
        assert_eq!(modes, [Mode::First, Mode::Later, Mode::Later]);
        assert_eq!(groups(&all)[0].rows[1].saved_rtts, Some(6.0));
        assert_eq!(failures(&all), [""; 0]);
    }
}
