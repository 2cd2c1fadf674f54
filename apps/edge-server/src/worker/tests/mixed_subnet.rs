//! One subnet whose clients have links of 10 and of 100 Mbit/s: what Careful Resume costs the slow
//! ones, by where path state is kept.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::client::ResumptionData;
use super::harness::Lab;
use super::own_state::Random;
use super::path::Path;

const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Clients of each kind.
const CLIENTS: usize = 4;
const VISITS: usize = 150;
const SEEDS: u64 = 2;

/// 62 kB and 625 kB hold the paths.
const ROUND_TRIP_MS: u64 = 50;
const OBJECT_BYTES: u64 = 1_000_000;

/// Share of the store's losses that both may have.
const SHARE_MAX: f64 = 0.2;

/// What slow clients lost, in packets, and how many connections of all jumped and retreated.
#[derive(Debug, Default)]
struct Cost {
    lost: usize,
    jumps: u64,
    retreats: u64,
}

fn is_slow(client: usize) -> bool {
    client < CLIENTS
}

fn path(client: usize) -> Path {
    match is_slow(client) {
        true => Path::new(10.0, ROUND_TRIP_MS, 62_500),
        false => Path::new(100.0, ROUND_TRIP_MS, 625_000),
    }
}

fn address(client: usize) -> IpAddr {
    Ipv4Addr::new(198, 51, 100, 1 + client as u8).into()
}

/// Clients come back in a random order, after up to two minutes each.
fn cost(state: &str, seed: u64) -> Cost {
    let lab = Lab::with_seed(seed);
    lab.write("secrets", SECRET);
    let server = lab.serve(&["--speedtest", "--secrets", "DIR/secrets", "--state", state]);
    let mut random = Random(seed);
    let mut tokens: BTreeMap<usize, ResumptionData> = BTreeMap::new();
    let mut lost = 0;
    for _ in 0..VISITS {
        let client = random.below(2 * CLIENTS);
        let memory = tokens.remove(&client).unwrap_or_default();
        let builder = server.client().from(address(client)).over(&path(client));
        let mut visit = builder.with(&ResumptionData { session: None, ..memory }).connect();
        let body = visit.get(&format!("/bytes/{OBJECT_BYTES}")).body;
        assert_eq!(body.len() as u64, OBJECT_BYTES);
        tokens.insert(client, visit.resumption_data());
        visit.close();
        if is_slow(client) {
            lost += visit.datagrams().1.iter().filter(|datagram| !datagram.arrives).count();
        }
        lab.advance(Duration::from_secs(random.below(120) as u64));
    }
    Cost {
        lost,
        jumps: server.metric("edge_server_resume_jumps_taken_total"),
        retreats: server.metric("edge_server_resume_phases_total{phase=\"safe_retreat\""),
    }
}

fn costs(state: &str) -> Cost {
    (1..=SEEDS).map(|seed| cost(state, seed)).fold(Cost::default(), |sum, one| Cost {
        lost: sum.lost + one.lost,
        jumps: sum.jumps + one.jumps,
        retreats: sum.retreats + one.retreats,
    })
}

#[test]
fn own_state_spares_slow_clients_their_neighbours_capacity() {
    let [store, both, token] = ["store", "both", "token"].map(costs);
    println!("store {store:?}, both {both:?}, token {token:?}");
    for own in [&both, &token] {
        let share = own.lost as f64 / store.lost as f64;
        assert!(share <= SHARE_MAX, "{share}: {own:?}, {store:?}");
        assert!(own.jumps >= store.jumps, "{own:?}, {store:?}");
    }
}
