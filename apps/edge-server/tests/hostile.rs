//! Clients of one subnet of which one means harm: what it can make the store say
//! costs the others next to nothing.
//!
//! Method: honest downloads follow each other, half a minute apart, in simulated time
//! over a path of 50 Mbit/s and 100 ms; before each of them the hostile neighbour
//! does its worst to the subnet's set in a store, as far as the store lets it. The
//! honest connection resumes from what the store then holds, and records, releases
//! or forgets as the server does.
//!
//! `process` has the ways by which clients have that saved, and the server's metrics.
//!
//! Passes when at most one honest download in a hold-off retreats, and no other
//! takes longer than 1.05 times what it takes with Careful Resume off.

use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;
use std::time::UNIX_EPOCH;

use quiche::clock::Simulation;
use quiche::path_state::hold_off;
use quiche::path_state::Claim;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use sim::outcome::FlowOutcome;
use sim::scenario::Flow;
use sim::scenario::Mode;
use sim::scenario::Saved;
use sim::scenario::Scenario;

const RATE_MBPS: f64 = 50.0;
const RTT: Duration = Duration::from_millis(100);
const BDP_BYTES: u64 = 625_000;

/// Downloads in half an hour, and the time between two.
const DOWNLOADS: u32 = 60;
const INTERVAL: Duration = Duration::from_secs(30);

const HOUR: Duration = Duration::from_secs(3600);
const WALL_START: Duration = Duration::from_secs(1_000_000);
const SLOWER_MAX: f64 = 1.05;

/// What the neighbour does to the set.
#[derive(Clone, Copy, Debug)]
enum Hostile {
    /// Its link is 25 times faster, or it acknowledges what it has not received:
    /// either way so much is saved. `validated`: it even made a jump.
    Inflates { validated: bool },

    /// It delays acknowledgements, so that an RTT many times too long is saved.
    Delays { times: u32 },

    /// It claims the set and makes its own jump fail.
    Retreats,
}

/// A subnet's set in a store, whose clock the test moves.
struct Subnet {
    store: MemoryStore,
    here: RemoteEndpoint,
    begun: Instant,
}

impl Subnet {
    fn new() -> Self {
        let here = RemoteEndpoint::new("s", [198, 51, 100, 7].into(), Default::default());
        Subnet { store: MemoryStore::new(10), here, begun: quiche::clock::now() }
    }

    /// Does something at a time. A simulation starts at the real time: what has
    /// passed of that since the beginning is not to count, however slow the machine.
    fn at<T>(&self, elapsed: Duration, work: impl FnOnce(&Self) -> T) -> T {
        let time = Simulation::start(1, WALL_START);
        let passed = quiche::clock::now() - self.begun;
        time.advance_to(HOUR + elapsed - passed);
        work(self)
    }

    fn record(&self, elapsed: Duration, saved_cwnd: u64, saved_rtt: Duration, validated: bool) {
        let observed = UNIX_EPOCH + WALL_START + HOUR + elapsed;
        let expires = observed + HOUR;
        let state =
            PathState { saved_cwnd, saved_rtt, observed, expires, limited: false, validated };
        self.at(elapsed, |subnet| subnet.store.record(&subnet.here, &state).unwrap());
    }

    fn claim(&self, elapsed: Duration) -> Option<Claim> {
        self.at(elapsed, |subnet| subnet.store.claim(&subnet.here, RTT).unwrap())
    }

    fn retreat(&self, elapsed: Duration, claim: &Claim) {
        let used = claim.state.observed;
        self.at(elapsed, |subnet| subnet.store.forget(&subnet.here, claim.token, used).unwrap());
    }

    fn release(&self, elapsed: Duration, claim: &Claim) {
        self.at(elapsed, |subnet| subnet.store.release(&subnet.here, claim.token).unwrap());
    }
}

impl Hostile {
    fn act(self, subnet: &Subnet, elapsed: Duration) {
        match self {
            Self::Inflates { validated } => subnet.record(elapsed, 25 * BDP_BYTES, RTT, validated),
            Self::Delays { times } => subnet.record(elapsed, BDP_BYTES, RTT * times, false),
            Self::Retreats => {
                subnet.record(elapsed, BDP_BYTES, RTT, false);
                if let Some(claim) = subnet.claim(elapsed) {
                    subnet.retreat(elapsed, &claim);
                }
            }
        }
    }
}

/// Downloads that were simulated before: the same gives the same.
#[derive(Default)]
struct Known(HashMap<(Option<(u64, Duration)>, u64), FlowOutcome>);

impl Known {
    fn download(&mut self, set: Option<&PathState>, seed: u64) -> FlowOutcome {
        let key = (set.map(|set| (set.saved_cwnd, set.saved_rtt)), seed);
        self.0.entry(key).or_insert_with(|| download(set, seed)).clone()
    }
}

/// One honest download, from a set or with Careful Resume off.
fn download(set: Option<&PathState>, seed: u64) -> FlowOutcome {
    let mut flow = Flow { object_bytes: Some(6 * BDP_BYTES), ..flow() };
    if let Some(set) = set {
        flow.mode = Mode::CarefulResume;
        flow.saved = Saved {
            cwnd_bdp: set.saved_cwnd as f64 / BDP_BYTES as f64,
            rtt_ratio: set.saved_rtt.as_secs_f64() / RTT.as_secs_f64(),
            age_s: 60.0,
            cold: false,
        };
    }
    let path = serde_json::json!({ "rate_mbps": RATE_MBPS, "rtt_ms": 100.0 });
    let scenario = Scenario {
        path: serde_json::from_value(path).unwrap(),
        flows: vec![flow],
        deadline_s: 600.0,
    };
    sim::world::run(&scenario, seed).unwrap().flows.remove(0)
}

fn flow() -> Flow {
    serde_json::from_value(serde_json::json!({})).unwrap()
}

/// What came of half an hour.
#[derive(Default)]
struct HalfHour {
    /// When downloads retreated, and the most that one of these took, of what it takes
    /// with Careful Resume off.
    retreats: Vec<Duration>,
    slower_retreating: f64,

    /// The most that any other took.
    slower: f64,
}

/// Half an hour of honest downloads beside a neighbour.
fn live_beside(hostile: Hostile) -> HalfHour {
    let subnet = Subnet::new();
    let mut known = Known::default();
    let mut result = HalfHour::default();

    for n in 0..DOWNLOADS {
        let now = INTERVAL * n;
        let done = now + Duration::from_millis(500);
        hostile.act(&subnet, now);
        // While the set is gone, a connection starts as if there were no store.
        let Some(claim) = subnet.claim(now) else {
            result.slower = result.slower.max(1.0);
            continue;
        };
        let seed = u64::from(n % 2);
        let outcome = known.download(Some(&claim.state), seed);
        let slow_start = known.download(None, seed);

        let slower = outcome.ttlb_ms / slow_start.ttlb_ms;
        if outcome.phases.iter().any(|(_, phase, _)| phase == "safe_retreat") {
            subnet.retreat(done, &claim);
            result.retreats.push(now);
            result.slower_retreating = result.slower_retreating.max(slower);
            continue;
        }
        result.slower = result.slower.max(slower);
        assert!(slower <= SLOWER_MAX, "{hostile:?}, {n}: {slower}: {:?}", outcome.phases);
        if let Some(observed) = outcome.observed_cwnd_bytes {
            subnet.record(done, observed, RTT, outcome.jump_cwnd_bytes.is_some());
        }
        subnet.release(done, &claim);
    }

    result
}

#[test]
fn a_hostile_neighbour_makes_one_honest_download_in_a_hold_off_retreat() {
    for hostile in [
        Hostile::Inflates { validated: false },
        Hostile::Inflates { validated: true },
        Hostile::Delays { times: 3 },
        Hostile::Delays { times: 30 },
        Hostile::Retreats,
    ] {
        let HalfHour { retreats, slower_retreating, slower } = live_beside(hostile);
        println!(
            "{hostile:?}: {} of {DOWNLOADS} downloads retreat; these take up to \
             {slower_retreating:.2} times what slow start takes, the others {slower:.2}",
            retreats.len()
        );
        for (n, pair) in (1..).zip(retreats.windows(2)) {
            // Whoever pretends that its jumps succeed makes each hold-off the first.
            let least = match hostile {
                Hostile::Inflates { validated: true } => hold_off(1),
                _ => hold_off(n),
            };
            assert!(pair[1] - pair[0] >= least, "{hostile:?}: {retreats:?}");
        }
        match hostile {
            Hostile::Inflates { .. } => assert!(!retreats.is_empty()),
            _ => assert!(retreats.is_empty(), "{hostile:?}: {retreats:?}"),
        }
    }
}
