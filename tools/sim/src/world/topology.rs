//! Topology of the links: one bottleneck each way that all flows share, and one
//! access link per flow between the bottleneck and its client.

use std::time::Duration;

use anyhow::Context;
use link::Backlog;
use link::Change;
use link::Ecn;
use link::EcnHandling;
use link::Link;
use link::LinkConfig;
use link::Packet;
use link::Queue;
use link::Rate;
use link::Verdict;

use super::plan;
use super::plan::FlowPlan;
use super::plan::HEADER_BYTES;
use super::swing;
use crate::scenario;
use crate::scenario::Path;
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

/// All links of a run.
pub struct Network {
    down: Link,
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
        let down = Link::new(down_config(path, seed)?).context("the path")?;
        let up = Link::new(up_config(path, seed)?).context("the path")?;
        let access = flows.iter().map(Access::new).collect::<Result<_, _>>()?;
        Ok(Self { down, up, access })
    }

    /// Carries a packet of the flow's server that leaves at `now`. Returns when it reaches the
    /// client; None if it is dropped.
    pub fn carry_down(&mut self, now: Duration, flow: usize, parcel: Parcel) -> Option<Arrival> {
        let at_access = offer(&mut self.down, now, parcel)?;
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
        self.down.backlog(now)
    }

    /// Returns the buffer of the bottleneck towards the clients, in bytes.
    pub fn buffer_bytes(&self) -> u64 {
        self.down.config().buffer_bytes
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

fn offer(link: &mut Link, now: Duration, Parcel { bytes, ecn }: Parcel) -> Option<Arrival> {
    let size_bytes = u32::try_from(bytes + HEADER_BYTES).unwrap_or(u32::MAX);
    match link.offer(now, Packet { size_bytes, number: 1, ecn }) {
        Verdict::Delivered { at, ecn } => Some(Arrival { at, ecn }),
        Verdict::Dropped(_) => None,
    }
}

fn down_config(path: &Path, seed: u64) -> anyhow::Result<LinkConfig> {
    let mut config = config(path, path.rate_mbps, seeds::derive(seed, Purpose::Down, 0))?;
    config.loss = path.loss;
    config.jitter = plan::duration("jitter_ms", path.longest_jitter_ms() / 1e3)?;
    config.queue = match path.queue {
        scenario::Queue::DropTail => Queue::DropTail,
        scenario::Queue::Codel => Queue::CoDel,
        scenario::Queue::Step => Queue::Step {
            mark_above: plan::duration(
                "mark_above_ms",
                path.mark_above_ms.unwrap_or_default() / 1e3,
            )?,
        },
    };
    config.changes = changes(path, seed, true)?;
    Ok(config)
}

fn up_config(path: &Path, seed: u64) -> anyhow::Result<LinkConfig> {
    let rate_mbps = path.up_rate_mbps.unwrap_or(path.rate_mbps);
    let mut config = config(path, rate_mbps, seeds::derive(seed, Purpose::Up, 0))?;
    config.changes = changes(path, seed, false)?;
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

/// Returns the changes of one direction. The rate towards the servers follows the
/// other one, unless it was given by itself.
fn changes(path: &Path, seed: u64, is_down: bool) -> anyhow::Result<Vec<Change>> {
    let has_rate = is_down || path.up_rate_mbps.is_none();
    let swings = path.swing.map(|swing| swing::changes(path, &swing, seed));
    let changes = swings.as_ref().unwrap_or(&path.changes);
    changes
        .iter()
        .map(|change| {
            let rtt_ms = change.rtt_ms;
            let delay = rtt_ms.map(|rtt_ms| plan::duration("change.rtt_ms", rtt_ms / 2e3));
            let rate = change.rate_mbps.filter(|_| has_rate).map(Rate::from_mbit_per_s);
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

    /// Returns when a packet that leaves at `at_ms` arrives, down and up, in ms.
    fn arrivals(network: &mut Network, at_ms: u64) -> (f64, f64) {
        let at = Duration::from_millis(at_ms);
        let down = network.carry_down(at, 0, PACKET).unwrap();
        let up = network.carry_over_access(at, 0, PACKET).unwrap();
        let up = network.carry_up(up.at, PACKET).unwrap();
        (down.at.as_secs_f64() * 1e3, up.at.as_secs_f64() * 1e3)
    }

    #[test]
    fn packet_takes_half_rtt_and_transmission() {
        assert_eq!(arrivals(&mut network("", ""), 0), (51.0, 51.0));
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
    fn loss_applies_towards_clients_alone() {
        let mut network = network("loss = 1", "");
        assert_eq!(network.carry_down(Duration::ZERO, 0, PACKET), None);
        assert!(network.carry_up(Duration::ZERO, PACKET).is_some());
    }

    #[test]
    fn standing_queue_is_marked_and_faulty_path_clears_marks() {
        let step = "queue = \"step\"\nmark_above_ms = 5";
        let last = |path: &str| {
            let mut network = network(path, "");
            let carried = (0..20).map(|_| network.carry_down(Duration::ZERO, 0, PACKET).unwrap());
            carried.last().unwrap().ecn
        };
        assert_eq!(last(""), Ecn::Ect0);
        assert_eq!(last(step), Ecn::Ce);
        assert_eq!(last(&format!("{step}\necn = \"clear\"")), Ecn::NotEct);
        assert_eq!(last("ecn = \"ect1\""), Ecn::Ect1);
        let mut drops = network("ecn = \"drop\"", "");
        assert_eq!(drops.carry_down(Duration::ZERO, 0, PACKET), None);
    }
}
