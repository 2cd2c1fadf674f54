//! Commands to the workers: what signals ask of the server, each worker does in its own
//! turn.

use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Duration;

use log::debug;
use mio::Waker;

use crate::net::process_link::Link;
use crate::worker::settings::WorkerConfig;

/// How long all workers may take to carry a command out.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a worker is to do.
pub enum Command {
    /// Serve with these from now on.
    Reload(Box<WorkerConfig>),

    /// Read no more packets: whoever is at the other end of the link does.
    HandOver(Link),

    /// Take no more clients, finish what is under way, and end.
    Drain,

    /// Close every connection, and end.
    Stop,
}

/// An command under way. Dropping it tells that it has been carried out.
pub struct PendingCommand {
    pub command: Command,
    _done: Sender<()>,
}

/// The way to every worker.
pub struct CommandSender {
    workers: Vec<(Sender<PendingCommand>, Arc<Waker>)>,
}

/// One worker's commands.
pub struct CommandReceiver(Receiver<PendingCommand>);

impl CommandSender {
    /// To the workers that these wake, in their order.
    pub fn connect(wakers: impl IntoIterator<Item = Arc<Waker>>) -> (Self, Vec<CommandReceiver>) {
        let ends = wakers.into_iter().map(|waker| {
            let (outgoing, incoming) = channel();
            ((outgoing, waker), CommandReceiver(incoming))
        });
        let (workers, receivers) = ends.unzip();
        (Self { workers }, receivers)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Gives each worker its command, and waits until all of them have carried it out.
    /// A worker that is no more needs none.
    pub fn broadcast_and_wait(&self, commands: impl IntoIterator<Item = Command>) {
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
        let _ = all_done.recv_timeout(PATIENCE);
    }
}

impl CommandReceiver {
    /// The next command, to be dropped when it has been carried out.
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
    fn each_worker_has_carried_its_order_out_when_giving_ends() {
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
        commands.broadcast_and_wait(std::iter::repeat_with(|| Command::Stop));
        assert_eq!(count.try_iter().count(), 2);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    }
}
