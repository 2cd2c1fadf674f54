//! Simulation of one connection: the events between two hosts, in virtual time.

use super::addresses::client_address;
use super::addresses::connection_id;
use super::addresses::server_address;
use super::addresses::CLIENT_PORT;
use super::host::Datagram;
use super::host::Host;
use super::quiche;
use crate::determinism;
use crate::determinism::Generator;
use crate::path::Direction;
use crate::scenario::Action;
use crate::scenario::End;
use crate::scenario::Endpoint;
use crate::scenario::Handshake;
use crate::scenario::Scenario;
use crate::trace;
use anyhow::Result;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;

const MS: u64 = 1_000_000;

/// Longest time that a connection gets, in ns.
const TIME_LIMIT: u64 = 60_000 * MS;

/// Most events and datagrams of a connection.
const EVENTS_MAX: u64 = 100_000;

/// From the end of the load to that of the connection, in ns: tickets and ACKs arrive.
const REST: u64 = 100 * MS;

/// Prefix of a token, before the first destination connection ID.
const TOKEN: &[u8] = b"token";

enum Event {
    Arrival(Endpoint, Datagram),
    Action(Action),
}

/// A client and a server, and what is under way between them.
pub struct Simulation<'a> {
    scenario: &'a Scenario,
    configs: &'a mut [quiche::Config; 2],
    hosts: [Host; 2],
    directions: [Direction; 2],
    events: BTreeMap<Reverse<(u64, u64)>, Event>,
    order: u64,
    start: u64,
    nat_port: u16,
    client_addresses: u8,
    is_blackhole: bool,

    /// When the load has been transferred for a while, in ns.
    load_ends_at: Option<u64>,
    has_ended: bool,
    random: Generator,
    trace: &'a mut dyn Write,
}

impl<'a> Simulation<'a> {
    /// Makes the client's connection, with the session of an earlier one if there is one.
    pub fn new(
        scenario: &'a Scenario,
        configs: &'a mut [quiche::Config; 2],
        session: Option<&[u8]>,
        trace: &'a mut dyn Write,
    ) -> Result<Self> {
        let mut random = Generator(scenario.seed ^ 0x5eed);
        let local = client_address(1);
        let scid = connection_id(&mut random);
        let mut conn =
            quiche::connect(Some("quic.tech"), &scid, local, server_address(), &mut configs[0])?;
        if let Some(session) = session {
            conn.set_session(session)?;
        }
        let mut hosts = [Endpoint::Client, Endpoint::Server].map(|e| Host::new(e, scenario));
        hosts[0].conn = Some(conn);
        let start = determinism::elapsed();
        let mut simulation = Self {
            scenario,
            configs,
            hosts,
            directions: [1, 2]
                .map(|n| Direction::new(&scenario.path, scenario.seed.wrapping_mul(2) + n)),
            events: BTreeMap::new(),
            order: 0,
            start,
            nat_port: 0,
            client_addresses: 1,
            is_blackhole: false,
            load_ends_at: None,
            has_ended: false,
            random,
            trace,
        };
        for (ms, action) in &scenario.actions {
            simulation.push(start + ms * MS, Event::Action(*action));
        }
        Ok(simulation)
    }

    /// Runs until both connections are closed. Returns the client's session.
    pub fn run(mut self) -> Result<Option<Vec<u8>>> {
        let mut session = None;
        let mut timed_out_at = [u64::MAX; 2];
        while self.order < EVENTS_MAX {
            self.settle()?;
            let now = determinism::elapsed();
            if let Some(conn) = &self.hosts[0].conn {
                session = conn.session().map(<[u8]>::to_vec).or(session);
            }
            if self.hosts.iter().all(Host::is_closed) {
                return self.summarize(session);
            }
            if self.end(now)? {
                continue;
            }

            // A timer that is still due after its handling must not stop the clock.
            let timers = [0, 1].map(|i| {
                let at = self.hosts[i].timeout_at().unwrap_or(u64::MAX);
                if timed_out_at[i] == now {
                    at.max(now + MS)
                } else {
                    at
                }
            });
            let next_event =
                self.events.last_key_value().map_or(u64::MAX, |(Reverse((at, _)), _)| *at);
            let wake = self.next_wake(now);
            let next = timers[0].min(timers[1]).min(next_event).min(wake);
            if next == u64::MAX || next > self.start + TIME_LIMIT {
                break;
            }
            determinism::advance_to(next);
            if wake <= next {
                continue;
            }
            if next_event <= next {
                let (_, event) = self.events.pop_last().expect("there is one");
                self.handle(event)?;
                continue;
            }
            for i in 0..2 {
                if timers[i] <= next {
                    timed_out_at[i] = next;
                    self.hosts[i].on_timeout();
                }
            }
        }
        trace::note(self.trace, "stopped before both connections are closed")?;
        self.summarize(session)
    }

    /// Ends the connection a while after its load. Returns whether it did so now.
    fn end(&mut self, now: u64) -> Result<bool> {
        if self.load_ends_at.is_none() && self.hosts.iter().all(|h| h.is_done(now - self.start)) {
            self.load_ends_at = Some(now + REST);
        }
        if self.has_ended || self.load_ends_at.is_none_or(|at| now < at) {
            return Ok(false);
        }
        self.has_ended = true;
        match self.scenario.end {
            End::Close(endpoint) => self.hosts[endpoint as usize].close(self.trace).map(|()| true),
            End::IdleTimeout => Ok(false),
        }
    }

    /// Returns when applications have something to do by themselves.
    fn next_wake(&self, now: u64) -> u64 {
        let starts = self.hosts.iter().filter_map(|h| h.next_start(now - self.start));
        let end = self.load_ends_at.filter(|_| !self.has_ended);
        starts.map(|at| self.start + at).chain(end).min().unwrap_or(u64::MAX)
    }

    fn summarize(self, session: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        for host in &self.hosts {
            trace::note(self.trace, &host.summary())?;
        }
        Ok(session)
    }

    /// Lets applications read and write, and sends, until nothing is left to do.
    fn settle(&mut self) -> Result<()> {
        for endpoint in [Endpoint::Client, Endpoint::Server] {
            for _ in 0..100 {
                let elapsed = determinism::elapsed() - self.start;
                let host = &mut self.hosts[endpoint as usize];
                host.step(elapsed, &mut self.random, self.trace)?;
                let datagrams = host.send(self.trace)?;
                if datagrams.is_empty() {
                    break;
                }
                for datagram in datagrams {
                    self.dispatch(endpoint, datagram)?;
                }
            }
        }
        Ok(())
    }

    /// Puts a datagram on its way.
    fn dispatch(&mut self, from: Endpoint, mut datagram: Datagram) -> Result<()> {
        self.order += 1;
        trace::datagram(self.trace, from, &datagram)?;
        let departure = datagram.departs_at.max(determinism::elapsed());
        let arrivals = self.directions[from as usize].arrivals(departure, datagram.bytes.len());
        if self.is_blackhole {
            return Ok(());
        }
        let to = match from {
            Endpoint::Client => {
                datagram.from.set_port(datagram.from.port() + self.nat_port);
                Endpoint::Server
            }
            Endpoint::Server => Endpoint::Client,
        };
        for at in arrivals {
            self.push(at, Event::Arrival(to, datagram.clone()));
        }
        Ok(())
    }

    fn push(&mut self, at: u64, event: Event) {
        self.order += 1;
        self.events.insert(Reverse((at, self.order)), event);
    }

    fn handle(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Action(action) => self.act(action),
            Event::Arrival(Endpoint::Client, mut datagram) => {
                // The NAT forgets the earlier address.
                let port = datagram.to.port().checked_sub(self.nat_port);
                let Some(port) = port.filter(|port| *port == CLIENT_PORT) else {
                    return Ok(());
                };
                datagram.to.set_port(port);
                self.hosts[0].receive(datagram, self.trace)
            }
            Event::Arrival(Endpoint::Server, datagram) => {
                if self.hosts[1].conn.is_none() {
                    self.accept(&datagram)?;
                }
                self.hosts[1].receive(datagram, self.trace)
            }
        }
    }

    /// Answers the first packet of a client: with a connection, or without state.
    fn accept(&mut self, datagram: &Datagram) -> Result<()> {
        let mut bytes = datagram.bytes.clone();
        let header = match quiche::Header::from_slice(&mut bytes, 16) {
            Ok(header) => header,
            Err(e) => return trace::note(self.trace, &format!("Server header: {e:?}")),
        };
        if header.ty != quiche::Type::Initial {
            return Ok(());
        }
        let mut out = [0; 1500];
        if !quiche::version_is_supported(header.version) {
            let len = quiche::negotiate_version(&header.scid, &header.dcid, &mut out)?;
            return self.answer(datagram, &out[..len]);
        }
        let token = header.token.clone().unwrap_or_default();
        let mut scid = connection_id(&mut self.random);
        let mut original = None;
        if self.scenario.handshake == Handshake::Retry {
            let Some(first) = token.strip_prefix(TOKEN) else {
                let token = [TOKEN, &header.dcid].concat();
                let len = quiche::retry(
                    &header.scid,
                    &header.dcid,
                    &scid,
                    &token,
                    header.version,
                    &mut out,
                )?;
                return self.answer(datagram, &out[..len]);
            };
            scid = header.dcid.clone().into_owned();
            original = Some(quiche::ConnectionId::from_ref(first));
        }
        let config = &mut self.configs[1];
        self.hosts[1].conn =
            Some(quiche::accept(&scid, original.as_ref(), datagram.to, datagram.from, config)?);
        Ok(())
    }

    fn answer(&mut self, to: &Datagram, bytes: &[u8]) -> Result<()> {
        let answer = Datagram { from: to.to, to: to.from, departs_at: 0, bytes: bytes.to_vec() };
        self.dispatch(Endpoint::Server, answer)
    }

    fn act(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Rebind => self.nat_port += 1,
            Action::Blackhole(on) => self.is_blackhole = on,
            Action::Migrate | Action::MigrateAtOnce => {
                self.client_addresses += 1;
                let local = client_address(self.client_addresses);
                self.hosts[0].migrate(local, matches!(action, Action::Migrate), self.trace)?;
            }
            Action::UpdateKey => self.update_key(),
            Action::Reset(e, stream) => {
                self.hosts[e as usize].shut_down(stream, quiche::Shutdown::Write, self.trace)?
            }
            Action::StopSending(e, stream) => {
                self.hosts[e as usize].shut_down(stream, quiche::Shutdown::Read, self.trace)?;
            }
            Action::PauseReading(e, on) => self.hosts[e as usize].pause_reading(on),
            Action::Ping(e) => self.hosts[e as usize].ping(self.trace)?,
            Action::Close(e) => self.hosts[e as usize].close(self.trace)?,
            Action::RetireConnectionId(e) => {
                self.hosts[e as usize].retire_connection_id(self.trace)?
            }
        }
        Ok(())
    }

    /// Begins a key update at the client, by upstream's function for tests.
    fn update_key(&mut self) {
        let [client, server] = &mut self.hosts;
        if let (Some(c), Some(s)) = (client.conn.take(), server.conn.take()) {
            let mut pipe = quiche::test_utils::Pipe { client: c, server: s };
            if pipe.client.is_established() {
                pipe.client_update_key().expect("keys exist");
            }
            client.conn = Some(pipe.client);
            server.conn = Some(pipe.server);
        }
    }
}
