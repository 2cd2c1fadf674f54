//! Long responses that are kept in slices.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::body_of;
use super::brief;
use super::get;
use super::serve;
use super::serve_with;
use crate::origin::over_all;
use crate::origin::over_http3;
use crate::origin::scripted::target_of;
use crate::origin::scripted::Act;
use crate::origin::scripted::ScriptedOrigin;
use crate::origin::value;
use crate::origin::wait_until;
use crate::origin::OriginReply;
use crate::support::metrics;
use crate::support::process::server_command;

const SLICE: usize = 65_536;
pub const LENGTH: usize = 200_000;
pub const SETTINGS: &str = "slice-bytes = 65536";
pub const HEAD: &str = "cache-control: max-age=60\r\netag: \"1\"\r\nsurrogate-key: film";

/// Returns the value of a field of a request.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns the range that a request wants of a body, if it wants one.
fn wanted(head: &str, length: usize) -> Option<Range<usize>> {
    let (first, last) = field(head, "range")?.strip_prefix("bytes=")?.split_once('-')?;
    let end = last.parse::<usize>().map_or(length, |last| (last + 1).min(length));
    Some(first.parse().unwrap()..end)
}

/// Returns the response with a range of a body, or all of it.
pub fn part(head: &str, fields: &str, body: &[u8]) -> Vec<Act> {
    let (status, range, more) = match wanted(head, body.len()) {
        Some(range) if range.start >= body.len() => (
            "416 Range Not Satisfiable",
            0..0,
            format!("content-range: bytes */{}\r\n", body.len()),
        ),
        Some(range) => {
            let Range { start, end } = range;
            let more = format!("content-range: bytes {start}-{}/{}\r\n", end - 1, body.len());
            ("206 Partial Content", range, more)
        }
        None => ("200 OK", 0..body.len(), String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\n{fields}\r\n{more}content-length: {}\r\n\r\n",
        range.end - range.start
    );
    vec![Act::Send(head.into_bytes()), Act::Send(body[range].to_vec())]
}

/// Starts an origin with films of the length that their target names.
fn film_origin() -> ScriptedOrigin {
    let bodies = Mutex::new(HashMap::<String, Arc<Vec<u8>>>::new());
    ScriptedOrigin::start_by_head(move |head| {
        let target = target_of(head);
        let mut bodies = bodies.lock().unwrap();
        let body = bodies.entry(target.to_owned()).or_insert_with(|| body_of(target).into());
        let body = Arc::clone(body);
        part(head, HEAD, &body)
    })
}

/// Returns the ranges of requests for a target, in their order.
fn ranges(origin: &ScriptedOrigin, target: &str) -> Vec<String> {
    let heads = origin.requests(target);
    let range = |head: &String| field(head, "range").unwrap_or_default().replace("bytes=", "");
    let mut ranges: Vec<_> = heads.iter().map(range).collect();
    ranges.sort_by_key(|range| range.split('-').next().and_then(|first| first.parse::<u64>().ok()));
    ranges
}

fn status_and_body(reply: &OriginReply) -> (u16, &[u8]) {
    let (status, _, body) = reply.as_ref().expect("the response is whole");
    (*status, body)
}

// They are not kept, as the response to a request with credentials does not say that others may have it.
#[test]
fn slices_for_one_client_are_fetched_once() {
    let dir = tempfile::tempdir().unwrap();
    let origin = film_origin();
    let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
    let path = "/app/film-1000000";
    assert_eq!(status_and_body(&get(address, path, &[("range", "bytes=0-9")])).0, 206);
    let whole = get(address, path, &[("authorization", "Basic eA==")]);
    assert!(status_and_body(&whole) == (200, &body_of(path)[..]));
    // Two may be fetched ahead before the first is known not to be kept.
    let count = origin.requests(path).len();
    assert!((16..=18).contains(&count), "{:?}", ranges(&origin, path));
    assert!(server.stop().success());
}

#[test]
fn long_response_is_fetched_in_the_slices_that_are_needed() {
    let dir = tempfile::tempdir().unwrap();
    let origin = film_origin();
    let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
    let all = ["0-65535", "65536-131071", "131072-196607", "196608-199999"];
    for (name, length, method, fields, status, expected, asked) in [
        ("whole", LENGTH, "GET", &[][..], 200, 0..LENGTH, &all[..]),
        ("in", LENGTH, "GET", &[("range", "bytes=70000-70009")], 206, 70_000..70_010, &all[1..2]),
        ("over", LENGTH, "GET", &[("range", "bytes=65530-65540")], 206, 65_530..65_541, &all[..2]),
        ("rest", LENGTH, "GET", &[("range", "bytes=131072-")], 206, 131_072..LENGTH, &all[2..]),
        (
            "end",
            LENGTH,
            "GET",
            &[("range", "bytes=-10")],
            206,
            LENGTH - 10..LENGTH,
            &["0-65535", all[3]],
        ),
        ("even", 2 * SLICE, "GET", &[], 200, 0..2 * SLICE, &all[..2]),
        ("small", 1000, "GET", &[("range", "bytes=1-9")], 206, 1..10, &all[..1]),
        ("one", SLICE, "GET", &[], 200, 0..SLICE, &all[..1]),
        ("beyond", LENGTH, "GET", &[("range", "bytes=200000-")], 416, 0..0, &all[3..]),
        (
            "if-range",
            LENGTH,
            "GET",
            &[("range", "bytes=0-9"), ("if-range", "\"1\"")],
            206,
            0..10,
            &all[..1],
        ),
        ("known", LENGTH, "GET", &[("if-none-match", "\"1\"")], 304, 0..0, &all[..1]),
    ] {
        let path = format!("/app/{name}-{length}");
        let body = body_of(&path);
        let first = over_http3(address, method, &path, fields);
        let replies = over_all(address, method, &path, fields);
        for reply in [first].iter().chain(&replies) {
            let (got_status, got) = status_and_body(reply);
            let is_same = status > 206 || got == &body[expected.clone()];
            assert!(got_status == status && is_same, "{name} {got_status} {}", got.len());
        }
        let asked_is = || ranges(&origin, &path);
        let last = asked.last().map(|last| last.replace("196608-199999", "196608-262143"));
        let mut asked: Vec<_> = asked.iter().map(|range| (*range).to_owned()).collect();
        // The length is known but to the first.
        if asked_is().last() == last.as_ref() {
            asked.pop();
            asked.extend(last);
        }
        assert_eq!(asked_is(), asked, "{name}");
        // HEAD, and all, need no slice that is there.
        let (head_status, ..) = brief(&over_http3(address, "HEAD", &path, &[]));
        assert_eq!((head_status, asked_is().len()), (200, asked.len()), "{name}");
    }
    assert!(server.stop().success());
}

#[test]
fn ranges_of_slices_are_those_of_the_body_over_all_versions() {
    let dir = tempfile::tempdir().unwrap();
    let origin = film_origin();
    let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
    let path = format!("/app/film-{LENGTH}");
    let body = body_of(&path);
    assert!(status_and_body(&get(address, &path, &[])) == (200, &body));
    for (range, first, second) in [
        ("bytes=0-9,199990-", 0..10, 199_990..LENGTH),
        ("bytes=65530-65540,131070-131080", 65_530..65_541, 131_070..131_081),
    ] {
        for reply in over_all(address, "GET", &path, &[("range", range)]) {
            let (status, got) = status_and_body(&reply);
            let has = |part: &[u8]| got.windows(part.len()).any(|window| window == part);
            assert_eq!(status, 206);
            assert!(has(&body[first.clone()]) && has(&body[second.clone()]), "{range}");
        }
    }
    let (_, fields, _) = over_http3(address, "HEAD", &path, &[]).unwrap();
    assert_eq!(value(&fields, "content-length"), Some("200000"));
    assert_eq!(brief(&get(address, &path, &[("range", "bytes=1-2")])).2, "edge-server; hit");
    assert_eq!(origin.requests(&path).len(), 4);
    let only = get(address, "/app/other-200000", &[("cache-control", "only-if-cached")]);
    assert_eq!(brief(&only).0, 504);
    assert!(server.stop().success());
}

#[test]
fn many_clients_share_the_slices() {
    let dir = tempfile::tempdir().unwrap();
    let origin = film_origin();
    let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
    let path = format!("/app/film-{}", 20 * SLICE + 7);
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let path = path.clone();
            thread::spawn(move || {
                let start = client * 100_000;
                let range = format!("bytes={start}-");
                let reply = get(address, &path, &[("range", &range)]);
                let (status, got) = status_and_body(&reply);
                assert!(status == 206 && got == &body_of(&path)[start..], "{client}");
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let ranges = ranges(&origin, &path);
    let mut once = ranges.clone();
    once.dedup();
    assert_eq!((ranges.len(), &ranges), (21, &once));
    assert!(server.stop().success());
}

// What no slices can be made of comes as it would without them.
#[test]
fn response_without_slices_is_kept_or_passed_on_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let origin = ScriptedOrigin::start_by_head(|head| {
        let target = target_of(head);
        let body = body_of(target);
        let has = |name| target.contains(name);
        let fields = match () {
            () if has("bare") => "cache-control: max-age=60",
            () if has("weak") => "cache-control: max-age=60\r\netag: W/\"1\"",
            () if has("private") => "cache-control: private\r\netag: \"1\"",
            () => HEAD,
        };
        let other = head.replace("range: bytes=0-", "range: bytes=1-");
        match () {
            () if has("plain") => part(&head.replace("range:", "x:"), fields, &body),
            () if has("other") => part(&other, fields, &body),
            () if has("missing") => super::reply("404 Not Found\r\ncache-control: max-age=60", ""),
            () => part(head, fields, &body),
        }
    });
    let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
    for (name, status, is_hit, requests) in [
        ("plain", 200, true, 1),
        ("bare", 200, true, 2),
        ("weak", 200, true, 2),
        ("other", 200, true, 2),
        ("missing", 404, true, 1),
        ("private", 200, false, 3),
    ] {
        let path = format!("/app/{name}-200000");
        let body = if status == 200 { body_of(&path) } else { Vec::new() };
        let first = get(address, &path, &[]);
        assert!(status_and_body(&first) == (status, &body), "{name}");
        let (again, _, cache_status) = brief(&get(address, &path, &[]));
        assert_eq!((again, cache_status.ends_with("hit")), (status, is_hit), "{name}");
        assert_eq!(origin.requests(&path).len(), requests, "{name}");
        if status == 200 {
            let part = get(address, &path, &[("range", "bytes=5-9")]);
            assert!(status_and_body(&part) == (206, &body[5..10]), "{name}");
        }
    }
    assert!(server.stop().success());
}

#[test]
fn response_that_changes_is_never_mixed() {
    let dir = tempfile::tempdir().unwrap();
    let version = Arc::new(AtomicUsize::new(1));
    let own = Arc::clone(&version);
    let origin = ScriptedOrigin::start_by_head(move |head| {
        let version = own.load(Ordering::Relaxed);
        let fields = format!("cache-control: max-age=60\r\netag: \"{version}\"");
        let is_current = field(head, "if-range").is_none_or(|tag| tag == format!("\"{version}\""));
        // Some origins do not look at If-Range.
        let is_careless = target_of(head).contains("careless");
        let head = match is_current || is_careless {
            true => head.to_owned(),
            false => head.replace("range:", "x:"),
        };
        part(&head, &fields, &vec![b'0' + version as u8; LENGTH])
    });
    let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
    for name in ["careful", "careless"] {
        let path = format!("/app/{name}");
        let text = |reply: &OriginReply| {
            reply.as_ref().map(|(status, _, body)| (*status, body.len(), body.first().copied()))
        };
        version.store(1, Ordering::Relaxed);
        let first = get(address, &path, &[("range", "bytes=0-9")]);
        assert_eq!(text(&first), Some((206, 10, Some(b'1'))), "{name}");
        version.store(2, Ordering::Relaxed);
        // The first slice is there, and the second is another: the response breaks off.
        for (index, reply) in over_all(address, "GET", &path, &[]).iter().enumerate() {
            match index {
                0 => assert_eq!(text(reply), None, "{name}"),
                _ => assert_eq!(text(reply), Some((200, LENGTH, Some(b'2'))), "{name} {index}"),
            }
        }
        version.store(3, Ordering::Relaxed);
        let again = get(address, &path, &[]);
        assert_eq!(text(&again), Some((200, LENGTH, Some(b'2'))), "{name}: all of it is kept");
        let other = format!("/app/{name}-2");
        assert!(get(address, &other, &[("range", "bytes=0-9")]).is_some());
        version.store(4, Ordering::Relaxed);
        // Nothing has been sent: it is fetched again.
        let last = get(address, &other, &[("range", "bytes=199990-")]);
        assert_eq!(text(&last), Some((206, 10, Some(b'4'))), "{name}");
    }
    assert!(server.stop().success());
}

#[test]
fn stale_slices_are_confirmed_or_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    let origin = ScriptedOrigin::start_by_head(move |head| {
        let target = target_of(head);
        let number = count.fetch_add(1, Ordering::Relaxed);
        let has_changed = target.contains("changed") && number > 0;
        let (tag, byte) = if has_changed { ("\"2\"", b'2') } else { ("\"1\"", b'1') };
        if field(head, "if-none-match") == Some(tag) {
            let text =
                "HTTP/1.1 304 Not Modified\r\netag: \"1\"\r\ncache-control: max-age=60\r\n\r\n";
            return vec![Act::Send(text.into())];
        }
        part(head, &format!("cache-control: max-age=0\r\netag: {tag}"), &vec![byte; 2 * SLICE])
    });
    let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
    for (name, byte, status) in [
        ("changed", b'2', "fwd=stale; stored"),
        ("same", b'1', "fwd=stale; fwd-status=304; stored"),
    ] {
        let path = format!("/app/{name}");
        let first = get(address, &path, &[("range", "bytes=0-9")]);
        assert_eq!(status_and_body(&first).0, 206, "{name}");
        let second = get(address, &path, &[]);
        assert!(status_and_body(&second) == (200, &vec![byte; 2 * SLICE]), "{name}");
        assert_eq!(brief(&second).2, format!("edge-server; {status}"), "{name}");
    }
    assert_eq!(origin.requests("/app/same").len(), 3, "a slice, a confirmation, a slice");
    assert!(server.stop().success());
}

#[test]
fn slices_survive_a_restart_and_are_purged_with_their_response() {
    let dir = tempfile::tempdir().unwrap();
    let origin = film_origin();
    let (cache, admin) = (dir.path().join("cache"), dir.path().join("admin"));
    let (cache, admin) = (cache.to_str().unwrap(), admin.to_str().unwrap());
    let options = ["--cache-dir", cache, "--admin", admin, "--metrics", "127.0.0.1:0"];
    let count = |at, name: &str| metrics::read(at, &format!("edge_server_cache_{name}"));
    let path = format!("/app/film-{LENGTH}");
    let body = body_of(&path);
    let fetch = |address| assert!(status_and_body(&get(address, &path, &[])) == (200, &body));
    for purge in [
        "url=https://localhost/app/film-200000",
        "prefix=https://localhost/app/",
        "tag=film",
        "all",
    ] {
        let before = origin.requests(&path).len();
        let (mut server, address) = serve_with(dir.path(), origin.address, SETTINGS, &options);
        fetch(address);
        assert_eq!(origin.requests(&path).len(), before + 4, "{purge}");
        let files = || fs::read_dir(cache).unwrap().count();
        wait_until("a head and four slices are on disk", || files() >= 6);
        let at = server.metrics_address();
        let fetched = ["miss", "ahead"]
            .map(|result| count(at, &format!("slices_total{{result=\"{result}\"}}")));
        assert_eq!((fetched.iter().sum(), count(at, "disk_files")), (4, 5), "{purge}");
        assert!(count(at, "disk_bytes") > LENGTH as u64, "{purge}");
        server.kill();
        let (mut server, address) = serve_with(dir.path(), origin.address, SETTINGS, &options);
        fetch(address);
        assert_eq!(origin.requests(&path).len(), before + 4, "{purge}");
        let at = server.metrics_address();
        assert_eq!(count(at, "disk_hits_total"), 5, "{purge}");
        assert_eq!(count(at, "slices_total{result=\"hit\"}"), 4, "{purge}");
        let purged = server_command(&[]).args(["admin", admin, "purge", purge]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&purged.stdout), "purged 1\n", "{purge}");
        fetch(address);
        assert_eq!(origin.requests(&path).len(), before + 8, "{purge}");
        let purged = server_command(&[]).args(["admin", admin, "purge", "all"]).output().unwrap();
        assert!(purged.status.success());
        wait_until("the folder is empty", || files() == 1);
        assert!(server.stop().success());
    }
}

#[test]
fn response_longer_than_the_memory_goes_out_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let origin = film_origin();
    let more = ["--cache-memory-max", "2000000", "--metrics", "127.0.0.1:0"];
    let (mut server, address) = serve_with(dir.path(), origin.address, SETTINGS, &more);
    let metrics_at = server.metrics_address();
    let path = "/app/film-8000000";
    let clients: Vec<_> = (0..3)
        .map(|_| {
            thread::spawn(move || {
                let reply = get(address, path, &[]);
                assert!(status_and_body(&reply) == (200, &body_of(path)));
            })
        })
        .collect();
    while clients.iter().any(|client| !client.is_finished()) {
        assert!(metrics::read(metrics_at, "edge_server_cache_bytes") <= 4_000_000);
        thread::sleep(Duration::from_millis(50));
    }
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(server.stop().success());
}
