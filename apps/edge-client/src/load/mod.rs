//! Load on a server: many requests on many connections.

mod client;
pub mod paths;
mod shared;
mod summary;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;
use std::time::Instant;

use slab::Slab;
use udp_batch::Receiver;

use crate::cli::Cli;
use crate::download::BATCHES_MAX;
use crate::failure::Failure;
use crate::poller::Poller;
use crate::progress::Progress;
use crate::socket;
use crate::system;
use crate::target;
use crate::transport::Transport;
use client::Client;
use shared::Shared;
use summary::Summary;

/// Keeps a number of connections busy until all requests are done.
struct LoadGenerator<'a> {
    shared: Shared<'a>,
    transport: Transport,
    peer: SocketAddr,
    poller: Poller,
    receiver: Receiver,
    clients: Slab<Client>,

    /// Clients by the time when they are due.
    deadlines: BTreeSet<(Instant, usize)>,

    /// Clients whose sockets may have more packets.
    readable: BTreeSet<usize>,

    /// Requests that no connection has yet.
    left: u32,
    per_connection: u32,
}

/// Makes `requests` requests.
///
/// # Errors
///
/// It could not start, or was interrupted. The summary has failed requests.
pub fn run(cli: &Cli, requests: NonZeroU32) -> Result<Summary, Failure> {
    let mut progress = Progress::of_requests(&cli.target.url, requests.get().into());
    let mut generator = LoadGenerator::new(cli, requests.get())?;
    let result = generator.run(&mut progress);
    progress.clear();
    result.map(|()| generator.shared.summary)
}

impl<'a> LoadGenerator<'a> {
    fn new(cli: &'a Cli, requests: u32) -> Result<Self, Failure> {
        let addresses = target::addresses(&cli.target, cli.connect.as_ref(), cli.local)?;
        let peer = addresses.first().copied();
        let clients = cli.load.clients.get();
        let share = requests.div_ceil(clients);
        Ok(Self {
            shared: Shared::new(cli, requests),
            transport: Transport::new(cli)?,
            peer: peer.ok_or_else(|| Failure::failed("the host has no address"))?,
            poller: Poller::new().map_err(cannot_wait)?,
            receiver: socket::receiver(),
            clients: Slab::new(),
            deadlines: BTreeSet::new(),
            readable: BTreeSet::new(),
            left: requests,
            per_connection: cli.load.per_connection.map_or(share, NonZeroU32::get),
        })
    }

    fn run(&mut self, progress: &mut Progress) -> Result<(), Failure> {
        let started_at = system::now();
        self.open_clients()?;
        while !self.clients.is_empty() {
            let timeout = match self.readable.is_empty() {
                true => self
                    .deadlines
                    .first()
                    .map(|(at, _)| at.saturating_duration_since(system::now())),
                false => Some(Duration::ZERO),
            };
            self.poller.wait(timeout)?;
            self.readable.extend(self.poller.readable());
            for index in std::mem::take(&mut self.readable) {
                self.receive(index);
            }
            self.serve_due(system::now());
            self.open_clients()?;
            progress.update(self.shared.summary.finished(), None);
        }
        self.shared.summary.set_duration(system::now().saturating_duration_since(started_at));
        Ok(())
    }

    fn open_clients(&mut self) -> Result<(), Failure> {
        while self.left > 0 && self.clients.len() < self.shared.cli.load.clients.get() as usize {
            let requests = self.left.min(self.per_connection);
            self.left -= requests;
            let client = Client::connect(
                self.shared.cli,
                &mut self.transport,
                self.peer,
                requests,
                system::now(),
            )?;
            let index = self.clients.insert(client);
            self.poller.watch(self.clients[index].socket(), index).map_err(cannot_wait)?;
            self.serve(index, system::now());
        }
        Ok(())
    }

    fn receive(&mut self, index: usize) {
        for _ in 0..BATCHES_MAX {
            let Some(client) = self.clients.get_mut(index) else { return };
            if !client.receive(&mut self.receiver) {
                return;
            }
            self.serve(index, system::now());
        }
        self.readable.insert(index);
    }

    fn serve_due(&mut self, now: Instant) {
        while let Some(&(_, index)) = self.deadlines.first().filter(|(at, _)| *at <= now) {
            self.deadlines.pop_first();
            if let Some(client) = self.clients.get_mut(index) {
                client.deadline = None;
                client.on_timeout(now);
                self.serve(index, now);
            }
        }
    }

    /// Processes a client as far as possible, and removes it when it has ended.
    fn serve(&mut self, index: usize, now: Instant) {
        let client = &mut self.clients[index];
        if let Some(at) = client.deadline.take() {
            self.deadlines.remove(&(at, index));
        }
        if client.process(&mut self.shared, now) {
            client.deadline = client.next_deadline(self.shared.cli.connect_timeout);
            self.deadlines.extend(client.deadline.map(|at| (at, index)));
        } else {
            self.left += self.clients.remove(index).unsent();
        }
    }
}

fn cannot_wait(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot wait: {error}"))
}
