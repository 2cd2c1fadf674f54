//! Connection of one client: gives packets to the transport, answers requests, sends
//! packets when they are due, and saves what the path carries.

mod careful_resume;
mod idle;
pub mod issued_ids;
mod kept;
pub mod lifecycle;
pub mod lifetime;
pub mod progress;
pub mod shutdown;
mod token;

use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use log::debug;
use path_store::claim_lifecycle::ClaimLifecycle;
use path_store::OwnState;
use path_store::StateKept;
use quiche::clock;
use quiche::ecn::EcnState;
use quiche::h3;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;
use quiche::ActivePath;
use quiche::PathEvent;
use quiche::TransmitBatch;
use quiche::WireErrorCode;

use crate::admission::budgets::BudgetAccount;
use crate::admission::budgets::Charge;
use crate::admission::connection_limits::ClientGroup;
use crate::admission::Admission;
use crate::config::limits::Limits;
use crate::connection::idle::IdleDetector;
use crate::connection::issued_ids::IssuedIds;
use crate::connection::kept::KeptMeter;
use crate::connection::lifecycle::CloseReason;
use crate::connection::lifecycle::Lifecycle;
use crate::connection::lifetime::Lifetime;
use crate::connection::lifetime::TimeoutKind;
use crate::connection::progress::ProgressMeter;
use crate::connection::shutdown::Stage;
use crate::content::hosts::VirtualHosts;
use crate::content::read_pool::ReadPool;
use crate::h3::goaway;
use crate::h3::RequestContext;
use crate::h3::Session;
use crate::http::body::PendingChunk;
use crate::http::response::ConnectionEffect;
use crate::net::route::AddressPair;
use crate::net::route::Arrival;
use crate::net::route::PacketSink;
use crate::net::send_queue::Blocked;
use crate::net::send_queue::SendQueue;
use crate::quic::client_certificate;
use crate::quic::client_certificate::CertificateRefusal;
use crate::quic::controllers;
use crate::quic::handle::ConnectionHandle;
use crate::quic::Quic;
use crate::resume::carried_state::CarriedState;
use crate::resume::own_state::Source;
use crate::resume::path_key::PathKey;
use crate::resume::pending_claim::PendingClaim;
use crate::resume::store::StoreClient;
use crate::resume::summary::ResumeSummary;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::access_log::LogLine;
use crate::telemetry::access_log::LoggedConnection;
use crate::telemetry::admin::socket::ConnectionInfo;
use crate::telemetry::metrics::StatsDelta;
use crate::telemetry::metrics::WorkerMetrics;

quiche::stand_ins!();

/// Bytes of one turn, after which other connections have theirs. As a rule no congestion
/// window opens that far at once on the paths that the server is for.
const TURN_BYTES_MAX: usize = 4 << 20;

/// Alert of a server that has got no certificate of the client (RFC 8446, 6.2), as an error of QUIC
/// (RFC 9001, 4.8).
const CERTIFICATE_REQUIRED: u64 = 0x100 + 116;

/// A client's connection.
pub struct Connection {
    pub handle: ConnectionHandle,

    /// Connection IDs in the worker's table.
    pub ids: IssuedIds,

    /// Whether it is on the worker's list of connections to serve.
    pub ready: bool,

    /// What the budgets of the worker are charged with for it.
    pub budget_account: BudgetAccount,

    /// Boxed, because it is large and a connection is moved when it is made.
    quic: Box<Quic>,
    http: Option<Session>,
    endpoint: RemoteEndpoint,
    claim_lifecycle: ClaimLifecycle,

    /// Saved parameters that the store's read returned.
    found: Option<PathState>,

    carried_state: CarriedState,

    /// Absent unless it is open whether the claim will be of use.
    pending_claim: Option<PendingClaim>,

    /// Absent where Careful Resume is off.
    resume_summary: Option<ResumeSummary>,

    /// Name of the client's certificate, once it has been logged.
    client_certificate: Option<Box<str>>,

    lifecycle: Lifecycle,
    lifetime: Lifetime,
    idle: IdleDetector,
    progress: ProgressMeter,
    replaceable_from: Option<Instant>,
    kept_meter: KeptMeter,
    stats_delta: StatsDelta,
    accepted: Instant,

    /// Release time that the last turn ended at.
    release: Option<Instant>,
}

/// Resources of the worker that a connection's turn uses.
pub struct PollContext<'a> {
    pub sink: &'a dyn PacketSink,
    pub send_queue: &'a mut SendQueue,
    pub virtual_hosts: &'a VirtualHosts,
    pub limits: &'a Limits,
    pub admission: &'a Admission,
    pub read_pool: &'a ReadPool,
    pub http: &'a h3::Config,
    pub store: &'a StoreClient,
    pub metrics: &'a WorkerMetrics,
    pub access_log: Option<&'a AccessLog>,
    pub stage: Stage,

    /// Memory for what clients upload.
    pub scratch: &'a mut [u8],
}

/// Outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollOutcome {
    /// Nothing is left to do until a packet arrives or a timer expires.
    Idle,

    /// The next packet is due then.
    Paced(Instant),

    /// The socket's buffer is full.
    SocketFull,

    /// Other connections have their turn first.
    Yielded,
}

impl Connection {
    /// Returns a connection just accepted, with a summary where Careful Resume is on.
    pub fn new(
        handle: ConnectionHandle,
        ids: IssuedIds,
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
            budget_account: BudgetAccount::new(lifetime.payer()),
            quic,
            http: None,
            endpoint,
            claim_lifecycle,
            found: None,
            carried_state: CarriedState::new(StateKept::Store, OwnState::Unknown, now),
            pending_claim: None,
            resume_summary,
            client_certificate: None,
            lifecycle: Lifecycle::new(),
            lifetime,
            idle: IdleDetector::default(),
            progress: ProgressMeter::new(now),
            replaceable_from: None,
            kept_meter: KeptMeter::new(now),
            stats_delta: StatsDelta::new(now),
            accepted: now,
            release: None,
        }
    }

    /// Takes what the client brings and is to carry.
    pub fn with_carried_state(mut self, carried_state: CarriedState) -> Self {
        self.on_read(carried_state.path().saved());
        self.carried_state = carried_state;
        self
    }

    /// Returns the transport, for connection IDs and tokens.
    pub fn quic(&mut self) -> &mut Quic {
        &mut self.quic
    }

    /// Returns the address of ours that the client sends to.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.quic.active_path().map(|path| path.local_addr)
    }

    /// Returns its name in messages.
    pub fn trace_id(&self) -> &str {
        self.quic.trace_id()
    }

    /// Returns its state, for lists.
    pub fn info(&self, worker: u8, now: Instant) -> ConnectionInfo {
        let (path, stats) = (self.quic.active_path(), self.quic.stats());
        let ms = |time: Duration| time.as_micros() as f64 / 1e3;
        let source = self.resume_summary.and_then(|summary| summary.source);
        ConnectionInfo {
            worker,
            connection: self.quic.trace_id().to_owned(),
            client: path.as_ref().map(|path| path.peer_addr.to_string()).unwrap_or_default(),
            age_s: now.saturating_duration_since(self.accepted).as_millis() as f64 / 1e3,
            state: self.lifecycle.name(),
            cc: controllers::of(&self.quic),
            rtt_ms: path.as_ref().map(|path| ms(path.rtt)).unwrap_or_default(),
            min_rtt_ms: path.as_ref().and_then(|path| path.min_rtt).map(ms),
            window_bytes: path.as_ref().map(|path| path.cwnd).unwrap_or_default(),
            sent_bytes: stats.sent_bytes,
            received_bytes: stats.recv_bytes,
            lost_packets: stats.lost,
            kept_bytes: self.kept_responses() + self.kept_requests(),
            open_files: self.lifetime.files().open(),
            requests: self.http.as_ref().map_or(0, Session::requests),
            resume: self.resume_summary.map(|summary| summary.phase.name()),
            jump_bytes: self.resume_summary.and_then(|summary| summary.jump_bytes),
            resume_source: source.map(Source::name),
            ecn: self.quic.ecn_stats().state.map(EcnState::name),
        }
    }

    /// Returns whether the worker may drop the connection.
    pub fn is_removable(&mut self) -> bool {
        let is_qlog_complete = self.quic.is_closed() || self.quic.qlog_streamer().is_none();
        self.lifecycle.is_removable(is_qlog_complete)
    }

    /// Returns whether nothing more is to be sent.
    pub fn is_drained(&self) -> bool {
        self.lifecycle.is_drained()
    }

    /// Returns until when packets that still arrive are not answered (RFC 9000, 10.2).
    pub fn draining_timeout(&self) -> Option<Instant> {
        self.quic.timeout_instant().filter(|_| self.quic.is_draining())
    }

    /// Returns the client once its handshake is complete, the first time.
    pub fn complete_handshake(&mut self) -> Option<IpAddr> {
        match self.quic.is_established() {
            true => self.lifetime.complete_handshake(),
            false => None,
        }
    }

    /// Returns how long the connection may last, and its place among all.
    pub fn lifetime(&mut self) -> &mut Lifetime {
        &mut self.lifetime
    }

    /// Notes whether anything has moved. Returns the groups that the connection is one of, and from
    /// when on another client may take its place if nothing moves. `None` if the handshake is not
    /// complete, or the connection ends.
    pub fn note_progress(&mut self, now: Instant) -> Option<([ClientGroup; 2], Instant)> {
        let is_open = self.lifecycle.is_active() && self.quic.is_established();
        let is_idle = self.http.as_ref().filter(|_| is_open).map(Session::is_idle);
        let bytes = || {
            let stats = self.quic.stats();
            stats.recv_bytes + stats.acked_bytes
        };
        if let Some(until) = self.http.as_ref().and_then(Session::limited_until) {
            self.progress.on_wait(until, now);
        }
        self.replaceable_from = is_idle.map(|is_idle| self.progress.on_turn(is_idle, bytes, now));
        Some((self.lifetime.groups(), self.replaceable_from?))
    }

    /// Returns what [`Self::note_progress()`] returned.
    pub fn replaceable_from(&self) -> Option<Instant> {
        self.replaceable_from
    }

    /// Takes a datagram in.
    pub fn on_datagram(&mut self, arrival: Arrival, datagram: &mut [u8], path_key: &PathKey) {
        let Arrival { info, ecn } = arrival;
        self.idle.on_activity();
        self.kept_meter.on_received(datagram.len());
        if let Err(e) = self.quic.recv_ecn(datagram, info, ecn) {
            debug!("{}: packet from {}: {e}", self.quic.trace_id(), info.from);
        }
        while let Some(event) = self.quic.path_event_next() {
            let PathEvent::PeerMigrated(local, peer) = event else { continue };
            if path_key.remote_endpoint(local.ip(), peer) != self.endpoint {
                debug!("{}: moved to {peer}", self.quic.trace_id());
                self.claim_lifecycle.on_migration();
                self.carried_state.on_migration();
            }
        }
    }

    /// Acts on the deadlines that have passed. Returns whether the connection has become
    /// idle.
    pub fn on_timeout(
        &mut self,
        store: &StoreClient,
        metrics: &WorkerMetrics,
        now: Instant,
    ) -> bool {
        if self.quic.timeout_instant().is_some_and(|at| at <= now) {
            self.quic.on_timeout();
        }
        if let Some(timeout) = self.lifetime.expire(now) {
            metrics.drops.count_timeout(timeout.name());
            self.on_lifetime_timeout(timeout, store, now);
        }
        if let Some(http) = &mut self.http {
            let stalled = http.cancel_stalled(&mut self.quic, now);
            metrics.drops.count_stalled(stalled);
        }
        let is_idle = self.idle.take_idle(now);
        if is_idle {
            self.shrink_to_fit();
        }
        is_idle
    }

    /// Frees unused memory.
    fn shrink_to_fit(&mut self) {
        debug!("{}: idle, unused memory freed", self.quic.trace_id());
        self.quic.shrink_to_fit();
        if let Some(http) = &mut self.http {
            http.shrink_to_fit();
        }
    }

    fn on_lifetime_timeout(&mut self, timeout: TimeoutKind, store: &StoreClient, now: Instant) {
        debug!("{}: {timeout:?} takes too long", self.quic.trace_id());
        match timeout {
            TimeoutKind::Handshake => self.close(CloseReason::HandshakeTimeout, store, now),
            TimeoutKind::Connection => self.enter(self.lifecycle.go_away(now), store, now),
        }
    }

    /// Takes the saved parameters that the client brought, or the store's reply to the read.
    pub fn on_read(&mut self, found: Option<PathState>) {
        if let Some(saved) = found {
            self.quic.raise_initial_rtt(saved.saved_rtt);
        }
        self.found = found;
        self.claim_lifecycle.on_read(found);
    }

    /// Takes a chunk of a response that has been read from disk.
    pub fn on_fetched(&mut self, stream: u64, bytes: io::Result<Bytes>) {
        self.kept_meter.on_received(bytes.as_ref().map_or(0, Bytes::len));
        if let Some(http) = &mut self.http {
            http.on_fetched(stream, bytes);
        }
    }

    /// Notes that a request or a response need not wait any longer.
    pub fn on_woken(&mut self, stream: u64) {
        if let Some(http) = &mut self.http {
            http.on_woken(stream);
        }
    }

    /// Returns when the next turn is due, if the last one ended with `outcome`.
    pub fn deadline(&self, outcome: PollOutcome) -> Option<Instant> {
        let release = match outcome {
            PollOutcome::Paced(at) => Some(at),
            _ => None,
        };
        let is_active = self.lifecycle.is_active();
        let observation = self.claim_lifecycle.next_observation().filter(|_| is_active);
        let stalled = self.http.as_ref().and_then(Session::deadline);
        let own = [
            release,
            observation,
            self.claim_deadline(),
            self.lifecycle.deadline(),
            self.lifetime.deadline(),
            self.idle.deadline(),
            stalled,
        ];
        let deadlines = own.into_iter().chain([self.quic.timeout_instant()]);
        deadlines.flatten().min()
    }

    fn kept_responses(&self) -> u64 {
        let data = self.http.as_ref().map_or(0, |http| http.kept_bytes(&self.quic));
        data + kept::surplus_record_bytes(self.quic.packets_kept(), data)
    }

    fn kept_requests(&self) -> u64 {
        let of_http = self.http.as_ref().map_or(0, Session::kept_request_bytes);
        let chunks = kept::chunk_bytes(self.quic.stream_chunks_unread());
        self.quic.stream_bytes_unread() + chunks + of_http
    }

    /// Measures what the connection keeps, if it is time.
    pub fn measure_kept(&mut self, now: Instant) -> Option<Charge> {
        let written = self.http.as_ref().map_or(0, |http| http.written_bytes());
        let files = self.lifetime.files().open();
        let is_idle = self.http.as_ref().is_some_and(Session::is_idle);
        let unread = self.quic.stream_bytes_unread() > 0;
        let is_due = self.kept_meter.take_due(written, files, unread, is_idle, now);
        is_due.then(|| {
            let (responses, requests) = (self.kept_responses(), self.kept_requests());
            self.kept_meter.on_measured(responses + requests);
            Charge::new(responses, requests, files)
        })
    }

    /// See [`Session::awaits_acks`].
    pub fn awaits_acks(&self, now: Instant) -> Option<Duration> {
        self.http.as_ref()?.awaits_acks(&self.quic, now)
    }

    /// Takes a turn: reads requests, and sends as far as windows and release times allow.
    pub fn drive(&mut self, context: &mut PollContext<'_>) -> PollOutcome {
        let mut sent_bytes = 0;
        let mut release = self.release.take();
        let outcome = loop {
            let now = clock::now();
            if let Some(release) = release.take().filter(|release| *release <= now) {
                context.metrics.count_lateness(now - release);
            }
            self.idle.on_turn(now);
            self.open_session(context, now);
            self.advance_lifecycle(context, now);
            let served = self.serve(context, now);
            if self.may_close(now) {
                self.close(CloseReason::Shutdown, context.store, now);
            }
            self.follow_resume(context.store, context.metrics, now);
            self.renew_token(context, now);
            self.report_finished_requests(context.access_log, context.metrics);
            let before = sent_bytes;
            let outcome = self.transmit(context, now, &mut sent_bytes);
            if context.send_queue.flush(context.sink) == Err(Blocked) {
                break PollOutcome::SocketFull;
            }
            match outcome {
                PollOutcome::Idle if served || sent_bytes > before => (),
                // There may be more to pass to the transport meanwhile.
                PollOutcome::Paced(_) if served => (),
                outcome => break outcome,
            }
        };
        if !self.lifecycle.is_active() {
            self.follow_transport(context.store, clock::now());
        }
        if sent_bytes > 0 {
            self.claim_lifecycle.on_activity();
        }
        if let PollOutcome::Paced(release) = outcome {
            self.release = Some(release);
        }
        outcome
    }

    /// Closes the connection. CONNECTION_CLOSE leaves with the next turns, as soon as the
    /// congestion window has room for it.
    pub fn close(&mut self, reason: CloseReason, store: &StoreClient, now: Instant) {
        let _ = match reason {
            CloseReason::Shutdown | CloseReason::Replaced => goaway::close(&mut self.quic),
            CloseReason::HandshakeTimeout | CloseReason::Refused => {
                self.quic.close(false, WireErrorCode::ConnectionRefused as u64, b"")
            }
            CloseReason::Internal => {
                self.quic.close(false, WireErrorCode::InternalError as u64, b"")
            }
            CloseReason::OverBudget => {
                let code = h3::WireErrorCode::ExcessiveLoad as u64;
                self.quic.close(true, code, b"the server keeps too much for this client")
            }
            CloseReason::Transport => Ok(()),
        };
        self.enter(self.lifecycle.close(reason), store, now);
    }

    /// Reports what was under way on a connection that the worker drops.
    pub fn on_removed(&mut self, log: Option<&AccessLog>, metrics: &WorkerMetrics, now: Instant) {
        self.report_traffic(metrics, now);
        if self.resume_summary.is_some_and(|summary| summary.has_unused_parameters()) {
            metrics.resume.on_unused();
        }
        if self.resume_summary.is_some() && self.is_violated() {
            metrics.resume.on_violation();
        }
        let is_clean = self.quic.peer_error().is_some_and(goaway::is_no_error);
        if let Some(http) = &mut self.http {
            http.on_connection_end(is_clean, now);
        }
        self.report_finished_requests(log, metrics);
        self.report_path(metrics);
    }

    /// Counts the path of a connection that ends, or its failed handshake.
    fn report_path(&mut self, metrics: &WorkerMetrics) {
        if self.lifetime.is_handshake_under_way() {
            metrics.handshake_failures.count(self.quic.peer_error(), self.quic.local_error());
            if self.quic.is_in_early_data() {
                metrics.early_data.count_unconfirmed();
            }
            self.report_certificate(metrics);
        } else if let Some(path) = self.quic.active_path() {
            metrics.paths.observe_path(self.has_jumped(), path.min_rtt, path.cwnd);
            metrics.ecn.count(self.quic.ecn_stats().state);
            metrics.early_data.count(self.quic.early_data_reason());
        }
    }

    /// Counts and logs a client that was refused for its certificate.
    fn report_certificate(&mut self, metrics: &WorkerMetrics) {
        let error = self.quic.local_error();
        let is_missing = error.is_some_and(|error| error.error_code == CERTIFICATE_REQUIRED);
        let Some(refusal) = CertificateRefusal::of((*self.quic).as_mut(), is_missing) else {
            return;
        };
        metrics.certificate_refusals.count(refusal.reason);
        let path = self.quic.active_path();
        let client = path.map(|path| path.peer_addr.to_string()).unwrap_or_default();
        debug!("{}: {client}: {refusal}", self.quic.trace_id());
    }

    fn has_jumped(&self) -> bool {
        self.resume_summary.is_some_and(|summary| summary.has_jumped())
    }

    /// Enters a state. Leaving the last one that is active records what was observed, and
    /// releases the claim.
    fn enter(&mut self, next: Lifecycle, store: &StoreClient, now: Instant) {
        let before = std::mem::replace(&mut self.lifecycle, next);
        if next == before {
            return;
        }
        debug!("{}: {next:?}", self.quic.trace_id());
        if before.is_active() && !next.is_active() {
            self.end_claim(store, now);
        }
    }

    fn advance_lifecycle(&mut self, context: &PollContext<'_>, now: Instant) {
        let lifecycle = match context.stage {
            Stage::Serving => self.lifecycle,
            Stage::Draining | Stage::Closing => self.lifecycle.go_away(now),
        };
        self.enter(lifecycle.advance(now), context.store, now);
    }

    /// Follows the transport into its draining state (RFC 9000, 10.2).
    fn follow_transport(&mut self, store: &StoreClient, now: Instant) {
        if self.quic.is_draining() || self.quic.is_closed() {
            self.enter(self.lifecycle.on_drained(), store, now);
        }
    }

    fn may_close(&self, now: Instant) -> bool {
        let http = self.http.as_ref();
        let unanswered = http.is_some_and(|http| !http.is_idle());
        let acknowledged = http.is_none_or(|http| http.is_goaway_acknowledged(&self.quic));
        self.lifecycle.may_close(unanswered, acknowledged, now)
    }

    /// Begins HTTP/3 as soon as requests can be read.
    fn open_session(&mut self, context: &PollContext<'_>, now: Instant) {
        // RFC 8470, 5.1: what a forged address requests waits for a handshake that does not end.
        let reads_early = self.quic.is_in_early_data() && self.lifetime.is_validated();
        let is_open = self.quic.is_established() || reads_early;
        let is_closing = !self.lifecycle.is_active() || self.quic.is_draining();
        if self.http.is_some() || !is_open || is_closing {
            return;
        }
        let is_logged = context.access_log.is_some();
        match Session::new(&mut self.quic, context.http, context.limits, is_logged, now) {
            Ok(http) => {
                self.http = Some(http);
                self.enter(self.lifecycle.on_open(now), context.store, now);
            }
            Err(e) => {
                debug!("{}: cannot start HTTP/3: {e}", self.quic.trace_id());
                self.close(CloseReason::Internal, context.store, now);
            }
        }
    }

    /// Reads requests and writes responses. Returns whether there were any.
    fn serve(&mut self, context: &mut PollContext<'_>, now: Instant) -> bool {
        if !self.lifecycle.is_active() {
            return false;
        }
        let Some(http) = &mut self.http else {
            return false;
        };
        if let Some(goaway) = self.lifecycle.goaway() {
            // Before responses take the whole window.
            http.go_away(&mut self.quic, goaway.is_final());
        }
        let wall_now = clock::wall_now();
        let (read_pool, handle) = (context.read_pool, self.handle);
        let waker = &|stream| read_pool.waker(handle, stream);
        let fetch = &mut |stream, pending| match pending {
            PendingChunk::File(range) => {
                context.metrics.count_disk_read();
                read_pool.fetch(handle, stream, range);
            }
            PendingChunk::Stream(wait) => wait.wake(&waker(stream)),
        };
        let check = &|stream, check| read_pool.check(handle, stream, check);
        let mut request_context = RequestContext {
            virtual_hosts: context.virtual_hosts,
            limits: context.limits,
            files: self.lifetime.files(),
            scratch: context.scratch,
            now,
            wall_now,
            resume: self.resume_summary.as_ref(),
            fetch,
            check,
            waker,
        };
        let read = http.read_requests(&mut self.quic, &mut request_context);
        let effects = http.take_effects();
        if effects.contains(&ConnectionEffect::Close) {
            // Before the response: the client must not use the connection again.
            http.go_away(&mut self.quic, false);
        }
        let wrote = http.write(&mut self.quic, &mut request_context);
        for effect in effects {
            self.apply(effect, context.store, now);
        }
        read || wrote
    }

    /// Does to the connection what its client asked for.
    fn apply(&mut self, effect: ConnectionEffect, store: &StoreClient, now: Instant) {
        match effect {
            ConnectionEffect::Close => {
                // The client may be back before this connection has ended.
                self.record_observation(store, now);
                self.enter(self.lifecycle.go_away(now), store, now);
            }
            ConnectionEffect::NoJump => {
                if let Some(summary) = &mut self.resume_summary {
                    summary.declined = true;
                }
            }
        }
    }

    /// Counts the finished requests, and writes them to the log.
    fn report_finished_requests(&mut self, log: Option<&AccessLog>, metrics: &WorkerMetrics) {
        let jumped = self.has_jumped();
        let Some(http) = &mut self.http else { return };
        let finished = http.take_finished();
        if finished.len() == 0 {
            return;
        }
        let logged = log.and_then(|log| {
            let client = self.quic.active_path()?.peer_addr;
            if self.client_certificate.is_none() {
                self.client_certificate = self.quic.peer_cert().and_then(client_certificate::name);
            }
            let connection = LoggedConnection {
                client,
                name: self.quic.trace_id(),
                client_certificate: self.client_certificate.as_deref(),
                cc: controllers::of(&self.quic),
                ecn: self.quic.ecn_stats().state,
                resume: self.resume_summary,
            };
            Some((log, connection))
        });
        for request in finished {
            metrics.responses.count(&request);
            if let Some(summary) = &self.resume_summary {
                metrics.arms.on_response(&request, summary);
            }
            metrics.paths.observe_response(jumped, &request);
            if let Some((log, connection)) = logged {
                log.write(&LogLine { connection, request: &request });
            }
        }
    }

    /// Sends until nothing is left, or the next packet is not due.
    fn transmit(
        &mut self,
        context: &mut PollContext<'_>,
        mut now: Instant,
        sent_bytes: &mut usize,
    ) -> PollOutcome {
        loop {
            if context.send_queue.reserve(context.sink) == Err(Blocked) {
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

    /// Queues packets that may leave together. Returns their bytes, 0 if there is nothing
    /// to send.
    fn send_some(&mut self, context: &mut PollContext<'_>, now: Instant) -> Result<usize, Blocked> {
        let packets_max = context.sink.packets_per_send_max();
        let room = context.send_queue.spare_space(context.sink)?;
        match self.quic.send_batch(room, packets_max, now) {
            Ok(TransmitBatch { len, packet_len, info }) => {
                let route = AddressPair { to: info.to, from: info.from };
                let ecn = self.quic.sent_ecn();
                context.send_queue.push(len, packet_len, route, ecn, context.sink);
                Ok(len)
            }
            Err(quiche::Error::Done) => Ok(0),
            Err(e) => {
                debug!("{}: cannot send: {e}", self.quic.trace_id());
                self.close(CloseReason::Internal, context.store, now);
                Ok(0)
            }
        }
    }
}
