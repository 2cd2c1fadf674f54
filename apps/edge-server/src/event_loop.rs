//! One worker's event loop: waits, receives in batches, and lets the worker
//! serve what has changed.

use std::io;

use anyhow::Context;
use log::debug;
use quiche::clock;

use crate::departure::Departure;
use crate::drain::Drain;
use crate::forwarding::Forwarding;
use crate::health::Heart;
use crate::orders::Inbox;
use crate::orders::Order;
use crate::reactor::Reactor;
use crate::receiver::Received;
use crate::receiver::Receiver;
use crate::socket::Socket;
use crate::worker::Worker;

/// Receive calls in a row before connections are served: they must not wait
/// for a flood to end.
const RECEIVES_MAX: usize = 8;

/// One worker's event loop.
pub struct EventLoop {
    socket: Socket,
    reactor: Reactor,
    receiver: Receiver,
    worker: Worker,
    drain: Drain,
    ties: Ties,
}

/// What ties a worker to the others, and to the process.
pub struct Ties {
    pub forwarding: Forwarding,
    pub inbox: Inbox,
    pub departure: Departure,
    pub heart: Heart,
}

impl EventLoop {
    /// # Errors
    ///
    /// The process may have no more file descriptors.
    pub fn new(
        socket: Socket,
        reactor: Reactor,
        worker: Worker,
        drain: Drain,
        ties: Ties,
    ) -> io::Result<Self> {
        reactor.watch(&socket)?;
        Ok(Self { socket, reactor, receiver: Receiver::new(), worker, drain, ties })
    }

    /// Serves until the order to drain or to stop has been carried out.
    ///
    /// # Errors
    ///
    /// Waiting fails, which is not expected.
    pub fn run(mut self) -> anyhow::Result<()> {
        let mut readable = false;
        loop {
            let woken = match readable || self.worker.has_work() {
                true => self.reactor.look(),
                false => {
                    let deadlines = [self.worker.deadline(), self.drain.deadline()];
                    self.reactor.wait(deadlines.into_iter().flatten().min(), clock::now())
                }
            };
            let woken = woken.context("cannot wait for packets")?;
            self.ties.heart.beat();
            if woken.mail {
                self.obey();
            }
            if woken.writable {
                self.worker.on_writable(&self.socket);
            }
            if readable || woken.readable {
                readable = self.receive() == Received::Full;
            }
            if woken.mail {
                self.worker.on_store();
                self.worker.on_disk();
                self.take_forwarded();
            }
            self.worker.serve(&self.socket);
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

    fn obey(&mut self) {
        while let Some(sealed) = self.ties.inbox.next() {
            let stage = match sealed.order {
                Order::Reload(fresh) => {
                    self.worker.reload(*fresh);
                    None
                }
                Order::Drain => self.drain.begin(clock::now()),
                Order::Stop => self.drain.close(clock::now()),
            };
            if let Some(stage) = stage {
                self.worker.enter(stage);
            }
        }
    }

    fn receive(&mut self) -> Received {
        for _ in 0..RECEIVES_MAX {
            let (socket, worker) = (&self.socket, &mut self.worker);
            let received = self.receiver.receive(socket, |info, datagram| {
                if !self.ties.forwarding.pass_on(info, datagram) {
                    worker.on_datagram(socket, info, datagram);
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

    fn take_forwarded(&mut self) {
        while let Some(mut forwarded) = self.ties.forwarding.next() {
            self.worker.on_datagram(&self.socket, forwarded.info, &mut forwarded.datagram);
        }
    }
}
