//! One worker's event loop: waits, receives in batches, and lets the worker
//! serve what has changed.

use std::io;

use anyhow::Context;
use log::debug;
use quiche::clock;
use quiche::RecvInfo;

use crate::net::receiver::Received;
use crate::net::receiver::Receiver;
use crate::net::socket::Socket;
use crate::telemetry::health::Heart;
use crate::worker::command::Inbox;
use crate::worker::command::Order;
use crate::worker::drain::Drain;
use crate::worker::forwarding::Forwarding;
use crate::worker::poller;
use crate::worker::poller::Reactor;
use crate::worker::relay::Generations;
use crate::worker::relay::Source;
use crate::worker::shutdown_barrier::Departure;
use crate::worker::Worker;

/// Receive calls in a row before connections are served: they must not wait
/// for a flood to end.
const RECEIVES_MAX: usize = 8;

/// Datagrams of other processes in a row, likewise.
const PASSED_ON_MAX: usize = 512;

/// One worker's event loop.
pub struct EventLoop {
    socket: Socket,
    reactor: Reactor,
    receiver: Receiver,
    worker: Worker,
    drain: Drain,
    ties: Ties,

    /// There may be more in the socket, and from other processes.
    readable: bool,
    passed_on: bool,
}

/// What ties a worker to the others, and to the process.
pub struct Ties {
    pub forwarding: Forwarding,
    pub inbox: Inbox,
    pub departure: Departure,
    pub heart: Heart,
    pub generations: Generations,
}

impl EventLoop {
    /// # Errors
    ///
    /// The process may have no more file descriptors.
    pub fn new(
        socket: Socket,
        mut reactor: Reactor,
        worker: Worker,
        drain: Drain,
        ties: Ties,
    ) -> io::Result<Self> {
        reactor.watch(&socket)?;
        if let Some(older) = ties.generations.older() {
            reactor.watch_older(older)?;
        }
        let receiver = Receiver::new();
        let (readable, passed_on) = (false, false);
        Ok(Self { socket, reactor, receiver, worker, drain, ties, readable, passed_on })
    }

    /// Serves until the order to drain or to stop has been carried out.
    ///
    /// # Errors
    ///
    /// Waiting fails, which is not expected.
    pub fn run(mut self) -> anyhow::Result<()> {
        poller::sleep_precisely().context("cannot set the timer slack")?;
        loop {
            let has_more = self.readable || self.passed_on || self.worker.has_work();
            let woken = match has_more {
                true => self.reactor.look(),
                false => {
                    let deadlines = [self.worker.deadline(), self.drain.deadline()];
                    let now = clock::now();
                    let gathers = self.worker.gathers(now);
                    self.reactor.wait(deadlines.into_iter().flatten().min(), gathers, now)
                }
            };
            let woken = woken.context("cannot wait for packets")?;
            self.ties.heart.beat();
            if woken.mail {
                self.obey()?;
            }
            if woken.writable {
                self.worker.on_writable(&self.socket);
            }
            if self.readable || woken.readable {
                self.readable = self.receive() == Received::Full;
            }
            if self.passed_on || woken.passed_on {
                self.passed_on = self.take_passed_on() == Received::Full;
            }
            if woken.mail {
                self.worker.on_store();
                self.worker.on_disk();
                self.take_forwarded();
            }
            self.worker.serve(&self.socket);
            let waits = self.worker.waits_for_room();
            self.reactor.watch_room(&self.socket, waits).context("cannot wait for room")?;
            let now = clock::now();
            if let Some(stage) = self.drain.advance(now) {
                self.worker.enter(stage);
            }
            let is_over = self.drain.is_over(now, self.worker.is_done());
            if is_over && self.ties.departure.is_complete() {
                self.worker.end();
                return Ok(());
            }
        }
    }

    fn obey(&mut self) -> anyhow::Result<()> {
        while let Some(sealed) = self.ties.inbox.next() {
            let stage = match sealed.order {
                Order::Reload(fresh) => {
                    self.worker.reload(*fresh);
                    None
                }
                Order::HandOver(link) => {
                    self.reactor.leave_reading(&self.socket).context("cannot hand over")?;
                    self.reactor.watch_newer(&link).context("cannot hand over")?;
                    self.readable = false;
                    self.ties.generations.hand_over(link);
                    None
                }
                Order::Drain => self.drain.begin(clock::now()),
                Order::Stop => self.drain.close(clock::now()),
            };
            if let Some(stage) = stage {
                self.worker.enter(stage);
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Received {
        for _ in 0..RECEIVES_MAX {
            let (socket, worker) = (&self.socket, &mut self.worker);
            let Ties { forwarding, generations, .. } = &mut self.ties;
            let received = self.receiver.receive(socket, |info, datagram| {
                if !forwarding.pass_on(info, datagram) {
                    deliver(worker, generations, socket, (Source::Socket, info), datagram);
                }
            });
            match received {
                Ok(Received::Full) => (),
                Ok(Received::Drained) => return Received::Drained,
                // Tells of an earlier send and is taken off by being told.
                Err(e) => debug!("receive: {e}"),
            }
        }
        Received::Full
    }

    /// What came to other workers of this process.
    fn take_forwarded(&mut self) {
        while let Some(mut forwarded) = self.ties.forwarding.next() {
            let came = (Source::Socket, forwarded.info);
            let (worker, generations) = (&mut self.worker, &mut self.ties.generations);
            deliver(worker, generations, &self.socket, came, &mut forwarded.datagram);
        }
    }

    /// What other processes passed on.
    fn take_passed_on(&mut self) -> Received {
        let generations = &mut self.ties.generations;
        for _ in 0..PASSED_ON_MAX {
            let Some((source, info, mut datagram)) = generations.next() else {
                return Received::Drained;
            };
            deliver(&mut self.worker, generations, &self.socket, (source, info), &mut datagram);
        }
        Received::Full
    }
}

/// A datagram goes to the worker, unless another process may have a connection for it.
fn deliver(
    worker: &mut Worker,
    generations: &mut Generations,
    socket: &Socket,
    (source, info): (Source, RecvInfo),
    datagram: &mut [u8],
) {
    let is_ours = generations.is_alone() || worker.knows(datagram);
    if is_ours || !generations.pass_on(source, info, datagram) {
        worker.on_datagram(socket, info, datagram);
    }
}
