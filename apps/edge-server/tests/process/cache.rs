//! Cache of origins over HTTP/3, HTTP/2 and HTTP/1.1, with an origin that counts its requests.

mod broken_slices;
mod compression;
mod disk;
mod invalidations;
mod slices;
mod tiers;

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::origin::over_all;
use crate::origin::over_http3;
use crate::origin::scripted::Act;
use crate::origin::scripted::ScriptedOrigin;
use crate::origin::value;
use crate::origin::wait_until;
use crate::origin::OriginReply;
use crate::support::metrics;
use crate::support::process::server_command;
use crate::support::process::Running;

/// Starts a server whose paths below `/app/` an origin has, with a cache. `more` are its settings.
fn serve(dir: &Path, origin: SocketAddr, more: &str) -> (Running, SocketAddr, SocketAddr) {
    let (mut server, address) = serve_with(dir, origin, more, &["--metrics", "127.0.0.1:0"]);
    let metrics_at = server.metrics_address();
    (server, address, metrics_at)
}

/// Starts one with these options.
fn serve_with(
    dir: &Path,
    origin: SocketAddr,
    settings: &str,
    options: &[&str],
) -> (Running, SocketAddr) {
    serve_by(server_command, dir, origin, settings, options)
}

/// Starts one by a command for these arguments.
fn serve_by(
    start: impl Fn(&[&str]) -> Command,
    dir: &Path,
    origin: SocketAddr,
    settings: &str,
    options: &[&str],
) -> (Running, SocketAddr) {
    let root = dir.join("www");
    fs::create_dir_all(&root).unwrap();
    let toml = format!(
        "[[host]]\n[[host.origin]]\npath = '/app/**'\nurl = 'http://{origin}'\nheader-timeout = 2\n\
         body-timeout = 2\n[host.origin.cache]\n{settings}\n"
    );
    let config = dir.join("edge.toml");
    fs::write(&config, toml).unwrap();
    let (root, config) = (root.to_str().unwrap(), config.to_str().unwrap());
    let args = ["--listen", "127.0.0.1:0", "--root", root, "--tcp", "on", "--workers", "1"];
    let args = [&args[..], &["--config", config], options].concat();
    let mut server = Running::start(&mut start(&args));
    let address = server.address();
    (server, address)
}

/// Returns a response with these lines of its head, and a body.
fn reply(head: &str, body: &str) -> Vec<Act> {
    let length = body.len();
    let text = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
    vec![Act::Send(text.into_bytes())]
}

/// Starts an origin that gives each target its responses one after the other, and the last again.
fn origin_of(scripts: &[(&'static str, &[Vec<Act>])]) -> ScriptedOrigin {
    let scripts: HashMap<_, _> =
        scripts.iter().map(|(target, acts)| (*target, acts.to_vec())).collect();
    let counts = Mutex::new(HashMap::<String, usize>::new());
    ScriptedOrigin::start(move |target| {
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(target.to_owned()).or_default();
        *count += 1;
        let acts = scripts.get(target.trim_start_matches("/app/"));
        let acts = acts.and_then(|acts| acts.get((*count - 1).min(acts.len() - 1)));
        acts.cloned().unwrap_or_else(|| reply("404 Not Found", ""))
    })
}

fn get(server: SocketAddr, path: &str, fields: &[(&str, &str)]) -> OriginReply {
    over_http3(server, "GET", path, fields)
}

/// Returns status, body, and how the cache has handled the request.
fn brief(reply: &OriginReply) -> (u16, String, String) {
    let (status, fields, body) = reply.as_ref().expect("the response is whole");
    let cache_status = value(fields, "cache-status").unwrap_or_default();
    let cache_status = cache_status.split("; ").filter(|part| !part.starts_with("ttl="));
    let cache_status = cache_status.collect::<Vec<_>>().join("; ");
    (*status, String::from_utf8_lossy(body).into_owned(), cache_status)
}

fn expect(reply: &OriginReply, status: u16, text: &str, cache_status: &str) {
    let expected = (status, text.to_owned(), format!("edge-server; {cache_status}"));
    assert_eq!(brief(reply), expected);
}

#[test]
fn kept_response_is_the_same_over_all_versions() {
    let dir = tempfile::tempdir().unwrap();
    let head = "200 OK\r\ncache-control: max-age=60\r\netag: \"a\"\r\ncontent-type: text/plain";
    let origin = origin_of(&[("a", &[reply(head, "hello")])]);
    let (mut server, address, metrics_at) = serve(dir.path(), origin.address, "");
    expect(&get(address, "/app/a", &[]), 200, "hello", "fwd=uri-miss; stored");
    for (method, fields, status, text) in [
        ("GET", &[][..], 200, "hello"),
        ("HEAD", &[], 200, ""),
        ("GET", &[("range", "bytes=1-2")], 206, "el"),
        ("GET", &[("range", "bytes=0-0,4-4")], 206, "\r\n"),
        ("GET", &[("range", "bytes=9-")], 416, "416 Range Not Satisfiable\n"),
        ("GET", &[("if-none-match", "\"a\"")], 304, ""),
    ] {
        for reply in over_all(address, method, "/app/a", fields) {
            let (got_status, got, cache_status) = brief(&reply);
            assert_eq!(
                (got_status, cache_status.as_str()),
                (status, "edge-server; hit"),
                "{fields:?}"
            );
            assert!(
                got == text
                    || got.contains(text)
                        && got.contains("multipart") | got.contains("content-range"),
                "{got}"
            );
            let (_, fields, _) = reply.unwrap();
            assert!(value(&fields, "age").is_some(), "{fields:?}");
            let whole = (method, status) == ("HEAD", 200);
            assert!(!whole || value(&fields, "content-length") == Some("5"), "{fields:?}");
        }
    }
    assert_eq!(origin.requests("/app/a").len(), 1);
    let hits = metrics::read(metrics_at, "edge_server_cache_requests_total{result=\"hit\"}");
    assert_eq!(hits, 18);
    assert!(server.stop().success());
}

#[test]
fn one_request_fetches_what_many_wait_for() {
    let dir = tempfile::tempdir().unwrap();
    let body = "0123456789".repeat(20_000);
    let head = format!(
        "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let gate = Arc::new(Mutex::new(()));
    let (is_open, text) = (Arc::clone(&gate), body.clone());
    let closed = gate.lock().unwrap();
    let origin = ScriptedOrigin::start(move |_| {
        drop(is_open.lock().unwrap());
        vec![Act::Send(head.clone().into_bytes()), Act::Send(text.clone().into_bytes())]
    });
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    let clients: Vec<_> = (0..8)
        .map(|index| {
            thread::spawn(move || match index % 2 {
                0 => get(address, "/app/a", &[]),
                _ => get(address, "/app/a", &[("range", "bytes=199990-")]),
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(500));
    drop(closed);
    let mut collapsed = 0;
    for (index, client) in clients.into_iter().enumerate() {
        let (status, got, cache_status) = brief(&client.join().unwrap());
        let expected = if index % 2 == 0 { (200, body.as_str()) } else { (206, "0123456789") };
        assert!((status, got.as_str()) == expected, "{index}: {status} {}", got.len());
        collapsed += usize::from(cache_status.contains("collapsed"));
    }
    assert_eq!((origin.requests("/app/a").len(), collapsed), (1, 7));
    assert!(server.stop().success());
}

#[test]
fn waiting_requests_share_nothing_that_is_to_be_validated() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&gate);
    let closed = gate.lock().unwrap();
    let origin = ScriptedOrigin::start(move |_| {
        let mut count = counted.lock().unwrap();
        *count += 1;
        reply(
            &format!("200 OK\r\ncache-control: no-cache\r\netag: \"{count}\""),
            &count.to_string(),
        )
    });
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    let clients = [(); 4].map(|()| thread::spawn(move || get(address, "/app/a", &[])));
    thread::sleep(Duration::from_millis(300));
    drop(closed);
    let mut texts = clients.map(|client| brief(&client.join().unwrap()).1);
    texts.sort();
    assert_eq!(texts, ["1", "2", "3", "4"]);
    assert!(server.stop().success());
}

#[test]
fn head_forgets_what_has_changed_alone() {
    let dir = tempfile::tempdir().unwrap();
    let of = |etag: &str, length: usize| {
        let head = format!(
            "200 OK\r\ncache-control: max-age=0\r\netag: \"{etag}\"\r\ncontent-length: {length}"
        );
        vec![Act::Send(format!("HTTP/1.1 {head}\r\n\r\n").into_bytes())]
    };
    let one = reply("200 OK\r\ncache-control: max-age=0\r\netag: \"a\"", "one");
    let origin = origin_of(&[
        ("same", &[one.clone(), of("a", 3), vec![Act::Close]]),
        ("other", &[one.clone(), of("b", 3), vec![Act::Close]]),
        ("longer", &[one, of("a", 4), vec![Act::Close]]),
    ]);
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    for (name, status) in [("same", 200), ("other", 502), ("longer", 502)] {
        let path = format!("/app/{name}");
        expect(&get(address, &path, &[]), 200, "one", "fwd=uri-miss; stored");
        let head = over_http3(address, "HEAD", &path, &[]);
        assert_eq!(brief(&head), (200, String::new(), "edge-server; fwd=stale".to_owned()));
        assert_eq!(brief(&get(address, &path, &[])).0, status, "{name}");
    }
    assert!(server.stop().success());
}

#[test]
fn stale_response_is_fetched_again_whole_whatever_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let of = |etag: &str, control: &str| {
        reply(&format!("200 OK\r\ncache-control: {control}\r\netag: \"{etag}\""), etag)
    };
    let script = [of("one", "max-age=0, stale-while-revalidate=60"), of("two", "max-age=60")];
    let asked = [
        ("head", "HEAD", ("accept", "*/*")),
        ("part", "GET", ("range", "bytes=1-1")),
        ("known", "GET", ("if-none-match", "\"one\"")),
    ];
    let scripts = asked.map(|(name, ..)| (name, &script[..]));
    let origin = origin_of(&scripts);
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    for (name, method, field) in asked {
        let path = format!("/app/{name}");
        expect(&get(address, &path, &[]), 200, "one", "fwd=uri-miss; stored");
        let (_, _, cache_status) = brief(&over_http3(address, method, &path, &[field]));
        assert_eq!(cache_status, "edge-server; hit; detail=stale-while-revalidate", "{name}");
        wait_until("it is fetched again", || origin.requests(&path).len() == 2);
        wait_until("it is kept", || brief(&get(address, &path, &[])).2 == "edge-server; hit");
        expect(&get(address, &path, &[]), 200, "two", "hit");
        let requests = origin.requests(&path);
        let again = &requests[1];
        let is_whole = again.starts_with("GET ") && !again.contains("\r\nrange:");
        assert!(requests.len() == 2 && is_whole, "{name}: {requests:?}");
    }
    assert!(server.stop().success());
}

// By a date of whole seconds, a response that is fresh for one second may be stale as it arrives.
#[test]
fn waiting_requests_share_what_is_fresh_for_a_moment() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Arc::new(Mutex::new(()));
    let open = Arc::clone(&gate);
    let closed = gate.lock().unwrap();
    let origin = ScriptedOrigin::start(move |_| {
        drop(open.lock().unwrap());
        reply("200 OK\r\ncache-control: max-age=1\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT", "x")
    });
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    let clients = [(); 4].map(|()| thread::spawn(move || get(address, "/app/a", &[])));
    thread::sleep(Duration::from_millis(300));
    drop(closed);
    let collapsed = clients.map(|client| brief(&client.join().unwrap()).2);
    let collapsed = collapsed.iter().filter(|status| status.ends_with("collapsed")).count();
    assert_eq!((origin.requests("/app/a").len(), collapsed), (1, 3));
    assert!(server.stop().success());
}

// Each gets its error, but requests that come later wait for each other again.
#[test]
fn requests_wait_for_each_other_after_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let gate = Arc::new(Mutex::new(()));
    let open = Arc::clone(&gate);
    let count = Mutex::new(0);
    let origin = ScriptedOrigin::start(move |_| {
        drop(open.lock().unwrap());
        let mut count = count.lock().unwrap();
        *count += 1;
        match *count {
            1 => reply("503 Sorry", "sorry"),
            _ => reply("200 OK\r\ncache-control: max-age=60", "x"),
        }
    });
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    expect(&get(address, "/app/a", &[]), 503, "sorry", "fwd=uri-miss");
    let closed = gate.lock().unwrap();
    let clients = [(); 4].map(|()| thread::spawn(move || get(address, "/app/a", &[])));
    thread::sleep(Duration::from_millis(300));
    drop(closed);
    assert!(clients.map(|client| brief(&client.join().unwrap())).iter().all(|own| own.1 == "x"));
    assert_eq!(origin.requests("/app/a").len(), 2);
    assert!(server.stop().success());
}

#[test]
fn stale_response_is_validated_or_used_if_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let with = |control: &str, more: &str| format!("200 OK\r\ncache-control: {control}\r\n{more}");
    let tagged = with("max-age=0", "etag: \"a\"\r\nx-old: 1");
    let not_modified = vec![Act::Send(
        b"HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncache-control: max-age=60\r\nx-new: 1\r\n\r\n".to_vec(),
    )];
    let failing = reply("503 Sorry", "sorry");
    let origin = origin_of(&[
        ("etag", &[reply(&tagged, "one"), not_modified]),
        ("changed", &[reply(&tagged, "one"), reply(&with("max-age=60", "etag: \"b\""), "two")]),
        (
            "sie",
            &[reply(&with("max-age=0, stale-if-error=60", "etag: \"a\""), "one"), failing.clone()],
        ),
        (
            "strict",
            &[reply(&with("max-age=0, must-revalidate", "etag: \"a\""), "one"), vec![Act::Close]],
        ),
        ("dead", &[reply(&tagged, "one"), vec![Act::Close]]),
        ("failing", &[reply(&tagged, "one"), failing]),
        ("refused", &[reply(&tagged, "one"), reply("400 Bad Request", "bad"), vec![Act::Close]]),
        (
            "swr",
            &[
                reply(&with("max-age=0, stale-while-revalidate=60", "etag: \"a\""), "one"),
                reply(&with("max-age=60", "etag: \"b\""), "two"),
            ],
        ),
    ]);
    let (mut server, address, metrics_at) = serve(dir.path(), origin.address, "");
    let requests = Cell::new(0);
    let get = |path: &str| {
        requests.set(requests.get() + 1);
        get(address, path, &[])
    };
    for (name, status, text, cache_status) in [
        ("etag", 200, "one", "fwd=stale; fwd-status=304; stored"),
        ("changed", 200, "two", "fwd=stale; stored"),
        ("sie", 200, "one", "fwd=stale; fwd-status=503; detail=stale-if-error"),
        ("strict", 502, "502 Bad Gateway\n", ""),
        ("dead", 200, "one", "fwd=stale; detail=stale-if-error"),
        ("failing", 503, "sorry", "fwd=stale"),
        ("refused", 400, "bad", "fwd=stale"),
        ("swr", 200, "one", "hit; detail=stale-while-revalidate"),
    ] {
        let path = format!("/app/{name}");
        expect(&get(&path), 200, "one", "fwd=uri-miss; stored");
        let second = get(&path);
        match cache_status {
            "" => assert_eq!(brief(&second), (status, text.to_owned(), String::new()), "{name}"),
            _ => expect(&second, status, text, cache_status),
        }
        let (_, fields, _) = second.unwrap();
        let has = |field| value(&fields, field).is_some();
        assert!(name != "etag" || has("x-old") && has("x-new"), "{fields:?}");
    }
    expect(&get("/app/etag"), 200, "one", "hit");
    expect(&get("/app/refused"), 200, "one", "fwd=stale; detail=stale-if-error");
    wait_until("the response is fetched again", || brief(&get("/app/swr")).1 == "two");
    // What was fetched for later requests is none of them.
    let results = ["failed", "hit", "stale", "revalidated", "miss", "uncacheable"].map(|result| {
        metrics::read(
            metrics_at,
            &format!("edge_server_cache_requests_total{{result=\"{result}\"}}"),
        )
    });
    assert_eq!((results.iter().sum(), results[0]), (requests.get(), 1), "{results:?}");
    let conditions = origin.requests("/app/etag")[1].clone();
    assert!(conditions.contains("if-none-match: \"a\"\r\n"), "{conditions}");
    assert!(server.stop().success());
}

#[test]
fn stale_response_is_used_at_once_while_no_upstream_is_healthy() {
    let dir = tempfile::tempdir().unwrap();
    let stale = reply("200 OK\r\ncache-control: max-age=0, stale-if-error=60", "one");
    let fresh = reply("200 OK\r\ncache-control: max-age=60", "two");
    let origin =
        origin_of(&[("a", &[stale, vec![Act::Wait], fresh]), ("dead", &[vec![Act::Close]])]);
    let (mut server, address, metrics_at) = serve(dir.path(), origin.address, "");
    expect(&get(address, "/app/a", &[]), 200, "one", "fwd=uri-miss; stored");
    let health =
        format!("edge_server_origin_upstream_healthy{{upstream=\"http://{}\"}}", origin.address);
    wait_until("the upstream is out", || {
        assert_eq!(brief(&get(address, "/app/dead", &[])).0, 502);
        metrics::read(metrics_at, &health) == 0
    });
    expect(&get(address, "/app/a", &[]), 200, "one", "fwd=stale; detail=stale-if-error");
    assert_eq!(origin.ended(), 0, "it waits for no time-out");
    wait_until("the origin has been tried", || origin.ended() == 1);
    wait_until("the upstream is back", || brief(&get(address, "/app/a", &[])).1 == "two");
    assert!(server.stop().success());
}

#[test]
fn older_response_is_kept_on_if_its_successor_breaks_off() {
    let dir = tempfile::tempdir().unwrap();
    let older =
        || reply("200 OK\r\ncache-control: max-age=0, stale-if-error=60\r\netag: \"a\"", "one");
    let half = b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 9\r\n\r\nhal";
    let half = || Act::Send(half.to_vec());
    let origin = origin_of(&[
        ("a", &[older(), vec![half(), Act::Close], vec![Act::Close]]),
        ("forgotten", &[older(), vec![half(), Act::Wait], reply("200 OK", ""), vec![Act::Close]]),
    ]);
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    for path in ["/app/a", "/app/forgotten"] {
        expect(&get(address, path, &[]), 200, "one", "fwd=uri-miss; stored");
        let broken = thread::spawn(move || get(address, path, &[]));
        if path == "/app/forgotten" {
            wait_until("the successor is on its way", || origin.requests(path).len() == 2);
            assert_eq!(over_http3(address, "POST", path, &[]).unwrap().0, 200);
        }
        assert!(broken.join().unwrap().is_none());
    }
    expect(&get(address, "/app/a", &[]), 200, "one", "fwd=stale; detail=stale-if-error");
    assert_eq!(brief(&get(address, "/app/forgotten", &[])).0, 502);
    assert!(server.stop().success());
}

#[test]
fn response_for_one_client_is_for_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let counted = |head: &'static str| [reply(head, "1"), reply(head, "2"), reply(head, "3")];
    let origin = origin_of(&[
        ("no-store", &counted("200 OK\r\ncache-control: no-store")),
        ("private", &counted("200 OK\r\ncache-control: private, max-age=60")),
        ("cookie", &counted("200 OK\r\ncache-control: max-age=60\r\nset-cookie: a=1")),
        ("plain", &counted("200 OK")),
        ("star", &counted("200 OK\r\ncache-control: max-age=60\r\nvary: *")),
        ("bypass", &counted("200 OK\r\ncache-control: max-age=60")),
        ("user", &counted("200 OK\r\ncache-control: max-age=60")),
        ("broken", &[
            vec![
                Act::Send(b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 3\r\n\r\n1".to_vec()),
                Act::Close,
            ],
            reply("200 OK\r\ncache-control: max-age=60", "2"),
        ]),
    ]);
    let (mut server, address, _) = serve(dir.path(), origin.address, "bypass-cookies = ['s*']");
    for (name, fields) in [
        ("no-store", &[][..]),
        ("private", &[]),
        ("cookie", &[]),
        ("plain", &[]),
        ("star", &[]),
        ("bypass", &[("cookie", "session=1")]),
        ("user", &[("authorization", "Basic x")]),
    ] {
        for count in ["1", "2", "3"] {
            let (status, text, cache_status) =
                brief(&get(address, &format!("/app/{name}"), fields));
            assert_eq!((status, text.as_str()), (200, count), "{name}");
            assert!(
                cache_status.contains("fwd=") && !cache_status.contains("stored"),
                "{cache_status}"
            );
        }
    }
    assert!(get(address, "/app/broken", &[]).is_none());
    expect(&get(address, "/app/broken", &[]), 200, "2", "fwd=uri-miss; stored");
    assert!(server.stop().success());
}

#[test]
fn confirmed_response_is_kept_if_the_304_allows_it() {
    let dir = tempfile::tempdir().unwrap();
    let one = reply("200 OK\r\ncache-control: public, max-age=0\r\netag: \"a\"", "one");
    let two = reply("200 OK\r\ncache-control: private", "two");
    let cases = [
        ("kept", &b"cache-control: max-age=60"[..], true),
        ("private", b"cache-control: private, max-age=60", false),
        ("no-store", b"cache-control: no-store, max-age=60", false),
        ("star", b"cache-control: max-age=60\r\nvary: *", false),
        ("vary", b"cache-control: max-age=60\r\nvary: cookie", false),
        ("cookie", b"cache-control: max-age=60\r\nset-cookie: a=1", false),
        ("bytes", b"cache-control: max-age=60\r\nvary: cookie, x\xff", false),
    ];
    let scripts = cases.map(|(name, fields, _)| {
        let head = [b"HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\n", fields, b"\r\n\r\n"].concat();
        (name, [one.clone(), vec![Act::Send(head)], two.clone()])
    });
    let scripts: Vec<_> = scripts.iter().map(|(name, acts)| (*name, acts.as_slice())).collect();
    let origin = origin_of(&scripts);
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    for (name, _, is_kept) in cases {
        let path = format!("/app/{name}");
        let answer = |user| brief(&get(address, &path, &[("cookie", user)]));
        assert_eq!(answer("u=0").1, "one", "{name}");
        assert_eq!(answer("u=1").1, "one", "{name}");
        let text = if is_kept { "one" } else { "two" };
        assert_eq!(answer("u=2").1, text, "{name}");
    }
    assert!(server.stop().success());
}

// A client gets no such field, but it has said who may get the response.
#[test]
fn response_with_rules_that_are_left_out_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("set-cookie", &b"set-cookie: name=Jos\xe9"[..]),
        ("private", b"cache-control: private, x=\"\xe9\""),
        ("vary", b"vary: cookie, x\xff"),
        ("connection", b"connection: vary\r\nvary: cookie"),
    ];
    let scripts = cases.map(|(name, fields)| {
        let acts = ["1", "2"].map(|body| {
            let head = [
                b"HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\ncontent-length: 1\r\n",
                fields,
                b"\r\n\r\n",
                body.as_bytes(),
            ];
            vec![Act::Send(head.concat())]
        });
        (name, acts)
    });
    let scripts: Vec<_> = scripts.iter().map(|(name, acts)| (*name, acts.as_slice())).collect();
    let origin = origin_of(&scripts);
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    for (name, _) in cases {
        for text in ["1", "2"] {
            assert_eq!(brief(&get(address, &format!("/app/{name}"), &[])).1, text, "{name}");
        }
    }
    assert!(server.stop().success());
}

#[test]
fn variants_and_parameters_select_responses() {
    let dir = tempfile::tempdir().unwrap();
    let vary = "200 OK\r\ncache-control: max-age=60\r\nvary: accept-language";
    let plain = "200 OK\r\ncache-control: max-age=60";
    let origin = origin_of(&[
        ("vary", &[reply(vary, "1"), reply(vary, "2")]),
        ("query?a=1", &[reply(plain, "1")]),
        ("query?a=2", &[reply(plain, "2")]),
    ]);
    let (mut server, address, _) = serve(dir.path(), origin.address, "ignore-query = ['utm_*']");
    for (path, language, text, cache_status) in [
        ("vary", "de", "1", "fwd=uri-miss; stored"),
        ("vary", "en", "2", "fwd=vary-miss; stored"),
        ("vary", "de", "1", "hit"),
        ("vary", "en", "2", "hit"),
        ("query?a=1&utm_x=1", "de", "1", "fwd=uri-miss; stored"),
        ("query?utm_y=2&a=1", "de", "1", "hit"),
        ("query?a=2", "de", "2", "fwd=uri-miss; stored"),
    ] {
        let reply = get(address, &format!("/app/{path}"), &[("accept-language", language)]);
        expect(&reply, 200, text, cache_status);
    }
    assert!(server.stop().success());
}

#[test]
fn unsafe_request_invalidates_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let head = "200 OK\r\ncache-control: max-age=60";
    let origin = origin_of(&[
        ("a", &[reply(head, "1"), reply("204 No Content", ""), reply(head, "2")]),
        ("b", &[reply(head, "1"), reply("500 Sorry", "")]),
    ]);
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    for (path, text, cache_status) in [("a", "2", "fwd=uri-miss; stored"), ("b", "1", "hit")] {
        let path = format!("/app/{path}");
        expect(&get(address, &path, &[]), 200, "1", "fwd=uri-miss; stored");
        expect(&get(address, &path, &[]), 200, "1", "hit");
        let changed = over_http3(address, "DELETE", &path, &[]);
        assert_eq!(brief(&changed).2, "edge-server; fwd=method");
        expect(&get(address, &path, &[]), 200, text, cache_status);
    }
    let only = get(address, "/app/c", &[("cache-control", "only-if-cached")]);
    assert_eq!(brief(&only).0, 504);
    assert!(server.stop().success());
}

#[test]
fn purge_forgets_what_is_named_alone() {
    let dir = tempfile::tempdir().unwrap();
    let head = |tags: &str| format!("200 OK\r\ncache-control: max-age=60\r\nsurrogate-key: {tags}");
    let all = [("a", "one two"), ("b", "two"), ("c", "three"), ("d/e", "four")];
    let scripts = all.map(|(name, tags)| (name, [reply(&head(tags), "x")]));
    let scripts: Vec<_> = scripts.iter().map(|(name, acts)| (*name, acts.as_slice())).collect();
    let origin = origin_of(&scripts);
    let admin = dir.path().join("admin");
    let admin = admin.to_str().unwrap();
    let rule = "ignore-query = ['utm_*']";
    let (mut server, address) = serve_with(dir.path(), origin.address, rule, &["--admin", admin]);
    let is_kept = |(name, _): &(&str, &str)| {
        brief(&get(address, &format!("/app/{name}"), &[])).2 == "edge-server; hit"
    };
    for (target, expected, count) in [
        ("url=https://localhost/app/a", &["a"][..], 1),
        ("url=https://LOCALHOST/app/%61?utm_x=1", &["a"], 1),
        ("tag=two", &["a", "b"], 2),
        ("prefix=https://localhost/app/d/", &["d/e"], 1),
        ("tag=none", &[], 0),
        ("all", &["a", "b", "c", "d/e"], 4),
    ] {
        all.iter().for_each(|one| assert!(is_kept(one) || !one.0.is_empty()));
        assert!(all.iter().all(is_kept), "{target}");
        let purged = server_command(&[]).args(["admin", admin, "purge", target]).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&purged.stdout),
            format!("purged {count}\n"),
            "{target}"
        );
        let gone = all.iter().filter(|one| !is_kept(one)).map(|(name, _)| *name);
        assert_eq!(gone.collect::<Vec<_>>(), expected, "{target}");
    }
    assert!(server.stop().success());
}

#[test]
fn response_on_disk_survives_a_kill_and_a_torn_one_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let body = "0123456789abcdef".repeat(200_000);
    let head = "200 OK\r\ncache-control: max-age=3600\r\netag: \"a\"";
    let origin = origin_of(&[("a", &[reply(head, &body)])]);
    let cache = dir.path().join("cache");
    let more = ["--cache-dir", cache.to_str().unwrap()];
    let files = || {
        let names = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        names
            .filter(|path| path.extension().is_none() && !path.ends_with("lock"))
            .collect::<Vec<_>>()
    };
    let text = |reply: &OriginReply| reply.as_ref().map(|(.., body)| body.len());
    for (is_torn, cache_status, requests) in [
        (false, "fwd=uri-miss; stored", 1),
        (false, "hit", 1),
        (true, "fwd=uri-miss; stored", 2),
        (false, "hit", 2),
    ] {
        if is_torn {
            let path = files().remove(0);
            let mut bytes = fs::read(&path).unwrap();
            let at = bytes.len() / 8;
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
        let (mut server, address) = serve_with(dir.path(), origin.address, "", &more);
        let mut got = get(address, "/app/a", &[]);
        if cache_status == "hit" && !brief(&got).2.ends_with("hit") {
            got = get(address, "/app/a", &[]);
        }
        assert_eq!(text(&got), Some(body.len()));
        assert!(brief(&got).1 == body);
        assert_eq!(brief(&got).2, format!("edge-server; {cache_status}"));
        assert_eq!(origin.requests("/app/a").len(), requests);
        wait_until("the response is on disk", || files().len() == 1);
        server.kill();
    }
}

#[test]
fn next_process_confirms_what_the_old_one_has_left() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..40).map(|number| format!("/app/{number}")).collect();
    let origin =
        ScriptedOrigin::start(|target| reply("200 OK\r\ncache-control: max-age=3600", target));
    let cache = dir.path().join("cache");
    let more = ["--cache-dir", cache.to_str().unwrap()];
    let (mut old, old_address) = serve_with(dir.path(), origin.address, "", &more);
    for name in &names {
        expect(&get(old_address, name, &[]), 200, name, "fwd=uri-miss; stored");
    }
    wait_until("all is on disk", || fs::read_dir(&cache).unwrap().count() == names.len() + 1);
    let (mut new, address) = serve_with(dir.path(), origin.address, "", &more);
    expect(&get(address, &names[0], &[]), 200, &names[0], "fwd=uri-miss; stored");
    assert!(old.stop().success());
    let mut left = names[1..].iter();
    wait_until("the new process has the folder", || {
        let name = left.next().unwrap();
        let (status, text, cache_status) = brief(&get(address, name, &[]));
        assert_eq!((status, &text), (200, name));
        cache_status.ends_with("fwd=stale; stored")
    });
    assert!(new.stop().success());
    // A later one does not know either what was purged meanwhile.
    let (mut later, address) = serve_with(dir.path(), origin.address, "", &more);
    let name = left.next().unwrap();
    expect(&get(address, name, &[]), 200, name, "fwd=stale; stored");
    assert!(later.stop().success());
}

/// Returns the body of a target that names its length.
fn body_of(target: &str) -> Vec<u8> {
    let numbers = target.split(['/', '-']).filter_map(|part| part.parse::<usize>().ok());
    let length = numbers.sum::<usize>();
    (0..length).map(|at| (at * 31 + at / 251 + length) as u8).collect()
}

#[test]
fn many_clients_get_no_wrong_byte_while_little_fits() {
    let dir = tempfile::tempdir().unwrap();
    let count = Mutex::new(0);
    let origin = ScriptedOrigin::start(move |target| {
        let mut count = count.lock().unwrap();
        *count += 1;
        let body = body_of(target);
        let start = "HTTP/1.1 200 OK\r\ncache-control: max-age=1\r\n";
        let head = match target.contains("chunked") {
            true => format!("{start}transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len()),
            false => format!("{start}content-length: {}\r\n\r\n", body.len()),
        };
        let mut acts = vec![Act::Send(head.into_bytes())];
        if *count % 7 == 0 {
            acts.extend([Act::Send(body[..body.len() / 2].to_vec()), Act::Close]);
            return acts;
        }
        acts.push(Act::Send(body));
        if target.contains("chunked") {
            acts.push(Act::Send(b"\r\n0\r\n\r\n".to_vec()));
        }
        acts
    });
    let more = ["--cache-memory-max", "4000000", "--cache-dir", dir.path().to_str().unwrap()];
    let (mut server, address) = serve_with(dir.path(), origin.address, "", &more);
    let clients: Vec<_> = (0..8_usize)
        .map(|client| {
            thread::spawn(move || {
                let mut whole = 0;
                for turn in 0..40 {
                    let kind = ["chunked", "plain"][turn % 2];
                    let lengths = [1, 70_000, 300_000, 900_000, 2_500_000];
                    let length = lengths[(client + turn * turn) % lengths.len()];
                    let target = format!("/app/{kind}-{length}");
                    let body = body_of(&target);
                    let range = [("range", "bytes=1-69999")];
                    let is_part = turn % 3 == 0 && length >= 70_000;
                    let reply = get(address, &target, if is_part { &range } else { &[] });
                    let Some((status, _, got)) = reply else { continue };
                    let expected = if status == 206 { &body[1..70_000] } else { &body[..] };
                    assert!([200, 206].contains(&status) && got == expected, "{target} {status}");
                    whole += 1;
                }
                whole
            })
        })
        .collect();
    let whole: usize = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert!(whole > 200, "{whole}");
    assert!(server.stop().success());
}
