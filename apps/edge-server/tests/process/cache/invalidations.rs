//! Invalidations and purges while a response is on its way, and requests with Authorization.

use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;

use super::brief;
use super::expect;
use super::get;
use super::reply;
use super::serve;
use super::serve_with;
use crate::origin::over_http3;
use crate::origin::scripted::ScriptedOrigin;
use crate::origin::wait_until;
use crate::support::process::server_command;

/// Origin whose responses to requests for targets with `slow` wait for a gate.
struct GatedOrigin {
    origin: ScriptedOrigin,
    gate: Arc<Mutex<()>>,

    /// Requests that have come.
    begun: Arc<AtomicUsize>,
}

impl GatedOrigin {
    /// Starts one whose responses have the number of the request as their body.
    fn start(head: &str) -> Self {
        let (gate, begun) = (Arc::<Mutex<()>>::default(), Arc::<AtomicUsize>::default());
        let (own_gate, own_begun) = (Arc::clone(&gate), Arc::clone(&begun));
        let head = head.to_owned();
        let origin = ScriptedOrigin::start(move |target| {
            let number = own_begun.fetch_add(1, Ordering::Relaxed) + 1;
            if target.contains("slow") {
                drop(own_gate.lock().unwrap());
            }
            reply(&head, &number.to_string())
        });
        Self { origin, gate, begun }
    }

    fn wait_for(&self, count: usize) {
        wait_until("the origin has the request", || self.begun.load(Ordering::Relaxed) >= count);
    }
}

fn purge(admin: &str, target: &str) {
    let purged = server_command(&[]).args(["admin", admin, "purge", target]).output().unwrap();
    assert!(purged.status.success(), "{target}");
}

#[test]
fn response_on_its_way_is_kept_unless_it_is_meant() {
    let head = "200 OK\r\ncache-control: public, max-age=60\r\nsurrogate-key: own both";
    let user = [("authorization", "Basic x")];
    for fields in [&[][..], &user] {
        for (forgotten, is_kept) in [
            ("url=https://localhost/app/other", true),
            ("prefix=https://localhost/app/o", true),
            ("tag=other", true),
            ("DELETE /app/other", true),
            ("url=https://localhost/app/slow", false),
            ("prefix=https://localhost/app/s", false),
            ("tag=both", false),
            ("all", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let gated = GatedOrigin::start(head);
            let (admin, cache) = (dir.path().join("admin"), dir.path().join("cache"));
            let (admin, cache) = (admin.to_str().unwrap(), cache.to_str().unwrap());
            let options = ["--admin", admin, "--cache-dir", cache];
            let (mut server, address) = serve_with(dir.path(), gated.origin.address, "", &options);
            let closed = gated.gate.lock().unwrap();
            let fields: Vec<_> = fields.to_vec();
            let first = thread::spawn(move || get(address, "/app/slow", &fields));
            gated.wait_for(1);
            match forgotten.strip_prefix("DELETE ") {
                Some(path) => drop(over_http3(address, "DELETE", path, &[])),
                None => purge(admin, forgotten),
            }
            drop(closed);
            let stored = if is_kept { "fwd=uri-miss; stored" } else { "fwd=uri-miss" };
            expect(&first.join().unwrap(), 200, "1", stored);
            let (_, text, cache_status) = brief(&get(address, "/app/slow", &[]));
            let is_hit = (text.as_str(), cache_status.as_str()) == ("1", "edge-server; hit");
            assert_eq!(is_hit, is_kept, "{forgotten}: {text} {cache_status}");
            assert!(server.stop().success());
        }
    }
}

// What a purge was for is not what those get that ask afterwards.
#[test]
fn request_after_a_purge_does_not_wait_for_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let gated = GatedOrigin::start("200 OK\r\ncache-control: max-age=60");
    let admin = dir.path().join("admin");
    let admin = admin.to_str().unwrap();
    let (mut server, address) =
        serve_with(dir.path(), gated.origin.address, "", &["--admin", admin]);
    let closed = gated.gate.lock().unwrap();
    let ask = move || thread::spawn(move || brief(&get(address, "/app/slow", &[])).1);
    let before = ask();
    gated.wait_for(1);
    purge(admin, "url=https://localhost/app/slow");
    let after = ask();
    gated.wait_for(2);
    drop(closed);
    assert_eq!((before.join().unwrap(), after.join().unwrap()), ("1".into(), "2".into()));
    expect(&get(address, "/app/slow", &[]), 200, "2", "hit");
    assert!(server.stop().success());
}

#[test]
fn request_with_authorization_leads_nobody() {
    for (control, stored) in [("public, max-age=60", "; stored"), ("max-age=60", "")] {
        let dir = tempfile::tempdir().unwrap();
        let head = format!("200 OK\r\ncache-control: {control}");
        let gated = GatedOrigin::start(&head);
        let (mut server, address, _) = serve(dir.path(), gated.origin.address, "");
        let closed = gated.gate.lock().unwrap();
        let ask = |server: SocketAddr, fields: &'static [(&str, &str)]| {
            thread::spawn(move || get(server, "/app/slow", fields))
        };
        let first = ask(address, &[("authorization", "Basic x")]);
        gated.wait_for(1);
        let others = [ask(address, &[("authorization", "Basic y")]), ask(address, &[])];
        gated.wait_for(3);
        drop(closed);
        let (_, text, cache_status) = brief(&first.join().unwrap());
        assert_eq!(
            (text, cache_status),
            ("1".into(), format!("edge-server; fwd=uri-miss{stored}"))
        );
        let texts = others.map(|other| brief(&other.join().unwrap()).1);
        assert!(texts.iter().all(|text| ["2", "3"].contains(&text.as_str())), "{texts:?}");
        assert_eq!(brief(&get(address, "/app/slow", &[])).2, "edge-server; hit");
        assert!(server.stop().success());
    }
}

#[test]
fn unsafe_request_forgets_what_its_response_names() {
    let references = [
        ("location", "../page", true),
        ("content-location", "/app/x/../page#top", true),
        ("location", "https://LOCALHOST:443/app/./page", true),
        ("location", "//localhost/app/page", true),
        ("location", "https://other.example/app/page", false),
        ("location", "https://localhost:8443/app/page", false),
        ("location", "http://localhost/app/page", false),
        ("location", "page", false),
    ];
    let origin = ScriptedOrigin::start(move |target| match target.strip_prefix("/app/posts/") {
        Some(number) => {
            let (name, reference, _) = references[number.parse::<usize>().unwrap()];
            reply(&format!("201 Created\r\n{name}: {reference}"), "")
        }
        None => reply("200 OK\r\ncache-control: max-age=60", "page"),
    });
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    let mut requests = 1;
    for (number, (name, reference, is_forgotten)) in references.into_iter().enumerate() {
        get(address, "/app/page", &[]);
        assert_eq!(origin.requests("/app/page").len(), requests, "before {reference}");
        over_http3(address, "POST", &format!("/app/posts/{number}"), &[]);
        get(address, "/app/page", &[]);
        requests += usize::from(is_forgotten);
        assert_eq!(origin.requests("/app/page").len(), requests, "{name}: {reference}");
    }
    assert!(server.stop().success());
}
