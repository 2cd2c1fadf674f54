//! Topology of the links: one bottleneck each way that all flows share, and one
//! access link per flow between the bottleneck and its client.

use std::time::Duration;

use anyhow::Context;
use link::Backlog;
use link::BurstLoss;
use link::Change;
use link::Dequeued;
use link::DualQueueLink;
use link::Ecn;
use link::EcnHandling;
use link::FairQueueLink;
use link::Link;
use link::LinkConfig;
use link::Packet;
use link::Policer;
use link::Queue;
use link::Rate;
use link::Step;
use link::Verdict;

use super::handovers;
use super::packets::Slot;
use super::plan;
use super::plan::FlowPlan;
use super::plan::HEADER_BYTES;
use super::swing;
use crate::scenario;
use crate::scenario::Burst;
use crate::scenario::Path;
use crate::scenario::PolicedRate;
use crate::seeds;
use crate::seeds::Purpose;

/// A packet as links see it: bytes of UDP payload, and codepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel {
    pub bytes: usize,
    pub ecn: Ecn,
}

/// When a packet arrives, and with which codepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Duration,
    pub ecn: Ecn,
}

/// What becomes of a packet that reaches the bottleneck towards its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crossing {
    Arrives(Arrival),
    Dropped,
    /// It is known later: see [`Network::take_departed`].
    Waits,
}

/// A packet that was in a queue, and when it reaches its client; None if it is dropped.
pub struct Departed {
    pub flow: usize,
    pub slot: Slot,
    pub arrival: Option<Arrival>,
}

/// The bottleneck towards the clients.
enum Bottleneck {
    Single(Box<Link>),
    Dual(Box<DualBottleneck>),
    Fair(Box<FairQueueLink<(usize, Slot, Parcel)>>),
}

struct DualBottleneck {
    link: DualQueueLink<(usize, Slot, Parcel)>,
    /// How long the packets of L4S waited, in µs.
    l4s_waits_us: Vec<u32>,
}

/// All links of a run.
pub struct Network {
    down: Bottleneck,
    up: Link,
    access: Vec<Access>,
}

/// The way between the bottleneck and one client.
struct Access {
    delay: Duration,
    /// With a limited rate; without one the delay is all there is.
    down: Option<Link>,
    up: Option<Link>,
}

impl Network {
    /// Creates the links of `path` and of `flows`, empty.
    ///
    /// # Errors
    ///
    /// A setting that a link refuses, by name.
    pub fn new(path: &Path, flows: &[FlowPlan], seed: u64) -> anyhow::Result<Self> {
        let down = Bottleneck::new(path, seed).context("the path")?;
        let up = Link::new(up_config(path, seed)?).context("the path")?;
        let access = flows.iter().map(Access::new).collect::<Result<_, _>>()?;
        Ok(Self { down, up, access })
    }

    /// Carries a packet of the flow's server that leaves at `now`.
    pub fn carry_down(
        &mut self,
        now: Duration,
        flow: usize,
        slot: Slot,
        parcel: Parcel,
    ) -> Crossing {
        let at_access = match &mut self.down {
            Bottleneck::Single(link) => offer(link, now, parcel),
            Bottleneck::Dual(dual) => {
                let offered = dual.link.offer(now, packet(parcel), (flow, slot, parcel));
                return if offered.is_ok() { Crossing::Waits } else { Crossing::Dropped };
            }
            Bottleneck::Fair(link) => {
                let offered = link.offer(now, packet(parcel), flow, (flow, slot, parcel));
                return if offered.is_ok() { Crossing::Waits } else { Crossing::Dropped };
            }
        };
        let arrival = at_access.and_then(|at_access| self.over_access(flow, parcel, at_access));
        arrival.map_or(Crossing::Dropped, Crossing::Arrives)
    }

    /// Returns when the next packet leaves a dual queue.
    pub fn next_departure(&self) -> Option<Duration> {
        match &self.down {
            Bottleneck::Single(_) => None,
            Bottleneck::Dual(dual) => dual.link.next_due(),
            Bottleneck::Fair(link) => link.next_due(),
        }
    }

    /// Takes the next packet that has left a dual queue by `now`.
    pub fn take_departed(&mut self, now: Duration) -> Option<Departed> {
        let dequeued = match &mut self.down {
            Bottleneck::Single(_) => return None,
            Bottleneck::Dual(dual) => dual.take(now)?,
            Bottleneck::Fair(link) => link.take(now)?,
        };
        let (flow, slot, parcel) = dequeued.value;
        let at_access = arrival(dequeued.verdict);
        let arrival = at_access.and_then(|at_access| self.over_access(flow, parcel, at_access));
        Some(Departed { flow, slot, arrival })
    }

    /// Returns the 99th percentile of the time that packets of L4S waited in a dual queue, in ms.
    pub fn l4s_wait_p99_ms(&mut self) -> Option<f64> {
        let Bottleneck::Dual(dual) = &mut self.down else { return None };
        let waits_us = &mut dual.l4s_waits_us;
        let index = (waits_us.len() * 99 / 100).min(waits_us.len().checked_sub(1)?);
        Some(f64::from(*waits_us.select_nth_unstable(index).1) / 1e3)
    }

    fn over_access(&mut self, flow: usize, parcel: Parcel, at_access: Arrival) -> Option<Arrival> {
        let access = &mut self.access[flow];
        let parcel = Parcel { ecn: at_access.ecn, ..parcel };
        match &mut access.down {
            Some(link) => offer(link, at_access.at, parcel),
            None => Some(Arrival { at: at_access.at + access.delay, ..at_access }),
        }
    }

    /// Carries a packet of the flow's client that leaves at `now`. Returns when it reaches the
    /// bottleneck; None if it is dropped.
    pub fn carry_over_access(
        &mut self,
        now: Duration,
        flow: usize,
        parcel: Parcel,
    ) -> Option<Arrival> {
        let access = &mut self.access[flow];
        match &mut access.up {
            Some(link) => offer(link, now, parcel),
            None => Some(Arrival { at: now + access.delay, ecn: parcel.ecn }),
        }
    }

    /// Carries a packet of a client that reaches the bottleneck at `now`. Returns when it reaches
    /// the server; None if it is dropped.
    pub fn carry_up(&mut self, now: Duration, parcel: Parcel) -> Option<Arrival> {
        offer(&mut self.up, now, parcel)
    }

    /// Returns the queue at the bottleneck towards the clients.
    pub fn backlog(&mut self, now: Duration) -> Backlog {
        match &mut self.down {
            Bottleneck::Single(link) => link.backlog(now),
            Bottleneck::Dual(dual) => dual.link.backlog(),
            Bottleneck::Fair(link) => link.backlog(),
        }
    }

    /// Returns the buffer of the bottleneck towards the clients, in bytes.
    pub fn buffer_bytes(&self) -> u64 {
        match &self.down {
            Bottleneck::Single(link) => link.config().buffer_bytes,
            Bottleneck::Dual(dual) => dual.link.config().buffer_bytes,
            Bottleneck::Fair(link) => link.config().buffer_bytes,
        }
    }
}

impl Bottleneck {
    fn new(path: &Path, seed: u64) -> anyhow::Result<Self> {
        let config = down_config(path, seed)?;
        Ok(match path.queue {
            scenario::Queue::Dualpi2 => {
                let link = DualQueueLink::new(config)?;
                Self::Dual(Box::new(DualBottleneck { link, l4s_waits_us: vec![] }))
            }
            scenario::Queue::FqCodel => Self::Fair(Box::new(FairQueueLink::new(config)?)),
            _ => Self::Single(Box::new(Link::new(config)?)),
        })
    }
}

impl DualBottleneck {
    fn take(&mut self, now: Duration) -> Option<Dequeued<(usize, Slot, Parcel)>> {
        let dequeued = self.link.take(now)?;
        if dequeued.value.2.ecn == Ecn::Ect1 {
            let us = u32::try_from(dequeued.waited.as_micros()).unwrap_or(u32::MAX);
            self.l4s_waits_us.push(us);
        }
        Some(dequeued)
    }
}

impl Access {
    fn new(flow: &FlowPlan) -> anyhow::Result<Self> {
        let link = || {
            flow.access_rate
                .map(|rate| {
                    let buffer_bytes = flow.access_buffer_bytes;
                    Link::new(LinkConfig::new(rate, flow.access_delay, buffer_bytes))
                })
                .transpose()
                .with_context(|| format!("the access link of flow {:?}", flow.name))
        };
        Ok(Self { delay: flow.access_delay, down: link()?, up: link()? })
    }
}

fn offer(link: &mut Link, now: Duration, parcel: Parcel) -> Option<Arrival> {
    arrival(link.offer(now, packet(parcel)))
}

fn packet(Parcel { bytes, ecn }: Parcel) -> Packet {
    let size_bytes = u32::try_from(bytes + HEADER_BYTES).unwrap_or(u32::MAX);
    Packet { size_bytes, number: 1, ecn }
}

fn arrival(verdict: Verdict) -> Option<Arrival> {
    match verdict {
        Verdict::Delivered { at, ecn } => Some(Arrival { at, ecn }),
        Verdict::Dropped(_) => None,
    }
}

fn down_config(path: &Path, seed: u64) -> anyhow::Result<LinkConfig> {
    let mut config = config(path, path.rate_mbps, seeds::derive(seed, Purpose::Down, 0))?;
    config.loss = path.loss;
    config.burst = path.burst.map(|Burst { enter, leave, loss }| BurstLoss { enter, leave, loss });
    config.policer = path.policer.as_ref().map(policer).transpose()?;
    config.jitter = plan::duration("jitter_ms", path.longest_jitter_ms() / 1e3)?;
    config.aggregation = plan::duration("aggregation_ms", path.aggregation_ms / 1e3)?;
    config.queue = match path.queue {
        scenario::Queue::DropTail | scenario::Queue::Dualpi2 | scenario::Queue::FqCodel => {
            Queue::DropTail
        }
        scenario::Queue::Codel => Queue::CoDel,
        scenario::Queue::Pie => Queue::Pie,
        scenario::Queue::Step => Queue::Step {
            mark_above: plan::duration(
                "mark_above_ms",
                path.mark_above_ms.unwrap_or_default() / 1e3,
            )?,
        },
    };
    set_schedule(&mut config, path, seed, true)?;
    Ok(config)
}

fn policer(policed: &PolicedRate) -> anyhow::Result<Policer> {
    let rate = Rate::from_mbit_per_s(policed.rate_mbps).context("policer.rate_mbps")?;
    Ok(Policer { rate, burst_bytes: policed.burst_bytes })
}

fn up_config(path: &Path, seed: u64) -> anyhow::Result<LinkConfig> {
    let rate_mbps = path.up_rate_mbps.unwrap_or(path.rate_mbps);
    let mut config = config(path, rate_mbps, seeds::derive(seed, Purpose::Up, 0))?;
    set_schedule(&mut config, path, seed, false)?;
    Ok(config)
}

fn config(path: &Path, rate_mbps: f64, seed: u64) -> anyhow::Result<LinkConfig> {
    let rtt = plan::duration("rtt_ms", path.rtt_ms / 1e3)?;
    let rate = Rate::from_mbit_per_s(rate_mbps).context("rate_mbps")?;
    let buffer_bytes = plan::buffer_bytes(path.buffer_bdp, plan::bdp_bytes(rate_mbps, rtt));
    let mut config = LinkConfig::new(rate, rtt / 2, buffer_bytes);
    config.seed = seed;
    config.ecn = match path.ecn {
        scenario::PathEcn::Pass => EcnHandling::Pass,
        scenario::PathEcn::Clear => EcnHandling::Bleach,
        scenario::PathEcn::Ect1 => EcnHandling::RemarkEct1,
        scenario::PathEcn::Ce => EcnHandling::RemarkCe,
        scenario::PathEcn::Drop => EcnHandling::BlackHole,
    };
    Ok(config)
}

/// Sets what changes over time in one direction. The rate towards the servers follows the
/// other one, unless it was given by itself.
fn set_schedule(
    config: &mut LinkConfig,
    path: &Path,
    seed: u64,
    is_down: bool,
) -> anyhow::Result<()> {
    let Some(trace) = path.trace.as_ref().map(|file| &file.trace) else {
        config.changes = changes(path, seed, is_down)?;
        return Ok(());
    };
    let has_rate = is_down || path.up_rate_mbps.is_none();
    let change = |step: &Step| Change {
        at: step.at,
        rate: step.rate.filter(|_| has_rate),
        delay: step.rtt.map(|rtt| rtt / 2),
        loss: step.loss.filter(|_| is_down),
    };
    config.changes = trace.steps().iter().map(change).collect();
    config.period = trace.period();
    Ok(())
}

fn changes(path: &Path, seed: u64, is_down: bool) -> anyhow::Result<Vec<Change>> {
    let has_rate = is_down || path.up_rate_mbps.is_none();
    let swings = path.swing.map(|swing| swing::changes(path, &swing, seed));
    let handovers = path.handover.map(|handover| handovers::changes(path, &handover, seed));
    let changes = swings.or(handovers).unwrap_or_else(|| path.changes.clone());
    changes
        .iter()
        .map(|change| {
            let rtt_ms = change.rtt_ms;
            let delay = rtt_ms.map(|rtt_ms| plan::duration("change.rtt_ms", rtt_ms / 2e3));
            let rate = change.rate_mbps.filter(|_| has_rate).map(Rate::of_change);
            Ok(Change {
                at: plan::duration("change.at_ms", change.at_ms / 1e3)?,
                rate: rate.transpose().context("change.rate_mbps")?,
                delay: delay.transpose()?,
                loss: change.loss.filter(|_| is_down),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::packets::Packets;
    use super::*;

    const PACKET: Parcel = Parcel { bytes: 1250 - HEADER_BYTES, ecn: Ecn::Ect0 };

    fn network(path: &str, flow: &str) -> Network {
        let text = format!(
            "[path]\nrate_mbps = 10\nrtt_ms = 100\n{path}\n[[flow]]\nobject_bdp = 1\n{flow}"
        );
        let scenario: scenario::Scenario = toml::from_str(&text).unwrap();
        let plans = plan::flows(&scenario, 1).unwrap();
        Network::new(&scenario.path, &plans, 1).unwrap()
    }

    fn down(network: &mut Network, at: Duration) -> Option<Arrival> {
        let slot = Packets::default().allocate();
        match network.carry_down(at, 0, slot, PACKET) {
            Crossing::Arrives(arrival) => Some(arrival),
            Crossing::Dropped => None,
            Crossing::Waits => network.take_departed(at)?.arrival,
        }
    }

    /// Returns when a packet that leaves at `at_ms` arrives, down and up, in ms.
    fn arrivals(network: &mut Network, at_ms: u64) -> (f64, f64) {
        let at = Duration::from_millis(at_ms);
        let down = down(network, at).unwrap();
        let up = network.carry_over_access(at, 0, PACKET).unwrap();
        let up = network.carry_up(up.at, PACKET).unwrap();
        (down.at.as_secs_f64() * 1e3, up.at.as_secs_f64() * 1e3)
    }

    #[test]
    fn packet_takes_half_rtt_and_transmission() {
        assert_eq!(arrivals(&mut network("", ""), 0), (51.0, 51.0));
        assert_eq!(arrivals(&mut network("queue = \"dualpi2\"", ""), 0), (51.0, 51.0));
        assert_eq!(arrivals(&mut network("queue = \"fq-codel\"", ""), 0), (51.0, 51.0));
        assert_eq!(arrivals(&mut network("up_rate_mbps = 1", ""), 0), (51.0, 60.0));
        assert_eq!(arrivals(&mut network("", "extra_rtt_ms = 20"), 0), (61.0, 61.0));
        assert_eq!(arrivals(&mut network("", "access_mbps = 5"), 0), (53.0, 53.0));
    }

    #[test]
    fn changes_apply_to_both_directions() {
        let change = "[[path.change]]\nat_ms = 1000\nrate_mbps = 5\nrtt_ms = 200";
        let mut both = network(change, "");
        assert_eq!(arrivals(&mut both, 0), (51.0, 51.0));
        assert_eq!(arrivals(&mut both, 2000), (2102.0, 2102.0));
        let mut own = network(&format!("up_rate_mbps = 1\n{change}"), "");
        assert_eq!(arrivals(&mut own, 2000), (2102.0, 2110.0));
    }

    #[test]
    fn trace_applies_to_both_directions_again_and_again() {
        let table = "time_ms,rate_mbps,rtt_ms\n0,10,100\n500,5,200\n1000,,\n";
        let trace = link::PathTrace::parse("a.csv", table).unwrap();
        let file = std::sync::Arc::new(scenario::TraceFile { name: "a.csv".into(), trace });
        let scenario = |up: &str| {
            let text =
                format!("[path]\nrate_mbps = 1\nrtt_ms = 1\n{up}\n[[flow]]\nobject_bdp = 1\n");
            let mut scenario: scenario::Scenario = toml::from_str(&text).unwrap();
            scenario.path.trace = Some(file.clone());
            scenario
        };
        let network = |scenario: &scenario::Scenario| {
            Network::new(&scenario.path, &plan::flows(scenario, 1).unwrap(), 1).unwrap()
        };
        let mut both = network(&scenario(""));
        for (at_ms, arrives) in [(0, 51.0), (600, 702.0), (1200, 1251.0), (9600, 9702.0)] {
            assert_eq!(arrivals(&mut both, at_ms), (arrives, arrives));
        }
        let mut own = network(&scenario("up_rate_mbps = 1"));
        assert_eq!(arrivals(&mut own, 600), (702.0, 710.0));
    }

    #[test]
    fn loss_applies_towards_clients_alone() {
        let mut network = network("loss = 1", "");
        assert_eq!(down(&mut network, Duration::ZERO), None);
        assert!(network.carry_up(Duration::ZERO, PACKET).is_some());
    }

    #[test]
    fn aggregation_applies_towards_clients_alone() {
        for queue in ["", "queue = \"dualpi2\"", "queue = \"fq-codel\""] {
            let mut bunching = network(&format!("aggregation_ms = 8\n{queue}"), "");
            let arrived: Vec<_> = (0..40).map(|ms| arrivals(&mut bunching, ms)).collect();
            let mut grants_ms: Vec<f64> = arrived.iter().map(|(down_ms, _)| *down_ms).collect();
            grants_ms.dedup();
            let gaps = grants_ms.windows(2).map(|pair| (pair[1] - pair[0]).round());
            assert_eq!(gaps.collect::<Vec<_>>(), vec![8.0; grants_ms.len() - 1], "{queue}");
            assert_eq!(grants_ms.len().clamp(5, 6), grants_ms.len(), "{queue}");
            let up: Vec<f64> = arrived.iter().map(|(_, up_ms)| *up_ms).collect();
            assert_eq!(up, (51..91).map(f64::from).collect::<Vec<_>>(), "{queue}");
        }
    }

    #[test]
    fn bursts_and_policer_drop_towards_clients_alone() {
        for drops in [
            "burst = { enter = 1, leave = 1e-9, loss = 1 }",
            "policer = { rate_mbps = 0.001, burst_bytes = 1 }",
        ] {
            let mut network = network(drops, "");
            assert_eq!(down(&mut network, Duration::ZERO), None, "{drops}");
            assert!(network.carry_up(Duration::ZERO, PACKET).is_some());
        }
    }

    #[test]
    fn standing_queue_is_marked_and_faulty_path_clears_marks() {
        let step = "queue = \"step\"\nmark_above_ms = 5";
        let last = |path: &str| {
            let mut network = network(path, "");
            let carried = (0..20).map(|_| down(&mut network, Duration::ZERO).unwrap());
            carried.last().unwrap().ecn
        };
        assert_eq!(last(""), Ecn::Ect0);
        assert_eq!(last(step), Ecn::Ce);
        assert_eq!(last(&format!("{step}\necn = \"clear\"")), Ecn::NotEct);
        assert_eq!(last("ecn = \"ect1\""), Ecn::Ect1);
        let mut drops = network("ecn = \"drop\"", "");
        assert_eq!(down(&mut drops, Duration::ZERO), None);
    }
}
