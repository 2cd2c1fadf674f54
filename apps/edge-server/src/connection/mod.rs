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
use quiche::hooks::PacketRun;
use quiche::path_state::Claim;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;
use quiche::PathEvent;
use quiche::RecvInfo;

use crate::config::limits::Limits;
use crate::connection::idle::Rest;
use crate::connection::lifetime::Late;
use crate::connection::lifetime::Stay;
use crate::connection::shutdown::Farewell;
use crate::connection::shutdown::Stage;
use crate::content::hosts::Sites;
use crate::content::read_pool::Disk;
use crate::h3::goaway;
use crate::h3::Desk;
use crate::h3::Http;
use crate::net::route::PacketSink;
use crate::net::send_queue::Blocked;
use crate::net::send_queue::Outbox;
use crate::net::socket::Socket;
use crate::quic::connection_id::RoutingId;
use crate::quic::handle::ConnectionKey;
use crate::quic::Quic;
use crate::resume::path_key::PathKey;
use crate::resume::store::SavedPaths;
use crate::resume::summary::ResumeReport;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::access_log::Line;
use crate::telemetry::metrics::Tally;
use crate::telemetry::metrics::WorkerMetrics;
use path_store::claim_lifecycle::ClaimLifecycle;

/// After so many bytes other connections have their turn. No congestion window
/// opens that far at once on the paths that the server is for, as a rule.
const TURN_BYTES_MAX: usize = 4 << 20;
/// A client's connection.
pub struct Connection {
    pub key: ConnectionKey,

    /// Connection IDs that lead here.
    pub ids: Vec<RoutingId>,

    /// It is on the worker's list of connections to serve.
    pub touched: bool,

    /// Large: it is moved once.
    quic: Box<Quic>,
    http: Option<Http>,
    endpoint: RemoteEndpoint,
    life: ClaimLifecycle,

    /// Absent where Careful Resume is off.
    report: Option<ResumeReport>,

    stay: Stay,
    rest: Rest,
    farewell: Farewell,
    tally: Tally,

    /// When the next packet was due at the end of the last turn, if it was not yet.
    release: Option<Instant>,

    /// The last observation has been made and the claim given back.
    over: bool,

    /// It ends without waiting for what the client says.
    given_up: bool,
}

/// What a connection works with during its turn.
pub struct Turn<'a> {
    pub socket: &'a Socket,
    pub outbox: &'a mut Outbox,
    pub sites: &'a Sites,
    pub limits: &'a Limits,
    pub disk: &'a Disk,
    pub http: &'a h3::Config,
    pub saved: &'a SavedPaths,
    pub metrics: &'a WorkerMetrics,
    pub access_log: Option<&'a AccessLog>,
    pub stage: Stage,

    /// Memory for what clients upload.
    pub scratch: &'a mut [u8],
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing is left to do until a packet comes or a timer expires.
    Idle,

    /// The next packet is due then.
    Paced(Instant),

    /// The socket takes no more.
    SocketFull,

    /// It had its share.
    Turn,
}

impl Connection {
    /// A connection just accepted, `now`, with a report where it resumes.
    pub fn new(
        key: ConnectionKey,
        ids: Vec<RoutingId>,
        quic: Box<Quic>,
        endpoint: RemoteEndpoint,
        report: Option<ResumeReport>,
        stay: Stay,
        now: Instant,
    ) -> Self {
        let life = ClaimLifecycle::new(now);
        Self {
            key,
            ids,
            touched: false,
            quic,
            http: None,
            endpoint,
            life,
            report,
            stay,
            rest: Rest::default(),
            farewell: Farewell::Unsaid,
            tally: Tally::new(now),
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
        let may_stay = self.stay.on_established(limits);
        if !may_stay {
            let _ = self.quic.close(false, WireErrorCode::ConnectionRefused as u64, b"");
        }
        may_stay
    }

    /// A datagram has come for it.
    pub fn on_datagram(&mut self, info: RecvInfo, datagram: &mut [u8], path_key: &PathKey) {
        self.rest.stir();
        if let Err(e) = self.quic.recv(datagram, info) {
            debug!("{}: packet from {}: {e}", self.quic.trace_id(), info.from);
        }
        while let Some(event) = self.quic.path_event_next() {
            let PathEvent::PeerMigrated(local, peer) = event else { continue };
            if path_key.remote_endpoint(local.ip(), peer) != self.endpoint {
                debug!("{}: moved to {peer}", self.quic.trace_id());
                self.life.on_move();
            }
        }
    }

    /// A deadline has passed. Returns whether the connection has come to rest.
    pub fn on_timeout(&mut self, metrics: &WorkerMetrics, now: Instant) -> bool {
        if self.quic.timeout_instant().is_some_and(|at| at <= now) {
            self.quic.on_timeout();
        }
        if let Some(late) = self.stay.expire(now) {
            metrics.drops.count_late(late.name());
            self.on_late(late, now);
        }
        if let Some(http) = &mut self.http {
            let stalled = http.give_up_stalled(&mut self.quic, now);
            metrics.drops.count_stalled(stalled);
        }
        let rests = self.rest.begins(now);
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

    fn on_late(&mut self, late: Late, now: Instant) {
        debug!("{}: {late:?} takes too long", self.quic.trace_id());
        match late {
            // The address may be forged, so that this packet is the last.
            Late::Handshake => {
                let _ = self.quic.close(false, WireErrorCode::ConnectionRefused as u64, b"");
                self.given_up = true;
            }
            Late::Connection => self.say_farewell(now),
        }
    }

    /// The store has answered the read.
    pub fn on_read(&mut self, found: Option<PathState>) {
        if let Some(saved) = found {
            hooks::raise_initial_rtt(&mut self.quic, saved.saved_rtt);
        }
        self.life.on_read(found);
    }

    /// The store has answered the claim.
    pub fn on_claim(&mut self, claim: Option<Claim>, saved: &SavedPaths) {
        let action = self.life.on_claim(claim);
        self.act(action, saved);
    }

    /// A piece of a response has been read from disk.
    pub fn on_fetched(&mut self, stream: u64, bytes: io::Result<Bytes>) {
        if let Some(http) = &mut self.http {
            http.on_fetched(stream, bytes);
        }
    }

    /// When it must be served again, if its last turn ended with `pause`.
    pub fn deadline(&self, pause: Pause) -> Option<Instant> {
        let release = match pause {
            Pause::Paced(at) => Some(at),
            _ => None,
        };
        let observation = self.life.next_observation().filter(|_| !self.over);
        let farewell = self.farewell.until();
        let stalled = self.http.as_ref().and_then(Http::deadline);
        let own = [
            release,
            observation,
            self.life.claim_timeout(),
            farewell,
            self.stay.deadline(),
            self.rest.deadline(),
            stalled,
        ];
        let deadlines = own.into_iter().chain([self.quic.timeout_instant()]);
        deadlines.flatten().min()
    }

    /// See [`Http::awaits_acks`].
    pub fn awaits_acks(&self) -> Option<Duration> {
        self.http.as_ref()?.awaits_acks(&self.quic)
    }

    /// Gets as far as requests, windows and release times allow.
    pub fn progress(&mut self, turn: &mut Turn<'_>) -> Pause {
        let mut turn_bytes = 0;
        let mut release = self.release.take();
        let pause = loop {
            let now = clock::now();
            if let Some(release) = release.take().filter(|release| *release <= now) {
                turn.metrics.count_lateness(now - release);
            }
            self.rest.on_turn(now);
            if turn.stage > Stage::Serving || self.farewell != Farewell::Unsaid {
                self.say_farewell(now);
            }
            let served = self.serve(turn, now);
            if self.has_parted() {
                self.stop(turn.saved, now);
            }
            self.follow_resume(turn.saved, turn.metrics, now);
            self.tell(turn.access_log, turn.metrics);
            let before = turn_bytes;
            let pause = self.transmit(turn, now, &mut turn_bytes);
            if turn.outbox.flush(turn.socket) == Err(Blocked) {
                break Pause::SocketFull;
            }
            match pause {
                Pause::Idle if served || turn_bytes > before => (),
                // There may be more to pass to the transport meanwhile.
                Pause::Paced(_) if served => (),
                pause => break pause,
            }
        };
        if turn_bytes > 0 {
            self.life.on_activity();
        }
        if let Pause::Paced(release) = pause {
            self.release = Some(release);
        }
        pause
    }

    /// Begins to end the connection because the server stops. Its next turns tell
    /// the client, as soon as the congestion window has room for it.
    pub fn stop(&mut self, saved: &SavedPaths, now: Instant) {
        self.finish(saved, now);
        goaway::close(&mut self.quic);
    }

    /// The connection is no more. Tells of what was under way.
    pub fn end(&mut self, log: Option<&AccessLog>, metrics: &WorkerMetrics, now: Instant) {
        self.tally.tell(&self.quic.stats(), &metrics.traffic, now);
        if self.report.is_some_and(|report| report.has_unused_set()) {
            metrics.resume.on_unused();
        }
        let left_well = self.quic.peer_error().is_some_and(goaway::is_no_error);
        if let Some(http) = &mut self.http {
            http.end(left_well, now);
        }
        self.tell(log, metrics);
    }

    /// The client has been told of the end, or told us of it.
    pub fn is_ended(&self) -> bool {
        self.quic.is_draining() || self.quic.is_closed()
    }

    /// The client has what it asked, and knows what it has to ask elsewhere.
    fn has_parted(&self) -> bool {
        let Some(http) = &self.http else { return self.farewell.is_final() };
        let has_heard = self.farewell == Farewell::Over || http.is_heard(&self.quic);
        self.farewell.is_final() && http.is_idle() && has_heard
    }

    fn say_farewell(&mut self, now: Instant) {
        let before = self.farewell;
        self.farewell = before.next(self.http.is_some(), now);
        if self.farewell != before {
            debug!("{}: farewell: {:?}", self.quic.trace_id(), self.farewell);
        }
    }

    fn serve(&mut self, turn: &mut Turn<'_>, now: Instant) -> bool {
        if self.over {
            return false;
        }
        let is_open = self.quic.is_established() || self.quic.is_in_early_data();
        if self.http.is_none() && is_open && !self.quic.is_draining() {
            match Http::new(&mut self.quic, turn.http, turn.limits, turn.access_log.is_some(), now)
            {
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
        if self.farewell != Farewell::Unsaid {
            // Before responses take the whole window.
            http.go_away(&mut self.quic, self.farewell.is_final());
        }
        let wall_now = clock::wall_now();
        let fetch = &mut |stream, range| {
            turn.metrics.count_disk_read();
            turn.disk.fetch(self.key, stream, range);
        };
        let mut desk = Desk {
            sites: turn.sites,
            limits: turn.limits,
            scratch: turn.scratch,
            now,
            wall_now,
            fetch,
        };
        let asked = http.take_requests(&mut self.quic, &mut desk);
        let wrote = http.write(&mut self.quic, &mut desk);
        asked || wrote
    }

    /// Counts the exchanges that are over, and writes them to the log.
    fn tell(&mut self, log: Option<&AccessLog>, metrics: &WorkerMetrics) {
        let Some(http) = &mut self.http else { return };
        for ended in http.take_ended() {
            metrics.responses.count(&ended);
            let Some(log) = log else { continue };
            let active = self.quic.path_stats().find(|path| path.active);
            let Some(client) = active.map(|path| path.peer_addr) else { continue };
            let connection = self.quic.trace_id().to_owned();
            log.write(Line { client, connection, ended, resume: self.report });
        }
    }

    /// Sends until nothing is left or the next packet is not due.
    fn transmit(&mut self, turn: &mut Turn<'_>, mut now: Instant, turn_bytes: &mut usize) -> Pause {
        loop {
            if turn.outbox.make_room(turn.socket) == Err(Blocked) {
                return Pause::SocketFull;
            }
            // Packets that leave together are made at one time.
            if turn.outbox.is_empty() {
                now = clock::now();
            }
            if let Some(release) = self.quic.get_next_release_time() {
                if let Some(at) = release.time(now) {
                    return Pause::Paced(at);
                }
            }
            if *turn_bytes >= TURN_BYTES_MAX {
                return Pause::Turn;
            }
            match self.send_some(turn, now) {
                Ok(0) => return Pause::Idle,
                Ok(bytes) => *turn_bytes += bytes,
                Err(Blocked) => return Pause::SocketFull,
            }
        }
    }

    /// Builds packets that may leave together. Returns their bytes, 0 if there is nothing
    /// to send.
    fn send_some(&mut self, turn: &mut Turn<'_>, now: Instant) -> Result<usize, Blocked> {
        let packets_max = turn.socket.packets_per_send_max();
        let room = turn.outbox.room(turn.socket)?;
        match hooks::send_run(&mut self.quic, room, packets_max, now) {
            Ok(PacketRun { len, packet_len, info }) => {
                turn.outbox.push(len, packet_len, &info.to, &info.from, turn.socket);
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
