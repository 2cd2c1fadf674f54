//! Plan of a run: its scenario in absolute numbers, bytes and times instead of
//! multiples of the path's bandwidth-delay product, and one entry for each flow.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use link::Rate;
use path_store::StateKept;
use quiche::careful_resume::AfterJump;
use quiche::ecn::EcnConfig;
use quiche::slow_start::SearchConfig;
use quiche::slow_start::SlowStartExit;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use super::packets::PACKET_BYTES_MAX;
use super::response::AppLimit;
use crate::scenario::Controller;
use crate::scenario::Flow;
use crate::scenario::FlowEcn;
use crate::scenario::Mode;
use crate::scenario::Pareto;
use crate::scenario::Path;
use crate::scenario::Scenario;
use crate::scenario::Segments;
use crate::seeds;
use crate::seeds::Purpose;

/// IP and UDP headers of a packet, in bytes.
pub const HEADER_BYTES: usize = link::IPV4_UDP_HEADER_BYTES as usize;

/// No buffer and no object is smaller than this many packets.
const PACKETS_MIN: u64 = 20;

/// Flows of one run. Each has an address of its own, in a subnet of its own.
const FLOWS_MAX: usize = 4096;

/// One download.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPlan {
    pub name: String,
    pub cc: Controller,
    pub mode: Mode,
    /// None: neither end marks.
    pub ecn: Option<EcnConfig>,
    /// Bytes of its objects: the first is requested at once, the others when it is complete.
    pub objects: Vec<u64>,
    /// Without any queue or serialisation.
    pub rtt: Duration,
    /// Of the bottleneck and this RTT.
    pub bdp_bytes: u64,
    /// One-way delay between the bottleneck and the client.
    pub access_delay: Duration,
    pub access_rate: Option<Rate>,
    pub access_buffer_bytes: u64,
    pub start: Duration,
    /// The flow that must have ended before, by its index, and the time from its end to the start.
    pub after: Option<usize>,
    /// When measuring its share of the link begins.
    pub share_from: Option<Duration>,
    pub slow_start_exit: SlowStartExit,
    pub max_jump: usize,
    pub after_jump: AfterJump,
    pub initial_window_packets: usize,
    pub send_buffer_bytes: Option<u64>,
    pub release_late: Duration,
    pub client_window_bytes: Option<u64>,
    pub app_limit: Option<AppLimit>,
    /// Its subnet; flows of one subnet share saved parameters.
    pub subnet: u16,
    /// Its client; flows of one client share what it carries.
    pub client: usize,
    /// Whether the scenario says of how many clients its flows are.
    pub is_visit: bool,
    pub state: StateKept,
    /// None if nothing is saved before the run.
    pub saved: Option<SavedPlan>,
}

/// Saved parameters, in absolute numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedPlan {
    pub cwnd_bytes: u64,
    pub rtt: Duration,
    pub age: Duration,
}

/// Returns the flows of `scenario`, in its order. When they start follows from `seed`.
///
/// # Errors
///
/// A value that no run can have, by name.
pub fn flows(scenario: &Scenario, seed: u64) -> anyhow::Result<Vec<FlowPlan>> {
    let mut subnets = BTreeMap::new();
    let mut plans: Vec<FlowPlan> = Vec::new();
    let mut clients = 0;
    for flow in &scenario.flows {
        let named = || format!("flow {:?}", flow.name);
        let mut arrived = Duration::ZERO;
        for context in 0..flow.count {
            ensure!(plans.len() < FLOWS_MAX, "more than {FLOWS_MAX} flows; lower a `count`");
            let fresh = plans.len() + subnets.len();
            let subnet = match &flow.subnet {
                Some(name) => *subnets.entry(name.clone()).or_insert(fresh),
                None => fresh,
            };
            let index = plans.len() as u64;
            let mut rng = Pcg64::seed_from_u64(seeds::derive(seed, Purpose::Start, index));
            let mut plan = one(&scenario.path, flow, subnet).with_context(named)?;
            let spread = duration("start_spread_ms", flow.start_spread_ms / 1e3)?;
            plan.start += spread.mul_f64(seeds::uniform(&mut rng));
            if let Some(per_s) = flow.arrivals_per_s {
                arrived += gap(per_s, seed, index);
                plan.start += arrived;
            }
            if let Some(pareto) = &flow.size_pareto {
                let factor = size_factor(pareto, seed, index);
                for bytes in &mut plan.objects {
                    *bytes = (*bytes as f64 * factor).round() as u64;
                }
            }
            plan.after = (flow.in_turn && context > 0).then(|| plans.len() - 1);
            plan.client = clients + client(flow, context, seed, index);
            plans.push(plan);
        }
        clients += flow.clients.unwrap_or(flow.count) as usize;
    }
    ensure!(!plans.is_empty(), "no flow; add a [[flow]]");
    if let Some(pause_s) = scenario.visit_pause_s {
        put_in_drawn_order(&mut plans, duration("visit_pause_s", pause_s)?, seed);
    }
    Ok(plans)
}

/// Returns the time from one arrival of a Poisson process to the next.
fn gap(per_s: f64, seed: u64, index: u64) -> Duration {
    let mut rng = Pcg64::seed_from_u64(seeds::derive(seed, Purpose::Arrival, index));
    Duration::from_secs_f64(-(1.0 - seeds::uniform(&mut rng)).ln() / per_s)
}

/// Returns a size as a multiple of the smallest one, by the inverse of the bounded distribution.
fn size_factor(&Pareto { shape, most }: &Pareto, seed: u64, index: u64) -> f64 {
    let mut rng = Pcg64::seed_from_u64(seeds::derive(seed, Purpose::Size, index));
    let below = 1.0 - most.powf(-shape);
    (1.0 - seeds::uniform(&mut rng) * below).powf(-1.0 / shape)
}

/// Returns which of its clients the flow entry's `context`-th flow is of.
fn client(flow: &Flow, context: u32, seed: u64, index: u64) -> usize {
    match flow.clients {
        None => context as usize,
        Some(clients) => {
            let mut rng = Pcg64::seed_from_u64(seeds::derive(seed, Purpose::Client, index));
            (seeds::uniform(&mut rng) * f64::from(clients)) as usize
        }
    }
}

/// Makes each flow follow another, after a pause of its own.
fn put_in_drawn_order(plans: &mut [FlowPlan], pause: Duration, seed: u64) {
    let mut rng = Pcg64::seed_from_u64(seeds::derive(seed, Purpose::Visits, 0));
    let mut order: Vec<usize> = (0..plans.len()).collect();
    // Fisher and Yates.
    for last in (1..order.len()).rev() {
        order.swap(last, (seeds::uniform(&mut rng) * (last + 1) as f64) as usize);
    }
    let mut before = None;
    for index in order {
        plans[index].after = before;
        plans[index].start = pause.mul_f64(seeds::uniform(&mut rng));
        before = Some(index);
    }
}

impl FlowPlan {
    /// Returns the bytes of all its objects.
    pub fn object_bytes(&self) -> u64 {
        self.objects.iter().sum()
    }
}

fn one(path: &Path, flow: &Flow, subnet: usize) -> anyhow::Result<FlowPlan> {
    let extra_rtt = duration("extra_rtt_ms", flow.extra_rtt_ms / 1e3)?;
    let rtt = duration("rtt_ms", path.rtt_ms / 1e3)? + extra_rtt;
    let access_rate = flow.access_mbps.map(Rate::from_mbit_per_s).transpose();
    let access_rate = access_rate.context("access_mbps")?;
    let access_mbps = flow.access_mbps.unwrap_or(0.0);
    let flow_bdp_bytes = bdp_bytes(path.rate_mbps, rtt);
    Ok(FlowPlan {
        name: flow.name.clone(),
        cc: flow.cc,
        mode: flow.mode,
        ecn: match flow.ecn {
            FlowEcn::Off => None,
            FlowEcn::On => Some(EcnConfig::default()),
            FlowEcn::Alternative => {
                Some(EcnConfig { alternative_backoff: true, ..Default::default() })
            }
            FlowEcn::L4s => Some(EcnConfig { l4s: true, ..Default::default() }),
        },
        objects: objects(path, flow)?,
        rtt,
        bdp_bytes: flow_bdp_bytes.round() as u64,
        access_delay: extra_rtt / 2,
        access_rate,
        access_buffer_bytes: buffer_bytes(path.buffer_bdp, bdp_bytes(access_mbps, rtt)),
        start: duration("start_ms", flow.start_ms / 1e3)?,
        after: None,
        share_from: flow
            .share_from_ms
            .map(|from_ms| duration("share_from_ms", from_ms / 1e3))
            .transpose()?,
        slow_start_exit: slow_start_exit(flow),
        max_jump: flow.max_jump,
        after_jump: flow.after_jump,
        initial_window_packets: flow.initial_window_packets,
        send_buffer_bytes: flow.send_buffer_bytes,
        release_late: duration("release_late_ms", flow.release_late_ms / 1e3)?,
        client_window_bytes: flow.client_window_bytes,
        app_limit: app_limit(flow)?,
        subnet: u16::try_from(subnet).context("too many subnets")?,
        client: 0,
        is_visit: flow.clients.is_some(),
        state: flow.state,
        saved: saved(flow, rtt, flow_bdp_bytes)?,
    })
}

fn saved(flow: &Flow, rtt: Duration, bdp_bytes: f64) -> anyhow::Result<Option<SavedPlan>> {
    if flow.saved.cold {
        return Ok(None);
    }
    Ok(Some(SavedPlan {
        cwnd_bytes: (flow.saved.cwnd_bdp * bdp_bytes).round() as u64,
        rtt: duration("saved.rtt_ratio", rtt.as_secs_f64() * flow.saved.rtt_ratio)?,
        age: duration("saved.age_s", flow.saved.age_s)?,
    }))
}

fn app_limit(flow: &Flow) -> anyhow::Result<Option<AppLimit>> {
    let rate = flow.app_limit_mbps.map(|mbps| AppLimit::Rate { bytes_per_s: mbps * 1e6 / 8.0 });
    let Some(Segments { bytes, every_ms }) = flow.segments else { return Ok(rate) };
    let every = duration("segments.every_ms", every_ms / 1e3)?;
    Ok(Some(AppLimit::Segments { bytes, every }))
}

fn slow_start_exit(flow: &Flow) -> SlowStartExit {
    match (flow.slow_start_exit, flow.search_threshold) {
        (SlowStartExit::Search(search), Some(threshold)) => {
            SlowStartExit::Search(SearchConfig { threshold, ..search })
        }
        (exit, _) => exit,
    }
}

fn objects(path: &Path, flow: &Flow) -> anyhow::Result<Vec<u64>> {
    let bdp_bytes = bdp_bytes(path.rate_mbps, duration("rtt_ms", path.rtt_ms / 1e3)?);
    let bytes_min = PACKETS_MIN * PACKET_BYTES_MAX as u64;
    let multiple = |factor: f64| ((factor * bdp_bytes).round() as u64).max(bytes_min);
    if let Some(page) = &flow.page {
        return Ok(page.objects.clone());
    }
    let bytes = match (flow.object_bytes, flow.object_bdp, flow.total_bdp) {
        (Some(bytes), None, None) => bytes,
        (None, Some(factor), None) => multiple(factor),
        (None, None, Some(total)) => multiple(total / f64::from(flow.count.max(1))),
        _ => bail!("needs exactly one of object_bytes, object_bdp, total_bdp and page"),
    };
    Ok(vec![bytes])
}

/// Returns the bandwidth-delay product, in bytes.
pub fn bdp_bytes(rate_mbps: f64, rtt: Duration) -> f64 {
    rate_mbps * 1e6 / 8.0 * rtt.as_secs_f64()
}

/// Returns a buffer of `factor` BDPs, in bytes of IP packets.
pub fn buffer_bytes(factor: f64, bdp_bytes: f64) -> u64 {
    let bytes_min = PACKETS_MIN * (PACKET_BYTES_MAX + HEADER_BYTES) as u64;
    ((factor * bdp_bytes).round() as u64).max(bytes_min)
}

/// # Errors
///
/// A time that is negative, or no number.
pub fn duration(name: &str, seconds: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .with_context(|| format!("{name} is a time that is not negative"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the plans on a path of 10 Mbit/s and 100 ms: 125 kB.
    fn plans(flows: &str, seed: u64) -> Vec<FlowPlan> {
        let text = format!("[path]\nrate_mbps = 10\nrtt_ms = 100\n{flows}");
        super::flows(&toml::from_str(&text).unwrap(), seed).unwrap()
    }

    fn bytes(size: &str) -> Vec<u64> {
        let flows = plans(&format!("[[flow]]\ncount = 2\n{size}"), 1);
        flows.iter().map(|plan| plan.object_bytes()).collect()
    }

    #[test]
    fn object_has_the_size_of_its_flow() {
        assert_eq!(bytes("object_bytes = 7"), [7, 7]);
        assert_eq!(bytes("object_bdp = 2"), [250_000; 2]);
        assert_eq!(bytes("total_bdp = 2"), [125_000; 2]);
        assert_eq!(bytes("object_bdp = 0.01"), [27_000; 2]);
    }

    #[test]
    fn buffer_holds_at_least_20_packets() {
        assert_eq!(buffer_bytes(2.0, 125_000.0), 250_000);
        assert_eq!(buffer_bytes(0.1, 125_000.0), 27_560);
    }

    #[test]
    fn saved_parameters_are_of_the_flows_own_path() {
        let flow = "[[flow]]\nobject_bdp = 1\nextra_rtt_ms = 100\n\
                    saved = { cwnd_bdp = 0.5, rtt_ratio = 2, age_s = 7 }";
        let expected = SavedPlan {
            cwnd_bytes: 125_000,
            rtt: Duration::from_millis(400),
            age: Duration::from_secs(7),
        };
        assert_eq!(plans(flow, 1)[0].saved, Some(expected));
        let cold = "[[flow]]\nobject_bdp = 1\nsaved.cold = true";
        assert_eq!(plans(cold, 1)[0].saved, None);
    }

    #[test]
    fn flows_share_a_subnet_only_by_its_name() {
        let flows = "[[flow]]\nobject_bdp = 1\ncount = 2\n\
                     [[flow]]\nobject_bdp = 1\ncount = 2\nsubnet = \"a\"\n\
                     [[flow]]\nobject_bdp = 1\n\
                     [[flow]]\nobject_bdp = 1\nsubnet = \"a\"";
        let subnets: Vec<_> = plans(flows, 1).iter().map(|plan| plan.subnet).collect();
        assert_eq!(subnets.len(), 6);
        assert!(subnets[2] == subnets[3] && subnets[3] == subnets[5], "{subnets:?}");
        let others = [subnets[0], subnets[1], subnets[2], subnets[4]];
        let distinct: std::collections::BTreeSet<_> = others.into_iter().collect();
        assert_eq!(distinct.len(), 4, "{subnets:?}");
    }

    #[test]
    fn flow_in_turn_starts_after_the_last() {
        let flows = "[[flow]]\nobject_bdp = 1\n\
                     [[flow]]\nobject_bdp = 1\ncount = 3\nin_turn = true";
        let after: Vec<_> = plans(flows, 1).iter().map(|plan| plan.after).collect();
        assert_eq!(after, [None, None, Some(1), Some(2)]);
    }

    #[test]
    fn visits_are_in_a_drawn_order_and_of_drawn_clients() {
        let flow = "[[flow]]\nobject_bdp = 1\ncount = 20\nclients = 2\n";
        let text = format!("visit_pause_s = 9\n[path]\nrate_mbps = 10\nrtt_ms = 100\n{flow}{flow}");
        let scenario: Scenario = toml::from_str(&text).unwrap();
        let plans = |seed| super::flows(&scenario, seed).unwrap();
        let first = plans(1);
        let mut order = vec![first.iter().position(|plan| plan.after.is_none()).unwrap()];
        while let Some(next) = first.iter().position(|plan| plan.after == order.last().copied()) {
            order.push(next);
        }
        assert_eq!(order.len(), 40);
        assert!(order.windows(2).any(|pair| pair[1] < pair[0]), "{order:?}");
        assert!(first.iter().all(|plan| plan.start < Duration::from_secs(9)));
        let clients =
            |range: std::ops::Range<usize>| first[range].iter().map(|plan| plan.client).collect();
        let clients: [std::collections::BTreeSet<usize>; 2] = [clients(0..20), clients(20..40)];
        assert_eq!(clients, [[0, 1].into(), [2, 3].into()]);
        assert_eq!(first, plans(1));
        assert_ne!(first, plans(2));
    }

    #[test]
    fn arrivals_are_a_poisson_process() {
        let flow = "[[flow]]\nobject_bdp = 1\ncount = 2000\nstart_ms = 50\narrivals_per_s = 4";
        let first = plans(flow, 1);
        let starts: Vec<f64> = first.iter().map(|plan| plan.start.as_secs_f64()).collect();
        assert!(starts[0] > 0.05 && starts.is_sorted(), "{:?}", &starts[..9]);
        let gaps: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((0.235..0.265).contains(&mean), "{mean}");
        // As many longer than the mean as of an exponential distribution: 1 / e.
        let longer = gaps.iter().filter(|gap| **gap > 0.25).count() as f64 / gaps.len() as f64;
        assert!((0.34..0.40).contains(&longer), "{longer}");
        assert_eq!(first, plans(flow, 1));
        assert_ne!(first, plans(flow, 2));
    }

    #[test]
    fn sizes_are_a_bounded_pareto_distribution() {
        let flow = "[[flow]]\nobject_bytes = 30_000\ncount = 2000\n\
                    size_pareto = { shape = 1.2, most = 1000 }";
        let sizes: Vec<u64> = plans(flow, 1).iter().map(|plan| plan.object_bytes()).collect();
        assert!(sizes.iter().all(|bytes| (30_000..=30_000_000).contains(bytes)));
        // Twice the smallest size and more: a share of 2 to the power of -1.2.
        let large = sizes.iter().filter(|bytes| **bytes >= 60_000).count() as f64 / 2000.0;
        assert!((0.40..0.47).contains(&large), "{large}");
    }

    #[test]
    fn flow_starts_at_a_time_of_its_own() {
        let flows = "[[flow]]\nobject_bdp = 1\ncount = 3\nstart_ms = 50\nstart_spread_ms = 100";
        let starts = |seed| plans(flows, seed).iter().map(|plan| plan.start).collect::<Vec<_>>();
        let first = starts(1);
        let (from, to) = (Duration::from_millis(50), Duration::from_millis(150));
        assert!(first.iter().all(|start| (from..to).contains(start)), "{first:?}");
        assert!(first[0] != first[1] && first[1] != first[2], "{first:?}");
        assert_eq!(first, starts(1));
        assert_ne!(first, starts(2));
        // Another flow does not change the start of others.
        let more = format!("{flows}\n[[flow]]\nobject_bdp = 1");
        assert_eq!(plans(&more, 1)[..3], plans(flows, 1)[..]);
    }
}
