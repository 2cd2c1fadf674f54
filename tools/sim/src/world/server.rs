//! Server of a flow: its end of one connection. Like edge-server, it writes until the
//! transport has no room, sends until the next packet has to wait, and repeats until neither
//! is possible; it keeps release times exactly.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use path_store::claim_lifecycle::Action;
use path_store::claim_lifecycle::ClaimLifecycle;
use path_store::claim_lifecycle::ResumeOutcome;
use path_store::OwnPath;
use quiche::careful_resume::Phase;
use quiche::h3;
use quiche::path_state::Claim;
use quiche::path_state::PathState;
use quiche::ActivePath;
use quiche::RecvInfo;
use rand_pcg::Pcg64;

use super::clock::Clock;
use super::codepoint;
use super::error::Failure;
use super::events::Event;
use super::events::Timer;
use super::packets::Slot;
use super::packets::PACKET_BYTES_MAX;
use super::plan::FlowPlan;
use super::record::Record;
use super::response::Response;
use super::store::SimulatedStore;
use super::wire::Wire;
use crate::scenario::Mode;
use crate::seeds;

quiche::stand_ins!();

/// The initial window in bytes, of which a response must be larger for a saved
/// path to gain anything.
const INITIAL_WINDOW_BYTES: u64 = 10 * PACKET_BYTES_MAX as u64;

/// When packets are paced, the most bytes written to the transport before it sends
/// again.
const PACED_WRITE_BYTES_MAX: u64 = 256 << 10;

/// A server's end of one connection.
pub struct Server {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    /// Those that are not written whole, in the order of their requests.
    responses: VecDeque<Response>,
    /// Streams of all requests.
    streams: Vec<u64>,
    info: RecvInfo,
    timer: Timer,
    lifecycle: ClaimLifecycle,
    own_path: OwnPath,
    ended: bool,
    /// When the next packet may leave.
    release_time: Option<Duration>,
    /// When the application has more to send.
    next_data: Option<Duration>,
    /// Draws by how much packets are late.
    lateness: Pcg64,
    pub record: Record,
}

/// Time, flow and shared state of a server's turn.
pub struct ServerContext<'a> {
    pub now: Duration,
    pub flow: usize,
    pub plan: &'a FlowPlan,
    pub clock: &'a Clock,
    pub wire: &'a mut Wire,
    pub http: &'a h3::Config,
    pub store: &'a mut SimulatedStore,
}

impl Server {
    /// Creates the server's end of a connection just accepted.
    pub fn new(
        mut quic: quiche::Connection,
        local: SocketAddr,
        peer: SocketAddr,
        plan: &FlowPlan,
        now: Instant,
        store: &SimulatedStore,
        lateness: Pcg64,
    ) -> Self {
        let mut lifecycle = ClaimLifecycle::new(now);
        let brought = store.carried.brought(plan.client, quiche::clock::wall_now());
        let own_path = OwnPath::new(plan.state, brought);
        if plan.mode == Mode::CarefulResume {
            let of_subnet = || store.read(plan.subnet).filter(|_| own_path.uses_store());
            let found = own_path.saved().or_else(of_subnet);
            if let Some(saved) = found {
                quic.raise_initial_rtt(saved.saved_rtt);
            }
            lifecycle.on_read(found);
        }
        let record = Record::new(plan);
        Self {
            quic,
            http: None,
            responses: VecDeque::new(),
            streams: Vec::new(),
            info: RecvInfo { from: peer, to: local },
            timer: Timer::default(),
            lifecycle,
            own_path,
            ended: false,
            release_time: None,
            next_data: None,
            lateness,
            record,
        }
    }

    /// Handles a packet.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn on_packet(
        &mut self,
        slot: Slot,
        context: &mut ServerContext<'_>,
    ) -> Result<(), Failure> {
        self.record.before(context.now);
        // What cannot be read any more is dropped, as any host does.
        let ecn = codepoint::in_transport(context.wire.packets.ecn(slot));
        let _ = self.quic.recv_ecn(context.wire.packets.bytes(slot), self.info, ecn);
        context.wire.packets.free(slot);
        self.record.after(context.now, &self.quic)?;
        Ok(())
    }

    /// Handles a timer. Returns false if there is nothing to do.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn on_timer(&mut self, context: &mut ServerContext<'_>) -> Result<bool, Failure> {
        if !self.timer.fired(context.now) {
            return Ok(false);
        }
        let due = self.deadline(context).is_some_and(|at| at <= context.now);
        if !due {
            self.set_timer(context);
            return Ok(false);
        }
        if self
            .quic
            .timeout_instant()
            .is_some_and(|at| context.clock.since_start(at) <= context.now)
        {
            self.record.before(context.now);
            self.quic.on_timeout();
            self.record.after(context.now, &self.quic)?;
        }
        Ok(true)
    }

    /// Reads requests, writes and sends as far as windows and release times allow. Returns whether
    /// the connection has ended now.
    ///
    /// # Errors
    ///
    /// A rule was broken, or the response cannot be sent.
    pub fn drive(&mut self, context: &mut ServerContext<'_>) -> Result<bool, Failure> {
        let had_ended = self.ended;
        let mut sent_any = false;
        loop {
            let served = self.serve(context)?;
            self.follow_careful_resume(context)?;
            let sent = self.transmit(context)?;
            sent_any |= sent;
            // When the next packet has to wait there may still be more to write.
            if !served && (!sent || self.release_time.is_some()) {
                break;
            }
        }
        if sent_any {
            self.lifecycle.on_activity();
        }
        self.next_data =
            self.responses.front().and_then(|response| response.next_piece(context.now));
        self.set_timer(context);
        Ok(self.ended && !had_ended)
    }

    /// Returns whether it has ended.
    fn is_ended(&self) -> bool {
        self.quic.is_draining() || self.quic.is_closed()
    }

    fn serve(&mut self, context: &mut ServerContext<'_>) -> Result<bool, Failure> {
        if self.ended || !self.quic.is_established() || self.is_ended() {
            return Ok(false);
        }
        self.write(context).map_err(|e| Failure::Stall(format!("the server's HTTP/3 failed: {e}")))
    }

    fn write(&mut self, context: &mut ServerContext<'_>) -> Result<bool, h3::Error> {
        let http = match &mut self.http {
            Some(http) => http,
            None => self.http.insert(h3::Connection::with_transport(&mut self.quic, context.http)?),
        };
        let mut any = false;
        loop {
            match http.poll(&mut self.quic) {
                Ok((stream, h3::Event::Headers { .. })) => {
                    any = true;
                    let length = context.plan.objects.get(self.streams.len());
                    let length = *length.ok_or(h3::Error::IdError)?;
                    self.streams.push(stream);
                    let limit = context.plan.app_limit;
                    self.responses.push_back(Response::new(stream, length, limit, context.now));
                    self.record.on_request(context.now);
                }
                Ok(_) => any = true,
                Err(h3::Error::Done) => break,
                Err(e) => return Err(e),
            }
        }
        let mut bytes_max = match context.plan.mode {
            Mode::CarefulResume => PACED_WRITE_BYTES_MAX,
            Mode::SlowStart => u64::MAX,
        };
        if let Some(buffer) = context.plan.send_buffer_bytes {
            let kept = self.streams.iter().map(|stream| self.quic.stream_unacknowledged(*stream));
            bytes_max = bytes_max.min(buffer.saturating_sub(kept.sum()));
        }
        while let Some(response) = self.responses.front_mut() {
            let before = response.sent_bytes();
            any |= response.write(http, &mut self.quic, bytes_max, context.now)?;
            bytes_max -= response.sent_bytes() - before;
            if !response.is_finished() {
                break;
            }
            self.responses.pop_front();
        }
        Ok(any)
    }

    /// Sends until nothing is left or the next packet is not due. Returns
    /// whether it sent anything.
    fn transmit(&mut self, context: &mut ServerContext<'_>) -> Result<bool, Failure> {
        let instant = context.clock.instant(context.now);
        let mut any = false;
        loop {
            let release = self.quic.get_next_release_time().and_then(|at| at.time(instant));
            let late = context.plan.release_late;
            self.release_time = release.map(|at| {
                context.clock.since_start(at) + late.mul_f64(seeds::uniform(&mut self.lateness))
            });
            if self.release_time.is_some() {
                break;
            }
            let phase = self.quic.careful_resume_phase();
            let slot = context.wire.packets.allocate();
            match self.quic.send(context.wire.packets.buffer_mut(slot)) {
                Ok((bytes, _)) => {
                    any = true;
                    self.record.on_sent(context.now, bytes, phase)?;
                    let ecn = codepoint::on_links(self.quic.sent_ecn());
                    context.wire.packets.set_ecn(slot, ecn);
                    let passes = context.wire.send_down(context.now, context.flow, slot, bytes);
                    if !passes {
                        self.record.on_dropped(context.now, bytes);
                    }
                }
                Err(quiche::Error::Done) => {
                    context.wire.packets.free(slot);
                    break;
                }
                Err(e) => return Err(Failure::Stall(format!("the server's QUIC failed: {e}"))),
            }
        }
        if any {
            self.record.after(context.now, &self.quic)?;
        }
        Ok(any)
    }

    /// Handles events of Careful Resume, time-outs of the claim, and observations.
    fn follow_careful_resume(&mut self, context: &mut ServerContext<'_>) -> Result<(), Failure> {
        if context.plan.mode == Mode::SlowStart {
            if self.is_ended() {
                self.finish(context)?;
            }
            return Ok(());
        }
        let instant = context.clock.instant(context.now);
        while let Some(event) = self.quic.careful_resume_event_next() {
            self.record.on_event(context.clock.since_start(event.time), &event)?;
            let outcome = match event.new {
                Phase::Unvalidated => {
                    context.store.jumped(context.plan.subnet, context.flow, context.now)?;
                    self.lifecycle.on_jump();
                    continue;
                }
                Phase::SafeRetreat => {
                    self.own_path.on_retreat(quiche::clock::wall_now());
                    ResumeOutcome::Retreat
                }
                Phase::Normal => ResumeOutcome::Normal,
                _ => continue,
            };
            let observed = self.observed();
            for action in self.lifecycle.on_outcome(outcome, observed, instant) {
                self.act(action, context)?;
            }
        }
        let timed_out = self.lifecycle.on_claim_timeout(instant);
        self.act(timed_out, context)?;
        if self.is_ended() {
            self.finish(context)?;
        }
        if self.ended {
            return Ok(());
        }
        let unsent_bytes = self.responses.iter().map(|r| r.unsent_bytes(context.now)).sum::<u64>();
        if unsent_bytes > INITIAL_WINDOW_BYTES {
            let action = self.lifecycle.on_data_queued(instant);
            self.act(action, context)?;
        }
        if self.lifecycle.next_observation().is_some_and(|at| at <= instant) {
            let observed = self.observed();
            let action = self.lifecycle.on_observation(observed, instant);
            self.act(action, context)?;
        }
        Ok(())
    }

    /// Returns the observation that may be recorded: only of the path to a validated address.
    fn observed(&self) -> Option<PathState> {
        self.quic.is_established().then(|| self.quic.path_state()).flatten()
    }

    /// Ends the connection.
    fn finish(&mut self, context: &mut ServerContext<'_>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let observed = self.observed();
        self.record.finish(context.now, &self.quic, observed)?;
        if let Some(observed) = observed {
            self.own_path.on_observation(observed, quiche::clock::wall_now());
        }
        context.store.carried.give(context.plan.client, self.own_path.next());
        for action in self.lifecycle.on_close(observed, context.clock.instant(context.now)) {
            self.act(action, context)?;
        }
        Ok(())
    }

    fn act(
        &mut self,
        action: Option<Action>,
        context: &mut ServerContext<'_>,
    ) -> Result<(), Failure> {
        let subnet = context.plan.subnet;
        match action {
            None => (),
            Some(Action::Claim) => {
                let rtt = self.quic.active_path().map(|path| path.rtt);
                let rtt = rtt.unwrap_or_default();
                let claim = self.claim(rtt, context)?;
                let action = self.lifecycle.on_claim(claim);
                self.act(action, context)?;
            }
            Some(Action::Resume { saved, jump_before }) => {
                self.record.on_given(saved.saved_cwnd);
                if self.quic.careful_resume_from(saved, jump_before).is_err() {
                    let action = self.lifecycle.on_refusal();
                    self.act(action, context)?;
                }
            }
            Some(Action::Release(token)) => context.store.release(subnet, context.flow, token),
            Some(Action::Forget { token, used }) => {
                context.store.forget(subnet, context.flow, token, used);
            }
            Some(Action::Record(_)) if !self.own_path.is_recorded() => (),
            Some(Action::Record(observed)) => context.store.record(subnet, &observed),
        }
        Ok(())
    }

    /// Claims for what the client brought, or else for what its subnet has.
    fn claim(
        &mut self,
        rtt: Duration,
        context: &mut ServerContext<'_>,
    ) -> Result<Option<Claim>, Failure> {
        let (subnet, flow, now) = (context.plan.subnet, context.flow, context.now);
        let Some(own) = self.own_path.saved() else {
            return Ok(context.store.claim(subnet, flow, rtt, now)?);
        };
        let claim = context.store.claim_own(subnet, flow, &own, rtt, now)?;
        if claim.is_none() {
            self.own_path.on_refusal();
        }
        Ok(claim)
    }

    fn deadline(&self, context: &ServerContext<'_>) -> Option<Duration> {
        if self.ended {
            return None;
        }
        let quic = self.quic.timeout_instant().map(|at| context.clock.since_start(at));
        let lifecycle = [self.lifecycle.next_observation(), self.lifecycle.claim_timeout()]
            .into_iter()
            .flatten()
            .min();
        let lifecycle = lifecycle.filter(|_| context.plan.mode == Mode::CarefulResume);
        let lifecycle = lifecycle.map(|at| context.clock.since_start(at));
        [quic, self.release_time, lifecycle, self.next_data].into_iter().flatten().min()
    }

    fn set_timer(&mut self, context: &mut ServerContext<'_>) {
        let event = Event::ServerTimer(context.flow as u32);
        self.timer.set(context.now, self.deadline(context), event, &mut context.wire.queue);
    }
}
