//! Event loop of one worker: waits, receives in batches, and lets the worker serve the
//! connections that have changed.

use std::io;
use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::Context;
use log::debug;
use quiche::clock;
use quiche::RecvInfo;
use udp_batch::Received;
use udp_batch::Receiver;
use udp_batch::Socket;
use udp_batch::GROUPS_MAX;

use crate::net::process_link::MESSAGE_BYTES_MAX;
use crate::net::route;
use crate::net::route::Arrival;
use crate::telemetry::health::Heartbeat;
use crate::worker::command::Command;
use crate::worker::command::CommandReceiver;
use crate::worker::command::Handover;
use crate::worker::drain::DrainReason;
use crate::worker::forwarding::Forwarding;
use crate::worker::poller;
use crate::worker::poller::Poller;
use crate::worker::relay::DatagramSource;
use crate::worker::relay::ProcessRelay;
use crate::worker::relay::Relayed;
use crate::worker::shutdown_barrier::ShutdownBarrier;
use crate::worker::Destination;
use crate::worker::Worker;

/// Receive calls in a row before connections are served, which must not wait for the end of a
/// flood.
const RECEIVES_MAX: usize = 8;

/// Datagrams of other processes in a row, likewise.
const RELAYED_MAX: usize = 512;

/// One worker's event loop.
pub struct EventLoop {
    socket: Socket,
    poller: Poller,
    receiver: Receiver,
    worker: Worker,
    handles: WorkerHandles,

    /// Whether there may be more in the socket, and from other processes.
    readable: bool,
    relayed: bool,

    /// Memory for a datagram of another process, allocated for the first one.
    relay_buffer: Vec<u8>,

    /// Gets a message when this worker serves again after a handover.
    newer_ended: Option<Sender<()>>,
}

/// Handles of one worker's links to other workers and to the process.
pub struct WorkerHandles {
    pub forwarding: Forwarding,
    pub commands: CommandReceiver,
    pub shutdown_barrier: ShutdownBarrier,
    pub heartbeat: Heartbeat,
    pub relay: ProcessRelay,
}

impl EventLoop {
    /// # Errors
    ///
    /// The process may have no more file descriptors.
    pub fn new(
        socket: Socket,
        mut poller: Poller,
        worker: Worker,
        handles: WorkerHandles,
    ) -> io::Result<Self> {
        poller.watch(&socket)?;
        handles.relay.older().try_for_each(|older| poller.watch_older(older))?;
        let receiver = Receiver::new(GROUPS_MAX);
        Ok(Self {
            socket,
            poller,
            receiver,
            worker,
            handles,
            readable: false,
            relayed: false,
            relay_buffer: Vec::new(),
            newer_ended: None,
        })
    }

    /// Serves until the command to drain or to stop has been carried out.
    ///
    /// # Errors
    ///
    /// Waiting fails, which is not expected.
    pub fn run(mut self) -> anyhow::Result<()> {
        poller::sleep_precisely().context("cannot set the timer slack")?;
        self.handles.relay.begin(clock::now());
        loop {
            let has_more = self.readable || self.relayed || self.worker.has_work();
            let readiness = match has_more {
                true => self.poller.look(),
                false => {
                    let now = clock::now();
                    self.poller.wait(self.deadline(), self.worker.may_gather(now), now)
                }
            };
            let readiness = readiness.context("cannot wait for packets")?;
            self.handles.heartbeat.beat();
            if readiness.woken {
                self.process_commands()?;
            }
            if readiness.writable {
                self.worker.on_writable(&self.socket);
            }
            if self.readable || readiness.readable {
                self.readable = self.receive() == Received::Full;
            }
            if self.relayed || readiness.relayed {
                self.relayed = self.receive_relayed()? == Received::Full;
            }
            if readiness.woken {
                self.worker.on_store_replies();
                self.worker.on_chunks_read();
                self.take_forwarded();
            }
            self.handles.relay.on_turn(clock::now());
            self.worker.serve(&self.socket);
            self.worker.watch_segmentation(&self.socket);
            let waits = self.worker.has_unsent_packets();
            self.poller
                .watch_writable(&self.socket, waits)
                .context("cannot wait until the socket is writable")?;
            if self.worker.is_shut_down() && self.handles.shutdown_barrier.is_complete() {
                self.worker.end();
                return Ok(());
            }
        }
    }

    /// Returns a part of the shutdown barrier for what clients have besides the workers.
    pub fn join_shutdown_barrier(&self) -> ShutdownBarrier {
        self.handles.shutdown_barrier.join()
    }

    fn deadline(&self) -> Option<Instant> {
        let deadlines = [self.worker.deadline(), self.handles.relay.deadline()];
        deadlines.into_iter().flatten().min()
    }

    fn process_commands(&mut self) -> anyhow::Result<()> {
        while let Some(pending) = self.handles.commands.next() {
            match pending.command {
                Command::Reload(worker_config) => self.worker.reload(*worker_config),
                Command::HandOver(handover) => {
                    self.hand_over(handover).context("cannot hand over")?;
                }
                // The newer process may have ended since.
                Command::Drain(DrainReason::HandedOver) if self.newer_ended.is_none() => (),
                Command::Drain(reason) => self.worker.drain(reason),
                Command::Stop => self.worker.stop(),
                Command::RollBack => self.worker.roll_back(),
                // Nobody listens any more if that took too long.
                Command::ListOlder { reply } => {
                    drop(reply.send(self.handles.relay.older_generations()));
                }
                Command::List { max, reply } => drop(reply.send(self.worker.list(max))),
            }
        }
        Ok(())
    }

    fn hand_over(&mut self, handover: Handover) -> io::Result<()> {
        self.poller.leave_reading(&self.socket)?;
        self.handles.relay.older().try_for_each(|older| self.poller.leave_older(older))?;
        self.poller.watch_newer(&handover.link)?;
        self.readable = false;
        self.handles.relay.hand_over(handover.link);
        self.newer_ended = Some(handover.newer_ended);
        Ok(())
    }

    /// Reads again what a newer process has read, and accepts clients again.
    fn serve_again(&mut self) -> io::Result<()> {
        self.poller.watch(&self.socket)?;
        self.handles.relay.older().try_for_each(|older| self.poller.watch_older(older))?;
        self.readable = true;
        if self.handles.shutdown_barrier.withdraw() {
            self.worker.serve_again();
        }
        // Nobody listens if the process is about to end.
        let _ = self.newer_ended.take().map(|newer_ended| newer_ended.send(()));
        Ok(())
    }

    fn receive(&mut self) -> Received {
        for _ in 0..RECEIVES_MAX {
            let (socket, worker) = (&self.socket, &mut self.worker);
            let WorkerHandles { forwarding, relay, .. } = &mut self.handles;
            let received = self.receiver.receive(socket, |group| {
                let info = RecvInfo { from: group.from, to: group.to };
                if !route::is_answerable(info) {
                    return;
                }
                let arrival = Arrival::new(info, group.ecn);
                for datagram in group.into_datagrams().filter(|datagram| !datagram.is_empty()) {
                    if !forwarding.forward(arrival, datagram) {
                        let origin = (DatagramSource::Socket, arrival);
                        deliver(worker, relay, socket, origin, datagram);
                    }
                }
            });
            match received {
                Ok(Received::Full) => (),
                Ok(Received::Drained) => return Received::Drained,
                // The error of an earlier send, which the kernel reports once.
                Err(e) => debug!("receive: {e}"),
            }
        }
        Received::Full
    }

    /// Delivers what other workers of this process, and other servers, have forwarded.
    fn take_forwarded(&mut self) {
        while let Some(mut forwarded) = self.handles.forwarding.next() {
            if forwarded.is_from_node && self.worker.drops_misdirected(&forwarded.datagram) {
                continue;
            }
            let origin = (DatagramSource::Socket, forwarded.arrival);
            let (worker, relay) = (&mut self.worker, &mut self.handles.relay);
            deliver(worker, relay, &self.socket, origin, &mut forwarded.datagram);
        }
    }

    /// Delivers what other processes have sent.
    fn receive_relayed(&mut self) -> anyhow::Result<Received> {
        self.relay_buffer.resize(MESSAGE_BYTES_MAX, 0);
        for _ in 0..RELAYED_MAX {
            let relay = &mut self.handles.relay;
            match relay.next(&mut self.relay_buffer) {
                Some(Relayed::Datagram(source, arrival, datagram)) => {
                    deliver(&mut self.worker, relay, &self.socket, (source, arrival), datagram);
                }
                Some(Relayed::NewerServes) => self.worker.on_newer_serves(),
                Some(Relayed::NewerEnded) => self.serve_again().context("cannot serve again")?,
                None => return Ok(Received::Drained),
            }
        }
        Ok(Received::Full)
    }
}

/// Gives a datagram to the worker, unless another process may have a connection for it.
fn deliver(
    worker: &mut Worker,
    relay: &mut ProcessRelay,
    socket: &Socket,
    (source, arrival): (DatagramSource, Arrival),
    datagram: &mut [u8],
) {
    let destination = worker.destination(datagram);
    if destination != Destination::Unknown {
        relay.on_known(source, datagram);
    } else if relay.has_others() {
        let named = (&*datagram, worker.origin_of(datagram));
        if relay.forward(source, arrival, named, clock::now()) {
            return;
        }
    }
    worker.on_datagram(socket, destination, arrival, datagram);
}
