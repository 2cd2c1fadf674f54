//! Store on Redis, beyond the rules that all stores share: a server that is dead, slow, broken,
//! full, or another one than before.

mod support;

use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::time::Duration;

use path_store::Admin;
use path_store::Backend;
use path_store::Entry;
use path_store::RecordStatus;
use path_store::RedisOptions;
use path_store::RedisStore;
use path_store::RedisUrl;
use path_store::Request;
use path_store::Role;
use quiche::path_state::Claim;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::LINGER;
use support::endpoint;
use support::nth_endpoint;
use support::redis::open_redis;
use support::redis::RedisServer;
use support::simulation;
use support::state;
use support::HOUR;
use support::RTT;
use support::WALL_START;

const CLIENT: &str = "198.51.100.7";
const DAY: Duration = Duration::from_secs(86_400);

/// Enough attempts for anything that happens by itself.
const TRIES_MAX: u32 = 4000;
const NAP: Duration = Duration::from_millis(5);

/// Returns options with a time-out of a fifth of a second.
fn impatient() -> RedisOptions {
    RedisOptions { timeout: Duration::from_millis(200), ..RedisOptions::default() }
}

fn open(server: &RedisServer) -> RedisStore {
    open_redis(&server.url(), RedisOptions { timeout: Duration::from_secs(20), ..impatient() })
}

/// Returns a record whose lease is one second, so that a claim lasts three.
fn short(saved_cwnd: u64) -> PathState {
    PathState { saved_rtt: Duration::from_millis(50), ..state(saved_cwnd) }
}

fn entries(store: &RedisStore) -> Vec<Entry> {
    let mut entries = Vec::new();
    store.entries(&mut |entry| entries.push(entry)).unwrap();
    entries
}

/// Repeats an attempt until it succeeds.
fn retry_until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    for _ in 0..TRIES_MAX {
        if let Some(value) = attempt() {
            return value;
        }
        std::thread::sleep(NAP);
    }
    panic!("it does not come back");
}

fn open_error(url: &str, role: Role) -> String {
    let url = RedisUrl::parse(url).unwrap();
    let error = url.and_then(|url| RedisStore::open(&url, role, impatient())).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n') && !text.contains("secret"), "{text}");

    text
}

#[test]
fn killed_server_is_found_again() {
    let mut server = RedisServer::start(&[]);
    let store = open_redis(&server.url(), impatient());
    let here = endpoint(CLIENT);
    store.record(&here, &state(100)).unwrap();

    server.kill();
    for _ in 0..3 {
        let error = store.claim(&here, RTT).unwrap_err().to_string();
        assert!(error.starts_with("redis://127.0.0.1:") && !error.contains('\n'), "{error}");
    }
    server.restart();

    // The server lost records and script.
    retry_until(|| store.record(&here, &state(200)).ok());
    assert_eq!(store.get(&here).unwrap(), Some(state_like(&store, &here)));
    assert!(store.claim(&here, RTT).unwrap().is_some());
    assert!(store.counters().reconnects >= 1);
}

fn state_like(store: &RedisStore, here: &RemoteEndpoint) -> PathState {
    let state = store.get(here).unwrap().unwrap();
    assert_eq!(state.saved_cwnd, 200);
    state
}

#[test]
fn paused_server_fails_and_its_claim_ends() {
    let server = RedisServer::start(&[]);
    let (impatient, other) = (open_redis(&server.url(), impatient()), open(&server));
    let here = endpoint(CLIENT);
    other.record(&here, &short(100)).unwrap();

    server.pause();
    let error = impatient.claim(&here, RTT).unwrap_err().to_string();
    assert!(error.contains("no response in time"), "{error}");
    // Nobody waits for a store that has just failed.
    let error = impatient.get(&here).unwrap_err().to_string();
    assert!(error.contains("no response in time"), "{error}");
    server.resume();

    // The server makes the claim when it goes on, and nobody knows its token.
    let claim_key = record_key(&here).replace(":set:", ":claim:");
    retry_until(|| server.run::<bool>(&["EXISTS", &claim_key]).unwrap().then_some(()));
    assert_eq!(other.claim(&here, RTT).unwrap(), None);
    retry_until(|| other.claim(&here, RTT).unwrap());
    retry_until(|| impatient.get(&here).ok());
}

/// Starts a server that gives every connection the same answer, and counts connections.
fn strange_server(answer: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = visits.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, SeqCst);
            let mut heard = [0; 4096];
            let _ = stream.read(&mut heard);
            let _ = stream.write_all(answer);
        }
    });

    (url, visits)
}

#[test]
fn nonsense_is_an_error_with_a_backoff() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"$99999999999999999999\r\n",
        b"*2\r\n*-7\r\n",
        b"\xff\x00\xfe",
        b"",
        b"+OK\r\n+OK\r\n+OK\r\n:7\r\n$3\r\nabc\r\n*1\r\n:1\r\n",
    ] {
        let (url, visits) = strange_server(answer);
        let store = open_redis(&url, impatient());
        let here = endpoint(CLIENT);
        for _ in 0..200 {
            assert!(store.claim(&here, RTT).is_err(), "{answer:?}");
        }
        // 200 calls do not make 200 connections.
        assert!(visits.load(SeqCst) < 20, "{}", visits.load(SeqCst));
    }
}

#[test]
fn unreachable_server_stops_a_tool_alone() {
    let url = "redis://user:secret@127.0.0.1:1/3";
    let error = open_error(url, Role::Tool);
    assert!(error.starts_with("redis://127.0.0.1:1: ") && error.contains("refused"), "{error}");

    let store = open_redis(url, impatient());
    assert!(store.get(&endpoint(CLIENT)).is_err());
}

#[test]
fn password_comes_from_url_or_file() {
    let server = RedisServer::start(&["--requirepass", "p@ss w:rd"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "p@ss w:rd\n").unwrap();
    let host = format!("127.0.0.1:{}", server.port());
    let here = endpoint(CLIENT);

    for url in [
        format!("redis://:p%40ss%20w:rd@{host}"),
        format!("valkey://default:p%40ss%20w%3Ard@{host}/2"),
        format!("redis://{host}?password-file={}", file.display()),
    ] {
        let store = open_redis(&url, RedisOptions::default());
        store.record(&here, &state(100)).unwrap();
        assert!(store.get(&here).unwrap().is_some(), "{url}");
    }

    for url in [format!("redis://:secret@{host}"), format!("redis://{host}")] {
        for role in [Role::Server, Role::Tool] {
            let error = open_error(&url, role);
            assert!(error.starts_with(&format!("redis://{host}: ")), "{error}");
        }
    }
    let error = open_error(&format!("redis://{host}?password-file=/nowhere/x"), Role::Server);
    assert!(error.contains("cannot read /nowhere/x"), "{error}");
}

/// Writes a certificate for 127.0.0.1 that is its own authority.
fn write_certificate(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_string()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

#[test]
fn tls_is_checked_against_the_named_authority() {
    let folder = tempfile::tempdir().unwrap();
    write_certificate(folder.path());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let _server = RedisServer::start(&[
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &cert,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &cert,
        "--tls-auth-clients",
        "no",
    ]);

    let store = open_redis(&format!("rediss://127.0.0.1:{port}?ca={cert}"), Default::default());
    store.record(&endpoint(CLIENT), &state(100)).unwrap();
    assert!(store.claim(&endpoint(CLIENT), RTT).unwrap().is_some());

    let error = open_error(&format!("rediss://127.0.0.1:{port}"), Role::Tool);
    assert!(error.starts_with("rediss://127.0.0.1"), "{error}");
    let error = open_error(&format!("rediss://127.0.0.1:{port}?ca=/nowhere/ca"), Role::Tool);
    assert!(error.contains("cannot read /nowhere/ca"), "{error}");
}

#[test]
fn flushed_script_is_loaded_again() {
    let server = RedisServer::start(&[]);
    let store = open(&server);
    let here = endpoint(CLIENT);
    store.record(&here, &state(100)).unwrap();

    server.run::<()>(&["SCRIPT", "FLUSH"]).unwrap();
    assert!(store.claim(&here, RTT).unwrap().is_some());
}

/// Returns the key of the record of an endpoint.
fn record_key(here: &RemoteEndpoint) -> String {
    format!("{{path-store-0}}:set:{here}")
}

#[test]
fn damaged_record_is_a_miss_and_removed() {
    let server = RedisServer::start(&[]);
    let store = open(&server);
    let (here, there) = (endpoint(CLIENT), endpoint("198.51.101.7"));

    for (n, damage) in (1..).zip([
        &["SETRANGE", "KEY", "5", "x"][..],
        &["SETRANGE", "KEY", "0", "x"],
        &["SETRANGE", "KEY", "45", "x"],
        &["APPEND", "KEY", "x"],
        &["SET", "KEY", ""],
        &["SET", "KEY", "0123456789abcdef"],
        &["COPY", "OTHER", "KEY", "REPLACE"],
    ]) {
        store.record(&here, &state(100)).unwrap();
        store.record(&there, &state(200)).unwrap();
        let (key, other) = (record_key(&here), record_key(&there));
        let word = |word: &&'static str| match *word {
            "KEY" => key.clone(),
            "OTHER" => other.clone(),
            word => word.to_string(),
        };
        let words: Vec<String> = damage.iter().map(word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        server.run::<redis::Value>(&words).unwrap();
        let listed = entries(&store).into_iter().find(|e| e.endpoint == here.to_string());
        assert_eq!(listed.map(|e| e.status), Some(RecordStatus::Damaged), "{damage:?}");

        assert_eq!(store.claim(&here, RTT).unwrap(), None, "{damage:?}");
        assert_eq!(store.counters().records_damaged, n, "{damage:?}");
        assert_eq!(server.run::<u32>(&["EXISTS", &key]), Ok(0), "{damage:?}");
    }
}

#[test]
fn newer_record_is_a_miss_and_stays() {
    let server = RedisServer::start(&[]);
    let store = open(&server);
    let here = endpoint(CLIENT);
    store.record(&here, &state(100)).unwrap();
    let token = store.claim(&here, RTT).unwrap().unwrap().token;

    // The rule of the checksum is repeated here: it also holds for future versions.
    let set = "\u{2}what is to come";
    let sum: String = server
        .run(&[
            "EVAL",
            "return redis.sha1hex(ARGV[1] .. '\\0' .. ARGV[2])",
            "0",
            &here.to_string(),
            set,
        ])
        .unwrap();
    let value = format!("{set}{}", &sum[..16]);
    server.run::<()>(&["SET", &record_key(&here), &value, "EX", "3600"]).unwrap();

    store.record(&here, &state(200)).unwrap();
    store.forget(&here, token, quiche::clock::wall_now()).unwrap();
    assert_eq!(store.get(&here).unwrap(), None);
    assert_eq!(store.claim(&here, RTT).unwrap(), None);
    assert_eq!(server.run::<String>(&["GET", &record_key(&here)]), Ok(value));
    assert_eq!(entries(&store)[0].status, RecordStatus::Newer);
    assert!(store.counters().records_newer >= 4);
    assert_eq!(store.counters().records_damaged, 0);
}

// The clocks of the servers, and that of Redis.
#[test]
fn clock_set_back_prolongs_no_timer() {
    let time = simulation();
    let server = RedisServer::start_frozen(&[], WALL_START + DAY);
    let store = open(&server);
    let (claimed, held_off) = (endpoint(CLIENT), endpoint("198.51.101.7"));
    for here in [&claimed, &held_off] {
        store.record(here, &state(100)).unwrap();
    }
    let lease = store.claim(&claimed, RTT).unwrap().unwrap().lease;
    let token = store.claim(&held_off, RTT).unwrap().unwrap().token;
    store.forget(&held_off, token, quiche::clock::wall_now()).unwrap();

    server.set_wall(WALL_START);
    assert_eq!(store.claim(&claimed, RTT).unwrap(), None);
    store.record(&held_off, &state(100)).unwrap();
    assert_eq!(store.get(&held_off).unwrap(), None);

    // From when Redis notices it, timers have at most their whole duration.
    server.set_wall(WALL_START + HOUR);
    time.advance_to(lease + LINGER);
    assert!(store.claim(&claimed, RTT).unwrap().is_some());
    store.record(&held_off, &state(100)).unwrap();
    assert!(store.get(&held_off).unwrap().is_some());
}

#[test]
fn clock_set_forward_loses_records_alone() {
    let _time = simulation();
    let server = RedisServer::start_frozen(&[], WALL_START);
    let store = open(&server);
    let here = endpoint(CLIENT);
    store.record(&here, &state(100)).unwrap();
    store.claim(&here, RTT).unwrap().unwrap();

    server.set_wall(WALL_START + DAY);
    assert_eq!(store.claim(&here, RTT).unwrap(), None);
    assert_eq!(store.sweep().unwrap(), 1);
    store.record(&here, &state(100)).unwrap();
    assert!(store.claim(&here, RTT).unwrap().is_some());
}

#[test]
fn full_server_works_again_with_room() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let store = open(&server);
    let here = endpoint(CLIENT);
    store.record(&here, &state(100)).unwrap();

    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let error = store.record(&endpoint("10.0.0.1"), &state(1)).unwrap_err().to_string();
    assert!(error.contains("OOM") || error.contains("memory"), "{error}");
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert!(retry_until(|| store.claim(&here, RTT).ok()).is_some());
}

#[test]
fn claim_goes_to_one_of_many_claimants() {
    const CLAIMANTS: usize = 6;
    const ROUNDS: u64 = 50;

    let server = RedisServer::start(&[]);
    let store = open(&server);
    for n in 0..ROUNDS {
        let saved_rtt = Duration::from_secs(100);
        store.record(&nth_endpoint(n), &PathState { saved_rtt, ..state(n) }).unwrap();
    }

    let stores: Vec<RedisStore> = (0..CLAIMANTS).map(|_| open(&server)).collect();
    let claim_all = |store: &RedisStore| -> Vec<Option<Claim>> {
        (0..ROUNDS).map(|n| store.claim(&nth_endpoint(n), RTT).unwrap()).collect()
    };
    let wins = std::thread::scope(|scope| {
        let racers: Vec<_> = stores.iter().map(|s| scope.spawn(|| claim_all(s))).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect::<Vec<_>>()
    });
    for n in 0..ROUNDS as usize {
        assert_eq!(wins.iter().filter(|claims| claims[n].is_some()).count(), 1, "round {n}");
    }
}

// Redis replicates asynchronously: after the loss of a primary, a claim may be granted twice,
// see docs/path-store.md.
#[test]
fn replica_may_grant_a_claim_again() {
    let mut primary = RedisServer::start(&[]);
    let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    let (before, after) = (open(&primary), open_redis(&replica.url(), impatient()));
    let here = endpoint(CLIENT);
    let saved_rtt = Duration::from_secs(100);
    before.record(&here, &PathState { saved_rtt, ..state(100) }).unwrap();
    retry_until(|| replica.run::<Option<Vec<u8>>>(&["GET", &record_key(&here)]).unwrap());

    // It refuses writes before it takes over: no claim, no jump.
    assert!(after.claim(&here, RTT).is_err());

    // A primary that is cut off from its replica still grants claims.
    replica.run::<()>(&["REPLICAOF", "NO", "ONE"]).unwrap();
    assert!(before.claim(&here, RTT).unwrap().is_some());
    primary.kill();
    let again = retry_until(|| after.claim(&here, RTT).ok());
    assert!(again.is_some(), "the record was replicated, the claim was not");
    assert_eq!(after.claim(&here, RTT).unwrap(), None);
}

/// Starts three servers that divide the slots among them.
fn start_cluster() -> Vec<RedisServer> {
    let servers: Vec<RedisServer> =
        (0..3).map(|_| RedisServer::start(&["--cluster-enabled", "yes"])).collect();
    for (server, slots) in
        servers.iter().zip([("0", "5460"), ("5461", "10922"), ("10923", "16383")])
    {
        server.run::<()>(&["CLUSTER", "ADDSLOTSRANGE", slots.0, slots.1]).unwrap();
        let meet = ["CLUSTER", "MEET", "127.0.0.1", &servers[0].port().to_string()];
        server.run::<()>(&meet).unwrap();
    }
    let up = |server: &RedisServer| {
        let info: String = server.run(&["CLUSTER", "INFO"]).unwrap();
        info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
    };
    retry_until(|| servers.iter().all(up).then_some(()));

    servers
}

#[test]
fn cluster_of_three_is_one_store() {
    let servers = start_cluster();
    let dead_first = format!("redis+cluster://127.0.0.1:1,127.0.0.1:{}", servers[1].port());
    let options = RedisOptions { timeout: Duration::from_secs(20), ..RedisOptions::default() };
    let store = open_redis(&dead_first, options);

    let records: Vec<Request> =
        (0..200).map(|n| Request::Record(nth_endpoint(n), state(n))).collect();
    store.perform(&records).unwrap();
    assert_eq!(entries(&store).len(), 200);
    let sizes: Vec<u64> = servers.iter().map(|s| s.run(&["DBSIZE"]).unwrap()).collect();
    assert!(sizes.iter().all(|size| *size > 20), "{sizes:?}");

    let other = open_redis(&format!("redis+cluster://127.0.0.1:{}", servers[2].port()), options);
    for n in 0..200 {
        let claim = store.claim(&nth_endpoint(n), RTT).unwrap();
        assert_eq!(claim.map(|claim| claim.state.saved_cwnd), Some(n));
        assert_eq!(other.claim(&nth_endpoint(n), RTT).unwrap(), None);
    }
    assert!(store.size().unwrap().bytes > 0);
    assert_eq!(other.flush().unwrap(), 200);
    assert_eq!(entries(&store), []);
}

#[test]
fn totals_of_all_processes_are_added_up() {
    let server = RedisServer::start(&[]);
    let (one, other) = (open(&server), open(&server));
    let mut since = path_store::ServiceMetrics::default();
    since.add("gets", 7);
    since.add("hits", 3);

    one.add_to_totals(&since).unwrap();
    other.add_to_totals(&since).unwrap();
    let totals = one.totals().unwrap();
    assert_eq!((totals.gets, totals.hits, totals.claims), (14, 6, 0));
}
