//! Server of a flow: its end of one connection. As edge-server's, it writes until
//! the transport is short of room, sends until the next packet has to wait, and
//! over again until neither gets further; release times are kept exactly.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use path_store::claim_lifecycle::Action;
use path_store::claim_lifecycle::ClaimLifecycle;
use path_store::claim_lifecycle::Outcome;
use quiche::careful_resume::Phase;
use quiche::h3;
use quiche::hooks;
use quiche::path_state::PathState;
use quiche::RecvInfo;

use super::clock::Clock;
use super::dealings::Dealings;
use super::error::Failure;
use super::events::Event;
use super::events::Timer;
use super::packets::Slot;
use super::packets::PACKET_BYTES_MAX;
use super::plan::FlowPlan;
use super::record::Record;
use super::response::Response;
use super::wire::Wire;
use crate::scenario::Mode;

/// The initial window in bytes, of which a response must be larger for a saved
/// path to gain anything.
const INITIAL_WINDOW_BYTES: u64 = 10 * PACKET_BYTES_MAX as u64;

/// When packets are paced, the transport is given so many bytes before the next
/// packets are sent.
const PACED_WRITE_BYTES_MAX: u64 = 256 << 10;

/// A server's end of one connection.
pub struct Server {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    response: Option<Response>,
    info: RecvInfo,
    timer: Timer,
    life: ClaimLifecycle,
    over: bool,
    /// When the next packet may leave.
    release: Option<Duration>,
    /// When the application has more to send.
    piece: Option<Duration>,
    pub record: Record,
}

/// Where a server is, and what it works with.
pub struct ServerTurn<'a> {
    pub now: Duration,
    pub flow: usize,
    pub plan: &'a FlowPlan,
    pub clock: &'a Clock,
    pub wire: &'a mut Wire,
    pub http: &'a h3::Config,
    pub dealings: &'a mut Dealings,
}

impl Server {
    /// A connection just accepted.
    pub fn new(
        mut quic: quiche::Connection,
        local: SocketAddr,
        peer: SocketAddr,
        plan: &FlowPlan,
        now: Instant,
        dealings: &Dealings,
    ) -> Self {
        let mut life = ClaimLifecycle::new(now);
        if plan.mode == Mode::CarefulResume {
            let found = dealings.read(plan.subnet);
            if let Some(saved) = found {
                hooks::raise_initial_rtt(&mut quic, saved.saved_rtt);
            }
            life.on_read(found);
        }
        let record = Record::new(plan);
        Self {
            quic,
            http: None,
            response: None,
            info: RecvInfo { from: peer, to: local },
            timer: Timer::default(),
            life,
            over: false,
            release: None,
            piece: None,
            record,
        }
    }

    /// A packet has come.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn on_packet(&mut self, slot: Slot, turn: &mut ServerTurn<'_>) -> Result<(), Failure> {
        self.record.before(turn.now);
        // What cannot be read any more is dropped, as any host does.
        let _ = self.quic.recv(turn.wire.packets.bytes(slot), self.info);
        turn.wire.packets.give_back(slot);
        self.record.after(turn.now, &self.quic)?;
        Ok(())
    }

    /// A timer has fired. False if there is nothing to do after all.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn on_timer(&mut self, turn: &mut ServerTurn<'_>) -> Result<bool, Failure> {
        if !self.timer.fired(turn.now) {
            return Ok(false);
        }
        let due = self.deadline(turn).is_some_and(|at| at <= turn.now);
        if !due {
            self.set_timer(turn);
            return Ok(false);
        }
        if self.quic.timeout_instant().is_some_and(|at| turn.clock.since_start(at) <= turn.now) {
            self.record.before(turn.now);
            self.quic.on_timeout();
            self.record.after(turn.now, &self.quic)?;
        }
        Ok(true)
    }

    /// Gets as far as requests, windows and release times allow. True when it
    /// ended by that.
    ///
    /// # Errors
    ///
    /// A rule was broken, or the response cannot be sent.
    pub fn progress(&mut self, turn: &mut ServerTurn<'_>) -> Result<bool, Failure> {
        let was_over = self.over;
        let mut sent_any = false;
        loop {
            let served = self.serve(turn)?;
            self.follow_resume(turn)?;
            let sent = self.transmit(turn)?;
            sent_any |= sent;
            // When the next packet has to wait there may still be more to write.
            if !served && (!sent || self.release.is_some()) {
                break;
            }
        }
        if sent_any {
            self.life.on_activity();
        }
        self.piece = self.response.as_ref().and_then(|response| response.next_piece(turn.now));
        self.set_timer(turn);
        Ok(self.over && !was_over)
    }

    /// Nothing more comes of it.
    fn is_ended(&self) -> bool {
        self.quic.is_draining() || self.quic.is_closed()
    }

    fn serve(&mut self, turn: &mut ServerTurn<'_>) -> Result<bool, Failure> {
        if self.over || !self.quic.is_established() || self.is_ended() {
            return Ok(false);
        }
        self.write(turn).map_err(|e| Failure::Stall(format!("the server's HTTP/3 failed: {e}")))
    }

    fn write(&mut self, turn: &mut ServerTurn<'_>) -> Result<bool, h3::Error> {
        let http = match &mut self.http {
            Some(http) => http,
            None => self.http.insert(h3::Connection::with_transport(&mut self.quic, turn.http)?),
        };
        let mut any = false;
        loop {
            match http.poll(&mut self.quic) {
                Ok((stream, h3::Event::Headers { .. })) if self.response.is_none() => {
                    any = true;
                    let (length, limit) = (turn.plan.object_bytes, turn.plan.app_limit_bytes_per_s);
                    self.response = Some(Response::new(stream, length, limit, turn.now));
                    self.record.on_request(turn.now);
                }
                Ok(_) => any = true,
                Err(h3::Error::Done) => break,
                Err(e) => return Err(e),
            }
        }
        let Some(response) = &mut self.response else {
            return Ok(any);
        };
        let bytes_max = match turn.plan.mode {
            Mode::CarefulResume => PACED_WRITE_BYTES_MAX,
            Mode::SlowStart => u64::MAX,
        };
        Ok(response.write(http, &mut self.quic, bytes_max, turn.now)? || any)
    }

    /// Sends until nothing is left or the next packet is not due. Returns
    /// whether it sent anything.
    fn transmit(&mut self, turn: &mut ServerTurn<'_>) -> Result<bool, Failure> {
        let instant = turn.clock.instant(turn.now);
        let mut any = false;
        loop {
            let release = self.quic.get_next_release_time().and_then(|at| at.time(instant));
            self.release = release.map(|at| turn.clock.since_start(at));
            if self.release.is_some() {
                break;
            }
            let phase = hooks::careful_resume_phase(&self.quic);
            let slot = turn.wire.packets.take();
            match self.quic.send(turn.wire.packets.room(slot)) {
                Ok((bytes, _)) => {
                    any = true;
                    self.record.on_sent(turn.now, bytes, phase)?;
                    let passes = turn.wire.send_down(turn.now, turn.flow, slot, bytes);
                    if !passes {
                        self.record.on_dropped(turn.now);
                    }
                }
                Err(quiche::Error::Done) => {
                    turn.wire.packets.give_back(slot);
                    break;
                }
                Err(e) => return Err(Failure::Stall(format!("the server's QUIC failed: {e}"))),
            }
        }
        if any {
            self.record.after(turn.now, &self.quic)?;
        }
        Ok(any)
    }

    /// Follows Careful Resume, and what the connection learns.
    fn follow_resume(&mut self, turn: &mut ServerTurn<'_>) -> Result<(), Failure> {
        if turn.plan.mode == Mode::SlowStart {
            if self.is_ended() {
                self.finish(turn)?;
            }
            return Ok(());
        }
        let instant = turn.clock.instant(turn.now);
        while let Some(event) = hooks::careful_resume_event_next(&mut self.quic) {
            self.record.on_event(turn.clock.since_start(event.time), &event)?;
            let outcome = match event.new {
                Phase::Unvalidated => {
                    turn.dealings.jumped(turn.plan.subnet, turn.flow, turn.now)?;
                    self.life.on_jump();
                    continue;
                }
                Phase::SafeRetreat => Outcome::Retreat,
                Phase::Normal => Outcome::Normal,
                _ => continue,
            };
            let observed = self.observed();
            for action in self.life.on_outcome(outcome, observed, instant) {
                self.act(action, turn)?;
            }
        }
        let lapsed = self.life.on_claim_timeout(instant);
        self.act(lapsed, turn)?;
        if self.is_ended() {
            self.finish(turn)?;
        }
        if self.over {
            return Ok(());
        }
        let unsent_bytes = self.response.as_ref().map_or(0, |r| r.unsent_bytes(turn.now));
        if unsent_bytes > INITIAL_WINDOW_BYTES {
            let action = self.life.on_data_queued(instant);
            self.act(action, turn)?;
        }
        if self.life.next_observation().is_some_and(|at| at <= instant) {
            let observed = self.observed();
            let action = self.life.on_observation(observed, instant);
            self.act(action, turn)?;
        }
        Ok(())
    }

    /// What may be recorded: only the path to a validated address.
    fn observed(&self) -> Option<PathState> {
        self.quic.is_established().then(|| hooks::path_state(&self.quic)).flatten()
    }

    /// The connection is over.
    fn finish(&mut self, turn: &mut ServerTurn<'_>) -> Result<(), Failure> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        let observed = self.observed();
        self.record.finish(turn.now, &self.quic, observed)?;
        for action in self.life.on_close(observed, turn.clock.instant(turn.now)) {
            self.act(action, turn)?;
        }
        Ok(())
    }

    fn act(&mut self, action: Option<Action>, turn: &mut ServerTurn<'_>) -> Result<(), Failure> {
        let subnet = turn.plan.subnet;
        match action {
            None => (),
            Some(Action::Claim) => {
                let rtt = self.quic.path_stats().next().map(|path| path.rtt);
                let rtt = rtt.unwrap_or_default();
                let claim = turn.dealings.claim(subnet, turn.flow, rtt, turn.now)?;
                let action = self.life.on_claim(claim);
                self.act(action, turn)?;
            }
            Some(Action::Resume { saved, jump_before }) => {
                self.record.on_given(saved.saved_cwnd);
                if hooks::careful_resume_from(&mut self.quic, saved, jump_before).is_err() {
                    let action = self.life.on_refusal();
                    self.act(action, turn)?;
                }
            }
            Some(Action::Release(token)) => turn.dealings.release(subnet, turn.flow, token),
            Some(Action::Forget { token, used }) => {
                turn.dealings.forget(subnet, turn.flow, token, used);
            }
            Some(Action::Record(observed)) => turn.dealings.record(subnet, &observed),
        }
        Ok(())
    }

    fn deadline(&self, turn: &ServerTurn<'_>) -> Option<Duration> {
        if self.over {
            return None;
        }
        let quic = self.quic.timeout_instant().map(|at| turn.clock.since_start(at));
        let life =
            [self.life.next_observation(), self.life.claim_timeout()].into_iter().flatten().min();
        let life = life.filter(|_| turn.plan.mode == Mode::CarefulResume);
        let life = life.map(|at| turn.clock.since_start(at));
        [quic, self.release, life, self.piece].into_iter().flatten().min()
    }

    fn set_timer(&mut self, turn: &mut ServerTurn<'_>) {
        let event = Event::ServerTimer(turn.flow as u32);
        self.timer.set(turn.now, self.deadline(turn), event, &mut turn.wire.queue);
    }
}
