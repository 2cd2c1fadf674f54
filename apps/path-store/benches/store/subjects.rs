//! Subjects of the benchmark: the stores, and the maps they are compared with.

use std::collections::HashMap;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

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
use rustix::time::ClockId;

use crate::redis_server;
use crate::redis_server::RedisServer;

/// Subnets of IPv4 that the entries are spread over.
const SUBNETS: u32 = 1 << 24;

/// Of every path, and of every connection.
const RTT: Duration = Duration::from_millis(50);

/// A store, or something to compare stores with.
pub trait Subject {
    /// Records these subnets.
    fn record(&self, subnets: &[u32]);

    /// Claims the records of these subnets, and returns the tokens.
    fn claim(&self, subnets: &[u32]) -> Vec<ClaimToken>;

    fn release(&self, subnets: &[u32], tokens: &[ClaimToken]);

    /// Returns bytes in files.
    fn disk_bytes(&self) -> u64 {
        0
    }

    /// Returns bytes in memory; None for the memory of this process.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the clock that measures the cost of a request.
    fn clock(&self) -> ClockId {
        ClockId::ThreadCPUTime
    }
}

/// A store behind the interface that the service uses.
struct Store {
    backend: Box<dyn Backend>,

    /// Of Redis.
    server: Option<RedisServer>,
}

/// A map behind a lock: what a store costs at the least.
#[derive(Default)]
struct Map(Mutex<HashMap<RemoteEndpoint, (PathState, Option<ClaimToken>)>>);

/// Redis as a plain map: a GET for a claim, a SET for a record.
struct BareRedis {
    connection: Mutex<redis::Connection>,
    server: RedisServer,
}

/// Returns the n-th of the subnets, in a scattered order.
fn endpoint(n: u32) -> RemoteEndpoint {
    let subnet = n.wrapping_mul(0x9e37_79b1) % SUBNETS;
    let client = IpAddr::V4(Ipv4Addr::from_bits(subnet << 8 | 7));
    RemoteEndpoint::new("192.0.2.1", client, Default::default())
}

fn state() -> PathState {
    let now = quiche::clock::wall_now();
    PathState {
        saved_cwnd: 3_125_000,
        saved_rtt: RTT,
        observed: now,
        // Nothing expires during the measurement.
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
        let requests: Vec<Request> =
            subnets.iter().map(|n| Request::Claim(endpoint(*n), RTT)).collect();
        let outcomes = self.backend.perform(&requests).expect("to claim");
        let token = |outcome: Outcome| match outcome {
            Outcome::Claimed(Some(claim)) => claim.token,
            _ => panic!("every record is there, and free"),
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

    fn disk_bytes(&self) -> u64 {
        match (&self.server, self.backend.admin()) {
            (None, Some(admin)) => admin.size().expect("a size").bytes,
            _ => 0,
        }
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.server.as_ref().map(used_memory)
    }

    fn clock(&self) -> ClockId {
        match self.server {
            Some(_) => ClockId::Monotonic,
            None => ClockId::ThreadCPUTime,
        }
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

    fn memory_bytes(&self) -> Option<u64> {
        Some(used_memory(&self.server))
    }

    fn clock(&self) -> ClockId {
        ClockId::Monotonic
    }
}

/// Returns the memory of a server, in bytes.
fn used_memory(server: &RedisServer) -> u64 {
    let info: String = server.run(&["INFO", "memory"]).expect("an answer");
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.trim().parse().ok()).expect("a figure")
}

/// Creates the subject of that name, with room for `entries`.
pub fn subject(name: &str, entries: u32, folder: &Path) -> Box<dyn Subject> {
    // More than there are: eviction is not measured.
    let capacity = entries as usize * 2;
    let store = |backend, server| Box::new(Store { backend, server });

    match name {
        "map" => Box::new(Map::default()),
        "memory" => store(Box::new(MemoryStore::new(capacity)), None),
        "sqlite" => {
            let clock = Box::new(SystemBootClock::new().expect("a boot id"));
            let path = folder.join(format!("paths-{entries}.db"));
            let options = SqliteOptions { capacity };
            let backend = SqliteStore::open(&path, Role::Server, options, clock);
            store(Box::new(backend.expect("to open")), None)
        }
        "redis" => {
            let server = RedisServer::start(&[]);
            let options = RedisOptions {
                capacity,
                timeout: Duration::from_secs(60),
                ..RedisOptions::default()
            };
            let backend = redis_server::open_redis(&server.url(), options);
            store(Box::new(backend), Some(server))
        }
        "bare-redis" => {
            let server = RedisServer::start(&[]);
            let client = redis::Client::open(server.url()).expect("an address");
            let connection = Mutex::new(client.get_connection().expect("to connect"));
            Box::new(BareRedis { connection, server })
        }
        other => {
            eprintln!(
                "store: no subject {other}; there are map, memory, sqlite, redis, bare-redis"
            );
            std::process::exit(2);
        }
    }
}
