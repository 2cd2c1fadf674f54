//! Tests of the metrics page: samples, documentation, dashboard.

use super::*;
use crate::admission::reason::Refusal;
use crate::admission::reason::RetryReason;
use crate::content::origin::upstream::Upstream;
use crate::http::exchange::tests::finished;
use crate::quic::token::TokenKind;
use path_store::key_file::LastRead;
use path_store::StoreService;
use quiche::careful_resume::CarefulResumeEvent;
use quiche::careful_resume::Phase;
use quiche::careful_resume::SendLimit;
use quiche::careful_resume::Trigger;
use quiche::path_state::MemoryStore;
use serde_json::Value;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::net::UdpSocket;
use std::time::UNIX_EPOCH;

const DASHBOARD: &str = include_str!("../../../../../docs/grafana/edge-server.json");
const DOCS: [&str; 2] = [
    include_str!("../../../../../docs/edge-server/metrics-and-logs.md"),
    include_str!("../../../../../docs/path-store.md"),
];

/// Labels that Prometheus adds, and the label of histogram buckets.
const COMMON_LABELS: [&str; 2] = ["instance", "le"];

fn service() -> StoreService {
    StoreService::start(Box::new(MemoryStore::new(10)), Default::default()).unwrap()
}

/// Returns the page of a registry.
pub fn page_of(registry: &Registry) -> String {
    let mut page = String::new();
    text::encode(&mut page, registry).unwrap();
    page
}

/// Checks that a registry's page has these lines, each of them after `start`.
#[track_caller]
pub fn assert_exported(registry: &Registry, start: &str, lines: &[impl AsRef<str>]) {
    let page = page_of(registry);
    for line in lines {
        let line = format!("{start}{}", line.as_ref());
        assert!(page.lines().any(|exported| exported == line), "{line}: {page}");
    }
}

#[test]
fn worker_counters_are_exported() {
    let service = service();
    let metrics = Metrics::new(Some(service.monitor()));
    let (one, other) = (metrics.of_worker(0), metrics.of_worker(1));
    one.count_connection();
    one.count_connection();
    one.count_end();
    other.count_connection();
    one.count_lateness(Duration::from_micros(70));
    let handle = service.handle(Arc::new(|| ()));
    let here =
        quiche::path_state::RemoteEndpoint::new("s", [10, 0, 0, 1].into(), Default::default());
    handle.get(1, &here);
    assert!(service.flush(Duration::from_secs(60)));

    let page = metrics.page();
    for line in [
        "edge_server_connections_total{worker=\"0\"} 2",
        "edge_server_connections_total{worker=\"1\"} 1",
        "edge_server_connections_open{worker=\"0\"} 1",
        "edge_server_pacing_lateness_seconds_bucket{le=\"0.00005\",worker=\"0\"} 0",
        "edge_server_pacing_lateness_seconds_bucket{le=\"0.0001\",worker=\"0\"} 1",
        "path_store_gets_total 1",
        "path_store_hits_total 0",
        "path_store_failing 0",
        "# EOF",
    ] {
        assert!(page.lines().any(|exported| exported == line), "{line}: {page}");
    }
}

/// Prometheus' `increase()` misses the first event of a counter that does not exist before it.
#[test]
fn counters_with_known_labels_start_at_zero() {
    let page = Metrics::new(None).page();
    for line in [
        "edge_server_drops_total{what=\"handshake\"} 0",
        "edge_server_drops_total{what=\"response\"} 0",
        "edge_server_refusals_total{reason=\"draining\"} 0",
        "edge_server_refusals_total{reason=\"token\"} 0",
        "edge_server_refusals_total{reason=\"subnet\"} 0",
        "edge_server_retries_total{reason=\"handshakes\"} 0",
        "edge_server_retries_total{reason=\"rate\"} 0",
        "edge_server_handshakes_total{outcome=\"failed\"} 0",
        "edge_server_tokens_total{kind=\"retry\",outcome=\"accepted\"} 0",
        "edge_server_tokens_total{kind=\"new_token\",outcome=\"replayed\"} 0",
        "edge_server_tokens_total{kind=\"unknown\",outcome=\"unknown\"} 0",
        "edge_server_resume_jumps_refused_total{reason=\"rtt_not_validated\"} 0",
        "edge_server_resume_jumps_refused_total{reason=\"claim_lapsed\"} 0",
        "edge_server_resume_jumps_refused_total{reason=\"unused\"} 0",
        "edge_server_arm_could_jump_total{arm=\"control\"} 0",
        "edge_server_arm_retreats_total{arm=\"resume\"} 0",
        "edge_server_arm_response_seconds_count{arm=\"resume\",size=\"100MB-\"} 0",
        "edge_server_resume_phases_total{phase=\"safe_retreat\",trigger=\"packet_loss\"} 0",
        "edge_server_resume_jump_limits_total{limit=\"max_jump\"} 0",
        "edge_server_responses_total{protocol=\"HTTP/3\",status=\"500\",complete=\"false\"} 0",
        "edge_server_reloads_total{outcome=\"failed\"} 0",
        "edge_server_handshake_failures_total{by=\"client\",reason=\"unknown_ca\"} 0",
    ] {
        assert!(page.lines().any(|exported| exported == line), "{line}: {page}");
    }
}

/// Returns a page with a sample of every metric.
fn full_page() -> String {
    let service = service();
    let metrics = Metrics::new(Some(service.monitor()));
    let sockets = [UdpSocket::bind("127.0.0.1:0").unwrap()];
    metrics.socket_drops.watch(&sockets);
    let worker = metrics.of_worker(0);
    worker.admission.count_token(Some(TokenKind::Retry), None);
    worker.admission.count_handshake(true);
    worker.admission.count_retry(RetryReason::Handshakes);
    worker.admission.count_refusal(Refusal::Token);
    worker.drops.count_timeout("handshake");
    let last_read = LastRead { is_successful: true, last_success: UNIX_EPOCH };
    metrics.configuration.watch_key_file("secrets", move || last_read);
    metrics.configuration.set_certificates(vec![("*".to_owned(), UNIX_EPOCH)]);
    worker.responses.count(&finished());
    worker.resume.on_unused();
    worker.resume.on_event(
        &CarefulResumeEvent {
            time: quiche::clock::now(),
            old: Some(Phase::Unvalidated),
            new: Phase::Validating,
            trigger: Some(Trigger::RttExceeded),
            pipe_size: 0,
            congestion_window: 0,
            ssthresh: 0,
            first_unvalidated_packet: None,
            last_unvalidated_packet: None,
            restored: None,
        },
        &ConnectionSnapshot {
            min_rtt: None,
            limit: SendLimit::Application,
            jump_bytes: 0,
            max_jump: 8 << 20,
            source: None,
            wall_now: UNIX_EPOCH,
        },
    );
    let rule = toml::from_str("url = 'http://metrics.example'").unwrap();
    let upstream = Upstream::new("http://metrics.example", &rule, Duration::from_secs(1), 1);
    let page = metrics.page();
    drop(upstream);
    page
}

/// Returns the names of a page's samples with their labels.
fn samples(page: &str) -> HashMap<&str, BTreeSet<&str>> {
    let mut samples: HashMap<_, BTreeSet<_>> = HashMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let sample = line.split(' ').next().unwrap();
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        samples.entry(name).or_default().extend(label_names(labels));
    }
    samples
}

/// Returns the label names in `a="b",c=~"d"}`.
fn label_names(labels: &str) -> impl Iterator<Item = &str> {
    let pairs = labels.split(',').filter(|pair| pair.contains('='));
    pairs.map(|pair| pair.split(['=', '!']).next().unwrap().trim())
}

/// Returns the metrics in a query, each with the text that follows it.
fn metrics_in(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = ["edge_server_", "path_store_"];
    let places = starts.into_iter().flat_map(|start| query.match_indices(start));
    places.map(|(at, _)| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = query[at..].find(|c| !is_name(c)).unwrap_or(query.len() - at);
        query[at..].split_at(length)
    })
}

/// All values of `key` in a document.
fn values<'a>(document: &'a Value, key: &str) -> Vec<&'a str> {
    match document {
        Value::Array(items) => items.iter().flat_map(|item| values(item, key)).collect(),
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value {
                Value::String(text) if name == key => vec![text.as_str()],
                value => values(value, key),
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[test]
fn dashboard_queries_name_exported_metrics() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let page = full_page();
    let samples = samples(&page);
    let queries = values(&dashboard, "expr");
    assert!(queries.len() > 30, "{}", queries.len());
    for query in queries {
        let mut labels: BTreeSet<&str> = BTreeSet::new();
        for (metric, rest) in metrics_in(query) {
            let known = samples.get(metric);
            let known = known.unwrap_or_else(|| panic!("there is no {metric}: {query}"));
            let selected = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
            for label in selected.into_iter().flat_map(label_names) {
                let is_there = known.contains(label) || COMMON_LABELS.contains(&label);
                assert!(is_there, "{metric} has no {label}: {query}");
            }
            labels.extend(known.iter().copied());
        }
        let grouped = query.split(" by (").skip(1).filter_map(|rest| rest.split(')').next());
        for label in grouped.flat_map(|labels| labels.split(", ")) {
            let is_there = labels.contains(label) || COMMON_LABELS.contains(&label);
            assert!(is_there, "nothing has a {label}: {query}");
        }
    }
}

#[test]
fn metrics_are_documented_and_on_dashboard() {
    let page = full_page();
    let typed = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for line in typed {
        let (name, kind) = line.split_once(' ').unwrap();
        let end = if kind == "counter" { "_total" } else { "" };
        let name = format!("{name}{end}");
        let quoted = format!("`{name}");
        assert!(DOCS.iter().any(|doc| doc.contains(&quoted)), "no page documents {name}");
        let is_shown = DASHBOARD.contains(&name) || name.starts_with("path_store_");
        let is_elsewhere = ["connections_total", "bytes_lost_total", "response_bytes_total"]
            .iter()
            .any(|end| name.ends_with(end));
        assert!(is_shown || is_elsewhere, "the dashboard does not show {name}");
    }
}
