//! Commands to workers, from signals and from a takeover.

use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Duration;

use log::debug;
use mio::Waker;

use crate::net::process_link::Link;
use crate::telemetry::admin::socket::ConnectionInfo;
use crate::worker::drain::DrainReason;
use crate::worker::settings::WorkerConfig;

/// How long the workers may take to carry out a command.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Command to one worker.
pub enum Command {
    /// Serve with this configuration.
    Reload(Box<WorkerConfig>),

    /// Stop reading the socket: the process at the other end of the link does.
    HandOver(Handover),

    /// Accept no more connections, finish what is under way, and end.
    Drain(DrainReason),

    /// Close every connection, and end.
    Stop,

    /// The same, soon, since an older process then serves.
    RollBack,

    /// Report the generations of older processes that still have connections.
    ListOlder { reply: Sender<Vec<u8>> },

    /// Report the number of connections, and up to `max` of them.
    List { max: usize, reply: Sender<(usize, Vec<ConnectionInfo>)> },
}

/// What a worker needs of a handover.
pub struct Handover {
    pub link: Link,

    /// Gets a message when all newer processes have ended, and this worker serves again.
    pub newer_ended: Sender<()>,
}

/// Command under way. Dropping it signals that it has been carried out.
pub struct PendingCommand {
    pub command: Command,
    _done: Sender<()>,
}

/// Sender of commands to all workers.
pub struct CommandSender {
    workers: Vec<(Sender<PendingCommand>, Arc<Waker>)>,
}

/// Receiver of one worker's commands.
pub struct CommandReceiver(Receiver<PendingCommand>);

impl CommandSender {
    /// Connects the workers of these wakers, in their order.
    pub fn connect(wakers: impl IntoIterator<Item = Arc<Waker>>) -> (Self, Vec<CommandReceiver>) {
        let ends = wakers.into_iter().map(|waker| {
            let (outgoing, incoming) = channel();
            ((outgoing, waker), CommandReceiver(incoming))
        });
        let (workers, receivers) = ends.unzip();
        (Self { workers }, receivers)
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Sends each worker its command, and waits until all have carried it out. Workers that
    /// have ended are left out. Returns whether that finished in time.
    pub fn broadcast_and_wait(&self, commands: impl IntoIterator<Item = Command>) -> bool {
        let (done, all_done) = channel();
        for ((worker, waker), command) in self.workers.iter().zip(commands) {
            let pending = PendingCommand { command, _done: done.clone() };
            if worker.send(pending).is_ok() {
                if let Err(e) = waker.wake() {
                    debug!("cannot wake a worker: {e}");
                }
            }
        }
        drop(done);
        all_done.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Disconnected)
    }
}

impl CommandReceiver {
    /// Returns the next command, to be dropped when it has been carried out.
    pub fn next(&self) -> Option<PendingCommand> {
        self.0.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;
    use mio::Token;

    #[test]
    fn broadcast_waits_until_every_worker_is_done() {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (commands, mut receivers) = CommandSender::connect(vec![waker; 3]);
        // One has ended.
        receivers.truncate(2);
        let (carried_out, count) = channel();
        let workers = receivers.into_iter().map(|commands| {
            let carried_out = carried_out.clone();
            std::thread::spawn(move || {
                let pending = commands.0.recv().unwrap();
                assert!(matches!(pending.command, Command::Stop));
                carried_out.send(()).unwrap();
                drop(pending);
            })
        });
        let workers: Vec<_> = workers.collect();
        assert!(commands.broadcast_and_wait(std::iter::repeat_with(|| Command::Stop)));
        assert_eq!(count.try_iter().count(), 2);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    }
}
