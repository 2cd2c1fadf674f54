//! Simulation of one run: virtual time, the path, and the hosts at its ends.
//!
//! Owns the order of events and the state that the hosts of a run share. A host handles all packets
//! that arrive at one time before it sends. Links behave as in the crate `link`, connections are
//! quiche's, and [`invariants`](crate::invariants) has the rules that must hold.

mod carried;
mod client;
mod clock;
mod codepoint;
mod error;
mod events;
mod flow;
mod handovers;
#[cfg(test)]
mod observation_tests;
mod packets;
mod plan;
mod record;
mod response;
mod server;
mod settings;
mod store;
#[cfg(test)]
mod store_tests;
mod swing;
#[cfg(test)]
mod tests;
mod thinning;
mod thread_state;
mod topology;
mod wire;

use std::cell::RefCell;
use std::iter::repeat_n;
use std::path::Path;
use std::time::Duration;

use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;
use report::provenance::Provenance;

use self::client::Client;
use self::client::ClientContext;
use self::clock::Clock;
pub use self::error::Failure;
pub use self::error::RunError;
use self::events::Event;
use self::flow::FlowRun;
use self::flow::Side;
use self::flow::SERVER;
use self::packets::Slot;
use self::server::Server;
use self::server::ServerContext;
use self::store::SimulatedStore;
use self::thinning::Thinning;
use self::thread_state::ThreadState;
use self::topology::Network;
use self::wire::Wire;
use crate::limits;
use crate::outcome::Outcome;
use crate::scenario;
use crate::scenario::Scenario;
use crate::seeds;
use crate::seeds::Purpose;
use crate::trace::Folder;

/// Returns the buffer of a path's bottleneck towards the clients, in bytes of IP packets.
pub fn buffer_bytes(path: &scenario::Path) -> u64 {
    plan::buffer_bytes(path.buffer_bdp, path.bdp_bytes())
}

/// Maximum number of turns of a run's hosts at one time.
const TURNS_AT_ONCE_MAX: u32 = 100_000;

thread_local! {
    /// State that is reused: creating it takes longer than many runs.
    static THREAD_STATE: RefCell<Option<ThreadState>> = const { RefCell::new(None) };
}

/// Runs `scenario` once. All randomness is derived from `seed`. The fields of the outcome that
/// depend on the scenario's file are left empty, and its provenance.
///
/// # Errors
///
/// A [`RunError`] if an invariant is broken or a download does not complete; another error if a
/// link refuses its settings.
pub fn run(scenario: &Scenario, seed: u64) -> anyhow::Result<Outcome> {
    run_into(scenario, seed, None)
}

/// Runs `scenario` like [`run`] and writes traces to `folder`, which it creates if missing.
///
/// # Errors
///
/// Those of [`run`], and errors of writing a trace.
pub fn run_traced(scenario: &Scenario, seed: u64, folder: &Path) -> anyhow::Result<Outcome> {
    run_into(scenario, seed, Some(Folder::new(folder)?))
}

fn run_into(scenario: &Scenario, seed: u64, folder: Option<Folder>) -> anyhow::Result<Outcome> {
    THREAD_STATE.with_borrow_mut(|thread_state| {
        let thread_state = match thread_state {
            Some(thread_state) => thread_state,
            None => thread_state.insert(ThreadState::new()?),
        };
        let mut world = World::new(scenario, seed, thread_state, folder)?;
        let result = world.run();
        if let Some(depths) = world.wire.depths.take() {
            depths.finish()?;
        }
        world.return_packets();
        result?;
        Ok(world.outcome(scenario))
    })
}

/// Host of a flow.
#[derive(Clone, Copy, Debug)]
enum Host {
    Client(usize),
    Server(usize),
}

/// State of one run.
struct World<'a> {
    seed: u64,
    thread_state: &'a mut ThreadState,
    folder: Option<Folder>,
    clock: Clock,
    deadline: Duration,
    now: Duration,
    /// Number of turns of the hosts at this time.
    turns_now: u32,
    wire: Wire,
    store: SimulatedStore,
    flows: Vec<FlowRun>,
    /// Hosts with an event that they have not handled.
    ready: Vec<Host>,
    /// Number of clients that are not complete, and of servers that have not ended.
    downloading: usize,
    serving: usize,
}

impl<'a> World<'a> {
    fn new(
        scenario: &Scenario,
        seed: u64,
        thread_state: &'a mut ThreadState,
        folder: Option<Folder>,
    ) -> anyhow::Result<Self> {
        let plans = plan::flows(scenario, seed)?;
        let clock = Clock::start(seeds::derive(seed, Purpose::Transport, 0));
        let depths = folder.as_ref().map(Folder::depths).transpose()?;
        let network = Network::new(&scenario.path, &plans, seed)?;
        let thinning = Thinning::new(scenario.path.ack_thinning, plans.len());
        let packets = std::mem::take(&mut thread_state.packets);
        let mut wire = Wire::new(network, thinning, depths, packets);
        for (flow, plan) in plans.iter().enumerate().filter(|(_, plan)| plan.after.is_none()) {
            wire.queue.push(plan.start, Event::Start(flow as u32));
        }
        for (flow, plan) in plans.iter().enumerate() {
            if let Some(at) = plan.share_from {
                wire.queue.push(at, Event::Measure(flow as u32));
            }
        }
        Ok(Self {
            seed,
            thread_state,
            folder,
            store: SimulatedStore::new(&plans),
            clock,
            deadline: plan::duration("deadline_s", scenario.deadline_s)?,
            now: Duration::ZERO,
            turns_now: 0,
            wire,
            downloading: plans.len(),
            serving: plans.len(),
            flows: plans.into_iter().map(FlowRun::new).collect(),
            ready: vec![],
        })
    }

    /// Runs until every client is complete and every server has ended.
    fn run(&mut self) -> anyhow::Result<()> {
        while self.downloading + self.serving > 0 {
            let Some((at, event)) = self.wire.queue.pop() else {
                break;
            };
            if at > self.deadline && self.downloading > 0 {
                break;
            }
            debug_assert!(at >= self.now, "time runs backwards");
            self.turns_now = if at > self.now { 0 } else { self.turns_now + 1 };
            if self.turns_now == TURNS_AT_ONCE_MAX {
                break;
            }
            self.now = at;
            self.clock.advance_to(at);
            self.handle(event)?;
            while let Some(event) = self.wire.queue.pop_due(at) {
                self.handle(event)?;
            }
            self.drive_ready()?;
        }
        match self.flows.iter().position(|flow| !flow.is_complete()) {
            Some(flow) => Err(self.stall(flow).into()),
            None => Ok(()),
        }
    }

    fn handle(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Start(flow) => self.start(flow as usize),
            Event::AckDue(flow) => {
                self.wire.on_ack_due(self.now, flow as usize);
                Ok(())
            }
            Event::Dequeued => {
                while let Some((flow, bytes)) = self.wire.on_dequeue(self.now) {
                    if let Some(server) = &mut self.flows[flow].server {
                        server.record.on_dropped(self.now, bytes);
                    }
                }
                Ok(())
            }
            Event::Measure(flow) => {
                self.flows[flow as usize].begin_share();
                Ok(())
            }
            Event::AtUplink(flow, slot) => {
                self.wire.cross_up(self.now, flow, slot);
                Ok(())
            }
            Event::AtClient(flow, slot) => {
                self.at_client(flow as usize, slot);
                Ok(())
            }
            Event::AtServer(flow, slot) => self.at_server(flow as usize, slot),
            Event::ClientTimer(flow) => {
                let flow = flow as usize;
                let fired = self.on_client(flow, |client, context| Ok(client.on_timer(context)))?;
                if fired {
                    self.mark_ready(Host::Client(flow));
                }
                Ok(())
            }
            Event::ServerTimer(flow) => {
                let flow = flow as usize;
                if self.on_server(flow, Server::on_timer)? {
                    self.mark_ready(Host::Server(flow));
                }
                Ok(())
            }
        }
    }

    fn start(&mut self, index: usize) -> anyhow::Result<()> {
        let flow = &mut self.flows[index];
        let (local, id) = (flow.client_address(index), flow::id(index, Side::Client));
        let mut quic = self.thread_state.settings.connect(&flow.plan, &id, local, SERVER)?;
        if let Some(folder) = &self.folder {
            folder.log(&mut quic, "client", index)?;
        }
        flow.client = Some(Client::new(quic, local, SERVER, flow.plan.objects.clone()));
        self.mark_ready(Host::Client(index));
        Ok(())
    }

    fn at_client(&mut self, index: usize, slot: Slot) {
        let flow = &mut self.flows[index];
        if let Some(server) = &mut flow.server {
            server.record.arrived_bytes += self.wire.packets.length(slot) as u64;
        }
        match &mut flow.client {
            Some(client) => client.on_packet(slot, &mut self.wire),
            None => self.wire.packets.free(slot),
        }
        self.mark_ready(Host::Client(index));
    }

    fn at_server(&mut self, index: usize, slot: Slot) -> anyhow::Result<()> {
        if self.flows[index].server.is_none() {
            self.accept(index)?;
        }
        self.on_server(index, |server, context| server.on_packet(slot, context))?;
        self.mark_ready(Host::Server(index));
        Ok(())
    }

    fn accept(&mut self, index: usize) -> anyhow::Result<()> {
        let flow = &mut self.flows[index];
        let (peer, id) = (flow.client_address(index), flow::id(index, Side::Server));
        let mut quic = self.thread_state.settings.accept(&flow.plan, &id, SERVER, peer)?;
        if let Some(folder) = &self.folder {
            folder.log(&mut quic, "server", index)?;
        }
        let now = self.clock.instant(self.now);
        let lateness = Pcg64::seed_from_u64(seeds::derive(self.seed, Purpose::Late, index as u64));
        let mut server = Server::new(quic, SERVER, peer, &flow.plan, now, &self.store, lateness);
        server.record.accepted = self.now;
        flow.server = Some(server);
        Ok(())
    }

    fn mark_ready(&mut self, host: Host) {
        let mark = match host {
            Host::Client(flow) => &mut self.flows[flow].client_ready,
            Host::Server(flow) => &mut self.flows[flow].server_ready,
        };
        if !std::mem::replace(mark, true) {
            self.ready.push(host);
        }
    }

    fn drive_ready(&mut self) -> Result<(), RunError> {
        let mut ready = std::mem::take(&mut self.ready);
        for host in ready.drain(..) {
            match host {
                Host::Client(flow) => self.drive_client(flow)?,
                Host::Server(flow) => self.drive_server(flow)?,
            }
        }
        self.ready = ready;
        Ok(())
    }

    fn drive_client(&mut self, index: usize) -> Result<(), RunError> {
        self.flows[index].client_ready = false;
        let was_complete = self.flows[index].is_complete();
        self.on_client(index, Client::drive)?;
        if !was_complete && self.flows[index].is_complete() {
            self.downloading -= 1;
            self.flows.iter_mut().for_each(FlowRun::end_share);
        }
        Ok(())
    }

    fn drive_server(&mut self, index: usize) -> Result<(), RunError> {
        self.flows[index].server_ready = false;
        if self.on_server(index, Server::drive)? {
            self.serving -= 1;
            self.start_after(index);
        }
        Ok(())
    }

    /// Starts the flow that follows the ended one, if there is one.
    fn start_after(&mut self, index: usize) {
        let follows = |flow: &FlowRun| flow.plan.after == Some(index);
        let Some(next) = self.flows.iter().position(follows) else { return };
        let start = &mut self.flows[next].plan.start;
        *start += self.now;
        self.wire.queue.push(*start, Event::Start(next as u32));
    }

    fn on_client<T: Default>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Client, &mut ClientContext<'_>) -> Result<T, Failure>,
    ) -> Result<T, RunError> {
        let Some(client) = &mut self.flows[index].client else {
            return Ok(T::default());
        };
        let mut context = ClientContext {
            now: self.now,
            flow: index,
            clock: &self.clock,
            wire: &mut self.wire,
            http: &self.thread_state.settings.http,
            scratch: &mut self.thread_state.scratch,
        };
        act(client, &mut context).map_err(|failure| self.error(index, failure))
    }

    fn on_server<T: Default>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Server, &mut ServerContext<'_>) -> Result<T, Failure>,
    ) -> Result<T, RunError> {
        let FlowRun { server: Some(server), plan, .. } = &mut self.flows[index] else {
            return Ok(T::default());
        };
        let mut context = ServerContext {
            now: self.now,
            flow: index,
            plan,
            clock: &self.clock,
            wire: &mut self.wire,
            http: &self.thread_state.settings.http,
            store: &mut self.store,
        };
        act(server, &mut context).map_err(|failure| self.error(index, failure))
    }

    fn return_packets(&mut self) {
        self.wire.packets.clear();
        self.thread_state.packets = std::mem::take(&mut self.wire.packets);
    }

    fn stall(&self, index: usize) -> RunError {
        let extent = match &self.flows[index].client {
            Some(client) => client.extent(),
            None => "it has not started".to_owned(),
        };
        let reason = if self.turns_now == TURNS_AT_ONCE_MAX {
            "time does not advance"
        } else if self.wire.queue.is_empty() {
            "no event is left"
        } else {
            "the deadline has passed"
        };
        self.error(index, Failure::Stall(format!("{reason}, {extent}")))
    }

    fn error(&self, index: usize, failure: Failure) -> RunError {
        let name = self.flows[index].plan.name.clone();
        RunError { seed: self.seed, at: self.now, flow: Some((index, name)), failure }
    }

    fn outcome(mut self, scenario: &Scenario) -> Outcome {
        let mut outcome = Outcome {
            scenario: String::new(),
            parameters: serde_json::Map::new(),
            run: 1,
            seed: self.seed,
            rate_mbps: scenario.path.rate_mbps,
            rtt_ms: scenario.path.rtt_ms,
            buffer_bytes: self.wire.network.buffer_bytes(),
            l4s_wait_p99_ms: self.wire.network.l4s_wait_p99_ms(),
            flows: self.flows.into_iter().filter_map(|flow| flow.outcome(&self.clock)).collect(),
            provenance: Provenance::default(),
        };
        let like = scenario.flows.iter().flat_map(|flow| repeat_n(flow, flow.count as usize));
        for (outcome, flow) in outcome.flows.iter_mut().zip(like) {
            let flow = flow.with_bytes(outcome.object_bytes);
            let bounds = limits::bounds_from(scenario, &flow, outcome.start_ms);
            outcome.floor_ms = Some(bounds.floor_ms);
            outcome.bound_ms = limits::own(&bounds, &flow);
        }
        outcome
    }
}
