//! Store for a fleet: Redis or Valkey, a single server or a cluster.
//!
//! Maps requests to calls of a script and its replies to outcomes. The rules are in
//! `rules.lua`: Redis runs one call at a time, which makes a claim atomic across machines.
//! Leases and hold-offs are keys that Redis lets expire. `connection` owns the connection.
//!
//! With one primary, two connections never hold one record. Redis replicates
//! asynchronously: a replica that takes over may not know of a claim, and grants it again.

mod admin;
mod connection;
mod record;
mod url;

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

use self::connection::ConnectionManager;
use self::record::ScriptReply;
pub use self::url::RedisUrl;
use crate::backend::Admin;
use crate::backend::Backend;
use crate::backend::Outcome;
use crate::backend::Request;
use crate::backend::RETREATS_KEPT;
use crate::backend_counters::AtomicBackendCounters;
use crate::backend_counters::BackendCounters;
use crate::opening::OpenError;
use crate::opening::Role;
use crate::opening::CAPACITY_DEFAULT;
use crate::service_metrics::ServiceMetrics;

/// The number of consecutive retreats from which on hold-offs stay the same.
const HOLD_OFFS_MAX: u32 = 7;

/// Settings of a [`RedisStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// The most remote endpoints, of all processes together.
    pub capacity: usize,

    /// The longest time for an answer, and for connecting.
    pub timeout: Duration,

    /// Into how many buckets a store on a cluster is divided, each on one server and with its
    /// share of the capacity. All processes must agree.
    pub cluster_buckets: usize,
}

impl Default for RedisOptions {
    fn default() -> Self {
        RedisOptions {
            capacity: CAPACITY_DEFAULT,
            timeout: Duration::from_secs(1),
            cluster_buckets: 64,
        }
    }
}

/// A store on a Redis server or cluster. Calls block on the network.
pub struct RedisStore {
    name: String,
    options: RedisOptions,
    counters: AtomicBackendCounters,

    /// Into how many buckets the store is divided.
    buckets: usize,

    connections: Mutex<ConnectionManager>,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Connects to a store. For a server, a store that cannot be reached now is a warning and
    /// no error: its requests fail until it can be reached.
    ///
    /// # Errors
    ///
    /// The store refuses us; for a tool, also: it cannot be reached.
    pub fn open(url: &RedisUrl, role: Role, options: RedisOptions) -> Result<Self, OpenError> {
        let mut connections = ConnectionManager::new(url, options.timeout)?;
        let name = connections.name().to_string();

        if let Err(error) = connections.connection() {
            if role == Role::Tool || error.is_refusal() {
                return Err(OpenError::Redis { name, why: error.to_string() });
            }
            log::warn!("{name}: {error}; connections start slowly until it can be reached");
        }

        Ok(RedisStore {
            name,
            options,
            counters: AtomicBackendCounters::default(),
            buckets: if connections.is_cluster() { options.cluster_buckets.max(1) } else { 1 },
            connections: Mutex::new(connections),
        })
    }

    // A panic elsewhere may leave a connection in an unknown state; an answer that does not
    // parse drops it.
    fn connections(&self) -> MutexGuard<'_, ConnectionManager> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all commands in one round trip, and reads all answers.
    fn query<T: FromRedisValue>(&self, commands: &[Cmd]) -> Result<Vec<T>, StoreError> {
        let mut connections = self.connections();
        let connected_before = connections.connects();
        let answers = connections.query(commands);
        let reconnects = connections.connects() - connected_before;
        drop(connections);

        self.counters.reconnects.fetch_add(reconnects, Relaxed);
        answers.map_err(|error| format!("{}: {error}", self.name).into())
    }

    /// Returns the call of the script for an endpoint.
    fn call(&self, endpoint: &str, request: &str, arguments: &[Vec<u8>]) -> Cmd {
        self.call_in(record::bucket(self.buckets, endpoint), endpoint, request, arguments)
    }

    fn call_in(&self, bucket: usize, endpoint: &str, request: &str, arguments: &[Vec<u8>]) -> Cmd {
        let wall_ms = record::unix_ms(quiche::clock::wall_now());
        let keys = record::keys(bucket, endpoint);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(connection::rules_hash()).arg(keys.len()).arg(&keys[..]);
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

    /// Returns the call for a request. A claim gets `token`.
    fn command(&self, request: &Request, token: ClaimToken) -> Cmd {
        match request {
            Request::Get(endpoint) => self.call(&endpoint.to_string(), "get", &[]),
            Request::Claim(endpoint, rtt) => {
                self.call(&endpoint.to_string(), "claim", &claim_arguments(token, *rtt))
            }
            Request::ClaimOwn(endpoint, own, rtt) => {
                let mut arguments = claim_arguments(token, *rtt).to_vec();
                arguments.push(own.to_bytes().to_vec());
                self.call(&endpoint.to_string(), "claim_own", &arguments)
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

    fn outcome(&self, request: &Request, token: ClaimToken, reply: &ScriptReply) -> Outcome {
        self.count(request, reply);

        match request {
            Request::Get(_) => Outcome::Read(reply.state),
            Request::Claim(_, rtt) | Request::ClaimOwn(_, _, rtt) => {
                Outcome::Claimed(reply.state.map(|state| Claim {
                    state,
                    token,
                    lease: lease(state.saved_rtt, *rtt),
                }))
            }
            _ => Outcome::Done,
        }
    }

    fn count(&self, request: &Request, reply: &ScriptReply) {
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
        let replies: Vec<ScriptReply> = self.query(&commands)?;
        let evicted = replies.iter().filter(|reply| reply.status == "sound").count();
        self.counters.entries_evicted.fetch_add(evicted as u64, Relaxed);

        Ok(())
    }

    fn perform_one(&self, request: Request) -> Result<Outcome, StoreError> {
        Ok(self.perform(&[request])?[0])
    }
}

/// Returns the arguments of `requests.claim`. They describe [`lease()`] by some of its values.
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

    fn claim_own(
        &self,
        endpoint: &RemoteEndpoint,
        own: &PathState,
        rtt: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        match self.perform_one(Request::ClaimOwn(endpoint.clone(), *own, rtt))? {
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
        let replies: Vec<ScriptReply> = self.query(&commands)?;

        let excess: Vec<String> = replies.iter().flat_map(|reply| reply.excess.clone()).collect();
        if !excess.is_empty() {
            // The requests were performed; the next record evicts again.
            if let Err(error) = self.evict(&excess) {
                log::debug!("{error}");
            }
        }

        let outcome = |((request, token), reply): ((&Request, &ClaimToken), &ScriptReply)| {
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

    fn claims_name(&self) -> Option<String> {
        Some(self.name.clone())
    }

    fn counters(&self) -> BackendCounters {
        self.counters.snapshot()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}
