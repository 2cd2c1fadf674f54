//! Hostile neighbour in a subnet: what it causes to be saved costs other clients next to nothing.
//!
//! Method: honest downloads follow each other at intervals of half a minute, in simulated time over
//! a path of 50 Mbit/s and 100 ms. Before each of them the hostile neighbour manipulates the
//! subnet's path state in a store. The honest connection resumes from the stored state, and
//! records, releases or forgets as the server does.
//!
//! The `process` tests cover how clients cause such records, and the server's metrics.
//!
//! Passes if at most one honest download in each hold-off retreats, and no other takes longer than
//! 1.05 times what it takes with Careful Resume off.

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

/// Downloads in half an hour, and their interval.
const DOWNLOADS: u32 = 60;
const INTERVAL: Duration = Duration::from_secs(30);

const HOUR: Duration = Duration::from_secs(3600);
const WALL_START: Duration = Duration::from_secs(1_000_000);
const SLOWDOWN_MAX: f64 = 1.05;

/// Action of the neighbour on the path state.
#[derive(Clone, Copy, Debug)]
enum Hostile {
    /// A link that is 25 times faster, or acknowledgements of data not received, inflate the saved
    /// capacity. `validated`: after a jump.
    Inflates { validated: bool },

    /// Delayed acknowledgements inflate the saved RTT.
    Delays { times: u32 },

    /// The neighbour claims the path state and lets its own jump fail.
    Retreats,
}

/// Path state of a subnet in a store with a simulated clock.
struct SubnetStore {
    store: MemoryStore,
    here: RemoteEndpoint,
    started: Instant,
}

impl SubnetStore {
    fn new() -> Self {
        let here = RemoteEndpoint::new("s", [198, 51, 100, 7].into(), Default::default());
        SubnetStore { store: MemoryStore::new(10), here, started: quiche::clock::now() }
    }

    /// Runs `work` at a simulated time. A simulation starts at the real time, so that the real time
    /// since the start is subtracted.
    fn at<T>(&self, elapsed: Duration, work: impl FnOnce(&Self) -> T) -> T {
        let time = Simulation::start(1, WALL_START);
        let passed = quiche::clock::now() - self.started;
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
    fn act(self, subnet: &SubnetStore, elapsed: Duration) {
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

/// Cache of simulated downloads.
#[derive(Default)]
struct SimulatedDownloads(HashMap<(Option<(u64, Duration)>, u64), FlowOutcome>);

impl SimulatedDownloads {
    fn download(&mut self, saved: Option<&PathState>, seed: u64) -> FlowOutcome {
        let key = (saved.map(|saved| (saved.saved_cwnd, saved.saved_rtt)), seed);
        self.0.entry(key).or_insert_with(|| download(saved, seed)).clone()
    }
}

/// Simulates an honest download, with saved parameters or with Careful Resume off.
fn download(saved: Option<&PathState>, seed: u64) -> FlowOutcome {
    let mut flow = Flow { object_bytes: Some(6 * BDP_BYTES), ..flow() };
    if let Some(saved) = saved {
        flow.mode = Mode::CarefulResume;
        flow.saved = Saved {
            cwnd_bdp: saved.saved_cwnd as f64 / BDP_BYTES as f64,
            rtt_ratio: saved.saved_rtt.as_secs_f64() / RTT.as_secs_f64(),
            age_s: 60.0,
            cold: false,
        };
    }
    let path = serde_json::json!({ "rate_mbps": RATE_MBPS, "rtt_ms": 100.0 });
    let scenario = Scenario {
        path: serde_json::from_value(path).unwrap(),
        flows: vec![flow],
        visit_pause_s: None,
        deadline_s: 600.0,
    };
    sim::world::run(&scenario, seed).unwrap().flows.remove(0)
}

fn flow() -> Flow {
    serde_json::from_value(serde_json::json!({})).unwrap()
}

/// Results of half an hour.
#[derive(Default)]
struct HalfHour {
    /// Times of downloads that retreated.
    retreats: Vec<Duration>,

    /// Largest slowdown of a download that retreated, relative to Careful Resume off.
    slowdown_retreating: f64,

    /// Largest slowdown of any other download.
    slowdown: f64,
}

/// Simulates half an hour of honest downloads beside a hostile neighbour.
fn download_beside(hostile: Hostile) -> HalfHour {
    let subnet = SubnetStore::new();
    let mut cache = SimulatedDownloads::default();
    let mut result = HalfHour::default();

    for n in 0..DOWNLOADS {
        let now = INTERVAL * n;
        let done = now + Duration::from_millis(500);
        hostile.act(&subnet, now);
        // Without saved parameters, a connection starts as if there were no store.
        let Some(claim) = subnet.claim(now) else {
            result.slowdown = result.slowdown.max(1.0);
            continue;
        };
        let seed = u64::from(n % 2);
        let outcome = cache.download(Some(&claim.state), seed);
        let slow_start = cache.download(None, seed);

        let slowdown = outcome.ttlb_ms / slow_start.ttlb_ms;
        if outcome.phases.iter().any(|(_, phase, _)| phase == "safe_retreat") {
            subnet.retreat(done, &claim);
            result.retreats.push(now);
            result.slowdown_retreating = result.slowdown_retreating.max(slowdown);
            continue;
        }
        result.slowdown = result.slowdown.max(slowdown);
        assert!(slowdown <= SLOWDOWN_MAX, "{hostile:?}, {n}: {slowdown}: {:?}", outcome.phases);
        if let Some(observed) = outcome.observed_cwnd_bytes {
            subnet.record(done, observed, RTT, outcome.jump_cwnd_bytes.is_some());
        }
        subnet.release(done, &claim);
    }

    result
}

#[test]
fn hostile_neighbour_costs_one_retreat_per_hold_off() {
    for hostile in [
        Hostile::Inflates { validated: false },
        Hostile::Inflates { validated: true },
        Hostile::Delays { times: 3 },
        Hostile::Delays { times: 30 },
        Hostile::Retreats,
    ] {
        let HalfHour { retreats, slowdown_retreating, slowdown } = download_beside(hostile);
        println!(
            "{hostile:?}: {} of {DOWNLOADS} downloads retreat; these take up to \
             {slowdown_retreating:.2} times what slow start takes, the others {slowdown:.2}",
            retreats.len()
        );
        for (n, pair) in (1..).zip(retreats.windows(2)) {
            // A validated observation resets the hold-off.
            let hold_off_min = match hostile {
                Hostile::Inflates { validated: true } => hold_off(1),
                _ => hold_off(n),
            };
            assert!(pair[1] - pair[0] >= hold_off_min, "{hostile:?}: {retreats:?}");
        }
        match hostile {
            Hostile::Inflates { .. } => assert!(!retreats.is_empty()),
            _ => assert!(retreats.is_empty(), "{hostile:?}: {retreats:?}"),
        }
    }
}
