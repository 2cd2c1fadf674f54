//! Orders to the workers: what signals ask of the server, each worker does in its own
//! turn.

use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::time::Duration;

use log::debug;
use mio::Waker;

use crate::net::process_link::Link;
use crate::worker::settings::Fresh;

/// How long all workers may take to carry an order out.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a worker is to do.
pub enum Order {
    /// Serve with these from now on.
    Reload(Box<Fresh>),

    /// Read no more packets: whoever is at the other end of the link does.
    HandOver(Link),

    /// Take no more clients, finish what is under way, and end.
    Drain,

    /// Close every connection, and end.
    Stop,
}

/// An order under way. Dropping it tells that it has been carried out.
pub struct Sealed {
    pub order: Order,
    _done: Sender<()>,
}

/// The way to every worker.
pub struct Orders {
    workers: Vec<(Sender<Sealed>, Arc<Waker>)>,
}

/// One worker's orders.
pub struct Inbox(Receiver<Sealed>);

impl Orders {
    /// To the workers that these wake, in their order.
    pub fn connect(wakers: impl IntoIterator<Item = Arc<Waker>>) -> (Self, Vec<Inbox>) {
        let ends = wakers.into_iter().map(|waker| {
            let (outgoing, incoming) = channel();
            ((outgoing, waker), Inbox(incoming))
        });
        let (workers, inboxes) = ends.unzip();
        (Self { workers }, inboxes)
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Gives each worker its order, and waits until all of them have carried it out.
    /// A worker that is no more needs none.
    pub fn give(&self, orders: impl IntoIterator<Item = Order>) {
        let (done, all_done) = channel();
        for ((worker, waker), order) in self.workers.iter().zip(orders) {
            let sealed = Sealed { order, _done: done.clone() };
            if worker.send(sealed).is_ok() {
                if let Err(e) = waker.wake() {
                    debug!("cannot wake a worker: {e}");
                }
            }
        }
        drop(done);
        let _ = all_done.recv_timeout(PATIENCE);
    }
}

impl Inbox {
    /// The next order, to be dropped when it has been carried out.
    pub fn next(&self) -> Option<Sealed> {
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
        let (orders, mut inboxes) = Orders::connect(vec![waker; 3]);
        // One has ended.
        inboxes.truncate(2);
        let (carried_out, count) = channel();
        let workers = inboxes.into_iter().map(|inbox| {
            let carried_out = carried_out.clone();
            std::thread::spawn(move || {
                let sealed = inbox.0.recv().unwrap();
                assert!(matches!(sealed.order, Order::Stop));
                carried_out.send(()).unwrap();
                drop(sealed);
            })
        });
        let workers: Vec<_> = workers.collect();
        orders.give(std::iter::repeat_with(|| Order::Stop));
        assert_eq!(count.try_iter().count(), 2);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    }
}
