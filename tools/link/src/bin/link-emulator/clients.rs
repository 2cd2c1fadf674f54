//! Clients of one emulator, each with a socket of its own towards the server.

use crate::overruns;
use crate::poller::Poller;
use crate::socket;
use crate::upstream;
use link::AckThinner;
use link::Ecn;
use slab::Slab;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;
use udp_batch::Destination;
use udp_batch::Socket;

/// Most clients at a time. Each has a socket.
pub const CLIENTS_MAX: usize = 4_096;

/// One client: one address and port that packets came from.
#[derive(Debug)]
pub struct Client {
    /// Destination of its packets, and our address that they leave from.
    pub destination: Destination,
    /// Its own socket towards the server.
    pub upstream: Socket,
    /// Packets it has sent, for named loss.
    pub up_packets: u64,
    /// Thins them out, if the command line asks for it.
    pub thinner: Option<AckThinner<UpPacket>>,
    /// Packets the server has sent to it, for named loss.
    pub down_packets: u64,
    /// Packets of both directions that are on their way.
    pub in_flight_packets: u64,
    /// Time of the last packet in either direction.
    pub last_seen: Duration,
}

/// A packet of a client before it comes to the link, where it may be held.
#[derive(Clone, Debug)]
pub struct UpPacket {
    /// Which one of its client it is, from 1.
    pub number: u64,
    pub ecn: Ecn,
    pub payload: Vec<u8>,
}

/// Clients by a small key, which is used again after a client is forgotten.
#[derive(Debug)]
pub struct Clients {
    server: SocketAddr,
    idle_max: Duration,
    ack_thinning: NonZeroU32,
    slots: Slab<Client>,
    keys: HashMap<SocketAddr, usize>,
    seen: u64,
    /// Of the sockets of forgotten clients.
    past_overruns: u64,
}

impl Clients {
    /// Creates an empty set. Clients are forgotten after `idle_max` without a packet;
    /// of their acknowledgements, one in `ack_thinning` passes.
    pub fn new(server: SocketAddr, idle_max: Duration, ack_thinning: NonZeroU32) -> Self {
        Self {
            server,
            idle_max,
            ack_thinning,
            slots: Slab::new(),
            keys: HashMap::new(),
            seen: 0,
            past_overruns: 0,
        }
    }

    /// Returns the key of the client with this address. A new client is given a
    /// socket, which is added to `poller`; packets to it will leave from
    /// `local`, the address that it has sent to.
    ///
    /// # Errors
    ///
    /// If there are too many clients, or no socket can be opened.
    pub fn key(
        &mut self,
        address: SocketAddr,
        local: IpAddr,
        poller: &Poller,
    ) -> io::Result<usize> {
        if let Some(&key) = self.keys.get(&address) {
            return Ok(key);
        }
        if self.slots.len() >= CLIENTS_MAX {
            return Err(io::Error::other("too many clients"));
        }
        let upstream = socket::open(upstream::connect(address.ip(), self.server)?)?;
        let thinner = self.thins().then(|| AckThinner::new(self.ack_thinning));
        let slot = self.slots.vacant_entry();
        let key = slot.key();
        poller.add_client(&upstream, key)?;
        slot.insert(Client {
            destination: Destination { to: address, from: Some(local) },
            upstream,
            up_packets: 0,
            thinner,
            down_packets: 0,
            in_flight_packets: 0,
            last_seen: Duration::ZERO,
        });
        self.keys.insert(address, key);
        self.seen += 1;
        Ok(key)
    }

    /// Returns the client with this key.
    pub fn get_mut(&mut self, key: usize) -> Option<&mut Client> {
        self.slots.get_mut(key)
    }

    /// Returns when the first of the packets is due that are held, and whose it is.
    /// Looks at each client, but only where acknowledgements are thinned out.
    pub fn next_held(&self) -> Option<(Duration, usize)> {
        if !self.thins() {
            return None;
        }
        let due = |client: &Client| client.thinner.as_ref().and_then(AckThinner::due);
        self.slots.iter().filter_map(|(key, client)| Some((due(client)?, key))).min()
    }

    fn thins(&self) -> bool {
        self.ack_thinning.get() > 1
    }

    /// Returns the server that all are connected to.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Returns how many clients there have been.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns how many packets of the server the system dropped, because this process did
    /// not come to read them.
    pub fn overruns(&self) -> u64 {
        self.past_overruns + overruns::of(self.slots.iter().map(|(_, client)| &client.upstream))
    }

    /// Returns how often it pays to look for idle clients; `None` while there are none.
    pub fn sweep_interval(&self) -> Option<Duration> {
        (!self.slots.is_empty()).then_some(self.idle_max / 4)
    }

    /// Forgets the clients that have been idle for too long. One with packets
    /// on their way is not idle: its key is still in use.
    pub fn forget_idle(&mut self, now: Duration) {
        let idle = |client: &Client| {
            let idle = now.saturating_sub(client.last_seen) >= self.idle_max;
            idle && client.in_flight_packets == 0
        };
        let forgotten: Vec<usize> =
            self.slots.iter().filter(|(_, client)| idle(client)).map(|(key, _)| key).collect();
        if forgotten.is_empty() {
            return;
        }
        let sockets = forgotten.iter().map(|key| &self.slots[*key].upstream);
        self.past_overruns += overruns::of(sockets);
        for key in forgotten {
            let client = self.slots.remove(key);
            self.keys.remove(&client.destination.to);
        }
    }
}
