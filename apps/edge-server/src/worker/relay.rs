//! Relay between the processes of a hot restart: forwards datagrams to the process that has their
//! connection.
//!
//! The newest process reads the sockets. Each of its workers has a link to the same worker of every
//! older process that still has connections. The server's connection IDs name the generation of
//! their process. A datagram with another ID, such as a client's first, or one of a QUIC-LB configuration
//! that only an older process has, goes from one older process to the next, each of which returns what it
//! does not know.
//!
//! A process that has handed over keeps its links to older ones, without reading them. If all newer
//! processes end, it reads the sockets and these links again. The newest tells the older ones when it
//! has served for a while: until then, one without connections stays.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use std::time::Instant;

use crate::net::process_link::Closed;
use crate::net::process_link::Link;
use crate::net::process_link::Message;
use crate::net::route::Arrival;
use crate::quic::connection_id::Origin;
use crate::quic::header;

/// How long an older process may take to return a datagram or to say that it has the connection. A
/// process that takes longer is stopped, and clients must not wait for it.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(250);

/// How long a process serves before it tells older ones that it does.
const TRIAL: Duration = Duration::from_secs(2);

/// Source of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramSource {
    Socket,

    /// The older process of this generation has no connection for it.
    Older(u8),

    /// The newest process has no connection for it.
    Newer,
}

/// News from other processes.
#[derive(Debug, PartialEq, Eq)]
pub enum Relayed<'a> {
    Datagram(DatagramSource, Arrival, &'a mut [u8]),

    /// The newest process has served for a while.
    NewerServes,

    /// All newer processes have ended: this one is the newest again.
    NewerEnded,
}

/// Link to an older process.
pub struct OlderProcess {
    pub generation: u8,
    pub link: Link,
}

impl OlderProcess {
    /// Duplicates the link.
    ///
    /// # Errors
    ///
    /// The process is out of file descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let link = Link::new(self.link.as_fd().try_clone_to_owned()?);
        Ok(Self { generation: self.generation, link })
    }
}

/// Links of one worker.
#[derive(Default)]
pub struct ProcessRelay {
    /// Its place among those of its listener.
    worker: u8,

    /// The youngest first.
    older: Vec<Older>,
    newer: Option<Link>,

    /// When older processes are to be told that this one serves.
    report_due: Option<Instant>,
}

struct Older {
    process: OlderProcess,

    /// When it was sent the first datagram that it has not responded to.
    asked_at: Option<Instant>,
}

impl ProcessRelay {
    /// Returns the links of a worker to the older processes, the youngest first.
    pub fn new(worker: u8, older: impl IntoIterator<Item = OlderProcess>) -> Self {
        let older = older.into_iter().map(|process| Older { process, asked_at: None });
        Self { worker, older: older.collect(), newer: None, report_due: None }
    }

    /// Notes that this process begins to serve.
    pub fn begin(&mut self, now: Instant) {
        self.report_due = (!self.older.is_empty()).then_some(now + TRIAL);
    }

    /// Returns when [`on_turn()`](Self::on_turn) is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.report_due.filter(|_| self.newer.is_none())
    }

    /// Tells older processes that this one serves, once it has for a while. One that has handed over
    /// leaves that to the newest.
    pub fn on_turn(&mut self, now: Instant) {
        if self.deadline().is_some_and(|due| due <= now) {
            self.report_due = None;
            self.older().for_each(Link::report_serving);
        }
    }

    /// Adds the link to a process that takes over.
    pub fn hand_over(&mut self, newer: Link) {
        self.newer = Some(newer);
    }

    /// Returns the links to the older processes.
    pub fn older(&self) -> impl Iterator<Item = &Link> {
        self.older.iter().map(|older| &older.process.link)
    }

    /// Returns the generations of older processes that still have connections.
    pub fn older_generations(&self) -> Vec<u8> {
        self.older.iter().map(|older| older.process.generation).collect()
    }

    /// Returns whether there may be another process that has connections.
    pub fn has_others(&self) -> bool {
        self.newer.is_some() || !self.older.is_empty()
    }

    /// Sends a datagram of no connection here, and the origin that its ID names, to another process. Returns
    /// whether it did: if no other process may have a connection for it, it is this worker's.
    pub fn forward(
        &mut self,
        source: DatagramSource,
        arrival: Arrival,
        (datagram, origin): (&[u8], Option<Origin>),
        now: Instant,
    ) -> bool {
        if let Some(newer) = &self.newer {
            if newer.send(arrival, datagram) == Ok(()) {
                return true;
            }
        }
        let asked = match source {
            DatagramSource::Older(generation) => {
                let at = self.older.iter().position(|o| o.process.generation == generation);
                at.map_or(self.older.len(), |at| at + 1)
            }
            DatagramSource::Socket | DatagramSource::Newer => 0,
        };
        let Self { worker, older, .. } = self;
        older[asked..].iter_mut().any(|older| older.take(*worker, arrival, (datagram, origin), now))
    }

    /// Responds to the newest process that a datagram from there has its connection here.
    pub fn on_known(&self, source: DatagramSource, datagram: &[u8]) {
        if source == DatagramSource::Newer && header::is_long(datagram) {
            if let Some(newer) = &self.newer {
                newer.acknowledge();
            }
        }
    }

    /// Receives from another process, into `buffer`.
    pub fn next<'a>(&mut self, buffer: &'a mut [u8]) -> Option<Relayed<'a>> {
        if let Some(newer) = &self.newer {
            return match newer.receive(buffer) {
                Ok(Some(Message::Datagram(arrival, range))) => {
                    let source = DatagramSource::Newer;
                    Some(Relayed::Datagram(source, arrival, &mut buffer[range]))
                }
                Ok(Some(Message::Serves)) => Some(Relayed::NewerServes),
                // It asks for nothing: no response.
                Ok(Some(Message::Known) | None) => None,
                Err(Closed) => {
                    self.newer = None;
                    self.older().for_each(Link::forget_codepoint);
                    Some(Relayed::NewerEnded)
                }
            };
        }
        let mut index = 0;
        while let Some(older) = self.older.get_mut(index) {
            match older.process.link.receive(buffer) {
                Ok(Some(message)) => {
                    older.asked_at = None;
                    if let Message::Datagram(arrival, range) = message {
                        let source = DatagramSource::Older(older.process.generation);
                        return Some(Relayed::Datagram(source, arrival, &mut buffer[range]));
                    }
                }
                Ok(None) => index += 1,
                Err(Closed) => drop(self.older.remove(index)),
            }
        }
        None
    }
}

impl Older {
    /// Sends a datagram, if the process may have its connection. Returns whether it did.
    fn take(
        &mut self,
        worker: u8,
        arrival: Arrival,
        (datagram, origin): (&[u8], Option<Origin>),
        now: Instant,
    ) -> bool {
        let is_long = header::is_long(datagram);
        let generation = self.process.generation;
        let may_have = match (is_long, origin) {
            // A client whose handshake it has begun waits for it, however slow it is: here, its
            // packet would open a connection of the same ID.
            (true, _) => self.responds(now) || origin == Some(Origin { worker, generation }),
            (false, Some(origin)) => origin.generation == generation,
            (false, None) => self.responds(now),
        };
        if !may_have || self.process.link.send(arrival, datagram).is_err() {
            return false;
        }
        if is_long {
            self.asked_at.get_or_insert(now);
        }
        true
    }

    fn responds(&self, now: Instant) -> bool {
        self.asked_at.is_none_or(|at| now.saturating_duration_since(at) < RESPONSE_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::ecn::Codepoint;
    use quiche::RecvInfo;
    use std::os::fd::OwnedFd;

    use crate::quic::connection_id;
    use crate::quic::connection_id::tests::generator;
    use crate::quic::connection_id::tests::reader;
    use crate::quic::connection_id::Cid;

    const WORKER: u8 = 1;

    /// First packet of a client, and the reply to it.
    const INITIAL: &[u8] = &[0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8];

    fn arrival() -> Arrival {
        marked(Codepoint::NotEct)
    }

    fn marked(ecn: Codepoint) -> Arrival {
        let address = "192.0.2.7:443".parse().unwrap();
        Arrival { info: RecvInfo { from: address, to: address }, ecn }
    }

    fn now() -> Instant {
        quiche::clock::now()
    }

    /// Returns a packet of a connection of this generation.
    fn packet_of(generation: u8) -> Vec<u8> {
        [&[0x40], &*id_of(WORKER, generation).as_quic(), b"x"].concat()
    }

    /// Returns a packet of a handshake that this process has begun.
    fn handshake_packet_of(worker: u8, generation: u8) -> Vec<u8> {
        let id = id_of(worker, generation);
        [&[0xc0, 0, 0, 0, 1, connection_id::LEN as u8], &*id.as_quic(), b"x"].concat()
    }

    fn id_of(worker: u8, generation: u8) -> Cid {
        generator(Origin { worker, generation }).generate().unwrap().cid
    }

    /// Returns a packet, and the origin that its ID names.
    fn named(packet: &[u8]) -> (&[u8], Option<Origin>) {
        (
            packet,
            reader().read(header::destination_id(packet).unwrap()).and_then(|names| names.origin),
        )
    }

    /// Lets the newest process hand over to one more.
    fn hand_over(relays: &mut Vec<ProcessRelay>) {
        let generation = relays.len() as u8 - 1;
        let old = relays.last_mut().unwrap();
        let (own, other): (Link, OwnedFd) = Link::pair().unwrap();
        old.hand_over(own);
        let older = old.older.iter().map(|older| older.process.try_clone().unwrap());
        let this = OlderProcess { generation, link: Link::new(other) };
        let new = ProcessRelay::new(WORKER, std::iter::once(this).chain(older));
        relays.push(new);
    }

    /// Returns the relays of four processes, the oldest first.
    fn four() -> Vec<ProcessRelay> {
        let mut relays = vec![ProcessRelay::default()];
        (0..3).for_each(|_| hand_over(&mut relays));
        relays
    }

    /// Receives one datagram. Returns its source.
    fn receive(relay: &mut ProcessRelay, expected: &[u8]) -> DatagramSource {
        let mut buffer = [0; 100];
        let relayed = relay.next(&mut buffer);
        let Some(Relayed::Datagram(source, _, datagram)) = relayed else { panic!("{relayed:?}") };
        assert_eq!(datagram, expected);
        source
    }

    /// Receives a datagram of no connection there, and relays it. Returns whether it is kept.
    fn keeps(relay: &mut ProcessRelay, expected: &[u8]) -> bool {
        let source = receive(relay, expected);
        !relay.forward(source, arrival(), named(expected), now())
    }

    fn has_nothing(relay: &mut ProcessRelay) -> bool {
        relay.next(&mut [0; 100]).is_none()
    }

    #[test]
    fn packet_goes_to_the_generation_it_names() {
        let mut relays = four();
        for generation in 0..3 {
            let packet = packet_of(generation);
            assert!(relays[3].forward(DatagramSource::Socket, arrival(), named(&packet), now()));
            let there = &mut relays[usize::from(generation)];
            assert_eq!(receive(there, &packet), DatagramSource::Newer);
            assert!(relays.iter_mut().all(has_nothing));
        }
        for generation in [3, 4, 255] {
            let packet = packet_of(generation);
            assert!(!relays[3].forward(DatagramSource::Socket, arrival(), named(&packet), now()));
        }
    }

    #[test]
    fn first_packet_returns_to_the_newest_process() {
        let mut relays = four();
        assert!(relays[3].forward(DatagramSource::Socket, arrival(), named(INITIAL), now()));
        for older in [2, 1] {
            assert!(!keeps(&mut relays[older], INITIAL));
            assert!(!keeps(&mut relays[3], INITIAL));
        }
        assert!(!keeps(&mut relays[0], INITIAL));
        assert!(keeps(&mut relays[3], INITIAL));
    }

    // Such as that of a QUIC-LB configuration that only the oldest process has.
    #[test]
    fn packet_that_names_no_process_goes_to_each() {
        let mut relays = four();
        let packet = [&[0x40], &[0x13; connection_id::LEN][..], b"x"].concat();
        assert_eq!(named(&packet).1, None);
        assert!(relays[3].forward(DatagramSource::Socket, arrival(), named(&packet), now()));
        for older in [2, 1] {
            assert!(!keeps(&mut relays[older], &packet));
            assert!(!keeps(&mut relays[3], &packet));
        }
        assert_eq!(receive(&mut relays[0], &packet), DatagramSource::Newer);
        assert!(relays.iter_mut().all(has_nothing));
    }

    #[test]
    fn stopped_process_is_not_waited_for() {
        let mut relays = four();
        let start = now();
        let forward = |relays: &mut Vec<ProcessRelay>, after| {
            assert!(relays[3].forward(
                DatagramSource::Socket,
                arrival(),
                named(INITIAL),
                start + after
            ));
        };
        forward(&mut relays, Duration::ZERO);
        forward(&mut relays, RESPONSE_TIMEOUT / 2);
        forward(&mut relays, RESPONSE_TIMEOUT);
        assert_eq!(receive(&mut relays[1], INITIAL), DatagramSource::Newer);
        assert!(has_nothing(&mut relays[1]));

        // Both of these respond: one has a connection.
        relays[1].on_known(DatagramSource::Newer, INITIAL);
        assert_eq!(receive(&mut relays[2], INITIAL), DatagramSource::Newer);
        relays[2].on_known(DatagramSource::Newer, INITIAL);
        assert!(has_nothing(&mut relays[3]));
        receive(&mut relays[2], INITIAL);
        forward(&mut relays, 2 * RESPONSE_TIMEOUT);
        receive(&mut relays[2], INITIAL);
        assert!(has_nothing(&mut relays[1]));
    }

    #[test]
    fn handshake_waits_for_the_slow_process_that_began_it() {
        let mut relays = four();
        let start = now();
        let mut forward = |packet: &[u8], timeouts| {
            let now = start + timeouts * RESPONSE_TIMEOUT;
            relays[3].forward(DatagramSource::Socket, arrival(), named(packet), now)
        };
        assert!((0..3).all(|timeouts| forward(INITIAL, timeouts)));
        assert!(!forward(INITIAL, 3), "nobody responds");
        let packets = [0, 1, 2].map(|generation| handshake_packet_of(WORKER, generation));
        assert!(packets.iter().all(|packet| forward(packet, 3)));
        for (worker, generation) in [(WORKER, 3), (WORKER + 1, 0)] {
            assert!(!forward(&handshake_packet_of(worker, generation), 3));
        }
        for (relay, packet) in relays.iter_mut().zip(packets) {
            receive(relay, INITIAL);
            receive(relay, &packet);
            assert!(has_nothing(relay));
        }
    }

    #[test]
    fn process_serves_again_when_all_newer_ones_end() {
        let mut relays = four();
        // Whichever order the others end in.
        relays.remove(2);
        assert!(has_nothing(&mut relays[1]) && has_nothing(&mut relays[0]));
        relays.remove(2);
        assert!(has_nothing(&mut relays[0]));
        assert_eq!(relays[1].next(&mut [0; 100]), Some(Relayed::NewerEnded));
        assert!(has_nothing(&mut relays[1]));

        let packet = packet_of(0);
        assert!(relays[1].forward(DatagramSource::Socket, arrival(), named(&packet), now()));
        assert_eq!(receive(&mut relays[0], &packet), DatagramSource::Newer);
        relays.remove(1);
        assert_eq!(relays[0].next(&mut [0; 100]), Some(Relayed::NewerEnded));
        assert!(!relays[0].forward(DatagramSource::Socket, arrival(), named(INITIAL), now()));
    }

    /// Returns how often each relay hears that the newest process serves.
    fn reports(relays: &mut [ProcessRelay]) -> Vec<usize> {
        let mut count = |relay: &mut ProcessRelay| {
            let next = || Some(relay.next(&mut [0; 100])? == Relayed::NewerServes);
            std::iter::from_fn(next).filter(|is_report| *is_report).count()
        };
        relays.iter_mut().map(&mut count).collect()
    }

    #[test]
    fn newest_process_reports_once_that_it_serves() {
        let mut relays = four();
        let start = now();
        relays.iter_mut().for_each(|relay| relay.begin(start));
        assert_eq!((relays[0].deadline(), relays[3].deadline()), (None, Some(start + TRIAL)));
        for (after, expected) in
            [(TRIAL / 2, [0, 0, 0, 0]), (TRIAL, [1, 1, 1, 0]), (2 * TRIAL, [0, 0, 0, 0])]
        {
            relays.iter_mut().for_each(|relay| relay.on_turn(start + after));
            assert_eq!(reports(&mut relays), expected, "{after:?}");
        }
        // It has served since it began.
        relays.pop();
        reports(&mut relays);
        assert_eq!(relays[2].deadline(), Some(start + TRIAL));
        relays[2].on_turn(start + TRIAL);
        assert_eq!(reports(&mut relays), [1, 1, 0]);
    }
}
