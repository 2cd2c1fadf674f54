//! Relay of packets between clients and a server, over the modelled link.
//!
//! One thread, which sleeps unless there is something to do. Each turn of its
//! loop reads the packets that have arrived, in the order of the kernel's time
//! stamps, and sends what is due.

use crate::clients::Client;
use crate::clients::Clients;
use crate::clients::UpPacket;
use crate::clock;
use crate::clock::Moment;
use crate::lane::Lane;
use crate::lane::LaneStats;
use crate::notices::Notices;
use crate::overruns;
use crate::poller::Poller;
use crate::poller::Ready;
use crate::socket;
use crate::trace::Record;
use crate::trace::Trace;
use link::ip_packet_bytes;
use link::Dequeued;
use link::Ecn;
use link::Packet;
use link::Verdict;
use serde::Serialize;
use std::io;
use std::ops::Range;
use std::time::Duration;
use udp_batch::datagrams;
use udp_batch::Destination;
use udp_batch::Group;
use udp_batch::Received;
use udp_batch::Receiver;
use udp_batch::Socket;
use udp_batch::GROUPS_MAX;

/// The shortest sleep. Packets that are due meanwhile leave together after it:
/// two or three of them at 500 Mbit/s.
const SLEEP_MIN: Duration = Duration::from_micros(50);

/// Time between two looks at whether packets leave in time.
const LATENESS_EVERY: Duration = Duration::from_secs(1);

/// Most bytes taken in per turn and direction before what is due is sent.
const TURN_BYTES_MAX: usize = 4 << 20;

/// A running emulator.
pub struct Relay {
    listen: Socket,
    poller: Poller,
    receiver: Receiver,
    staged: Staged,
    traffic: Traffic,
}

/// Everything that packets pass through but the sockets that they are read from.
#[derive(Debug)]
struct Traffic {
    clients: Clients,
    up: Lane,
    down: Lane,
    notices: Notices,
    trace: Option<Trace>,
    contents: Vec<u8>,
    /// Those held included.
    thinned_packets: u64,
}

/// Summary of an emulator's run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    clients: u64,
    /// Acknowledgements that never came to the link.
    thinned_packets: u64,
    up: LaneStats,
    down: LaneStats,
}

/// Packets of the server, from the sockets of several clients, until they are
/// put into the order in which they came.
#[derive(Debug, Default)]
struct Staged {
    groups: Vec<StagedGroup>,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct StagedGroup {
    arrival: Duration,
    client: usize,
    ecn: Ecn,
    datagram_bytes: usize,
    bytes: Range<usize>,
}

impl Relay {
    /// Creates a relay between the clients that send to `listen` and the server.
    ///
    /// # Errors
    ///
    /// If the system refuses a file descriptor.
    pub fn new(
        listen: Socket,
        poller: Poller,
        clients: Clients,
        up: Lane,
        down: Lane,
        trace: Option<Trace>,
    ) -> io::Result<Self> {
        poller.add_listen(&listen)?;
        Ok(Self {
            listen,
            poller,
            receiver: Receiver::new(GROUPS_MAX),
            staged: Staged::default(),
            traffic: Traffic {
                clients,
                up,
                down,
                notices: Notices::default(),
                trace,
                contents: Vec::new(),
                thinned_packets: 0,
            },
        })
    }

    /// Relays until SIGTERM or SIGINT comes. Gives the trace back.
    ///
    /// # Errors
    ///
    /// Only those that no single client or packet is to blame for.
    pub fn run(mut self) -> io::Result<(Summary, Option<Trace>)> {
        let mut ready = Vec::new();
        let mut wake = None;
        let mut next_sweep = Duration::ZERO;
        let mut next_look = Duration::ZERO;
        loop {
            self.poller.wait(wake, &mut ready)?;
            if ready.contains(&Ready::Stop) {
                return Ok((self.summary(), self.traffic.trace));
            }
            if ready.contains(&Ready::Listen) {
                self.receive_from_clients();
            }
            self.receive_from_server(&ready);

            let now = clock::now();
            self.traffic.offer_held(now);
            self.traffic.depart(now);
            self.traffic.send_due(&self.listen, now);
            if now >= next_sweep {
                self.traffic.clients.forget_idle(now);
                next_sweep = now + self.traffic.clients.sweep_interval().unwrap_or_default();
            }
            if now >= next_look {
                self.traffic.look_at_lateness();
                next_look = now + LATENESS_EVERY;
            }
            wake = self.next_wake(next_sweep);
        }
    }

    /// Returns when there is something to do even if no packet comes.
    fn next_wake(&self, next_sweep: Duration) -> Option<Duration> {
        let sweep = self.traffic.clients.sweep_interval().map(|_| next_sweep);
        let held = self.traffic.clients.next_held().map(|(due, _)| due);
        let due = [self.traffic.up.next_due(), self.traffic.down.next_due(), held, sweep];
        let first = due.into_iter().flatten().min()?;
        Some(first.max(clock::now() + SLEEP_MIN))
    }

    fn summary(&self) -> Summary {
        let Traffic { clients, up, down, thinned_packets, .. } = &self.traffic;
        Summary {
            clients: clients.seen(),
            thinned_packets: *thinned_packets,
            up: up.stats(overruns::of([&self.listen])),
            down: down.stats(clients.overruns()),
        }
    }

    fn receive_from_clients(&mut self) {
        let mut taken_bytes = 0;
        while taken_bytes < TURN_BYTES_MAX {
            let Self { listen, poller, receiver, traffic, .. } = self;
            let moment = Moment::now();
            let received = receiver.receive(listen, |group| {
                taken_bytes += group.contents.len();
                match traffic.clients.key(group.from, group.to.ip(), poller) {
                    Ok(client) => traffic.offer_up(client, moment, group),
                    Err(error) => traffic.notices.client_refused(group.from, &error),
                }
            });
            // After an error the socket is still ready, at the next turn.
            if !matches!(received, Ok(Received::Full)) {
                break;
            }
        }
    }

    fn receive_from_server(&mut self, ready: &[Ready]) {
        for ready in ready {
            if let Ready::Client(client) = *ready {
                self.stage_from_server(client);
            }
        }
        self.staged.groups.sort_by_key(|group| group.arrival);
        for group in self.staged.groups.drain(..) {
            self.traffic.offer_down(&group, &self.staged.bytes[group.bytes.clone()]);
        }
        self.staged.bytes.clear();
    }

    fn stage_from_server(&mut self, client: usize) {
        let Self { receiver, staged, traffic, .. } = self;
        let server = traffic.clients.server();
        let Some(socket) = traffic.clients.get_mut(client).map(|client| &client.upstream) else {
            return;
        };
        // What has to wait for the next turn is still ready then.
        while staged.bytes.len() < TURN_BYTES_MAX {
            let moment = Moment::now();
            match receiver.receive(socket, |group| staged.push(client, moment, &group)) {
                Ok(Received::Full) => {}
                Ok(Received::Drained) => break,
                Err(error) => {
                    traffic.notices.server_unreachable(server, &error);
                    break;
                }
            }
        }
    }
}

impl Summary {
    /// Returns how many packets this machine lost, outside of the model.
    pub fn overrun_packets(&self) -> u64 {
        self.up.overrun_packets + self.down.overrun_packets
    }

    /// Returns the direction that was later, if it was too late.
    pub fn too_late(&self) -> Option<&LaneStats> {
        let late = [&self.up, &self.down].into_iter().filter(|lane| lane.is_too_late());
        late.max_by(|a, b| a.late_us_p99.total_cmp(&b.late_us_p99))
    }
}

impl Staged {
    fn push(&mut self, client: usize, moment: Moment, group: &Group<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(group.contents);
        self.groups.push(StagedGroup {
            arrival: moment.arrival(group.timestamp),
            client,
            ecn: socket::received(group.ecn),
            datagram_bytes: group.datagram_bytes,
            bytes: start..self.bytes.len(),
        });
    }
}

impl Traffic {
    fn offer_up(&mut self, key: usize, moment: Moment, group: Group<'_>) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let (arrival, ecn) = (moment.arrival(group.timestamp), socket::received(group.ecn));
        client.last_seen = arrival;
        for payload in group.into_datagrams() {
            let Some(client) = self.clients.get_mut(key) else { return };
            client.up_packets += 1;
            let number = client.up_packets;
            match &mut client.thinner {
                None => self.pass_up(key, arrival, number, ecn, payload),
                Some(thinner) => {
                    let packet = UpPacket { number, ecn, payload: payload.to_vec() };
                    let passed = thinner.offer(arrival, payload.len(), packet);
                    self.thinned_packets += 1;
                    passed.for_each(|packet| self.pass_thinned(key, arrival, &packet));
                }
            }
        }
    }

    /// Lets the acknowledgements go that have been held for long enough.
    fn offer_held(&mut self, now: Duration) {
        while let Some((due, key)) = self.clients.next_held().filter(|(due, _)| *due <= now) {
            let thinner = self.clients.get_mut(key).and_then(|client| client.thinner.as_mut());
            if let Some(packet) = thinner.and_then(|thinner| thinner.take_due(due)) {
                self.pass_thinned(key, due, &packet);
            }
        }
    }

    fn pass_thinned(&mut self, key: usize, at: Duration, packet: &UpPacket) {
        self.thinned_packets -= 1;
        self.pass_up(key, at, packet.number, packet.ecn, &packet.payload);
    }

    /// Offers a packet of a client to the link.
    fn pass_up(&mut self, key: usize, at: Duration, number: u64, ecn: Ecn, payload: &[u8]) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let size_bytes = ip_packet_bytes(payload.len(), client.destination.to.ip());
        let packet = Packet { size_bytes, number, ecn };
        let verdict = self.up.offer(at, packet, key, payload);
        client.in_flight_packets += u64::from(verdict.is_none_or(is_on_its_way));
        if let (Some(trace), Some(verdict)) = (&mut self.trace, verdict) {
            trace.record(record("up", at, client, packet, verdict));
        }
    }

    /// Takes the packets that have left a queue, whose fate was not known when they came.
    fn depart(&mut self, now: Duration) {
        let Self { clients, up, down, trace, .. } = self;
        for (direction, lane) in [("up", up), ("down", down)] {
            while let Some(Dequeued { value, verdict, .. }) = lane.take_departed(now) {
                let Some(client) = clients.get_mut(value.client) else { continue };
                client.in_flight_packets -= u64::from(!is_on_its_way(verdict));
                if let Some(trace) = trace {
                    trace.record(record(direction, value.arrival, client, value.packet, verdict));
                }
            }
        }
    }

    fn offer_down(&mut self, group: &StagedGroup, bytes: &[u8]) {
        self.notices.server_answers();
        let Some(client) = self.clients.get_mut(group.client) else { return };
        client.last_seen = group.arrival;
        for payload in datagrams(bytes, group.datagram_bytes) {
            client.down_packets += 1;
            let size_bytes = ip_packet_bytes(payload.len(), client.destination.to.ip());
            let packet = Packet { size_bytes, number: client.down_packets, ecn: group.ecn };
            let arrival = group.arrival;
            let verdict = self.down.offer(arrival, packet, group.client, payload);
            client.in_flight_packets += u64::from(verdict.is_none_or(is_on_its_way));
            if let (Some(trace), Some(verdict)) = (&mut self.trace, verdict) {
                trace.record(record("down", arrival, client, packet, verdict));
            }
        }
    }

    /// Warns if packets have left too late since the last look.
    fn look_at_lateness(&mut self) {
        for lane in [&mut self.up, &mut self.down] {
            let lateness = lane.lateness();
            if lateness.was_over() {
                self.notices.late(lateness.limit());
            }
        }
    }

    /// Sends every packet that is due.
    fn send_due(&mut self, listen: &Socket, now: Duration) {
        let Self { clients, up, down, contents, notices, .. } = self;
        let server = clients.server();
        let packets_max = listen.datagrams_per_send_max();

        while let Some(batch) = up.take_due(now, packets_max, contents) {
            let Some(client) = clients.get_mut(batch.client) else { continue };
            let destination = Destination { to: server, from: None };
            let sent = socket::send(
                &client.upstream,
                destination,
                batch.ecn,
                contents,
                batch.segment_bytes,
            );
            if let Err(error) = &sent {
                notices.server_unreachable(server, error);
            }
            client.in_flight_packets -= u64::from(batch.packets);
            up.count(&batch, sent.is_ok());
        }
        while let Some(batch) = down.take_due(now, packets_max, contents) {
            let Some(client) = clients.get_mut(batch.client) else { continue };
            let sent =
                socket::send(listen, client.destination, batch.ecn, contents, batch.segment_bytes);
            client.in_flight_packets -= u64::from(batch.packets);
            down.count(&batch, sent.is_ok());
        }
    }
}

fn is_on_its_way(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Delivered { .. })
}

fn record(
    direction: &'static str,
    arrival: Duration,
    client: &Client,
    packet: Packet,
    verdict: Verdict,
) -> Record {
    let Packet { size_bytes: ip_bytes, number, ecn } = packet;
    Record { arrival, direction, client: client.destination.to, number, ip_bytes, ecn, verdict }
}
