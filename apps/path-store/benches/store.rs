//! What claims and records cost, by how many entries a store has: side by side
//! with a plain map behind a lock, and with a bare Redis GET and SET.
//!
//! `make bench-store`; `ARGS='--entries 1000,100000 --only sqlite'` does less.
//! Time is what this thread spent on the processor, except against Redis, where
//! it waits: there it is what passed. A batch is what waits together.

#[path = "../tests/support/redis.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod redis_server;

use std::collections::HashMap;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use path_store::Backend;
use path_store::Outcome;
use path_store::RedisOptions;
use path_store::Request;
use path_store::Role;
use path_store::SqliteOptions;
use path_store::SqliteStore;
use path_store::SystemBootClock;
use quiche::path_state::ClaimToken;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;
use redis_server::RedisServer;
use rustix::time::ClockId;

/// Requests that wait together: as many as the service takes at once.
const BATCH: usize = 256;

/// Requests that fill a store together, which is not what is measured.
const FILLING: usize = 20_000;

/// Subnets of IPv4 that the entries are spread over.
const SUBNETS: u32 = 1 << 24;

#[derive(Parser)]
struct Options {
    /// How many entries the stores have
    #[arg(long, value_delimiter = ',', default_value = "1000,100000,10000000")]
    entries: Vec<u32>,

    /// Which stores: map, memory, sqlite, redis, bare-redis
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// How many claims, and records, are measured one by one
    #[arg(long, default_value_t = 20_000)]
    samples: u32,

    /// Where the store on disk is; a folder that is deleted at the end by default
    #[arg(long)]
    folder: Option<std::path::PathBuf>,

    /// Cargo passes it to every bench
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is measured: a store, or something to compare stores with.
trait Subject {
    /// Records the sets of these subnets.
    fn record(&self, subnets: &[u32]);

    /// Claims the sets of these subnets, and gives the tokens.
    fn claim(&self, subnets: &[u32]) -> Vec<ClaimToken>;

    fn release(&self, subnets: &[u32], tokens: &[ClaimToken]);

    /// Bytes of so many entries; None if the process's memory tells.
    fn bytes(&self) -> Option<u64>;

    /// Which clock tells what a request costs.
    fn clock(&self) -> ClockId {
        ClockId::ThreadCPUTime
    }
}

/// A store behind the interface that the service uses.
struct Store {
    backend: Box<dyn Backend>,
    clock: ClockId,
    _keep: Option<Box<dyn std::any::Any>>,
}

/// A map behind a lock: what a store costs at the least.
#[derive(Default)]
struct Map(Mutex<HashMap<RemoteEndpoint, (PathState, Option<ClaimToken>)>>);

/// Redis as a plain map: a GET for a claim, a SET for a record.
struct BareRedis {
    connection: Mutex<redis::Connection>,
    _server: RedisServer,
}

fn now(clock: ClockId) -> Duration {
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

/// The n-th of the subnets, in an order that jumps about.
fn endpoint(n: u32) -> RemoteEndpoint {
    let subnet = n.wrapping_mul(0x9e37_79b1) % SUBNETS;
    let client = IpAddr::V4(Ipv4Addr::from_bits(subnet << 8 | 7));
    RemoteEndpoint::new("192.0.2.1", client, Default::default())
}

fn state() -> PathState {
    let now = quiche::clock::wall_now();
    PathState {
        saved_cwnd: 3_125_000,
        saved_rtt: Duration::from_millis(50),
        observed: now,
        // Nothing lapses while it is measured.
        expires: now + Duration::from_secs(86_400),
        limited: false,
        validated: false,
    }
}

impl Subject for Store {
    fn record(&self, subnets: &[u32]) {
        let state = state();
        let requests: Vec<Request> =
            subnets.iter().map(|n| Request::Record(endpoint(*n), state)).collect();
        self.backend.perform(&requests).expect("to record");
    }

    fn claim(&self, subnets: &[u32]) -> Vec<ClaimToken> {
        let requests: Vec<Request> = subnets.iter().map(|n| Request::Claim(endpoint(*n))).collect();
        let outcomes = self.backend.perform(&requests).expect("to claim");
        let token = |outcome: Outcome| match outcome {
            Outcome::Claimed(Some(claim)) => claim.token,
            _ => panic!("every set is there, and free"),
        };
        outcomes.into_iter().map(token).collect()
    }

    fn release(&self, subnets: &[u32], tokens: &[ClaimToken]) {
        let requests: Vec<Request> = subnets
            .iter()
            .zip(tokens)
            .map(|(n, token)| Request::Release(endpoint(*n), *token))
            .collect();
        self.backend.perform(&requests).expect("to release");
    }

    fn bytes(&self) -> Option<u64> {
        self.backend.admin().map(|admin| admin.size().expect("a size").bytes)
    }

    fn clock(&self) -> ClockId {
        self.clock
    }
}

impl Subject for Map {
    fn record(&self, subnets: &[u32]) {
        let state = state();
        let mut map = self.0.lock().unwrap();
        map.extend(subnets.iter().map(|n| (endpoint(*n), (state, None))));
    }

    fn claim(&self, subnets: &[u32]) -> Vec<ClaimToken> {
        let mut map = self.0.lock().unwrap();
        let mut claim = |n: &u32| {
            let token = ClaimToken(u64::from(*n));
            map.get_mut(&endpoint(*n)).unwrap().1 = Some(token);
            token
        };
        subnets.iter().map(&mut claim).collect()
    }

    fn release(&self, subnets: &[u32], _tokens: &[ClaimToken]) {
        let mut map = self.0.lock().unwrap();
        subnets.iter().for_each(|n| map.get_mut(&endpoint(*n)).unwrap().1 = None);
    }

    fn bytes(&self) -> Option<u64> {
        None
    }
}

impl Subject for BareRedis {
    fn record(&self, subnets: &[u32]) {
        let state = state().to_bytes();
        let mut pipe = redis::Pipeline::with_capacity(subnets.len());
        for n in subnets {
            pipe.cmd("SET").arg(endpoint(*n).to_string()).arg(&state[..]).ignore();
        }
        pipe.exec(&mut *self.connection.lock().unwrap()).expect("to set");
    }

    fn claim(&self, subnets: &[u32]) -> Vec<ClaimToken> {
        let mut pipe = redis::Pipeline::with_capacity(subnets.len());
        for n in subnets {
            pipe.cmd("GET").arg(endpoint(*n).to_string());
        }
        let _: Vec<Vec<u8>> = pipe.query(&mut *self.connection.lock().unwrap()).expect("to get");
        vec![ClaimToken(0); subnets.len()]
    }

    fn release(&self, _subnets: &[u32], _tokens: &[ClaimToken]) {}

    fn bytes(&self) -> Option<u64> {
        let mut connection = self.connection.lock().unwrap();
        let info: String = redis::cmd("INFO").arg("memory").query(&mut *connection).unwrap();
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.and_then(|used| used.trim().parse().ok())
    }

    fn clock(&self) -> ClockId {
        ClockId::Monotonic
    }
}

fn subject(name: &str, entries: u32, folder: &Path) -> Box<dyn Subject> {
    // More than there are: making room is not what is measured.
    let capacity = entries as usize * 2;
    let store = |backend, clock, keep| Box::new(Store { backend, clock, _keep: keep });

    match name {
        "map" => Box::new(Map::default()),
        "memory" => store(Box::new(MemoryStore::new(capacity)), ClockId::ThreadCPUTime, None),
        "sqlite" => {
            let clock = Box::new(SystemBootClock::new().expect("a boot id"));
            let path = folder.join(format!("paths-{entries}.db"));
            let options = SqliteOptions { capacity };
            let backend = SqliteStore::open(&path, Role::Server, options, clock);
            store(Box::new(backend.expect("to open")), ClockId::ThreadCPUTime, None)
        }
        "redis" => {
            let server = RedisServer::start(&[]);
            let options = RedisOptions {
                capacity,
                patience: Duration::from_secs(60),
                ..RedisOptions::default()
            };
            let backend = redis_server::open_redis(&server.url(), options);
            store(Box::new(backend), ClockId::Monotonic, Some(Box::new(server)))
        }
        "bare-redis" => {
            let server = RedisServer::start(&[]);
            let client = redis::Client::open(server.url()).expect("an address");
            let connection = Mutex::new(client.get_connection().expect("to connect"));
            Box::new(BareRedis { connection, _server: server })
        }
        other => {
            eprintln!(
                "store: no subject {other}; there are map, memory, sqlite, redis, bare-redis"
            );
            std::process::exit(2);
        }
    }
}

/// A generator of subnets.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 32) % u64::from(bound)) as u32
    }

    /// So many, all different.
    fn some(&mut self, count: usize, bound: u32) -> Vec<u32> {
        let mut seen = std::collections::HashSet::new();
        while seen.len() < count.min(bound as usize) {
            seen.insert(self.below(bound));
        }
        seen.into_iter().collect()
    }
}

/// The time that `work` takes.
fn timed<T>(clock: ClockId, work: impl FnOnce() -> T) -> (Duration, T) {
    let before = now(clock);
    let value = work();
    (now(clock) - before, value)
}

fn percentile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6
}

/// The process's memory, in bytes.
fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn measure(name: &str, entries: u32, options: &Options, folder: &Path) {
    let memory_before = memory_bytes();
    let subject = subject(name, entries, folder);
    let clock = subject.clock();
    let subnets: Vec<u32> = (0..entries).collect();
    let (filling, ()) = timed(ClockId::Monotonic, || {
        subnets.chunks(FILLING).for_each(|batch| subject.record(batch));
    });
    let bytes = subject.bytes().unwrap_or(memory_bytes().saturating_sub(memory_before));

    let mut random = Random(7);
    let (mut claims, mut records) = (Vec::new(), Vec::new());
    for _ in 0..options.samples {
        let one = [random.below(entries)];
        let (time, token) = timed(clock, || subject.claim(&one));
        claims.push(time);
        subject.release(&one, &token);
        records.push(timed(clock, || subject.record(&one)).0);
    }

    let (mut claiming, mut claimed) = (Duration::ZERO, 0);
    let (mut recording, mut recorded) = (Duration::ZERO, 0);
    for _ in 0..200 {
        let batch = random.some(BATCH, entries);
        let (time, tokens) = timed(clock, || subject.claim(&batch));
        claiming += time;
        claimed += batch.len();
        subject.release(&batch, &tokens);
        recording += timed(clock, || subject.record(&batch)).0;
        recorded += batch.len();
    }

    println!(
        "| {name} | {entries} | {:.1} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {} | {:.0} |",
        percentile(&mut claims, 0.5),
        percentile(&mut claims, 0.99),
        percentile(&mut records, 0.5),
        percentile(&mut records, 0.99),
        f64::from(claimed as u32) / claiming.as_secs_f64(),
        f64::from(recorded as u32) / recording.as_secs_f64(),
        bytes / u64::from(entries),
        filling.as_secs_f64(),
    );
}

fn main() {
    let options = Options::parse();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = options.folder.as_deref().unwrap_or(folder.path());
    let all = ["map", "memory", "sqlite", "bare-redis", "redis"].map(String::from);
    let names = if options.only.is_empty() { &all[..] } else { &options.only };

    println!("| store | entries | claim p50, µs | p99 | record p50, µs | p99 | claims/s, in batches | records/s | bytes an entry | filling, s |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for name in names {
        for entries in &options.entries {
            measure(name, *entries, &options, folder);
        }
    }
}
