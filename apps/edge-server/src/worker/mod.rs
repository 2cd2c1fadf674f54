//! Worker: the connections of one event loop. Gives them their packets, accepts new ones, and
//! serves each when something has happened to it.

mod accept;
mod cid_table;
pub mod command;
pub mod drain;
pub mod event_loop;
pub mod eviction_log;
pub mod forwarding;
mod id_renewal;
mod memory;
pub mod nodes;
pub mod poller;
pub mod relay;
mod rotation_budget;
pub mod settings;
pub mod shutdown_barrier;
mod timer_queue;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use log::debug;
use log::warn;
use path_store::Answer;
use path_store::StateKept;
use quiche::clock;
use quiche::path_state::PrefixLengths;
use slab::Slab;

use crate::admission::budgets::Charge;
use crate::admission::budgets::WorkerBudgets;
use crate::admission::connection_limits::ConnectionLimiter;
use crate::admission::connection_limits::Limit;
use crate::admission::file_limits::FileLimiter;
use crate::admission::notices::Notices;
use crate::admission::reason::Refusal;
use crate::admission::replaceable_connections::ReplaceableConnections;
use crate::admission::room_requests::RoomRequests;
use crate::admission::Admission;
use crate::config::limits::Limits;
use crate::config::subnets::Subnets;
use crate::config::Cli;
use crate::connection::issued_ids::IdEpoch;
use crate::connection::lifecycle::CloseReason;
use crate::connection::shutdown::Stage;
use crate::connection::Connection;
use crate::connection::PollContext;
use crate::connection::PollOutcome;
use crate::content::hosts::VirtualHosts;
use crate::content::read_pool::ReadPool;
use crate::net::route::Arrival;
use crate::net::route::PacketSink;
use crate::net::send_queue::SendQueue;
use crate::quic::connection_id::ConnectionIdGenerator;
use crate::quic::connection_id::ConnectionIdReader;
use crate::quic::connection_id::IdNames;
use crate::quic::connection_id::Origin;
use crate::quic::handle::ConnectionHandle;
use crate::quic::header;
use crate::quic::stateless_reset::StatelessResets;
use crate::quic::token::Tokens;
use crate::quic::worker_octet::WorkerMaskKey;
use crate::quic::Transport;
use crate::resume::arm::ArmDraw;
use crate::resume::path_key::PathKey;
use crate::resume::store::StoreClient;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::admin::socket::ConnectionInfo;
use crate::telemetry::metrics::NodeDrop;
use crate::telemetry::metrics::WorkerMetrics;
use crate::telemetry::qlog::budget::QlogBudget;
use crate::telemetry::qlog::file::QlogDir;
use crate::telemetry::qlog::sampling::QlogSample;
use crate::telemetry::shutdown_log::ClosingReason;
use crate::telemetry::shutdown_log::ShutdownLog;
use crate::worker::cid_table::CidTable;
use crate::worker::cid_table::CidTarget;
use crate::worker::drain::Drain;
use crate::worker::drain::DrainReason;
use crate::worker::memory::AllocatorPurge;
use crate::worker::nodes::NodeSender;
use crate::worker::rotation_budget::RotationBudget;
use crate::worker::settings::WorkerConfig;
use crate::worker::timer_queue::TimerQueue;

quiche::stand_ins!();

/// Memory for uploads, whose content is counted and dropped.
const SCRATCH_BYTES: usize = 64 << 10;

/// Shortest datagram with an Initial packet, in bytes (RFC 9000, 14.1), and shortest one
/// that may open a connection.
const INITIAL_BYTES_MIN: usize = 1200;

/// Worker of one event loop.
pub struct Worker {
    name: u8,
    virtual_hosts: VirtualHosts,
    read_pool: ReadPool,
    transport: Transport,
    path_key: PathKey,
    id_generator: ConnectionIdGenerator,
    id_epoch: IdEpoch,
    rotations: RotationBudget,
    limits: Limits,
    admission: Admission,
    notices: Notices,
    room_requests: RoomRequests,
    budgets: WorkerBudgets,
    files: FileLimiter,
    resets: StatelessResets,
    store: StoreClient,
    nodes: Option<NodeSender>,
    metrics: WorkerMetrics,
    access_log: Option<AccessLog>,
    resumes: bool,
    state_kept: StateKept,
    qlogs: Option<QlogDir>,
    qlog_sample: QlogSample,
    arms: ArmDraw,
    resume_except: Subnets,

    /// Boxed, because a slab that grows moves its entries.
    connections: Slab<Box<Connection>>,
    cid_table: CidTable,
    replaceable: ReplaceableConnections,
    serial_next: u64,
    timers: TimerQueue,
    allocator_purge: AllocatorPurge,

    /// Slots to be served, each once, and the list that is being served.
    ready: Vec<usize>,
    serving: Vec<usize>,

    /// Until when ACKs of long responses are expected.
    acks_until: Instant,

    /// Slots that wait for space in the socket's buffer.
    blocked: BTreeSet<usize>,

    send_queue: SendQueue,
    packets_per_send_max: usize,
    has_warned_of_segmentation: bool,
    scratch: Vec<u8>,

    drain: Drain,
    shutdown_log: ShutdownLog,

    /// When evictions are to be logged.
    eviction_log_due: Option<Instant>,
}

/// Destination of a datagram. It holds until the worker takes something else in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The connection in this slot.
    Connection(usize),

    /// No connection that this worker knows: that of a new client, perhaps, or of another
    /// process.
    Unknown,

    /// None: the datagram is not answered.
    Nowhere,
}

/// Handles of the services that a worker uses.
pub struct WorkerServices {
    /// Name of the worker in lists, among all of the process.
    pub name: u8,

    /// Key of the worker octets in connection IDs.
    pub mask_key: WorkerMaskKey,
    pub read_pool: ReadPool,
    pub store: StoreClient,

    /// Sender to other servers, if there are any.
    pub nodes: Option<NodeSender>,
    pub metrics: WorkerMetrics,
    pub access_log: Option<AccessLog>,
    pub limiter: ConnectionLimiter,
    pub notices: Notices,
    pub room_requests: RoomRequests,
    pub budgets: WorkerBudgets,
    pub files: FileLimiter,
    pub qlogs: QlogBudget,
    pub shutdown_log: ShutdownLog,
}

impl Worker {
    /// Returns the worker whose connection IDs are of this origin.
    pub fn new(
        origin: Origin,
        cli: &Cli,
        worker_config: WorkerConfig,
        services: WorkerServices,
    ) -> Self {
        let WorkerConfig {
            virtual_hosts,
            transport,
            quic_lb,
            qlog_sample,
            limits,
            arms,
            resume_except,
        } = worker_config;
        let WorkerServices {
            name,
            mask_key,
            read_pool,
            store,
            nodes,
            metrics,
            access_log,
            limiter,
            notices,
            room_requests,
            budgets,
            files,
            qlogs,
            shutdown_log,
        } = services;
        budgets.set_limits(&limits);
        let secrets = transport.secrets.clone();
        let tokens = Tokens::new(secrets.clone());
        let lengths = PrefixLengths { v4: cli.prefix_v4, v6: cli.prefix_v6 };
        let reader = ConnectionIdReader::new(mask_key, secrets.clone(), quic_lb);
        Self {
            name,
            virtual_hosts,
            read_pool,
            transport,
            path_key: PathKey::new(cli.path_group.clone(), lengths, cli.path_dscp),
            id_generator: ConnectionIdGenerator::new(origin, reader),
            id_epoch: 0,
            rotations: RotationBudget::default(),
            limits,
            admission: Admission::new(tokens, limiter, metrics.admission.clone()),
            notices,
            room_requests,
            budgets,
            files,
            resets: StatelessResets::new(secrets),
            store,
            nodes,
            metrics,
            access_log,
            resumes: cli.resumes(),
            state_kept: cli.state(),
            qlogs: cli.qlog_dir.clone().map(|dir| QlogDir::new(dir, qlogs)),
            qlog_sample,
            arms,
            resume_except,
            connections: Slab::new(),
            cid_table: CidTable::default(),
            replaceable: ReplaceableConnections::default(),
            serial_next: 0,
            timers: TimerQueue::default(),
            allocator_purge: AllocatorPurge::default(),
            ready: Vec::new(),
            serving: Vec::new(),
            acks_until: clock::now(),
            blocked: BTreeSet::new(),
            send_queue: SendQueue::new(),
            packets_per_send_max: 0,
            has_warned_of_segmentation: false,
            scratch: vec![0; SCRATCH_BYTES],
            drain: Drain::new(Duration::from_secs(cli.drain.into())),
            shutdown_log,
            eviction_log_due: None,
        }
    }

    /// Returns the earliest deadline.
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.timers.first(),
            self.allocator_purge.deadline(),
            self.drain.deadline(),
            self.eviction_log_due,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns whether connections wait for their turn.
    pub fn has_work(&self) -> bool {
        !self.ready.is_empty()
            || self.store.has_replies()
            || !self.notices.is_empty()
            || !self.room_requests.is_empty()
    }

    /// Returns whether packets wait for space in the socket's buffer.
    pub fn has_unsent_packets(&self) -> bool {
        !self.send_queue.is_empty()
    }

    /// Returns the destination of a datagram.
    pub fn destination(&self, datagram: &[u8]) -> Destination {
        // RFC 9000, 14.1: also where it belongs to a connection.
        if datagram.len() < INITIAL_BYTES_MIN && header::is_initial(datagram) {
            return Destination::Nowhere;
        }
        match header::destination_id(datagram).map(|id| self.cid_table.find(id)) {
            Some(Some(CidTarget::Connection(slot))) => Destination::Connection(slot),
            Some(None) => Destination::Unknown,
            Some(Some(CidTarget::Ended)) | None => Destination::Nowhere,
        }
    }

    /// Returns the origin that a datagram's connection ID names.
    pub fn origin_of(&self, datagram: &[u8]) -> Option<Origin> {
        self.names_of(header::destination_id(datagram)?)?.origin
    }

    /// Forwards a datagram to the server that its connection ID names, if that is another one which is known.
    /// Returns whether it is.
    fn forward_to_node(&mut self, arrival: Arrival, datagram: &[u8]) -> bool {
        let node = self.nodes.as_ref().and_then(|_| self.node_of(datagram));
        let Some((nodes, node)) = self.nodes.as_mut().zip(node) else { return false };
        nodes.forward(node, arrival, datagram, clock::now());
        true
    }

    /// Returns whether a datagram that another server has forwarded names a third one, and is dropped: it is not
    /// forwarded twice.
    pub fn drops_misdirected(&self, datagram: &[u8]) -> bool {
        let is_misdirected = self.node_of(datagram).is_some();
        if is_misdirected {
            self.metrics.nodes.count_dropped(NodeDrop::Misdirected);
        }
        is_misdirected
    }

    fn node_of(&self, datagram: &[u8]) -> Option<SocketAddr> {
        self.names_of(header::destination_id(datagram)?)?.node
    }

    fn names_of(&self, id: &[u8]) -> Option<IdNames> {
        self.id_generator.reader().read(id)
    }

    /// Takes in a datagram with this destination.
    pub fn on_datagram(
        &mut self,
        sink: &dyn PacketSink,
        destination: Destination,
        arrival: Arrival,
        datagram: &mut [u8],
    ) {
        let slot = match destination {
            Destination::Connection(slot) => Some(slot),
            Destination::Unknown if self.forward_to_node(arrival, datagram) => None,
            Destination::Unknown => self.handle_first_packet(sink, arrival.info, datagram),
            Destination::Nowhere => None,
        };
        if let Some(slot) = slot {
            self.connections[slot].on_datagram(arrival, datagram, &self.path_key);
            if self.connections[slot].quic().retired_scids() > 0 {
                self.remove_retired_ids(slot);
            }
            self.mark_ready(slot);
        }
    }

    /// Takes the store's replies.
    pub fn on_store_replies(&mut self) {
        while let Some((handle, reply)) = self.store.next_reply() {
            self.on_store_reply(handle, reply);
        }
    }

    /// Takes the chunks that have been read from disk, and what need not wait any longer.
    pub fn on_chunks_read(&mut self) {
        while let Some(fetched) = self.read_pool.next() {
            let slot = fetched.connection.slot();
            let connection = self.connections.get_mut(slot);
            if let Some(connection) = connection.filter(|c| c.handle == fetched.connection) {
                connection.on_fetched(fetched.stream, fetched.bytes);
                self.mark_ready(slot);
            }
        }
        while let Some((handle, stream)) = self.read_pool.next_woken() {
            let connection = self.connections.get_mut(handle.slot());
            if let Some(connection) = connection.filter(|c| c.handle == handle) {
                connection.on_woken(stream);
                self.mark_ready(handle.slot());
            }
        }
    }

    /// Sends packets that have waited for space in the socket's buffer.
    pub fn on_writable(&mut self, sink: &dyn PacketSink) {
        if self.send_queue.flush(sink).is_ok() {
            for slot in std::mem::take(&mut self.blocked) {
                self.mark_ready(slot);
            }
        }
    }

    /// Serves the connections whose deadlines have passed, and those to which something has
    /// happened.
    pub fn serve(&mut self, sink: &dyn PacketSink) {
        let now = clock::now();
        if let Some(stage) = self.drain.advance(now) {
            self.enter(stage, ClosingReason::DrainTimeout, now);
        }
        if self.eviction_log_due.take_if(|due| *due <= now).is_some() {
            eviction_log::log_rest(Some(now));
        }
        if self.store.has_replies() {
            self.on_store_replies();
        }
        self.process_notices(now);
        self.make_room(sink, now);
        while let Some(slot) = self.timers.pop_due(now) {
            if self.connections[slot].on_timeout(&self.store, &self.metrics, now) {
                self.allocator_purge.on_idle(now);
            }
            self.mark_ready(slot);
        }
        self.cid_table.remove_expired(now);
        self.rotations.begin_turn();
        self.allocator_purge.on_turn(now);
        let mut serving = std::mem::take(&mut self.serving);
        std::mem::swap(&mut serving, &mut self.ready);
        for slot in serving.drain(..) {
            self.serve_one(sink, slot);
            // Before the next one opens files, of which there may be too few.
            self.close_largest_keepers(sink, now);
        }
        self.serving = serving;
    }

    /// Serves connections of which others have changed something. One whose place beyond the limit a
    /// newcomer has taken is closed.
    fn process_notices(&mut self, now: Instant) {
        for handle in self.notices.take() {
            let connection = self.connections.get_mut(handle.slot());
            let Some(connection) = connection.filter(|c| c.handle == handle) else { continue };
            if connection.lifetime().is_revoked() {
                self.metrics.admission.count_refusal(Refusal::Limit(Limit::Connections));
                connection.close(CloseReason::HandshakeTimeout, &self.store, now);
            }
            self.mark_ready(handle.slot());
        }
    }

    /// Closes connections of subnets that keep most, while all workers' keep more than they may.
    fn close_largest_keepers(&mut self, sink: &dyn PacketSink, now: Instant) {
        while let Some((resource, slot)) = self.budgets.largest_in_excess() {
            let connection = &mut self.connections[slot];
            debug!("{}: it keeps most of all {}", connection.trace_id(), resource.name());
            connection.close(CloseReason::OverBudget, &self.store, now);
            self.budgets.charge(slot, &mut connection.budget_account, Charge::default());
            self.budgets.count_eviction(resource);
            self.eviction_log_due = eviction_log::on_eviction(resource, now);
            self.serve_one(sink, slot);
        }
    }

    /// Watches whether the network device segments what is sent. Without that, each datagram costs
    /// a system call.
    pub fn watch_segmentation(&mut self, sink: &dyn PacketSink) {
        let packets_max = sink.packets_per_send_max();
        if self.packets_per_send_max != packets_max {
            if packets_max == 1 && !self.has_warned_of_segmentation {
                warn!(
                    "the network device refuses to segment datagrams (GSO): sending costs more CPU"
                );
                self.has_warned_of_segmentation = true;
            }
            self.packets_per_send_max = packets_max;
            self.metrics.set_datagrams_per_send_max(packets_max);
        }
    }

    /// Replaces the configuration: virtual hosts for every further request, connection IDs of clients when
    /// they are served next, settings for new connections.
    pub fn reload(&mut self, worker_config: WorkerConfig) {
        if self.id_generator.set_quic_lb(worker_config.quic_lb) {
            self.id_epoch = self.id_epoch.wrapping_add(1);
        }
        self.virtual_hosts = worker_config.virtual_hosts;
        self.transport = worker_config.transport;
        self.qlog_sample = worker_config.qlog_sample;
        self.limits = worker_config.limits;
        self.arms = worker_config.arms;
        self.budgets.set_limits(&self.limits);
        self.resume_except = worker_config.resume_except;
    }

    /// Accepts no more connections, and finishes requests under way.
    pub fn drain(&mut self, reason: DrainReason) {
        let now = clock::now();
        if let Some(stage) = self.drain.begin(reason, now) {
            self.enter(stage, ClosingReason::DrainTimeout, now);
        }
    }

    /// Notes that a newer process serves: this one is not needed without connections.
    pub fn on_newer_serves(&mut self) {
        self.drain.on_newer_serves();
    }

    /// Accepts connections again, unless the process is to end.
    pub fn serve_again(&mut self) {
        self.drain.serve_again();
        self.shutdown_log.on_serving_again();
    }

    /// Returns how many connections there are, and the state of up to `max` of them.
    pub fn list(&self, max: usize) -> (usize, Vec<ConnectionInfo>) {
        let now = clock::now();
        let listed = self.connections.iter().take(max).map(|(_, c)| c.info(self.name, now));
        (self.connections.len(), listed.collect())
    }

    /// Closes every connection.
    pub fn stop(&mut self) {
        let now = clock::now();
        if let Some(stage) = self.drain.close(now) {
            self.enter(stage, ClosingReason::Commanded, now);
        }
    }

    /// Closes every connection, since an older process is to serve.
    pub fn roll_back(&mut self) {
        let now = clock::now();
        if let Some(stage) = self.drain.roll_back(now) {
            self.enter(stage, ClosingReason::Commanded, now);
        }
    }

    /// Enters a stage, of which the last closes every connection, for this reason.
    fn enter(&mut self, stage: Stage, reason: ClosingReason, now: Instant) {
        debug!("{stage:?}, {} connections", self.connections.len());
        if stage == Stage::Closing {
            self.shutdown_log.on_closing(reason);
            self.shutdown_log.on_closed(self.connections.len() as u64);
            for (_, connection) in &mut self.connections {
                connection.close(CloseReason::Shutdown, &self.store, now);
            }
        }
        let slots: Vec<_> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.mark_ready(slot);
        }
    }

    /// Returns whether the shutdown is complete.
    pub fn is_shut_down(&self) -> bool {
        let all_drained =
            || self.send_queue.is_empty() && self.connections.iter().all(|(_, c)| c.is_drained());
        self.drain.is_complete(clock::now(), all_drained)
    }

    /// Drops every connection, and releases claims that are granted only now.
    pub fn end(mut self) {
        let now = clock::now();
        for mut connection in self.connections.drain() {
            connection.on_removed(self.access_log.as_ref(), &self.metrics, now);
            self.shutdown_log.on_connection_end(self.drain.stage() == Stage::Draining);
        }
        self.on_store_replies();
    }

    /// Returns whether packets may gather before the next turn. A turn for every ACK of a long
    /// response costs more than to build the packets that the ACK allows.
    pub fn may_gather(&self, now: Instant) -> bool {
        now < self.acks_until
    }

    fn mark_ready(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot) {
            if !std::mem::replace(&mut connection.ready, true) {
                self.ready.push(slot);
            }
        }
    }

    fn serve_one(&mut self, sink: &dyn PacketSink, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        connection.ready = false;
        if let Some(client) = connection.complete_handshake() {
            self.on_established(sink, slot, client);
        }
        self.renew_ids(slot);
        let connection = &mut self.connections[slot];
        let mut context = PollContext {
            sink,
            send_queue: &mut self.send_queue,
            virtual_hosts: &self.virtual_hosts,
            limits: &self.limits,
            admission: &self.admission,
            read_pool: &self.read_pool,
            http: &self.transport.http,
            store: &self.store,
            metrics: &self.metrics,
            access_log: self.access_log.as_ref(),
            stage: self.drain.stage(),
            scratch: &mut self.scratch,
        };
        let outcome = connection.drive(&mut context);
        let now = clock::now();
        if let Some(round_trip) = connection.awaits_acks(now) {
            self.acks_until = self.acks_until.max(now + round_trip);
        }
        if connection.is_removable() {
            return self.remove(slot);
        }
        if let Some((groups, from)) = connection.note_progress(now) {
            self.replaceable.note(slot, groups, from);
        }
        if let Some(charge) = connection.measure_kept(now) {
            self.budgets.charge(slot, &mut connection.budget_account, charge);
        }
        self.timers.set(slot, connection.deadline(outcome));
        match outcome {
            PollOutcome::SocketFull => {
                self.blocked.insert(slot);
            }
            PollOutcome::Yielded => self.mark_ready(slot),
            PollOutcome::Idle | PollOutcome::Paced(_) => (),
        }
    }

    /// Admits a client whose handshake is complete, if its subnet has room, and the server or a
    /// replaceable connection makes room.
    fn on_established(&mut self, sink: &dyn PacketSink, slot: usize, client: IpAddr) {
        let now = clock::now();
        let lacks_room = self.connections[slot].lifetime().needs_room(&self.limits);
        let replaced = lacks_room.and_then(|limit| self.replaceable(client, limit, now));
        let connection = &mut self.connections[slot];
        if let Err(limit) = connection.lifetime().admit(replaced.is_some(), &self.limits) {
            self.metrics.admission.count_refusal(Refusal::Limit(limit));
            return connection.close(CloseReason::Refused, &self.store, now);
        }
        let payer = connection.lifetime().payer();
        self.budgets.reassign(slot, &mut connection.budget_account, payer);
        // It is sent before the response: the client may leave with that.
        connection.send_token(&self.admission, &self.store, &self.metrics, now);
        if let Some(replaced) = replaced {
            self.replace(sink, replaced, now);
        }
    }

    fn remove(&mut self, slot: usize) {
        let mut connection = self.connections.remove(slot);
        self.budgets.charge(slot, &mut connection.budget_account, Charge::default());
        self.replaceable.remove(slot);
        connection.on_removed(self.access_log.as_ref(), &self.metrics, clock::now());
        match connection.draining_timeout() {
            Some(until) => self.cid_table.end(connection.ids.iter().copied(), until),
            None => connection.ids.iter().for_each(|id| self.cid_table.remove(id)),
        }
        debug!("{}: connection is removed", connection.trace_id());
        self.metrics.count_end();
        self.shutdown_log.on_connection_end(self.drain.stage() == Stage::Draining);
        self.timers.set(slot, None);
        self.blocked.remove(&slot);
    }

    fn on_store_reply(&mut self, handle: ConnectionHandle, reply: Answer) {
        let connection = self.connections.get_mut(handle.slot()).filter(|c| c.handle == handle);
        match (connection, reply) {
            (Some(connection), Answer::Read { state, .. }) => connection.on_read(state),
            (Some(connection), Answer::Claimed { claim, .. }) => {
                connection.on_claim(claim, &self.store, &self.metrics);
            }
            // The connection ended before the claim was granted.
            (None, Answer::Claimed { endpoint, claim: Some(claim), .. }) => {
                return self.store.release(&endpoint, claim.token);
            }
            (None, _) => return,
        }
        self.mark_ready(handle.slot());
    }
}
