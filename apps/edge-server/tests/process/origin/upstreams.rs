//! Origins with several upstreams: balancing, health, and requests that another upstream gets.

use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::over_all;
use super::scripted::Act;
use super::scripted::ScriptedOrigin;
use super::serve;
use super::upload_over_all;
use super::wait_until;
use crate::support::metrics;

/// An origin that says who it is.
fn named(name: &'static str) -> ScriptedOrigin {
    ScriptedOrigin::start(move |_| vec![respond(name)])
}

fn respond(text: &str) -> Act {
    let length = text.len();
    Act::Send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}").into_bytes())
}

fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Returns the rule of an origin with these upstreams for paths below `/many/`.
fn rule(upstreams: &[SocketAddr], more: &str) -> String {
    let urls: Vec<_> = upstreams.iter().map(|address| format!("'http://{address}'")).collect();
    format!("[[host.origin]]\npath = '/many/**'\nurl = [{}]\n{more}\n", urls.join(", "))
}

/// Returns how many attempts at an upstream have ended so.
fn attempts(metrics_at: SocketAddr, upstream: SocketAddr, outcome: &str) -> u64 {
    let labels = format!("upstream=\"http://{upstream}\",outcome=\"{outcome}\"");
    metrics::read(metrics_at, &format!("edge_server_origin_upstream_requests_total{{{labels}}}"))
}

fn is_healthy(metrics_at: SocketAddr, upstream: SocketAddr) -> bool {
    let labels = format!("upstream=\"http://{upstream}\"");
    metrics::read(metrics_at, &format!("edge_server_origin_upstream_healthy{{{labels}}}")) == 1
}

/// Returns the bodies of responses to GETs over all versions, all of which are 200.
fn bodies(server: SocketAddr, path: &str) -> Vec<String> {
    let got = over_all(server, "GET", path, &[]).into_iter().map(Option::unwrap);
    let body = |(status, _, body)| {
        assert_eq!(status, 200, "{path}");
        String::from_utf8(body).unwrap()
    };
    got.map(body).collect()
}

#[test]
fn upstream_that_fails_gets_few_requests_and_no_client_an_error() {
    let good = named("good");
    let closing = ScriptedOrigin::start(|_| vec![Act::Close]);
    let closed = closed_port();
    let upstreams = [closing.address, closed, good.address];
    let dir = tempfile::tempdir().unwrap();
    let rules = rule(&upstreams, "failures-max = 3");
    let (mut server, address, metrics_at) = serve(dir.path(), good.address, &rules);
    for number in 0..30 {
        assert_eq!(bodies(address, &format!("/many/{number}")), ["good"; 3]);
    }
    assert_eq!(upstreams.map(|upstream| is_healthy(metrics_at, upstream)), [false, false, true]);
    // Each may be tried once more meanwhile.
    for (upstream, outcome) in [(closing.address, "malformed"), (closed, "unreachable")] {
        let count = attempts(metrics_at, upstream, outcome);
        assert!((3..=6).contains(&count), "{outcome} {count}");
    }
    assert_eq!(attempts(metrics_at, good.address, "complete"), 90);
    let complete = "edge_server_origin_requests_total{outcome=\"complete\"}";
    assert_eq!(metrics::read(metrics_at, complete), 90);
    assert!(server.stop().success());
}

#[test]
fn upstreams_that_are_all_out_are_tried_nevertheless() {
    let is_up = Arc::new(AtomicBool::new(false));
    let start = || {
        let is_up = Arc::clone(&is_up);
        ScriptedOrigin::start(move |_| match is_up.load(Ordering::Relaxed) {
            true => vec![respond("back")],
            false => vec![Act::Close],
        })
    };
    let upstreams = [start().address, start().address];
    let dir = tempfile::tempdir().unwrap();
    let rules = rule(&upstreams, "failures-max = 1");
    let (mut server, address, metrics_at) = serve(dir.path(), upstreams[0], &rules);
    for got in over_all(address, "GET", "/many/", &[]) {
        assert_eq!(got.unwrap().0, 502);
    }
    assert_eq!(upstreams.map(|upstream| is_healthy(metrics_at, upstream)), [false; 2]);
    is_up.store(true, Ordering::Relaxed);
    assert_eq!(bodies(address, "/many/"), ["back"; 3]);
    assert!(upstreams.iter().any(|upstream| is_healthy(metrics_at, *upstream)));
    assert!(server.stop().success());
}

#[test]
fn health_check_puts_an_upstream_out_and_brings_it_back() {
    let is_well = Arc::new(AtomicBool::new(true));
    let well = Arc::clone(&is_well);
    let checked = ScriptedOrigin::start(move |target| match target {
        "/health" if !well.load(Ordering::Relaxed) => {
            vec![Act::Send(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".to_vec())]
        }
        _ => vec![respond("checked")],
    });
    let other = named("other");
    let upstreams = [checked.address, other.address];
    let dir = tempfile::tempdir().unwrap();
    let rules = rule(&upstreams, "health-path = '/health'\nhealth-interval = 1");
    let (mut server, address, metrics_at) = serve(dir.path(), other.address, &rules);
    let serves = |name: &str| (0..2).any(|_| bodies(address, "/many/").iter().any(|by| by == name));
    assert!(serves("checked") && serves("other"));
    is_well.store(false, Ordering::Relaxed);
    wait_until("it is out", || !is_healthy(metrics_at, checked.address));
    assert!(!serves("checked") && serves("other"));
    is_well.store(true, Ordering::Relaxed);
    wait_until("it is back", || is_healthy(metrics_at, checked.address));
    assert!(serves("checked") && serves("other"));
    let head = checked.requests("/health").swap_remove(0);
    assert!(head.starts_with("GET /health HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", checked.address)), "{head}");
    assert!(server.stop().success());
}

#[test]
fn request_that_may_be_sent_again_is() {
    let good = named("good");
    let closing = ScriptedOrigin::start(|_| vec![Act::Close]);
    let closed = closed_port();
    let dir = tempfile::tempdir().unwrap();
    let never_out = "failures-max = 1000";
    let rules = [
        rule(&[closing.address, good.address], never_out),
        rule(&[closed, good.address], never_out).replace("/many/", "/closed/"),
    ]
    .concat();
    let (mut server, address, _) = serve(dir.path(), good.address, &rules);
    let content = b"content".as_slice();
    for (method, path, content, is_sent_again) in [
        ("GET", "/many/", &b""[..], true),
        ("OPTIONS", "/many/", b"", true),
        ("PUT", "/many/", b"", true),
        ("DELETE", "/many/", b"", true),
        ("POST", "/many/", b"", false),
        ("PATCH", "/many/", b"", false),
        // Nothing of it was sent.
        ("POST", "/closed/", b"", true),
        ("POST", "/closed/", content, true),
        ("PUT", "/closed/", content, true),
    ] {
        let mut statuses: Vec<_> = (0..4)
            .flat_map(|_| upload_over_all(address, method, path, &[], content))
            .map(|got| got.unwrap().0)
            .collect();
        statuses.sort_unstable();
        statuses.dedup();
        let expected = if is_sent_again { &[200][..] } else { &[200, 502] };
        assert_eq!(statuses, expected, "{method} {path} {}", content.len());
    }
    assert!(server.stop().success());
}

#[test]
fn path_keeps_its_upstream_by_consistent_hash() {
    let origins = ["a", "b", "c"].map(named);
    let dir = tempfile::tempdir().unwrap();
    let upstreams = origins.each_ref().map(|origin| origin.address);
    let rules = rule(&upstreams, "balance = 'consistent-hash'");
    let (mut server, address, _) = serve(dir.path(), upstreams[0], &rules);
    let mut all: Vec<_> = (0..12)
        .map(|number| {
            let path = format!("/many/{number}");
            let by = bodies(address, &path);
            let again = bodies(address, &format!("{path}?query"));
            assert!(by.iter().chain(&again).all(|name| *name == by[0]), "{path}: {by:?} {again:?}");
            by[0].clone()
        })
        .collect();
    all.sort();
    all.dedup();
    assert!(all.len() > 1, "all have the same");
    assert!(server.stop().success());
}

#[test]
fn log_tells_when_an_upstream_goes_out_and_comes_back() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let origin = ScriptedOrigin::start(move |_| match up.load(Ordering::Relaxed) {
        true => vec![respond("back")],
        false => vec![Act::Close],
    });
    let dir = tempfile::tempdir().unwrap();
    let rules = rule(&[origin.address], "failures-max = 2");
    let (mut server, address, _) = serve(dir.path(), origin.address, &rules);
    over_all(address, "GET", "/many/", &[]);
    is_up.store(true, Ordering::Relaxed);
    bodies(address, "/many/");
    server.ask_to_stop();
    let (status, said) = server.end();
    assert!(status.success());
    let url = format!("origin http://{}", origin.address);
    for expected in [format!("{url} is out for 5 s after 2 failures"), format!("{url} is back")] {
        assert!(said.iter().any(|line| line.contains(&expected)), "{expected}: {said:?}");
    }
}
