//! One client's connection: feeds the transport, serves its requests, sends
//! packets when they are due, and tells the store what the path carries.

mod careful_resume;
mod idle;
pub mod lifetime;
pub mod shutdown;

use quiche::WireErrorCode;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use log::debug;
use quiche::clock;
use quiche::h3;
use quiche::hooks;
use quiche::hooks::TransmitBatch;
use quiche::path_state::Claim;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;
use quiche::PathEvent;
use quiche::RecvInfo;
use udp_batch::Socket;

use crate::config::limits::Limits;
use crate::connection::idle::IdleDetector;
use crate::connection::lifetime::Lifetime;
use crate::connection::lifetime::TimeoutKind;
use crate::connection::shutdown::GoAwayState;
use crate::connection::shutdown::Stage;
use crate::content::hosts::VirtualHosts;
use crate::content::read_pool::ReadPool;
use crate::h3::goaway;
use crate::h3::RequestContext;
use crate::h3::Session;
use crate::net::route::PacketSink;
use crate::net::send_queue::Blocked;
use crate::net::send_queue::SendQueue;
use crate::quic::connection_id::Cid;
use crate::quic::handle::ConnectionHandle;
use crate::quic::Quic;
use crate::resume::path_key::PathKey;
use crate::resume::store::StoreClient;
use crate::resume::summary::ResumeSummary;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::access_log::LogLine;
use crate::telemetry::metrics::StatsDelta;
use crate::telemetry::metrics::WorkerMetrics;
use path_store::claim_lifecycle::ClaimLifecycle;

/// After so many bytes other connections have their turn. No congestion window
/// opens that far at once on the paths that the server is for, as a rule.
const TURN_BYTES_MAX: usize = 4 << 20;
/// A client's connection.
pub struct Connection {
    pub handle: ConnectionHandle,

    /// Connection IDs that lead here.
    pub ids: Vec<Cid>,

    /// It is on the worker's list of connections to serve.
    pub ready: bool,

    /// Large: it is moved once.
    quic: Box<Quic>,
    http: Option<Session>,
    endpoint: RemoteEndpoint,
    claim_lifecycle: ClaimLifecycle,

    /// Absent where Careful Resume is off.
    resume_summary: Option<ResumeSummary>,

    lifetime: Lifetime,
    idle: IdleDetector,
    goaway: GoAwayState,
    stats_delta: StatsDelta,

    /// When the next packet was due at the end of the last turn, if it was not yet.
    release: Option<Instant>,

    /// The last observation has been made and the claim given back.
    over: bool,

    /// It ends without waiting for what the client says.
    given_up: bool,
}

/// What a connection works with during its turn.
pub struct PollContext<'a> {
    pub socket: &'a Socket,
    pub send_queue: &'a mut SendQueue,
    pub virtual_hosts: &'a VirtualHosts,
    pub limits: &'a Limits,
    pub read_pool: &'a ReadPool,
    pub http: &'a h3::Config,
    pub store: &'a StoreClient,
    pub metrics: &'a WorkerMetrics,
    pub access_log: Option<&'a AccessLog>,
    pub stage: Stage,

    /// Memory for what clients upload.
    pub scratch: &'a mut [u8],
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOutcome {
    /// Nothing is left to do until a packet comes or a timer expires.
    Idle,

    /// The next packet is due then.
    Paced(Instant),

    /// The socket takes no more.
    SocketFull,

    /// It had its share.
    Yielded,
}

impl Connection {
    /// A connection just accepted, `now`, with a report where it resumes.
    pub fn new(
        handle: ConnectionHandle,
        ids: Vec<Cid>,
        quic: Box<Quic>,
        endpoint: RemoteEndpoint,
        resume_summary: Option<ResumeSummary>,
        lifetime: Lifetime,
        now: Instant,
    ) -> Self {
        let claim_lifecycle = ClaimLifecycle::new(now);
        Self {
            handle,
            ids,
            ready: false,
            quic,
            http: None,
            endpoint,
            claim_lifecycle,
            resume_summary,
            lifetime,
            idle: IdleDetector::default(),
            goaway: GoAwayState::NotSent,
            stats_delta: StatsDelta::new(now),
            release: None,
            over: false,
            given_up: false,
        }
    }

    /// The transport, for what concerns connection IDs.
    pub fn quic(&mut self) -> &mut Quic {
        &mut self.quic
    }

    /// The address of ours that the client sends to.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.quic.path_stats().find(|path| path.active).map(|path| path.local_addr)
    }

    /// How messages name it.
    pub fn trace_id(&self) -> &str {
        self.quic.trace_id()
    }

    /// Nothing is left to do for it. Where it has a qlog, its last event is still to come.
    pub fn is_gone(&mut self) -> bool {
        let is_told = self.over && self.quic.is_draining() && self.quic.qlog_streamer().is_none();
        self.quic.is_closed() || self.given_up || is_told
    }

    /// Packets of it that come until then are not answered (RFC 9000, 10.2).
    pub fn drains_until(&self) -> Option<Instant> {
        self.quic.timeout_instant().filter(|_| self.quic.is_draining())
    }

    /// The handshake is complete. Returns whether the client may stay.
    pub fn on_established(&mut self, limits: &Limits) -> bool {
        let may_stay = self.lifetime.on_established(limits);
        if !may_stay {
            let _ = self.quic.close(false, WireErrorCode::ConnectionRefused as u64, b"");
        }
        may_stay
    }

    /// A datagram has come for it.
    pub fn on_datagram(&mut self, info: RecvInfo, datagram: &mut [u8], path_key: &PathKey) {
        self.idle.on_activity();
        if let Err(e) = self.quic.recv(datagram, info) {
            debug!("{}: packet from {}: {e}", self.quic.trace_id(), info.from);
        }
        while let Some(event) = self.quic.path_event_next() {
            let PathEvent::PeerMigrated(local, peer) = event else { continue };
            if path_key.remote_endpoint(local.ip(), peer) != self.endpoint {
                debug!("{}: moved to {peer}", self.quic.trace_id());
                self.claim_lifecycle.on_move();
            }
        }
    }

    /// A deadline has passed. Returns whether the connection has come to rest.
    pub fn on_timeout(&mut self, metrics: &WorkerMetrics, now: Instant) -> bool {
        if self.quic.timeout_instant().is_some_and(|at| at <= now) {
            self.quic.on_timeout();
        }
        if let Some(late) = self.lifetime.expire(now) {
            metrics.drops.count_late(late.name());
            self.on_late(late, now);
        }
        if let Some(http) = &mut self.http {
            let stalled = http.give_up_stalled(&mut self.quic, now);
            metrics.drops.count_stalled(stalled);
        }
        let rests = self.idle.take_idle(now);
        if rests {
            self.shrink_to_fit();
        }
        rests
    }

    /// Gives memory back that nothing is in.
    fn shrink_to_fit(&mut self) {
        debug!("{}: at rest", self.quic.trace_id());
        hooks::shrink_to_fit(&mut self.quic);
        if let Some(http) = &mut self.http {
            http.shrink_to_fit();
        }
    }

    fn on_late(&mut self, late: TimeoutKind, now: Instant) {
        debug!("{}: {late:?} takes too long", self.quic.trace_id());
        match late {
            // The address may be forged, so that this packet is the last.
            TimeoutKind::Handshake => {
                let _ = self.quic.close(false, WireErrorCode::ConnectionRefused as u64, b"");
                self.given_up = true;
            }
            TimeoutKind::Connection => self.advance_goaway(now),
        }
    }

    /// The store has answered the read.
    pub fn on_read(&mut self, found: Option<PathState>) {
        if let Some(saved) = found {
            hooks::raise_initial_rtt(&mut self.quic, saved.saved_rtt);
        }
        self.claim_lifecycle.on_read(found);
    }

    /// The store has answered the claim.
    pub fn on_claim(&mut self, claim: Option<Claim>, store: &StoreClient) {
        let action = self.claim_lifecycle.on_claim(claim);
        self.act(action, store);
    }

    /// A piece of a response has been read from disk.
    pub fn on_fetched(&mut self, stream: u64, bytes: io::Result<Bytes>) {
        if let Some(http) = &mut self.http {
            http.on_fetched(stream, bytes);
        }
    }

    /// When it must be served again, if its last turn ended with `outcome`.
    pub fn deadline(&self, outcome: PollOutcome) -> Option<Instant> {
        let release = match outcome {
            PollOutcome::Paced(at) => Some(at),
            _ => None,
        };
        let observation = self.claim_lifecycle.next_observation().filter(|_| !self.over);
        let goaway = self.goaway.until();
        let stalled = self.http.as_ref().and_then(Session::deadline);
        let own = [
            release,
            observation,
            self.claim_lifecycle.claim_timeout(),
            goaway,
            self.lifetime.deadline(),
            self.idle.deadline(),
            stalled,
        ];
        let deadlines = own.into_iter().chain([self.quic.timeout_instant()]);
        deadlines.flatten().min()
    }

    /// See [`Session::awaits_acks`].
    pub fn awaits_acks(&self) -> Option<Duration> {
        self.http.as_ref()?.awaits_acks(&self.quic)
    }

    /// Gets as far as requests, windows and release times allow.
    pub fn drive(&mut self, context: &mut PollContext<'_>) -> PollOutcome {
        let mut sent_bytes = 0;
        let mut release = self.release.take();
        let outcome = loop {
            let now = clock::now();
            if let Some(release) = release.take().filter(|release| *release <= now) {
                context.metrics.count_lateness(now - release);
            }
            self.idle.on_turn(now);
            if context.stage > Stage::Serving || self.goaway != GoAwayState::NotSent {
                self.advance_goaway(now);
            }
            let served = self.serve(context, now);
            if self.has_parted() {
                self.stop(context.store, now);
            }
            self.follow_resume(context.store, context.metrics, now);
            self.report_finished_requests(context.access_log, context.metrics);
            let before = sent_bytes;
            let outcome = self.transmit(context, now, &mut sent_bytes);
            if context.send_queue.flush(context.socket) == Err(Blocked) {
                break PollOutcome::SocketFull;
            }
            match outcome {
                PollOutcome::Idle if served || sent_bytes > before => (),
                // There may be more to pass to the transport meanwhile.
                PollOutcome::Paced(_) if served => (),
                outcome => break outcome,
            }
        };
        if sent_bytes > 0 {
            self.claim_lifecycle.on_activity();
        }
        if let PollOutcome::Paced(release) = outcome {
            self.release = Some(release);
        }
        outcome
    }

    /// Begins to end the connection because the server stops. Its next turns tell
    /// the client, as soon as the congestion window has room for it.
    pub fn stop(&mut self, store: &StoreClient, now: Instant) {
        self.finish(store, now);
        goaway::close(&mut self.quic);
    }

    /// The connection is no more. Tells of what was under way.
    pub fn end(&mut self, log: Option<&AccessLog>, metrics: &WorkerMetrics, now: Instant) {
        self.stats_delta.report(&self.quic.stats(), &metrics.traffic, now);
        if self.resume_summary.is_some_and(|report| report.has_unused_parameters()) {
            metrics.resume.on_unused();
        }
        let left_well = self.quic.peer_error().is_some_and(goaway::is_no_error);
        if let Some(http) = &mut self.http {
            http.end(left_well, now);
        }
        self.report_finished_requests(log, metrics);
    }

    /// The client has been told of the end, or told us of it.
    pub fn is_ended(&self) -> bool {
        self.quic.is_draining() || self.quic.is_closed()
    }

    /// The client has what it asked, and knows what it has to ask elsewhere.
    fn has_parted(&self) -> bool {
        let Some(http) = &self.http else { return self.goaway.is_final() };
        let has_heard = self.goaway == GoAwayState::TimedOut || http.is_heard(&self.quic);
        self.goaway.is_final() && http.is_idle() && has_heard
    }

    fn advance_goaway(&mut self, now: Instant) {
        let before = self.goaway;
        self.goaway = before.next(self.http.is_some(), now);
        if self.goaway != before {
            debug!("{}: goaway: {:?}", self.quic.trace_id(), self.goaway);
        }
    }

    fn serve(&mut self, context: &mut PollContext<'_>, now: Instant) -> bool {
        if self.over {
            return false;
        }
        let is_open = self.quic.is_established() || self.quic.is_in_early_data();
        if self.http.is_none() && is_open && !self.quic.is_draining() {
            match Session::new(
                &mut self.quic,
                context.http,
                context.limits,
                context.access_log.is_some(),
                now,
            ) {
                Ok(http) => self.http = Some(http),
                Err(e) => {
                    debug!("{}: cannot start HTTP/3: {e}", self.quic.trace_id());
                    let _ = self.quic.close(false, WireErrorCode::InternalError as u64, b"");
                }
            }
        }
        let Some(http) = &mut self.http else {
            return false;
        };
        if self.goaway != GoAwayState::NotSent {
            // Before responses take the whole window.
            http.go_away(&mut self.quic, self.goaway.is_final());
        }
        let wall_now = clock::wall_now();
        let fetch = &mut |stream, range| {
            context.metrics.count_disk_read();
            context.read_pool.fetch(self.handle, stream, range);
        };
        let mut request_context = RequestContext {
            virtual_hosts: context.virtual_hosts,
            limits: context.limits,
            scratch: context.scratch,
            now,
            wall_now,
            fetch,
        };
        let asked = http.take_requests(&mut self.quic, &mut request_context);
        let wrote = http.write(&mut self.quic, &mut request_context);
        asked || wrote
    }

    /// Counts the exchanges that are over, and writes them to the log.
    fn report_finished_requests(&mut self, log: Option<&AccessLog>, metrics: &WorkerMetrics) {
        let Some(http) = &mut self.http else { return };
        for ended in http.take_finished() {
            metrics.responses.count(&ended);
            let Some(log) = log else { continue };
            let active = self.quic.path_stats().find(|path| path.active);
            let Some(client) = active.map(|path| path.peer_addr) else { continue };
            let connection = self.quic.trace_id().to_owned();
            log.write(LogLine { client, connection, ended, resume: self.resume_summary });
        }
    }

    /// Sends until nothing is left or the next packet is not due.
    fn transmit(
        &mut self,
        context: &mut PollContext<'_>,
        mut now: Instant,
        sent_bytes: &mut usize,
    ) -> PollOutcome {
        loop {
            if context.send_queue.reserve(context.socket) == Err(Blocked) {
                return PollOutcome::SocketFull;
            }
            // Packets that leave together are made at one time.
            if context.send_queue.is_empty() {
                now = clock::now();
            }
            if let Some(release) = self.quic.get_next_release_time() {
                if let Some(at) = release.time(now) {
                    return PollOutcome::Paced(at);
                }
            }
            if *sent_bytes >= TURN_BYTES_MAX {
                return PollOutcome::Yielded;
            }
            match self.send_some(context, now) {
                Ok(0) => return PollOutcome::Idle,
                Ok(bytes) => *sent_bytes += bytes,
                Err(Blocked) => return PollOutcome::SocketFull,
            }
        }
    }

    /// Builds packets that may leave together. Returns their bytes, 0 if there is nothing
    /// to send.
    fn send_some(&mut self, context: &mut PollContext<'_>, now: Instant) -> Result<usize, Blocked> {
        let packets_max = context.socket.packets_per_send_max();
        let room = context.send_queue.spare_space(context.socket)?;
        match hooks::send_batch(&mut self.quic, room, packets_max, now) {
            Ok(TransmitBatch { len, packet_len, info }) => {
                context.send_queue.push(len, packet_len, &info.to, &info.from, context.socket);
                Ok(len)
            }
            Err(quiche::Error::Done) => Ok(0),
            Err(e) => {
                debug!("{}: cannot send: {e}", self.quic.trace_id());
                let _ = self.quic.close(false, WireErrorCode::InternalError as u64, b"");
                Ok(0)
            }
        }
    }
}
