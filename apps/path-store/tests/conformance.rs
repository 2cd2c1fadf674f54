//! Conformance of every backend to the rules of a store, in simulated time.

mod support;

use std::time::Duration;
use std::time::SystemTime;

use path_store::Backend;
use path_store::Outcome;
use path_store::RedisOptions;
use path_store::Request;
use path_store::Role;
use path_store::SqliteOptions;
use path_store::SqliteStore;
use quiche::clock::Simulation;
use quiche::path_state::hold_off;
use quiche::path_state::lease;
use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::StoreError;
use quiche::path_state::LINGER;
use quiche::path_state::RETREAT_KNOWN;
use support::endpoint;
use support::random::Random;
use support::redis::open_redis;
use support::redis::RedisServer;
use support::simulation;
use support::state;
use support::SimulatedBoot;
use support::HOUR;
use support::RTT;
use support::WALL_START;

const CLIENT: &str = "198.51.100.7";
const MILLISECOND: Duration = Duration::from_millis(1);

/// How many endpoints a store of the suite keeps.
const CAPACITY: usize = 3;

/// A store under test, and the clock that it follows.
struct Bench {
    store: Box<dyn PathStateStore>,
    time: Simulation,
    redis: Option<RedisServer>,
    _folder: Option<tempfile::TempDir>,
}

impl Bench {
    fn memory() -> Self {
        let time = simulation();
        Bench { store: Box::new(MemoryStore::new(CAPACITY)), time, redis: None, _folder: None }
    }

    fn sqlite() -> Self {
        Self::on_disk(|store| Box::new(store))
    }

    fn sqlite_in_batches() -> Self {
        Self::on_disk(|store| Box::new(InBatches(store)))
    }

    fn on_disk(wrap: impl Fn(SqliteStore) -> Box<dyn PathStateStore>) -> Self {
        let time = simulation();
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(
            &folder.path().join("paths.db"),
            Role::Server,
            SqliteOptions { capacity: CAPACITY },
            Box::new(SimulatedBoot::new()),
        );

        Bench { store: wrap(store.unwrap()), time, redis: None, _folder: Some(folder) }
    }

    fn redis() -> Self {
        let time = simulation();
        let server = RedisServer::start_frozen(&[], WALL_START);
        Self::on_redis(&server.url(), time, server)
    }

    fn redis_cluster() -> Self {
        let time = simulation();
        let server = support::redis::start_frozen_cluster(WALL_START);
        let url = format!("redis+cluster://127.0.0.1:{}", server.port());
        Self::on_redis(&url, time, server)
    }

    fn on_redis(url: &str, time: Simulation, server: RedisServer) -> Self {
        let timeout = Duration::from_secs(20);
        let options = RedisOptions { capacity: CAPACITY, timeout, cluster_buckets: 1 };
        let store = open_redis(url, options);
        Bench { store: Box::new(store), time, redis: Some(server), _folder: None }
    }

    fn advance(&self, by: Duration) {
        self.time.advance_to(self.time.elapsed() + by);
        if let Some(server) = &self.redis {
            server.set_wall(WALL_START + self.time.elapsed());
        }
    }

    fn get(&self, client: &str) -> Option<PathState> {
        self.store.get(&endpoint(client)).unwrap()
    }

    fn claim(&self, client: &str) -> Option<Claim> {
        self.claim_at(client, RTT)
    }

    /// Claims for a connection with this RTT.
    fn claim_at(&self, client: &str, rtt: Duration) -> Option<Claim> {
        self.store.claim(&endpoint(client), rtt).unwrap()
    }

    fn claim_own(&self, client: &str, own: &PathState) -> Option<Claim> {
        self.store.claim_own(&endpoint(client), own, RTT).unwrap()
    }

    fn record(&self, client: &str, observed: PathState) {
        self.store.record(&endpoint(client), &observed).unwrap();
    }

    fn release(&self, client: &str, token: ClaimToken) {
        self.store.release(&endpoint(client), token).unwrap();
    }

    fn forget(&self, client: &str, token: ClaimToken, used: SystemTime) {
        self.store.forget(&endpoint(client), token, used).unwrap();
    }

    /// Retreats as the connection that made the claim.
    fn fail(&self, client: &str, claim: &Claim) {
        self.forget(client, claim.token, claim.state.observed);
    }

    fn retreat(&self, client: &str) {
        let claim = self.claim(client).unwrap();
        self.fail(client, &claim);
    }
}

/// Every call through the interface for many requests at once.
struct InBatches(SqliteStore);

impl InBatches {
    // The second request makes it a transaction that writes.
    fn perform(&self, request: Request) -> Result<Outcome, StoreError> {
        let nobody = endpoint("203.0.113.1");
        let outcomes = self.0.perform(&[request, Request::Release(nobody, ClaimToken(0))])?;
        Ok(outcomes[0])
    }
}

impl PathStateStore for InBatches {
    fn get(&self, endpoint: &RemoteEndpoint) -> Result<Option<PathState>, StoreError> {
        match self.perform(Request::Get(endpoint.clone()))? {
            Outcome::Read(state) => Ok(state),
            other => panic!("{other:?}"),
        }
    }

    fn claim(&self, endpoint: &RemoteEndpoint, rtt: Duration) -> Result<Option<Claim>, StoreError> {
        match self.perform(Request::Claim(endpoint.clone(), rtt))? {
            Outcome::Claimed(claim) => Ok(claim),
            other => panic!("{other:?}"),
        }
    }

    fn claim_own(
        &self,
        endpoint: &RemoteEndpoint,
        own: &PathState,
        rtt: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        match self.perform(Request::ClaimOwn(endpoint.clone(), *own, rtt))? {
            Outcome::Claimed(claim) => Ok(claim),
            other => panic!("{other:?}"),
        }
    }

    fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) -> Result<(), StoreError> {
        self.perform(Request::Record(endpoint.clone(), *observed)).map(drop)
    }

    fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) -> Result<(), StoreError> {
        self.perform(Request::Release(endpoint.clone(), token)).map(drop)
    }

    fn forget(
        &self,
        endpoint: &RemoteEndpoint,
        token: ClaimToken,
        used: SystemTime,
    ) -> Result<(), StoreError> {
        self.perform(Request::Forget(endpoint.clone(), token, used)).map(drop)
    }

    fn flush(&self) -> Result<usize, StoreError> {
        self.0.flush()
    }
}

macro_rules! suite {
    (backends: $backends:tt, rules: $rules:tt) => {
        suite!(@each $backends $rules);
    };
    (@each [$($backend:ident),*] $rules:tt) => {
        $(mod $backend { suite!(@rules $backend $rules); })*
    };
    (@rules $backend:ident [$($rule:ident),* $(,)?]) => {
        $(#[test]
        fn $rule() {
            super::$rule(&super::Bench::$backend());
        })*
    };
}

suite!(
    backends: [memory, sqlite, sqlite_in_batches, redis, redis_cluster],
    rules: [
        unknown_endpoint_has_no_record,
        get_returns_what_was_recorded,
        records_of_subnets_are_separate,
        record_is_claimed_by_one_at_a_time,
        claimed_record_can_be_read,
        release_needs_the_current_token,
        retreat_forgets_the_used_record,
        retreat_forgets_after_its_lease_too,
        retreat_keeps_claims_of_others,
        retreat_forgets_a_renewed_record,
        retreat_keeps_later_observations,
        retreats_during_a_hold_off_count_once,
        retreat_is_remembered_without_a_record,
        claim_is_refused_during_a_hold_off,
        claim_ends_with_its_lease,
        lease_is_measured_in_the_longer_rtt,
        lease_is_not_shortened_by_others,
        claim_has_a_new_token,
        record_keeps_the_claim,
        claim_returns_the_last_record,
        limited_observation_lowers_nothing,
        limited_observation_of_validated_jump_renews,
        renewal_ends_after_four_lifetimes,
        renewal_never_shortens,
        observations_merge_as_path_states_do,
        record_is_ignored_during_a_hold_off,
        hold_offs_double_with_each_retreat,
        validated_jump_ends_consecutive_retreats,
        record_ends_with_its_lifetime,
        expired_record_does_not_merge,
        record_from_the_future_is_not_used,
        flush_forgets_everything,
        stalest_endpoint_is_evicted,
        claim_outlives_an_evicted_record,
        own_state_is_claimed_with_any_record_or_none,
        own_state_and_record_exclude_each_other,
        own_state_ends_with_its_lifetime,
        own_state_before_a_retreat_is_void,
        own_state_before_a_retreat_is_void_for_two_hours,
        flush_makes_own_state_void,
    ]
);

#[test]
fn open_limits_entries_to_its_capacity() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("paths.db");
    let server = RedisServer::start(&[]);
    for name in ["memory:", file.to_str().unwrap(), &server.url()] {
        let store = path_store::open(name, Role::Server, CAPACITY).unwrap();
        for subnet in 0..2 * CAPACITY {
            store.record(&endpoint(&format!("10.0.{subnet}.1")), &state(100)).unwrap();
        }
        assert_eq!(store.flush().unwrap(), CAPACITY, "{name}");
    }
}

fn unknown_endpoint_has_no_record(bench: &Bench) {
    assert_eq!(bench.get(CLIENT), None);
    assert_eq!(bench.claim(CLIENT), None);

    bench.release(CLIENT, ClaimToken(1));
    assert_eq!(bench.store.flush().unwrap(), 0);
}

fn get_returns_what_was_recorded(bench: &Bench) {
    for (limited, validated) in [(false, false), (true, true)] {
        let set = PathState { limited, validated, ..state(u64::MAX) };
        bench.record(CLIENT, set);
        assert_eq!(bench.get(CLIENT), Some(set));
    }
}

fn records_of_subnets_are_separate(bench: &Bench) {
    bench.record("198.51.100.7", state(100));
    bench.record("2001:db8:1::1", state(200));

    let cwnd = |client| bench.get(client).map(|set| set.saved_cwnd);
    assert_eq!(cwnd("198.51.100.250"), Some(100));
    assert_eq!(cwnd("198.51.101.7"), None);
    assert_eq!(cwnd("2001:db8:1:2::3"), Some(200));

    let marked = endpoint("198.51.100.7").with_dscp(46);
    assert_eq!(bench.store.get(&marked).unwrap(), None);
}

fn record_is_claimed_by_one_at_a_time(bench: &Bench) {
    bench.record(CLIENT, state(100));
    bench.record("198.51.101.7", state(200));

    let claim = bench.claim(CLIENT).unwrap();
    assert_eq!(claim.state, state(100));
    assert_eq!(claim.lease, lease(claim.state.saved_rtt, RTT));

    assert_eq!(bench.claim(CLIENT), None);
    assert!(bench.claim("198.51.101.7").is_some());

    bench.release(CLIENT, claim.token);
    assert!(bench.claim(CLIENT).is_some());
}

fn claimed_record_can_be_read(bench: &Bench) {
    bench.record(CLIENT, state(100));
    bench.claim(CLIENT).unwrap();

    assert_eq!(bench.get(CLIENT), Some(state(100)));
}

fn release_needs_the_current_token(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim(CLIENT).unwrap();

    bench.release(CLIENT, ClaimToken(!claim.token.0));
    assert_eq!(bench.claim(CLIENT), None);

    // Another endpoint's claim is not touched by this token.
    bench.record("198.51.101.7", state(100));
    bench.claim("198.51.101.7").unwrap();
    bench.release("198.51.101.7", claim.token);
    assert_eq!(bench.claim("198.51.101.7"), None);
}

// RFC 9959, 3.5.
fn retreat_forgets_the_used_record(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim(CLIENT).unwrap();

    bench.fail(CLIENT, &claim);
    assert_eq!(bench.get(CLIENT), None);
    assert_eq!(bench.claim(CLIENT), None);

    // The claim ended with it.
    bench.advance(hold_off(1));
    bench.record(CLIENT, state(100));
    assert!(bench.claim(CLIENT).is_some());
}

fn retreat_forgets_after_its_lease_too(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim(CLIENT).unwrap();
    bench.advance(claim.lease + LINGER + Duration::from_secs(10));

    bench.fail(CLIENT, &claim);
    assert_eq!(bench.get(CLIENT), None);
    bench.advance(hold_off(1) - MILLISECOND);
    bench.record(CLIENT, state(100));
    assert_eq!(bench.get(CLIENT), None);
    bench.advance(MILLISECOND);
    bench.record(CLIENT, state(100));
    assert!(bench.get(CLIENT).is_some());
}

fn retreat_keeps_claims_of_others(bench: &Bench) {
    let seconds = Duration::from_secs;
    bench.record(CLIENT, PathState { saved_rtt: seconds(2), ..state(100) });
    let lapsed = bench.claim(CLIENT).unwrap();
    bench.advance(lapsed.lease + LINGER);
    let current = bench.claim_at(CLIENT, seconds(20)).unwrap();
    assert_eq!(current.state, lapsed.state);

    bench.fail(CLIENT, &lapsed);
    assert_eq!(bench.get(CLIENT), None);

    // Its lease outlasts the hold-off.
    bench.advance(hold_off(1));
    bench.record(CLIENT, state(100));
    assert_eq!(bench.claim(CLIENT), None);
    bench.release(CLIENT, current.token);
    assert!(bench.claim(CLIENT).is_some());
}

// A renewed record is the used one: its time of observation stays.
fn retreat_forgets_a_renewed_record(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim(CLIENT).unwrap();
    bench.advance(MILLISECOND);
    bench.record(CLIENT, PathState { limited: true, validated: true, ..state(50) });
    assert_eq!(bench.get(CLIENT).map(|set| set.saved_cwnd), Some(100));

    bench.fail(CLIENT, &claim);
    assert_eq!(bench.get(CLIENT), None);
}

fn retreat_keeps_later_observations(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim(CLIENT).unwrap();
    bench.advance(MILLISECOND);
    let newer = state(80);
    bench.record(CLIENT, newer);

    bench.fail(CLIENT, &claim);
    assert_eq!(bench.get(CLIENT), Some(newer));

    // The path is full: nobody claims it during the hold-off, although it is not claimed.
    assert_eq!(bench.claim(CLIENT), None);
    bench.advance(hold_off(1));
    assert_eq!(bench.claim(CLIENT).unwrap().state, newer);
}

// A store's answer may be lost: a repeated request counts once.
fn retreats_during_a_hold_off_count_once(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim(CLIENT).unwrap();
    for _ in 0..3 {
        bench.fail(CLIENT, &claim);
    }

    bench.advance(hold_off(1));
    bench.record(CLIENT, state(100));
    assert!(bench.get(CLIENT).is_some());
    bench.retreat(CLIENT);
    bench.advance(hold_off(2) - MILLISECOND);
    bench.record(CLIENT, state(100));
    assert_eq!(bench.get(CLIENT), None);
}

// The record may have been evicted, or have expired.
fn retreat_is_remembered_without_a_record(bench: &Bench) {
    bench.forget(CLIENT, ClaimToken(1), quiche::clock::wall_now());
    bench.record(CLIENT, state(100));
    assert_eq!(bench.get(CLIENT), None);
    assert_eq!(bench.store.flush().unwrap(), 0);

    // It counts towards the capacity.
    for client in ["10.0.0.1", "10.0.1.1", "10.0.2.1", "10.0.3.1"] {
        bench.record(client, state(100));
    }
    bench.advance(MILLISECOND);
    bench.forget(CLIENT, ClaimToken(1), quiche::clock::wall_now());
    bench.advance(MILLISECOND);
    bench.record("10.0.4.1", state(100));
    assert!(bench.store.flush().unwrap() < CAPACITY);
}

fn claim_is_refused_during_a_hold_off(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let used = quiche::clock::wall_now() - MILLISECOND;
    bench.forget(CLIENT, ClaimToken(1), used);
    assert!(bench.get(CLIENT).is_some());

    bench.advance(hold_off(1) - MILLISECOND);
    assert_eq!(bench.claim(CLIENT), None);
    bench.advance(MILLISECOND);
    assert!(bench.claim(CLIENT).is_some());
}

fn claim_ends_with_its_lease(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let lapsed = bench.claim(CLIENT).unwrap();

    bench.advance(lapsed.lease + LINGER - MILLISECOND);
    assert_eq!(bench.claim(CLIENT), None);

    bench.advance(MILLISECOND);
    let current = bench.claim(CLIENT).unwrap();
    assert_ne!(current.token, lapsed.token);

    // The token of a claim that ended does not release another.
    bench.release(CLIENT, lapsed.token);
    assert_eq!(bench.claim(CLIENT), None);
}

// Up to ten times the saved RTT: beyond it, nobody jumps.
fn lease_is_measured_in_the_longer_rtt(bench: &Bench) {
    let ms = Duration::from_millis;
    for (saved, current, lease) in [
        (50, 0, 1000),
        (50, 100, 1000),
        (50, 450, 3600),
        (50, 500, 4000),
        (50, 5000, 4000),
        (600, 300, 4800),
        (600, 601, 4808),
    ] {
        bench.record(CLIENT, PathState { saved_rtt: ms(saved), ..state(100) });
        let claim = bench.claim_at(CLIENT, ms(current)).unwrap();
        assert_eq!(claim.lease, ms(lease), "{saved} {current}");

        bench.advance(claim.lease + LINGER - MILLISECOND);
        assert_eq!(bench.claim(CLIENT), None, "{saved} {current}");
        bench.advance(MILLISECOND);
    }
}

// Neither by a claim with an RTT of their own, nor by recording a shorter one.
fn lease_is_not_shortened_by_others(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim_at(CLIENT, Duration::from_secs(3)).unwrap();
    assert_eq!(claim.lease, Duration::from_secs(24));

    bench.record(CLIENT, PathState { saved_rtt: RTT, ..state(100) });
    for second in 1..26 {
        bench.advance(Duration::from_secs(1));
        assert_eq!(bench.claim(CLIENT), None, "after {second} s");
    }
    bench.advance(Duration::from_secs(1));
    assert!(bench.claim(CLIENT).is_some());
}

fn claim_has_a_new_token(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let first = bench.claim(CLIENT).unwrap();
    bench.release(CLIENT, first.token);
    let second = bench.claim(CLIENT).unwrap();

    assert_ne!(first.token, second.token);
    bench.release(CLIENT, first.token);
    assert_eq!(bench.claim(CLIENT), None);
}

fn record_keeps_the_claim(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim(CLIENT).unwrap();

    bench.record(CLIENT, state(120));
    assert_eq!(bench.get(CLIENT), Some(state(120)));
    assert_eq!(bench.claim(CLIENT), None);

    bench.release(CLIENT, claim.token);
    assert!(bench.claim(CLIENT).is_some());
}

fn claim_returns_the_last_record(bench: &Bench) {
    bench.record(CLIENT, state(100));
    bench.record(CLIENT, state(50));

    assert_eq!(bench.claim(CLIENT).unwrap().state, state(50));
}

fn limited_observation_lowers_nothing(bench: &Bench) {
    let held = state(100);
    bench.record(CLIENT, held);
    bench.advance(Duration::from_secs(60));

    bench.record(CLIENT, PathState { limited: true, ..state(50) });
    assert_eq!(bench.get(CLIENT), Some(held));

    let larger = PathState { limited: true, ..state(150) };
    bench.record(CLIENT, larger);
    assert_eq!(bench.get(CLIENT), Some(larger));
}

fn limited_observation_of_validated_jump_renews(bench: &Bench) {
    let held = state(100);
    bench.record(CLIENT, held);
    bench.advance(Duration::from_secs(60));

    // saved_cwnd keeps the RTT at which it was observed.
    let saved_rtt = Duration::from_millis(400);
    let observed = PathState { saved_rtt, limited: true, validated: true, ..state(50) };
    bench.record(CLIENT, observed);
    let kept = PathState { expires: observed.expires, validated: true, ..held };
    assert_eq!(bench.get(CLIENT), Some(kept));
}

// A window that was not observed again in four lifetimes is unknown.
fn renewal_ends_after_four_lifetimes(bench: &Bench) {
    let held = PathState { limited: true, ..state(100) };
    bench.record(CLIENT, held);
    let renew = || {
        bench.record(CLIENT, PathState { limited: true, validated: true, ..state(50) });
        bench.get(CLIENT).unwrap()
    };

    for _ in 0..5 {
        bench.advance(HOUR * 3 / 4);
        let renewed = renew();
        let expires = (quiche::clock::wall_now() + HOUR).min(held.observed + HOUR * 4);
        assert_eq!(renewed, PathState { expires, validated: true, ..held });
    }
    bench.advance(HOUR / 4 - MILLISECOND);
    assert_eq!(renew().saved_cwnd, 100);
    bench.advance(MILLISECOND);
    assert_eq!(bench.get(CLIENT), None);
    assert_eq!(renew().saved_cwnd, 50);
}

// Servers may have different Lifetimes.
fn renewal_never_shortens(bench: &Bench) {
    let held = state(100);
    bench.record(CLIENT, held);
    bench.advance(MILLISECOND);

    let now = quiche::clock::wall_now();
    let expires = now + HOUR / 2;
    bench.record(CLIENT, PathState { expires, limited: true, validated: true, ..state(50) });
    assert_eq!(bench.get(CLIENT), Some(PathState { validated: true, ..held }));
}

// Random sequences, because each backend implements the rule itself.
fn observations_merge_as_path_states_do(bench: &Bench) {
    let mut random = Random(1);
    let mut below = |n: u64| random.below(n);
    let mut held = None;

    for _ in 0..300 {
        bench.advance(Duration::from_secs(60 * below(50)));
        let now = quiche::clock::wall_now();
        let observed = PathState {
            saved_cwnd: [
                u64::MAX - below(20),
                1 + below(40),
                (1 + below(40)) << 32,
                below(40) << 58,
            ][below(4) as usize]
                .saturating_add(below(3)),
            saved_rtt: Duration::from_millis(1 + below(200)),
            expires: now + HOUR / (1 + below(2) as u32),
            limited: below(4) > 0,
            validated: below(2) > 0,
            ..state(0)
        };
        bench.record(CLIENT, observed);
        held = Some(PathState::merged(held, observed, now));
        assert_eq!(bench.get(CLIENT), held, "after {observed:?}");
    }
}

fn record_is_ignored_during_a_hold_off(bench: &Bench) {
    bench.record(CLIENT, state(100));
    bench.retreat(CLIENT);

    for _ in 0..2 {
        bench.record(CLIENT, state(100));
        bench.record(CLIENT, PathState { validated: true, ..state(100) });
        assert_eq!(bench.get(CLIENT), None);
        bench.advance(hold_off(1) / 2);
    }

    bench.record(CLIENT, state(100));
    assert_eq!(bench.get(CLIENT), Some(state(100)));

    // Neighbours are not held off.
    bench.retreat(CLIENT);
    bench.record("198.51.101.7", state(100));
    assert!(bench.get("198.51.101.7").is_some());
}

fn hold_offs_double_with_each_retreat(bench: &Bench) {
    for retreats in 1..=9 {
        bench.record(CLIENT, state(100));
        bench.retreat(CLIENT);

        bench.advance(hold_off(retreats) - MILLISECOND);
        bench.record(CLIENT, state(100));
        assert_eq!(bench.get(CLIENT), None, "after {retreats} retreats");

        bench.advance(MILLISECOND);
    }
}

fn validated_jump_ends_consecutive_retreats(bench: &Bench) {
    for _ in 0..2 {
        for retreats in 1..=2 {
            bench.record(CLIENT, state(100));
            bench.retreat(CLIENT);
            bench.advance(hold_off(retreats));
        }
        bench.record(CLIENT, PathState { validated: true, ..state(100) });
    }
}

fn record_ends_with_its_lifetime(bench: &Bench) {
    bench.record(CLIENT, state(100));

    bench.advance(HOUR - MILLISECOND);
    assert!(bench.get(CLIENT).is_some());

    bench.advance(MILLISECOND);
    assert_eq!(bench.get(CLIENT), None);
    assert_eq!(bench.claim(CLIENT), None);
    assert_eq!(bench.store.flush().unwrap(), 0);
}

fn expired_record_does_not_merge(bench: &Bench) {
    bench.record(CLIENT, state(100));
    bench.advance(HOUR);

    let observed = PathState { limited: true, ..state(50) };
    bench.record(CLIENT, observed);
    assert_eq!(bench.get(CLIENT), Some(observed));
}

fn record_from_the_future_is_not_used(bench: &Bench) {
    let now = quiche::clock::wall_now();
    let day = HOUR * 24;
    let future = PathState { observed: now + day, expires: now + day + HOUR, ..state(100) };

    bench.record(CLIENT, future);
    assert_eq!(bench.get(CLIENT), None);
    assert_eq!(bench.claim(CLIENT), None);
}

fn flush_forgets_everything(bench: &Bench) {
    bench.record("198.51.100.7", state(100));
    bench.record("198.51.101.7", state(100));
    let claim = bench.claim("198.51.100.7").unwrap();
    bench.retreat("198.51.101.7");

    assert_eq!(bench.store.flush().unwrap(), 1);
    assert_eq!(bench.get("198.51.100.7"), None);
    assert_eq!(bench.store.flush().unwrap(), 0);

    // Claims and hold-offs are gone too.
    bench.release("198.51.100.7", claim.token);
    for client in ["198.51.100.7", "198.51.101.7"] {
        bench.record(client, state(100));
        assert!(bench.claim(client).is_some());
    }
}

fn claim_outlives_an_evicted_record(bench: &Bench) {
    bench.record(CLIENT, state(100));
    let claim = bench.claim(CLIENT).unwrap();
    for client in ["10.0.0.1", "10.0.1.1", "10.0.2.1"] {
        bench.advance(MILLISECOND);
        bench.record(client, state(100));
    }

    // There is no second holder, even with a new record.
    bench.record(CLIENT, state(100));
    assert_eq!(bench.claim(CLIENT), None);
    bench.release(CLIENT, claim.token);
    assert!(bench.claim(CLIENT).is_some());
}

fn own_state_is_claimed_with_any_record_or_none(bench: &Bench) {
    let own = state(100);
    for record in [None, Some(state(200))] {
        if let Some(record) = record {
            bench.record(CLIENT, record);
        }
        let claim = bench.claim_own(CLIENT, &own).unwrap();
        assert_eq!((claim.state, claim.lease), (own, lease(own.saved_rtt, RTT)));
        bench.release(CLIENT, claim.token);
        assert_eq!(bench.get(CLIENT), record);
    }
}

fn own_state_and_record_exclude_each_other(bench: &Bench) {
    bench.record(CLIENT, state(200));
    let claim = bench.claim_own(CLIENT, &state(100)).unwrap();
    assert_eq!(bench.claim(CLIENT), None);
    assert_eq!(bench.claim_own(CLIENT, &state(100)), None);
    bench.advance(claim.lease + LINGER - MILLISECOND);
    assert_eq!(bench.claim(CLIENT), None);
    bench.advance(MILLISECOND);
    assert!(bench.claim(CLIENT).is_some());
    assert_eq!(bench.claim_own(CLIENT, &state(100)), None);
    assert!(bench.claim_own("203.0.113.9", &state(100)).is_some());
}

fn own_state_ends_with_its_lifetime(bench: &Bench) {
    let own = state(100);
    bench.advance(HOUR - MILLISECOND);
    let claim = bench.claim_own(CLIENT, &own).unwrap();
    bench.release(CLIENT, claim.token);
    bench.advance(MILLISECOND);
    assert_eq!(bench.claim_own(CLIENT, &own), None);
}

fn own_state_before_a_retreat_is_void(bench: &Bench) {
    let own = state(100);
    bench.advance(MILLISECOND);
    let claim = bench.claim_own(CLIENT, &own).unwrap();
    let other = state(100);
    bench.fail(CLIENT, &claim);
    assert_eq!(bench.claim_own(CLIENT, &own), None);
    bench.advance(MILLISECOND);
    let later = state(100);
    assert_eq!(bench.claim_own(CLIENT, &later), None, "the hold-off");
    bench.advance(hold_off(1));
    for void in [own, other] {
        assert_eq!(bench.claim_own(CLIENT, &void), None);
    }
    assert!(bench.claim_own(CLIENT, &later).is_some());
    assert!(bench.claim_own("203.0.113.9", &own).is_some(), "of another endpoint");
}

// Whatever is recorded meanwhile, and whatever Lifetime the client's server has.
fn own_state_before_a_retreat_is_void_for_two_hours(bench: &Bench) {
    let own = PathState { expires: state(1).observed + 9 * HOUR, ..state(100) };
    let claim = bench.claim_own(CLIENT, &own).unwrap();
    bench.fail(CLIENT, &claim);
    bench.advance(hold_off(1));
    bench.record(CLIENT, PathState { validated: true, ..state(100) });
    bench.advance(RETREAT_KNOWN - hold_off(1) - MILLISECOND);
    bench.record(CLIENT, PathState { validated: true, ..state(100) });
    assert_eq!(bench.claim_own(CLIENT, &own), None);
}

fn flush_makes_own_state_void(bench: &Bench) {
    let own = state(100);
    bench.record(CLIENT, own);
    bench.store.flush().unwrap();
    bench.advance(MILLISECOND);
    for client in [CLIENT, "203.0.113.9"] {
        assert_eq!(bench.claim_own(client, &own), None);
        assert!(bench.claim_own(client, &state(100)).is_some());
    }
}

fn stalest_endpoint_is_evicted(bench: &Bench) {
    let clients = ["10.0.0.1", "10.0.1.1", "10.0.2.1", "10.0.0.1", "10.0.3.1", "10.0.4.1"];
    for client in clients {
        bench.advance(MILLISECOND);
        bench.record(client, state(100));
    }

    for (client, kept) in [
        ("10.0.0.1", true),
        ("10.0.1.1", false),
        ("10.0.2.1", false),
        ("10.0.3.1", true),
        ("10.0.4.1", true),
    ] {
        assert_eq!(bench.get(client).is_some(), kept, "{client}");
    }
    assert_eq!(bench.store.flush().unwrap(), CAPACITY);
}
