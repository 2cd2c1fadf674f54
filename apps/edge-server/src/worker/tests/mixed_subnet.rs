//! One subnet whose clients have links of 10 and of 100 Mbit/s: what Careful Resume costs the slow
//! ones, by where path state is kept.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::time::Duration;

use ab_test::Interval;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use super::client::ResumptionData;
use super::harness::below;
use super::harness::Lab;
use super::path::Path;

const SECRET: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Clients of each kind.
const CLIENTS: usize = 4;
const VISITS: usize = 150;
const SEEDS: u64 = 20;
const RESAMPLES: usize = 2000;

/// 62 kB and 625 kB hold the paths.
const ROUND_TRIP_MS: u64 = 50;
const OBJECT_BYTES: u64 = 1_000_000;

/// Share of the store's losses that clients with state of their own may have.
const SHARE_MAX: f64 = 0.2;

/// What slow clients lost, in packets, and how many connections of all jumped and retreated.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    lost: usize,

    /// Of it, by clients that had been there before.
    lost_again: usize,
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
fn cost(state: &str, visits: usize, seed: u64) -> Cost {
    let lab = Lab::with_seed(seed);
    lab.write("secrets", SECRET);
    let server = lab.serve(&["--speedtest", "--secrets", "DIR/secrets", "--state", state]);
    let mut random = Pcg64::seed_from_u64(seed);
    let mut tokens: BTreeMap<usize, ResumptionData> = BTreeMap::new();
    let (mut lost, mut lost_again) = (0, 0);
    for _ in 0..visits {
        let client = below(&mut random, 2 * CLIENTS);
        let earlier = tokens.remove(&client);
        let is_back = earlier.is_some();
        let memory = earlier.unwrap_or_default();
        let builder = server.client().from(address(client)).over(&path(client));
        let mut visit = builder.with(&ResumptionData { session: None, ..memory }).connect();
        let body = visit.get(&format!("/bytes/{OBJECT_BYTES}")).body;
        assert_eq!(body.len() as u64, OBJECT_BYTES);
        tokens.insert(client, visit.resumption_data());
        visit.close();
        if is_slow(client) {
            let datagrams = visit.datagrams().1;
            let dropped = datagrams.iter().filter(|datagram| !datagram.arrives).count();
            lost += dropped;
            lost_again += if is_back { dropped } else { 0 };
        }
        lab.advance(Duration::from_secs(below(&mut random, 120) as u64));
    }
    Cost {
        lost,
        lost_again,
        jumps: server.metric("edge_server_resume_jumps_taken_total"),
        retreats: server.metric("edge_server_resume_phases_total{phase=\"safe_retreat\""),
    }
}

fn sum(costs: &[Cost]) -> Cost {
    costs.iter().fold(Cost::default(), |sum, one| Cost {
        lost: sum.lost + one.lost,
        lost_again: sum.lost_again + one.lost_again,
        jumps: sum.jumps + one.jumps,
        retreats: sum.retreats + one.retreats,
    })
}

/// Returns the share of the store's losses with its interval: of seeds drawn anew, with replacement.
fn share_with_interval(own: &[Cost], store: &[Cost]) -> Interval {
    let mut random = Pcg64::seed_from_u64(1);
    let share = |seeds: &[usize]| {
        let lost = |costs: &[Cost]| seeds.iter().map(|seed| costs[*seed].lost).sum::<usize>();
        lost(own) as f64 / lost(store) as f64
    };
    let all: Vec<_> = (0..own.len()).collect();
    let replicate = |_| {
        let drawn: Vec<_> = all.iter().map(|_| below(&mut random, all.len())).collect();
        share(&drawn)
    };
    Interval::new(share(&all), (0..RESAMPLES).map(replicate).collect())
}

// A client's first visit has no state but its neighbours'.
#[test]
fn own_state_spares_slow_clients_their_neighbours_capacity_from_the_second_visit() {
    let [store, both] = ["store", "both"].map(|state| cost(state, 40, 1));
    println!("store {store:?}, both {both:?}");
    assert!(both.lost_again as f64 / store.lost_again as f64 <= SHARE_MAX);
    assert!(both.jumps >= store.jumps);
}

#[test]
#[ignore = "minutes; make check-long runs it"]
fn own_state_spares_slow_clients_four_fifths_of_their_losses() {
    let costs = |state: &str| (1..=SEEDS).map(|seed| cost(state, VISITS, seed)).collect::<Vec<_>>();
    let store = costs("store");
    println!("store {:?}", sum(&store));
    for state in ["both", "token"] {
        let own = costs(state);
        let share = share_with_interval(&own, &store);
        println!("{state} {:?}: {share:.3?} of the store's losses", sum(&own));
        assert!(share.high <= SHARE_MAX, "{state}");
        assert!(sum(&own).jumps >= sum(&store).jumps, "{state}");
    }
}
