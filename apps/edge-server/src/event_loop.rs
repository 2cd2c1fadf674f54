//! One worker's event loop: waits, receives in batches, and lets the worker
//! serve what has changed.

use std::io;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use log::debug;
use quiche::clock;

use crate::forwarding::Forwarding;
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

/// How long the clients may take to make room for the news that the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// One worker's event loop.
pub struct EventLoop {
    socket: Socket,
    reactor: Reactor,
    receiver: Receiver,
    forwarding: Forwarding,
    inbox: Inbox,
    worker: Worker,

    /// The server stops; at the latest then.
    stop_by: Option<Instant>,
}

impl EventLoop {
    /// # Errors
    ///
    /// The process may have no more file descriptors.
    pub fn new(
        socket: Socket,
        reactor: Reactor,
        forwarding: Forwarding,
        inbox: Inbox,
        worker: Worker,
    ) -> io::Result<Self> {
        reactor.watch(&socket)?;
        let receiver = Receiver::new();
        Ok(Self { socket, reactor, receiver, forwarding, inbox, worker, stop_by: None })
    }

    /// Serves until the order to stop, and tells the clients of it.
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
                    let deadline = self.worker.deadline().into_iter().chain(self.stop_by).min();
                    self.reactor.wait(deadline, clock::now())
                }
            };
            let woken = woken.context("cannot wait for packets")?;
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
            if self.stop_by.is_some_and(|by| self.worker.is_stopped() || by <= clock::now()) {
                self.worker.end();
                return Ok(());
            }
        }
    }

    fn obey(&mut self) {
        while let Some(sealed) = self.inbox.next() {
            match sealed.order {
                Order::Reload(fresh) => self.worker.reload(*fresh),
                Order::Stop => {
                    self.worker.stop();
                    self.stop_by.get_or_insert(clock::now() + STOP_PATIENCE);
                }
            }
        }
    }

    fn receive(&mut self) -> Received {
        for _ in 0..RECEIVES_MAX {
            let (socket, worker) = (&self.socket, &mut self.worker);
            let received = self.receiver.receive(socket, |info, datagram| {
                if !self.forwarding.pass_on(info, datagram) {
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
        while let Some(mut forwarded) = self.forwarding.next() {
            self.worker.on_datagram(&self.socket, forwarded.info, &mut forwarded.datagram);
        }
    }
}
