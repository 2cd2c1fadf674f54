//! A store that dies, waits or talks nonsense costs jumps, never downloads, and
//! is worth one line.

use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::time::Duration;

use crate::support::lab::emulate;
use crate::support::lab::fetch;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::Running;
use crate::support::redis::open_redis;
use crate::support::redis::RedisServer;
use path_store::HashKeys;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;

/// More than the initial window: a saved set is asked for.
const OBJECT_BYTES: u64 = 300_000;

const FAILS: &str = "connections start slowly until it works again";
const WORKS: &str = "path store: works again";
const RESUMES: &str = ": resumes from ";

struct Bench {
    server: Running,
    address: SocketAddr,
    metrics: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(store: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let more = ["--speedtest", "--store", store, "--metrics", "127.0.0.1:0"];
        let (mut server, address) = serve(folder.path(), &more);
        let metrics = server.metrics_address();
        Self { server, address, metrics, _folder: folder }
    }

    fn download(&self) {
        let (status, said) = fetch(self.address, OBJECT_BYTES).end();
        assert!(status.success(), "{said:?}");
    }

    /// Downloads until the server has said so once more.
    fn download_until(&self, text: &str) {
        let before = self.server.count(text);
        for _ in 0..200 {
            self.download();
            if self.server.count(text) > before {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("never says: {text}");
    }
}

fn plant(redis: &RedisServer) {
    let here = RemoteEndpoint::new("127.0.0.1", [127, 0, 0, 1].into(), Default::default());
    plant_for(redis, &here);
}

fn plant_for(redis: &RedisServer, here: &RemoteEndpoint) {
    let now = quiche::clock::wall_now();
    let state = PathState {
        saved_cwnd: 100_000,
        saved_rtt: Duration::from_millis(20),
        observed: now,
        expires: now + Duration::from_secs(3600),
        limited: false,
        validated: false,
    };
    open_redis(&redis.url(), Default::default()).record(here, &state).unwrap();
}

/// One incident: the server serves on, says so once, and comes back by itself.
fn assert_serves_through(
    redis: &mut RedisServer,
    begin: impl Fn(&mut RedisServer),
    pause: Duration,
    end: impl Fn(&mut RedisServer),
) {
    let bench = Bench::new(&redis.url());
    plant(redis);
    bench.download_until(RESUMES);

    begin(redis);
    bench.download_until(FAILS);
    for _ in 0..5 {
        bench.download();
        std::thread::sleep(pause / 5);
    }
    assert_eq!(metrics::read(bench.metrics, "path_store_failing"), 1);
    assert_eq!(bench.server.count(FAILS), 1);

    end(redis);
    bench.download_until(WORKS);
    plant(redis);
    bench.download_until(RESUMES);
    assert_eq!(bench.server.count(FAILS), 1);
    assert!(metrics::read(bench.metrics, "path_store_failed_total") > 0);
    assert_eq!(metrics::read(bench.metrics, "path_store_failing"), 0);
}

#[test]
fn a_redis_that_is_killed_and_restarted_costs_jumps_only() {
    let mut redis = RedisServer::start(&[]);
    let no_pause = Duration::ZERO;
    assert_serves_through(&mut redis, RedisServer::kill, no_pause, RedisServer::restart);
}

#[test]
fn a_redis_that_stands_still_costs_jumps_only() {
    let mut redis = RedisServer::start(&[]);
    let pause = Duration::from_secs(1);
    assert_serves_through(&mut redis, |redis| redis.pause(), pause, |redis| redis.resume());
}

#[test]
#[ignore = "half a minute: make check-long"]
fn a_redis_that_stands_still_for_half_a_minute_costs_jumps_only() {
    let mut redis = RedisServer::start(&[]);
    let pause = Duration::from_secs(30);
    assert_serves_through(&mut redis, |redis| redis.pause(), pause, |redis| redis.resume());
}

#[test]
fn a_redis_that_talks_nonsense_costs_jumps_only() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"*3\r\n$-5\r\nHTTP/1.1 200 OK\r\n");
        }
    });

    let bench = Bench::new(&url);
    for _ in 0..5 {
        bench.download();
    }
    // At the start, and when the first download asked.
    assert!(bench.server.count("connections start slowly until") <= 2);
    assert!(metrics::read(bench.metrics, "path_store_failed_total") > 0);
}

#[test]
fn a_folder_that_vanishes_costs_jumps_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("paths.db");
    let bench = Bench::new(store.to_str().unwrap());
    bench.download();

    std::fs::remove_dir_all(folder.path()).unwrap();
    bench.download_until(FAILS);
    for _ in 0..3 {
        bench.download();
    }
    assert_eq!(bench.server.count(FAILS), 1);
    std::fs::create_dir(folder.path()).unwrap();
    bench.download_until(WORKS);
    assert!(store.exists());
}

// Nothing in the store tells who the clients were, and they are found again.
#[test]
fn with_keys_the_store_holds_no_client_address() {
    let redis = RedisServer::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, format!("2026-01-01T00:00:00Z {}", "5a".repeat(32))).unwrap();
    let url = redis.url();
    let more = [
        "--speedtest",
        "--store",
        &url,
        "--path-group",
        "pop7",
        "--hash-keys",
        keys.to_str().unwrap(),
    ];
    let (mut server, address) = serve(folder.path(), &more);
    let here = RemoteEndpoint::new("pop7", [127, 0, 0, 1].into(), Default::default());
    let hidden = HashKeys::read(&keys).unwrap().hide(here, quiche::clock::wall_now());
    plant_for(&redis, &hidden);

    let mut emulator = emulate(address, "--rate 20 --rtt 20 --buffer 50000");
    assert!(fetch(emulator.address(), 1_000_000).end().0.success());
    server.wait_for(RESUMES);
    assert!(server.stop().success());
    let names: Vec<String> = redis.run(&["KEYS", "*"]).unwrap();
    assert!(names.iter().any(|name| name.contains("set:pop7>~")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("127.0.0")), "{names:?}");
}
