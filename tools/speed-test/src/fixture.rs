//! Fixture that several tests start from.

use report::provenance::Provenance;
use report::record::Download;
use report::record::Mode;
use report::record::Source;
use report::record::EDGE_SERVER;

/// Returns a download on the 500 Mbit/s, 50 ms path that breaks no rule.
pub fn download(mode: Mode, run: u32, ttlb_ms: f64) -> Download {
    let phases = ["reconnaissance", "unvalidated", "validating", "normal"];
    let resumed = matches!(mode, Mode::CarefulResume | Mode::EarlyData);
    Download {
        source: Source::Real,
        path: "500 Mbit/s, 50 ms, 6.25 MB".into(),
        rate_mbps: Some(500.0),
        rtt_ms: Some(50.0),
        buffer_bytes: Some(3_125_000),
        object_bytes: 6_250_000,
        cc: Some("cubic".into()),
        mode,
        run,
        ttfb_ms: 103.5,
        ttlb_ms,
        lost_packets: Some(0),
        phases: match resumed {
            true => (0..).zip(phases).map(|(i, p)| (f64::from(i) * 50.0, p.into(), None)).collect(),
            false => Vec::new(),
        },
        server: Some(EDGE_SERVER.into()),
        min_rtt_ms: Some(50.2),
        saved_cwnd_bytes: resumed.then_some(3_000_000),
        saved_rtt_ms: resumed.then_some(50.3),
        jump_lost_packets: resumed.then_some(0),
        overrun_packets: Some(0),
        late_ms: None,
        late_limit_ms: None,
        visit: None,
        qlog: None,
        seed: None,
        varies: false,
        provenance: Provenance::default(),
    }
}
