//! Hostile clients of a subnet: what each can make the server believe, what its
//! neighbours see of that, and where the metrics say so. How much time it costs the
//! neighbours is measured by `hostile`, in simulated time.

use std::net::SocketAddr;

use crate::support::client::Client;
use crate::support::lab::emulate;
use crate::support::lab::fetch;
use crate::support::lab::Lab;
use crate::support::lab::Planted;
use crate::support::metrics;
use crate::support::process::Running;
use quiche::path_state::PathState;

/// A path that holds 250 kB, and the set that says so.
const PATH: &str = "--rate 20 --rtt 100 --buffer 250000";
const SET: Planted = Planted::new(250_000, 100);
const OBJECT_BYTES: u64 = 600_000;

const PROTOCOL_VIOLATION: u64 = 0xa;

const JUMPS: &str = "edge_server_resume_phases_total{phase=\"unvalidated\"";
const RETREATS: &str = "edge_server_resume_phases_total{phase=\"safe_retreat\"";
const LOSSES: &str =
    "edge_server_resume_phases_total{phase=\"safe_retreat\",trigger=\"packet_loss\"}";
const OTHER_PATHS: &str =
    "edge_server_resume_phases_total{phase=\"normal\",trigger=\"rtt_not_validated\"}";
const NORMAL: &str = "edge_server_resume_phases_total{phase=\"normal\"";
const FORGETS: &str = "path_store_forgets_total";

/// A server whose clients are all of one subnet.
struct Subnet {
    lab: Lab,
    _server: Running,
    address: SocketAddr,
    metrics: SocketAddr,
}

impl Subnet {
    fn new() -> Self {
        let lab = Lab::new();
        let (mut server, address) = lab.serve("run", &["--metrics", "127.0.0.1:0"]);
        let metrics = server.metrics_address();
        Self { lab, _server: server, address, metrics }
    }

    /// A whole download over a path.
    fn download(&self, path: &str, bytes: u64) {
        let mut emulator = emulate(self.address, path);
        let (status, said) = fetch(emulator.address(), bytes).end();
        assert!(status.success(), "{said:?}");
    }

    /// What a download made the server believe.
    fn learnt(&self) -> PathState {
        metrics::wait_until(self.metrics, "path_store_records_total", |records| records > 0);
        let held = self.lab.held().expect("a set");
        println!("the store believes {} B, {:?}", held.saved_cwnd, held.saved_rtt);
        held
    }

    /// Tries until a jump has failed: on a busy machine a fast link is not as fast, and
    /// a claim comes too late, or lapses.
    fn retreat_once(&self, attempt: impl Fn()) {
        for _ in 0..10 {
            attempt();
            metrics::wait_until(self.metrics, "edge_server_connections_open", |open| open == 0);
            if self.count(RETREATS) > 0 {
                break;
            }
        }
        self.wait_for(LOSSES, 1);
        self.wait_for(FORGETS, 1);
    }

    /// A download that Careful Resume leaves to slow start, whatever that ends with.
    fn download_without_jump(&self, path: &str, bytes: u64) {
        let jumps = (self.count(JUMPS), self.count(RETREATS));
        let before = self.count(NORMAL);
        self.download(path, bytes);
        self.wait_for(NORMAL, before + 1);
        assert_eq!((self.count(JUMPS), self.count(RETREATS)), jumps);
    }

    fn count(&self, name: &str) -> u64 {
        metrics::read(self.metrics, name)
    }

    /// Waits until that count is reached, and no more than that.
    fn wait_for(&self, name: &str, count: u64) {
        let reached = metrics::wait_until(self.metrics, name, |reached| reached >= count);
        assert_eq!(reached, count, "{name}");
    }
}

// RFC 9000, 21.4: the connection ends, and what it seemed to carry is not kept.
#[test]
fn who_acknowledges_what_it_has_not_received_is_found_out() {
    // Of packets that are under way, one number was skipped; others were never sent.
    for ahead in [5, 1_000_000] {
        for planted in [false, true] {
            let subnet = Subnet::new();
            if planted {
                subnet.lab.plant(SET);
            }
            let before = subnet.lab.held();
            let mut emulator = emulate(subnet.address, PATH);
            let mut forger = Client::connect(emulator.address());
            forger.request("GET", "/bytes/50000000");
            assert_eq!(forger.acknowledge_ahead(ahead), PROTOCOL_VIOLATION, "{ahead}");
            metrics::wait_until(subnet.metrics, "edge_server_connections_open", |open| open == 0);

            // At most it made its own jump fail.
            let (held, retreats) = (subnet.lab.held(), subnet.count(RETREATS));
            println!("acknowledges {ahead} ahead, {retreats} retreats: {held:?}");
            assert_eq!(held, before.filter(|_| retreats == 0), "{ahead}");
            subnet.download(PATH, OBJECT_BYTES);
            assert_eq!(subnet.count(RETREATS), retreats, "{ahead}");
        }
    }
}

// RFC 9959, 3.2: an RTT of less than half the saved one is another path.
#[test]
fn who_delays_its_acknowledgements_costs_the_next_its_jump_and_no_more() {
    let subnet = Subnet::new();
    subnet.download("--rate 20 --rtt 1000 --buffer 2500000", 2_000_000);
    assert!(subnet.learnt().saved_rtt.as_millis() >= 1000);

    subnet.download(PATH, OBJECT_BYTES);
    subnet.wait_for(OTHER_PATHS, 1);
    assert_eq!((subnet.count(JUMPS), subnet.count(RETREATS)), (0, 0));
}

// RFC 9959, 3.5: the first jump fails and has the set forgotten; then it is held off.
#[test]
fn a_neighbour_on_a_link_25_times_faster_makes_one_download_retreat() {
    let slow = "--rate 2 --rtt 40 --buffer 20000";
    let subnet = Subnet::new();
    subnet.retreat_once(|| {
        subnet.download("--rate 50 --rtt 40 --buffer 250000", 6_000_000);
        subnet.learnt();
        subnet.download(slow, 300_000);
    });
    assert_eq!(subnet.lab.held(), None);
    for _ in 0..2 {
        subnet.download_without_jump(slow, 100_000);
    }
}

#[test]
fn who_makes_its_own_jump_fail_leaves_the_others_without_a_set() {
    let subnet = Subnet::new();
    subnet.retreat_once(|| {
        subnet.lab.plant(SET);
        subnet.download(&format!("{PATH} --drop down:50-54"), OBJECT_BYTES);
    });
    subnet.download_without_jump(PATH, OBJECT_BYTES);
}
