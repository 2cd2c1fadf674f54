//! Load on a store: connections that begin at a rate, over the store's service as in edge-server.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::HashMap;
use std::io;
use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::sync_channel;
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use path_store::claim_lifecycle::Action;
use path_store::Answer;
use path_store::Role;
use path_store::StoreHandle;
use path_store::StoreService;
use quiche::path_state::Claim;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::LINGER;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::cli::RunArgs;
use crate::connection::Connection;
use crate::connection::Event;
use crate::connection::Fate;
use crate::connection::Next;
use crate::counted_backend::CountedBackend;
use crate::monotonic::MonotonicClock;
use crate::record::Ended;
use crate::record::Granted;
use crate::record::Line;
use crate::record::Totals;

/// RTTs of the endpoints, from a metropolitan network to a geostationary satellite.
const RTTS_MS: [u64; 4] = [20, 50, 150, 600];

const LIFETIME: Duration = Duration::from_secs(3600);
const SAVED_CWND: u64 = 1_000_000;

/// How often the load looks for the file that ends it.
const TICK: Duration = Duration::from_millis(100);

/// How long the store may take to perform what is queued at the end.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Redis counts a claim's time in whole milliseconds.
const STORE_RESOLUTION: Duration = Duration::from_millis(1);

struct Session {
    endpoint: RemoteEndpoint,
    connection: Connection,
    asked: Instant,

    /// The claim is granted and not ended.
    holds: bool,
}

struct Load<'a, W> {
    args: &'a RunArgs,
    store: StoreHandle,
    sessions: HashMap<u64, Session>,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    random: Pcg64,
    clock: MonotonicClock,
    totals: Totals,
    out: W,
    next_session: u64,
}

/// Runs the load, and prints its record.
///
/// # Errors
///
/// The store cannot be opened, or the record not written.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let failed_claims = Arc::new(AtomicU64::new(0));
    let backend = CountedBackend {
        inner: path_store::open(&args.store, Role::Server, path_store::CAPACITY_DEFAULT)?,
        failed_claims: failed_claims.clone(),
    };
    let service = StoreService::start(Box::new(backend), Default::default())?;
    let (wake, woken) = sync_channel(1);
    let mut load = Load {
        args,
        store: service.handle(Arc::new(move || {
            // A wake-up that is not read yet will do.
            let _ = wake.try_send(());
        })),
        sessions: HashMap::new(),
        events: BinaryHeap::new(),
        random: Pcg64::seed_from_u64(args.seed),
        clock: MonotonicClock::new(),
        totals: Totals { node: args.node.clone(), ..Totals::default() },
        out: io::LineWriter::new(io::stdout().lock()),
        next_session: 0,
    };
    load.drive(&woken)?;
    let Load { mut totals, mut out, store, .. } = load;
    drop(store);
    service.close(CLOSE_LIMIT);

    totals.failed = failed_claims.load(Relaxed);
    totals.refused = totals.asked - totals.granted - totals.failed;
    write_line(&mut out, &Line::Totals(totals))
}

fn write_line(out: &mut impl Write, line: &Line) -> anyhow::Result<()> {
    Ok(writeln!(out, "{}", serde_json::to_string(line)?)?)
}

impl<W: Write> Load<'_, W> {
    /// Begins connections until the end of the load, and then waits for those that there are.
    fn drive(&mut self, woken: &Receiver<()>) -> anyhow::Result<()> {
        let interval = Duration::from_secs(1) / self.args.rate;
        let mut begin_at = quiche::clock::now();
        let mut ends = false;

        while !ends || !self.sessions.is_empty() {
            let now = quiche::clock::now();
            ends = ends || self.is_enough();
            while !ends && begin_at <= now {
                self.begin(now);
                begin_at += interval;
            }
            while let Some(answer) = self.store.poll() {
                self.on_answer(answer)?;
            }
            self.on_events(now)?;

            let next = self.events.peek().map_or(now + TICK, |Reverse((at, ..))| *at);
            let next = if ends { next } else { next.min(begin_at) };
            let _ = woken.recv_timeout(next.duration_since(quiche::clock::now()).min(TICK));
        }

        Ok(())
    }

    fn is_enough(&self) -> bool {
        self.totals.asked >= self.args.claims
            && self.args.until.as_ref().is_none_or(|file| file.exists())
    }

    fn begin(&mut self, now: Instant) {
        let n = self.below(self.args.endpoints.into());
        let client = Ipv4Addr::from(0x0a00_0001 + (u32::try_from(n).unwrap_or(0) << 8));
        let endpoint = RemoteEndpoint::new("claim-load", client.into(), Default::default());
        let rtt = Duration::from_millis(RTTS_MS[n as usize % RTTS_MS.len()]);
        let fate = self.fate();

        let id = self.next_session;
        self.next_session += 1;
        if self.store.get(id, &endpoint) {
            let connection = Connection::new(rtt, fate, now);
            self.sessions.insert(id, Session { endpoint, connection, asked: now, holds: false });
        }
    }

    // A retreat keeps its endpoint from claims for a minute: few do.
    fn fate(&mut self) -> Fate {
        match self.below(1000) {
            0..3 => Fate::Retreats,
            3..50 => Fate::IsSilent,
            50..150 => Fate::Leaves,
            _ => Fate::Completes(Duration::from_millis(self.below(1000))),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn on_answer(&mut self, answer: Answer) -> anyhow::Result<()> {
        let now = quiche::clock::now();
        let (id, next) = match answer {
            Answer::Read { tag, state } => {
                let Some(session) = self.sessions.get_mut(&tag) else { return Ok(()) };
                (tag, session.connection.on_read(state, now))
            }
            Answer::Claimed { tag, claim, .. } => {
                self.note_claim(tag, claim.as_ref(), now)?;
                let Some(session) = self.sessions.get_mut(&tag) else { return Ok(()) };
                (tag, session.connection.on_claim(claim, now))
            }
        };
        self.follow(id, next)
    }

    fn note_claim(&mut self, id: u64, claim: Option<&Claim>, now: Instant) -> anyhow::Result<()> {
        self.totals.asked += 1;
        let (Some(claim), Some(session)) = (claim, self.sessions.get_mut(&id)) else {
            return Ok(());
        };
        self.totals.granted += 1;
        session.holds = true;
        let expires = session.asked + claim.lease + LINGER - STORE_RESOLUTION;
        let granted = Granted {
            node: self.args.node.clone(),
            connection: id,
            endpoint: session.endpoint.to_string(),
            at_ns: self.clock.ns(now),
            expires_ns: self.clock.ns(expires),
        };
        write_line(&mut self.out, &Line::Granted(granted))
    }

    fn on_events(&mut self, now: Instant) -> anyhow::Result<()> {
        while let Some(Reverse((_, id, event))) =
            self.events.peek().copied().filter(|Reverse((at, ..))| *at <= now)
        {
            self.events.pop();
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let observed = observed(session.connection.rtt());
            let next = session.connection.on_event(event, observed, now);
            self.follow(id, next)?;
        }

        Ok(())
    }

    /// Performs actions and notes events. A connection without further ones is over.
    fn follow(&mut self, id: u64, next: Next) -> anyhow::Result<()> {
        let mut waits = !next.events.is_empty();
        for action in next.actions {
            waits |= self.perform(id, action)?;
        }
        for (at, event) in next.events {
            self.events.push(Reverse((at, id, event)));
        }
        if !waits {
            self.sessions.remove(&id);
        }

        Ok(())
    }

    /// Returns whether there will be an answer.
    fn perform(&mut self, id: u64, action: Action) -> anyhow::Result<bool> {
        let now = quiche::clock::now();
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(false) };
        let endpoint = &session.endpoint;

        match action {
            Action::Claim => {
                session.asked = now;
                let is_queued = self.store.claim(id, endpoint, session.connection.rtt());
                self.totals.dropped += u64::from(!is_queued);
                return Ok(is_queued);
            }
            Action::Release(_) | Action::Forget { .. } if session.holds => {
                session.holds = false;
                let at_ns = self.clock.ns(now);
                let ended = Ended { node: self.args.node.clone(), connection: id, at_ns };
                write_line(&mut self.out, &Line::Ended(ended))?;
            }
            _ => (),
        }
        match action {
            Action::Release(token) => self.store.release(endpoint, token),
            Action::Forget { token, used } => self.store.forget(endpoint, token, used),
            Action::Record(state) => self.store.record(endpoint, &state),
            Action::Claim | Action::Resume { .. } => false,
        };

        Ok(false)
    }
}

fn observed(saved_rtt: Duration) -> PathState {
    let now = quiche::clock::wall_now();
    PathState {
        saved_cwnd: SAVED_CWND,
        saved_rtt,
        observed: now,
        expires: now + LIFETIME,
        limited: false,
        validated: true,
    }
}
