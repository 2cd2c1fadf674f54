//! Store faults: dead, slow or invalid stores cost jumps, never downloads.

use std::fs::File;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::client::UdpClient;
use crate::support::lab::emulate;
use crate::support::lab::fetch;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::Running;
use crate::support::redis::open_redis;
use crate::support::redis::RedisServer;
use path_store::HashKeys;
use path_store::RedisOptions;
use path_store::Role;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;

/// More than the initial window: saved parameters are asked for.
const OBJECT_BYTES: u64 = 300_000;

const FAILS: &str = "connections start slowly until it works again";
const WORKS: &str = "path store: works again";
/// Connections that were given saved parameters.
const OFFERED: &str = "edge_server_resume_jumps_offered_total";

struct Bench {
    server: Running,
    address: SocketAddr,
    metrics: SocketAddr,
    /// Long enough that the store replies before slow start has ended.
    _path: Running,
    path_address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(store: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (server, _) = serve(folder.path(), &with_store(store));
        Self::of(server, folder)
    }

    fn of(mut server: Running, folder: tempfile::TempDir) -> Self {
        let (metrics, address) = (server.metrics_address(), server.address());
        let mut path = emulate(address, "--rate 50 --rtt 20 --buffer 250000");
        let path_address = path.address();
        Self { server, address, metrics, _path: path, path_address, _folder: folder }
    }

    fn download(&self) {
        self.download_bytes(OBJECT_BYTES);
    }

    fn download_bytes(&self, bytes: u64) {
        let (status, said) = fetch(self.path_address, bytes).end();
        assert!(status.success(), "{said:?}");
    }

    /// How many connections were given saved parameters so far.
    fn offered(&self) -> u64 {
        metrics::read(self.metrics, OFFERED)
    }

    /// Downloads until the server has said so, perhaps before.
    fn download_until(&self, text: &str) {
        self.repeat_until(text, || self.server.count(text) > 0);
    }

    /// Downloads until another connection resumes.
    fn download_until_resumed(&self) {
        let before = self.offered();
        self.repeat_until(OFFERED, || self.offered() > before);
    }

    fn repeat_until(&self, what: &str, is_done: impl Fn() -> bool) {
        for _ in 0..400 {
            self.download();
            if is_done() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("never happens: {what}");
    }
}

fn with_store(store: &str) -> [&str; 5] {
    ["--speedtest", "--store", store, "--metrics", "127.0.0.1:0"]
}

/// Returns saved parameters for clients on this machine.
fn saved_parameters() -> PathState {
    let now = quiche::clock::wall_now();
    PathState {
        saved_cwnd: 100_000,
        saved_rtt: Duration::from_millis(20),
        observed: now,
        expires: now + Duration::from_secs(3600),
        limited: false,
        validated: false,
    }
}

fn clients() -> RemoteEndpoint {
    RemoteEndpoint::new("127.0.0.1", [127, 0, 0, 1].into(), Default::default())
}

fn plant(redis: &RedisServer) {
    plant_for(redis, &clients());
}

fn plant_for(redis: &RedisServer, clients: &RemoteEndpoint) {
    let options = RedisOptions { timeout: Duration::from_secs(20), ..Default::default() };
    open_redis(&redis.url(), options).record(clients, &saved_parameters()).unwrap();
}

/// Saves these parameters in a store on disk, which is created if there is none.
fn plant_on_disk(store: &Path) {
    let store = path_store::open(store.to_str().unwrap(), Role::Server, 1000).unwrap();
    store.record(&clients(), &saved_parameters()).unwrap();
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
    bench.download_until_resumed();

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
    bench.download_until_resumed();
    assert_eq!(bench.server.count(FAILS), 1);
    assert!(metrics::read(bench.metrics, "path_store_failed_total") > 0);
    assert_eq!(metrics::read(bench.metrics, "path_store_failing"), 0);
}

#[test]
fn redis_killed_and_restarted_costs_jumps_only() {
    let mut redis = RedisServer::start(&[]);
    let no_pause = Duration::ZERO;
    assert_serves_through(&mut redis, RedisServer::kill, no_pause, RedisServer::restart);
}

#[test]
fn redis_that_stands_still_costs_jumps_only() {
    let mut redis = RedisServer::start(&[]);
    let pause = Duration::from_secs(1);
    assert_serves_through(&mut redis, |redis| redis.pause(), pause, |redis| redis.resume());
}

#[test]
#[ignore = "half a minute: make check-long"]
fn redis_that_stands_still_long_costs_jumps_only() {
    let mut redis = RedisServer::start(&[]);
    let pause = Duration::from_secs(30);
    assert_serves_through(&mut redis, |redis| redis.pause(), pause, |redis| redis.resume());
}

#[test]
fn redis_that_talks_nonsense_costs_jumps_only() {
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
fn store_folder_that_vanishes_costs_jumps_only() {
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

// It is of the number that a version to come may give its schema; a server of that
// version may have it open.
#[test]
fn store_of_a_newer_version_is_left_alone() {
    const SCHEMA_AT: u64 = 60;

    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("paths.db");
    plant_on_disk(&store);
    let file = File::options().write(true).open(&store).unwrap();
    file.write_all_at(&9_u32.to_be_bytes(), SCHEMA_AT).unwrap();
    let before = std::fs::read(&store).unwrap();

    let bench = Bench::new(store.to_str().unwrap());
    for _ in 0..5 {
        bench.download();
    }
    assert_eq!((bench.server.count("has schema 9"), bench.server.count(FAILS)), (1, 1));
    assert_eq!(metrics::read(bench.metrics, "path_store_failing"), 1);
    assert_eq!(std::fs::read(&store).unwrap(), before);

    // The newer version is gone, and its file with it.
    std::fs::remove_file(&store).unwrap();
    bench.download_until(WORKS);
    plant_on_disk(&store);
    bench.download_until_resumed();
}

// One process finds out, and sets it aside; those that have it open move to the new
// one, without an incident.
#[test]
fn store_file_overwritten_costs_jumps_only() {
    const PAGE_BYTES: u64 = 2048;

    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("paths.db");
    let location = store.to_str().unwrap();
    plant_on_disk(&store);
    let bench = Bench::new(location);
    bench.download_until_resumed();

    let file = File::options().write(true).open(&store).unwrap();
    let length = file.metadata().unwrap().len();
    let noise: Vec<u8> = (PAGE_BYTES..length).map(|i| (i * 31 % 251) as u8).collect();
    file.write_all_at(&noise, PAGE_BYTES).unwrap();
    bench.download();

    let other = Bench::new(location);
    other.download();
    let set_aside = |bench: &Bench| {
        let at = "path_store_databases_set_aside_total";
        (bench.server.count("the store was damaged"), metrics::read(bench.metrics, at))
    };
    assert_eq!((set_aside(&bench), set_aside(&other)), ((0, 0), (1, 1)));
    plant_on_disk(&store);
    bench.download_until_resumed();
    other.download_until_resumed();
    assert_eq!(bench.server.count(FAILS) + other.server.count(FAILS), 0);
}

// The disk is known to the server alone, and full between two signs that it gets.
#[test]
fn full_disk_costs_jumps_only() {
    const SCRIPT: &str = r#"
        disk=$1; sign=$2; shift 2
        mount -t tmpfs -o size=300k tmpfs "$disk" || exit
        wait_for() { until [ -e "$sign/$1" ]; do sleep 0.05; done; }
        (wait_for fill; cat /dev/zero > "$disk/zeros"; wait_for free; rm "$disk/zeros") 2>/dev/null &
        exec "$@"
    "#;
    let may = Command::new("unshare").args(["-rm", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this system gives no mount namespaces away");
        return;
    }
    let (folder, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = disk.path().join("paths.db");
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", SCRIPT, "sh"]).arg(disk.path()).arg(folder.path());
    command.arg(env!("CARGO_BIN_EXE_edge-server")).args(["--listen", "127.0.0.1:0", "--root"]);
    command.arg(folder.path()).args(with_store(store.to_str().unwrap()));
    let signs = folder.path().to_path_buf();
    let sign = |name: &str| drop(File::create(signs.join(name)).unwrap());

    let bench = Bench::of(Running::start(&mut command), folder);
    // What it observes has to be written.
    let observe_until = |is_done: &dyn Fn() -> bool| {
        let is_done = (0..100).any(|_| {
            bench.download_bytes(2_000_000);
            is_done()
        });
        assert!(is_done, "never happens");
    };
    observe_until(&|| bench.offered() > 0);

    sign("fill");
    observe_until(&|| bench.server.count(FAILS) > 0);
    bench.download();
    assert_eq!(bench.server.count(FAILS), 1);

    sign("free");
    observe_until(&|| bench.server.count(WORKS) > 0);
    bench.download_until_resumed();
}

// The client is silent meanwhile. A transport that took more than a window because it
// probes would leave nothing to claim parameters for.
#[test]
fn store_reply_while_probing_is_claimed() {
    const BODY_BYTES: u64 = 100_000;

    let redis = RedisServer::start(&[]);
    plant(&redis);
    let bench = Bench::new(&redis.url());
    // An answer must come within a second, which a busy machine may miss.
    for _ in 0..50 {
        redis.pause();
        let mut client = UdpClient::connect(bench.address);
        let stream = client.request("GET", &format!("/bytes/{BODY_BYTES}"));
        client.receive(stream, 1);
        std::thread::sleep(Duration::from_millis(200));
        redis.resume();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(client.response(stream).body.len() as u64, BODY_BYTES);
        client.close();
        if bench.offered() > 0 {
            return;
        }
    }
    panic!("never resumes");
}

// Nothing in the store tells who the clients were, and they are found again.
#[test]
fn hash_keys_keep_addresses_out_of_the_store() {
    let redis = RedisServer::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, format!("2026-01-01T00:00:00Z {}", "5a".repeat(32))).unwrap();
    let url = redis.url();
    let more = [
        "--speedtest",
        "--metrics",
        "127.0.0.1:0",
        "--store",
        &url,
        "--path-group",
        "pop7",
        "--hash-keys",
        keys.to_str().unwrap(),
    ];
    let (mut server, address) = serve(folder.path(), &more);
    let here = RemoteEndpoint::new("pop7", [127, 0, 0, 1].into(), Default::default());
    let hidden = HashKeys::read(&keys).unwrap().pseudonymize(here, quiche::clock::wall_now());
    plant_for(&redis, &hidden);

    let mut emulator = emulate(address, "--rate 20 --rtt 20 --buffer 50000");
    assert!(fetch(emulator.address(), 1_000_000).end().0.success());
    metrics::wait_until(server.metrics_address(), OFFERED, |offered| offered == 1);
    assert!(server.stop().success());
    let names: Vec<String> = redis.run(&["KEYS", "*"]).unwrap();
    assert!(names.iter().any(|name| name.contains("set:pop7>~")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("127.0.0")), "{names:?}");
}
