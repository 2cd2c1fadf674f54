//! The relay: carries packets between clients and a server as the link says.
//!
//! One thread, which sleeps unless there is something to do. Each turn of its
//! loop takes in what has come, in the order of the kernel's time stamps, and
//! sends what is due.

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
use crate::socket::datagrams;
use crate::socket::Destination;
use crate::socket::Received;
use crate::socket::Receiver;
use crate::socket::Socket;
use crate::trace::Record;
use crate::trace::Trace;
use link::ip_packet_bytes;
use link::Packet;
use link::Verdict;
use quinn_udp::EcnCodepoint;
use quinn_udp::RecvMeta;
use serde::Serialize;
use std::io;
use std::ops::Range;
use std::time::Duration;

/// The shortest sleep. Packets that are due meanwhile leave together after it:
/// two or three of them at 500 Mbit/s.
const SLEEP_MIN: Duration = Duration::from_micros(50);

/// Most bytes taken in per turn and direction before what is due is sent.
const TURN_BYTES_MAX: usize = 4 << 20;

/// A running emulator.
pub struct Relay {
    listen: Socket,
    /// Whether packets may reach us under several of our addresses.
    listens_on_any: bool,
    poller: Poller,
    receiver: Receiver,
    staged: Staged,
    traffic: Traffic,
}

/// What packets pass through: everything but the sockets they are read from.
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

/// What the emulator has done.
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
    groups: Vec<Group>,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Group {
    arrival: Duration,
    client: usize,
    ecn: Option<EcnCodepoint>,
    stride_bytes: usize,
    bytes: Range<usize>,
}

impl Relay {
    /// A relay between the clients that send to `listen` and the server.
    ///
    /// # Errors
    ///
    /// When the system refuses a file descriptor.
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
            listens_on_any: listen.local_addr()?.ip().is_unspecified(),
            listen,
            poller,
            receiver: Receiver::new(),
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
            self.traffic.send_due(&self.listen, now);
            if now >= next_sweep {
                self.traffic.clients.forget_idle(now);
                next_sweep = now + self.traffic.clients.sweep_interval().unwrap_or_default();
            }
            wake = self.next_wake(next_sweep);
        }
    }

    /// When there is something to do even if no packet comes.
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
            let Self { listen, poller, receiver, traffic, listens_on_any, .. } = self;
            let moment = Moment::now();
            let received = receiver.receive(listen, |meta, group| {
                taken_bytes += group.len();
                let local = meta.dst_ip.filter(|_| *listens_on_any);
                match traffic.clients.key(meta.addr, local, poller) {
                    Ok(client) => traffic.offer_up(client, moment, meta, group),
                    Err(error) => traffic.notices.client_refused(meta.addr, &error),
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
            let stage = |meta: &RecvMeta, group: &[u8]| staged.push(client, moment, meta, group);
            match receiver.receive(socket, stage) {
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
    /// Packets that this machine lost, outside of the model.
    pub fn overrun_packets(&self) -> u64 {
        self.up.overrun_packets + self.down.overrun_packets
    }
}

impl Staged {
    fn push(&mut self, client: usize, moment: Moment, meta: &RecvMeta, group: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(group);
        self.groups.push(Group {
            arrival: moment.arrival(meta.timestamp),
            client,
            ecn: meta.ecn,
            stride_bytes: meta.stride,
            bytes: start..self.bytes.len(),
        });
    }
}

impl Traffic {
    fn offer_up(&mut self, key: usize, moment: Moment, meta: &RecvMeta, group: &[u8]) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let arrival = moment.arrival(meta.timestamp);
        client.last_seen = arrival;
        for payload in datagrams(group, meta.stride) {
            let Some(client) = self.clients.get_mut(key) else { return };
            client.up_packets += 1;
            let number = client.up_packets;
            match &mut client.thinner {
                None => self.pass_up(key, arrival, number, meta.ecn, payload),
                Some(thinner) => {
                    let packet = UpPacket { number, ecn: meta.ecn, payload: payload.to_vec() };
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
    fn pass_up(
        &mut self,
        key: usize,
        at: Duration,
        number: u64,
        ecn: Option<EcnCodepoint>,
        payload: &[u8],
    ) {
        let Some(client) = self.clients.get_mut(key) else { return };
        let size_bytes = ip_packet_bytes(payload.len(), client.destination.to.ip());
        let packet = Packet { size_bytes, number };
        let verdict = self.up.offer(at, packet, key, ecn, payload);
        client.in_flight_packets += u64::from(is_on_its_way(verdict));
        if let Some(trace) = &mut self.trace {
            trace.record(record("up", at, client, packet, verdict));
        }
    }

    fn offer_down(&mut self, group: &Group, bytes: &[u8]) {
        self.notices.server_answers();
        let Some(client) = self.clients.get_mut(group.client) else { return };
        client.last_seen = group.arrival;
        for payload in datagrams(bytes, group.stride_bytes) {
            client.down_packets += 1;
            let size_bytes = ip_packet_bytes(payload.len(), client.destination.to.ip());
            let packet = Packet { size_bytes, number: client.down_packets };
            let arrival = group.arrival;
            let verdict = self.down.offer(arrival, packet, group.client, group.ecn, payload);
            client.in_flight_packets += u64::from(is_on_its_way(verdict));
            if let Some(trace) = &mut self.trace {
                trace.record(record("down", arrival, client, packet, verdict));
            }
        }
    }

    /// Sends every packet that is due.
    fn send_due(&mut self, listen: &Socket, now: Duration) {
        let Self { clients, up, down, contents, notices, .. } = self;
        let server = clients.server();
        let packets_max = listen.packets_per_send_max();

        while let Some(run) = up.take_due(now, packets_max, contents) {
            let Some(client) = clients.get_mut(run.client) else { continue };
            let destination = Destination { to: server, from: None };
            let sent = client.upstream.send(destination, run.ecn, contents, run.segment_bytes);
            if let Err(error) = &sent {
                notices.server_unreachable(server, error);
            }
            client.in_flight_packets -= u64::from(run.packets);
            up.count(&run, sent.is_ok());
        }
        while let Some(run) = down.take_due(now, packets_max, contents) {
            let Some(client) = clients.get_mut(run.client) else { continue };
            let sent = listen.send(client.destination, run.ecn, contents, run.segment_bytes);
            client.in_flight_packets -= u64::from(run.packets);
            down.count(&run, sent.is_ok());
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
    let Packet { size_bytes: ip_bytes, number } = packet;
    Record { arrival, direction, client: client.destination.to, number, ip_bytes, verdict }
}
