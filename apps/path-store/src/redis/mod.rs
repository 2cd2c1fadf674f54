//! Store for a fleet: Redis or Valkey, a single server or a cluster.
//!
//! Owns how requests become calls of a script and answers become outcomes. The
//! rules are in `rules.lua`, which Redis runs one call at a time: that is what
//! makes a claim atomic across machines. Leases and hold-offs are keys that
//! Redis itself lets expire. The connection is the business of `link`.
//!
//! With one primary no two connections ever hold one record. Redis replicates
//! without waiting: a replica that takes over may not know of a claim, and grants
//! it again.

mod admin;
mod link;
mod record;
mod url;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::hold_off;
use quiche::path_state::lease;
use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::StoreError;
use quiche::path_state::LINGER;
use redis::Cmd;
use redis::FromRedisValue;

use self::link::Link;
use self::record::Reply;
pub use self::url::RedisUrl;
use crate::backend::Admin;
use crate::backend::Backend;
use crate::backend::BackendCounters;
use crate::backend::Outcome;
use crate::backend::Request;
use crate::backend::RETREATS_KEPT;
use crate::opening::OpenError;
use crate::opening::Role;
use crate::opening::CAPACITY_DEFAULT;
use crate::service_metrics::ServiceMetrics;

/// The retreat from which on hold-offs do not get longer.
const HOLD_OFFS_MAX: u32 = 7;

/// Settings of a [`RedisStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// The most remote endpoints that are kept, all processes together.
    pub capacity: usize,

    /// How long one answer may take, and how long connecting may.
    pub patience: Duration,

    /// In how many parts a store on a cluster is divided, each with its share of
    /// the capacity and kept whole by one server. All processes must agree.
    pub cluster_buckets: usize,
}

impl Default for RedisOptions {
    fn default() -> Self {
        RedisOptions {
            capacity: CAPACITY_DEFAULT,
            patience: Duration::from_secs(1),
            cluster_buckets: 64,
        }
    }
}

/// A store on a Redis server or cluster. Calls block on the network.
pub struct RedisStore {
    name: String,
    options: RedisOptions,
    counters: Counters,

    /// In how many parts the store is divided.
    buckets: usize,

    link: Mutex<Link>,
}

/// [`BackendCounters`], counting.
#[derive(Debug, Default)]
struct Counters {
    records_damaged: AtomicU64,
    records_newer: AtomicU64,
    entries_expired: AtomicU64,
    entries_evicted: AtomicU64,
    reconnects: AtomicU64,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Connects to a store. As a server, a store that cannot be reached now is no error: it
    /// is a miss until it can, and a warning.
    ///
    /// # Errors
    ///
    /// The store refuses us, or for a tool: it cannot be reached.
    pub fn open(url: &RedisUrl, role: Role, options: RedisOptions) -> Result<Self, OpenError> {
        let mut link = Link::new(url, options.patience)?;
        let name = link.name().to_string();

        if let Err(error) = link.connection() {
            if role == Role::Tool || error.is_refusal() {
                return Err(OpenError::Redis { name, why: error.to_string() });
            }
            log::warn!("{name}: {error}; connections start slowly until it can be reached");
        }

        Ok(RedisStore {
            name,
            options,
            counters: Counters::default(),
            buckets: if link.is_cluster() { options.cluster_buckets.max(1) } else { 1 },
            link: Mutex::new(link),
        })
    }

    // A panic elsewhere leaves a connection in an unknown state; its next answer
    // makes no sense, and it is dropped then.
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all commands at once, and reads all answers.
    fn query<T: FromRedisValue>(&self, commands: &[Cmd]) -> Result<Vec<T>, StoreError> {
        let mut link = self.link();
        let connected_before = link.connects();
        let answers = link.query(commands);
        let reconnects = link.connects() - connected_before;
        drop(link);

        self.counters.reconnects.fetch_add(reconnects, Relaxed);
        answers.map_err(|error| format!("{}: {error}", self.name).into())
    }

    /// Returns what calls the rules for an endpoint.
    fn call(&self, endpoint: &str, request: &str, arguments: &[Vec<u8>]) -> Cmd {
        self.call_in(record::bucket(self.buckets, endpoint), endpoint, request, arguments)
    }

    fn call_in(&self, bucket: usize, endpoint: &str, request: &str, arguments: &[Vec<u8>]) -> Cmd {
        let wall_ms = record::unix_ms(quiche::clock::wall_now());
        let keys = record::keys(bucket, endpoint);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(link::rules_hash()).arg(keys.len()).arg(&keys[..]);
        cmd.arg(request).arg(endpoint).arg(wall_ms);
        for argument in arguments {
            cmd.arg(&argument[..]);
        }

        cmd
    }

    fn record_call(&self, endpoint: &str, state: &PathState) -> Cmd {
        let capacity = self.options.capacity.div_ceil(self.buckets);
        let state = state.to_bytes().to_vec();
        self.call(endpoint, "record", &[state, ms(hold_off(HOLD_OFFS_MAX)), text(capacity as u128)])
    }

    /// Returns the call for a request. A claim asks with `token`.
    fn command(&self, request: &Request, token: ClaimToken) -> Cmd {
        match request {
            Request::Get(endpoint) => self.call(&endpoint.to_string(), "get", &[]),
            Request::Claim(endpoint, rtt) => {
                self.call(&endpoint.to_string(), "claim", &claim_arguments(token, *rtt))
            }
            Request::Record(endpoint, state) => self.record_call(&endpoint.to_string(), state),
            Request::Release(endpoint, token) => {
                self.call(&endpoint.to_string(), "release", &[record::token(*token)])
            }
            Request::Forget(endpoint, token, used) => {
                let used = text(record::unix_ms(*used).into());
                let mut arguments = vec![record::token(*token), used, ms(RETREATS_KEPT)];
                arguments.extend((1..=HOLD_OFFS_MAX).map(|retreats| ms(hold_off(retreats))));
                self.call(&endpoint.to_string(), "forget", &arguments)
            }
        }
    }

    fn outcome(&self, request: &Request, token: ClaimToken, reply: &Reply) -> Outcome {
        self.count(request, reply);

        match request {
            Request::Get(_) => Outcome::Read(reply.state),
            Request::Claim(_, rtt) => Outcome::Claimed(reply.state.map(|state| Claim {
                state,
                token,
                lease: lease(state.saved_rtt, *rtt),
            })),
            _ => Outcome::Done,
        }
    }

    fn count(&self, request: &Request, reply: &Reply) {
        match reply.status.as_str() {
            "damaged" => {
                self.counters.records_damaged.fetch_add(1, Relaxed);
                log::warn!("{}: removed the damaged record of {}", self.name, request.endpoint());
            }
            "newer" => {
                self.counters.records_newer.fetch_add(1, Relaxed);
            }
            "expired" => {
                self.counters.entries_expired.fetch_add(1, Relaxed);
            }
            _ => (),
        }
    }

    fn evict(&self, excess: &[String]) -> Result<(), StoreError> {
        let evict = |endpoint: &String| self.call(endpoint, "evict", &[]);
        let commands: Vec<Cmd> = excess.iter().map(evict).collect();
        let replies: Vec<Reply> = self.query(&commands)?;
        let evicted = replies.iter().filter(|reply| reply.status == "sound").count();
        self.counters.entries_evicted.fetch_add(evicted as u64, Relaxed);

        Ok(())
    }

    fn perform_one(&self, request: Request) -> Result<Outcome, StoreError> {
        Ok(self.perform(&[request])?[0])
    }
}

/// Returns what `requests.claim` takes: the rule of [`lease()`], told by what it gives.
fn claim_arguments(token: ClaimToken, rtt: Duration) -> [Vec<u8>; 7] {
    let long = Duration::from_secs(1000);
    let of_long = |rtt| lease(long, rtt).as_secs();
    let rtts = of_long(Duration::ZERO) / long.as_secs();
    let factor_max = of_long(Duration::MAX) / of_long(Duration::ZERO);

    [
        record::token(token),
        ms(hold_off(HOLD_OFFS_MAX)),
        text(rtt.as_micros()),
        text(factor_max.into()),
        ms(lease(Duration::ZERO, Duration::ZERO)),
        text(rtts.into()),
        ms(LINGER),
    ]
}

fn text(number: u128) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn ms(time: Duration) -> Vec<u8> {
    text(time.as_millis())
}

impl PathStateStore for RedisStore {
    fn get(&self, endpoint: &RemoteEndpoint) -> Result<Option<PathState>, StoreError> {
        match self.perform_one(Request::Get(endpoint.clone()))? {
            Outcome::Read(state) => Ok(state),
            _ => Ok(None),
        }
    }

    fn claim(&self, endpoint: &RemoteEndpoint, rtt: Duration) -> Result<Option<Claim>, StoreError> {
        match self.perform_one(Request::Claim(endpoint.clone(), rtt))? {
            Outcome::Claimed(claim) => Ok(claim),
            _ => Ok(None),
        }
    }

    fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) -> Result<(), StoreError> {
        self.perform_one(Request::Record(endpoint.clone(), *observed)).map(drop)
    }

    fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) -> Result<(), StoreError> {
        self.perform_one(Request::Release(endpoint.clone(), token)).map(drop)
    }

    fn forget(
        &self,
        endpoint: &RemoteEndpoint,
        token: ClaimToken,
        used: SystemTime,
    ) -> Result<(), StoreError> {
        self.perform_one(Request::Forget(endpoint.clone(), token, used)).map(drop)
    }

    fn flush(&self) -> Result<usize, StoreError> {
        self.delete_all()
    }
}

impl Backend for RedisStore {
    fn perform(&self, requests: &[Request]) -> Result<Vec<Outcome>, StoreError> {
        let tokens: Vec<ClaimToken> = requests.iter().map(|_| ClaimToken::random()).collect();
        let calls = requests.iter().zip(&tokens);
        let commands: Vec<Cmd> =
            calls.clone().map(|(request, token)| self.command(request, *token)).collect();
        let replies: Vec<Reply> = self.query(&commands)?;

        let excess: Vec<String> = replies.iter().flat_map(|reply| reply.excess.clone()).collect();
        if !excess.is_empty() {
            // What was asked has been done; the next record tries again.
            if let Err(error) = self.evict(&excess) {
                log::debug!("{error}");
            }
        }

        let outcome = |((request, token), reply): ((&Request, &ClaimToken), &Reply)| {
            self.outcome(request, *token, reply)
        };
        Ok(calls.zip(&replies).map(outcome).collect())
    }

    fn sweep(&self) -> Result<usize, StoreError> {
        let swept = self.sweep_index()?;
        self.counters.entries_expired.fetch_add(swept as u64, Relaxed);

        Ok(swept)
    }

    fn add_to_totals(&self, since: &ServiceMetrics) -> Result<(), StoreError> {
        self.count_totals(since)
    }

    fn counters(&self) -> BackendCounters {
        BackendCounters {
            records_damaged: self.counters.records_damaged.load(Relaxed),
            records_newer: self.counters.records_newer.load(Relaxed),
            entries_expired: self.counters.entries_expired.load(Relaxed),
            entries_evicted: self.counters.entries_evicted.load(Relaxed),
            reconnects: self.counters.reconnects.load(Relaxed),
            databases_quarantined: 0,
        }
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}
