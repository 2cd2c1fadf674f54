//! Flow of a run: its plan, its two hosts, and its outcome.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use super::client::Client;
use super::clock::Clock;
use super::plan::FlowPlan;
use super::record::PhaseChange;
use super::server::Server;
use super::store;
use crate::outcome::FlowOutcome;

/// Address on which servers listen.
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);

/// The port of the first flow's client.
const FIRST_PORT: u16 = 10_000;

/// Length of the connection IDs that hosts choose, in bytes.
const ID_BYTES: usize = 16;

/// A flow, with its hosts from their first packet on.
pub struct FlowRun {
    pub plan: FlowPlan,
    pub client: Option<Client>,
    pub server: Option<Server>,
    /// It is on a list of hosts to serve.
    pub client_ready: bool,
    pub server_ready: bool,
    /// Bytes that had arrived when shares were measured from, and then until the first of all flows
    /// was complete.
    share_from: Option<u64>,
    share_bytes: Option<u64>,
}

impl FlowRun {
    /// Creates a flow that has not begun.
    pub fn new(plan: FlowPlan) -> Self {
        Self {
            plan,
            client: None,
            server: None,
            client_ready: false,
            server_ready: false,
            share_from: None,
            share_bytes: None,
        }
    }

    /// Begins to measure its share of the link.
    pub fn begin_share(&mut self) {
        self.share_from = Some(self.received_bytes());
    }

    /// Ends that, the first time.
    pub fn end_share(&mut self) {
        let received_bytes = self.received_bytes();
        if let Some(from) = self.share_from {
            self.share_bytes.get_or_insert(received_bytes - from);
        }
    }

    fn received_bytes(&self) -> u64 {
        self.client.as_ref().map_or(0, Client::received_bytes)
    }

    /// Returns whether its client has all that it requested.
    pub fn is_complete(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.complete.is_some())
    }

    /// Returns its outcome; None unless it is complete.
    pub fn outcome(self, clock: &Clock) -> Option<FlowOutcome> {
        let (plan, client) = (self.plan, self.client?);
        let mut record = self.server?.record;
        record.end_rounds(client.complete?);
        let object_bytes = plan.object_bytes();
        let since_start = |at: Duration| at.saturating_sub(plan.start);
        let at_ms = |at: Instant| ms(since_start(clock.since_start(at)));
        let change = |change: &PhaseChange| {
            let trigger = change.trigger.map(|trigger| trigger.name().to_owned());
            (ms(since_start(change.at)), change.phase.name().to_owned(), trigger)
        };
        Some(FlowOutcome {
            name: plan.name,
            cc: plan.cc,
            mode: plan.mode,
            client: plan.is_visit.then_some(plan.client),
            object_bytes,
            rtt_ms: ms(plan.rtt),
            start_ms: ms(plan.start),
            accepted_ms: ms(since_start(record.accepted)),
            ttfb_ms: ms(since_start(client.first_byte.or(client.complete)?)),
            ttlb_ms: ms(since_start(client.complete?)),
            sent_packets: record.sent_packets as u64,
            floor_ms: None,
            bound_ms: None,
            lost_packets: record.lost_packets as u64,
            lost_bytes: record.lost_bytes,
            probe_timeouts: record.probe_timeouts as u64,
            dropped_packets: record.dropped_packets,
            dropped_bytes: record.dropped_bytes,
            dropped_before_validated_packets: record.dropped_before_validated().map(|all| all.0),
            dropped_before_validated_bytes: record.dropped_before_validated().map(|all| all.1),
            marked_packets: record.marked_packets,
            first_drop_ms: record.first_drop.map(|at| ms(since_start(at))),
            full_ms: record.full.map(|at| ms(since_start(at))),
            slow_start_end: record
                .slow_start
                .end
                .map(|end| (at_ms(end.time), end.reason.name().to_owned())),
            conservative_ms: record.slow_start.conservative_since.map(at_ms),
            phases: record.changes.iter().map(change).collect(),
            saved_cwnd_bytes: record.saved_cwnd,
            jump_cwnd_bytes: record.jump.map(|jump| jump.cwnd as u64),
            window_packets: record.rounds,
            observed_cwnd_bytes: record.observed_cwnd,
            share_bytes: self.share_bytes,
        })
    }

    /// Returns the address of its client, in the subnet that the plan gives it.
    pub fn client_address(&self, index: usize) -> SocketAddr {
        let ip = store::client_ip(self.plan.subnet);
        SocketAddr::new(ip.into(), FIRST_PORT + index as u16)
    }
}

/// Which end of a connection.
#[derive(Clone, Copy)]
pub enum Side {
    Client = 1,
    Server = 2,
}

/// Returns a connection ID that no other host of the run has.
pub fn id(flow: usize, side: Side) -> [u8; ID_BYTES] {
    let mut id = [side as u8; ID_BYTES];
    id[..4].copy_from_slice(&(flow as u32).to_be_bytes());
    id
}

/// Milliseconds, to the nanosecond.
fn ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}
