//! Forwarding between the workers of one process, for packets that arrive at another worker's
//! socket: where the kernel does not have the rule of [`Steering`], and when it has coalesced
//! packets of several connections.

use std::sync::mpsc::sync_channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::SyncSender;
use std::sync::Arc;

use log::debug;
use mio::Waker;

use crate::net::route::Arrival;
use crate::net::steering::Steering;

/// The most datagrams that wait for a worker. Further ones are lost, as they would be in a
/// full socket.
const QUEUE_MAX: usize = 1024;

/// Datagram on its way to its worker.
pub struct Forwarded {
    pub arrival: Arrival,
    pub datagram: Vec<u8>,

    /// Whether another server has forwarded it.
    pub is_from_node: bool,
}

/// One worker's queues from and to all others.
pub struct Forwarding {
    worker: usize,
    inlet: ForwardingInlet,
    incoming: Receiver<Forwarded>,
}

/// Way to all workers of a listener.
#[derive(Clone)]
pub struct ForwardingInlet {
    steering: Steering,
    mailboxes: Arc<[Mailbox]>,
}

struct Mailbox {
    outgoing: SyncSender<Forwarded>,
    waker: Arc<Waker>,
}

impl Forwarding {
    /// Connects the workers of these wakers, in their order.
    pub fn connect(steering: Steering, wakers: impl IntoIterator<Item = Arc<Waker>>) -> Vec<Self> {
        let (mailboxes, incoming): (Vec<_>, Vec<_>) = wakers
            .into_iter()
            .map(|waker| {
                let (outgoing, incoming) = sync_channel(QUEUE_MAX);
                (Mailbox { outgoing, waker }, incoming)
            })
            .unzip();
        let inlet = ForwardingInlet { steering, mailboxes: mailboxes.into() };
        let connect = |(worker, incoming)| Self { worker, inlet: inlet.clone(), incoming };
        incoming.into_iter().enumerate().map(connect).collect()
    }

    /// Returns the worker's place among them.
    pub fn worker(&self) -> u8 {
        self.worker as u8
    }

    /// Forwards a datagram of another worker. Returns whether it did: otherwise the datagram is
    /// this worker's.
    pub fn forward(&self, arrival: Arrival, datagram: &[u8]) -> bool {
        let worker = self.inlet.steering.worker_of(datagram);
        if worker == self.worker {
            return false;
        }
        let datagram = datagram.to_vec();
        self.inlet.send(worker, Forwarded { arrival, datagram, is_from_node: false });
        true
    }

    /// Returns the way to all of the workers.
    pub fn inlet(&self) -> ForwardingInlet {
        self.inlet.clone()
    }

    /// Returns the next datagram that another worker has forwarded.
    pub fn next(&self) -> Option<Forwarded> {
        self.incoming.try_recv().ok()
    }
}

impl ForwardingInlet {
    /// Gives a datagram that another server has forwarded to its worker. Returns whether that has room for it.
    pub fn take_in(&self, arrival: Arrival, datagram: &[u8]) -> bool {
        let (worker, datagram) = (self.steering.worker_of(datagram), datagram.to_vec());
        self.send(worker, Forwarded { arrival, datagram, is_from_node: true })
    }

    fn send(&self, worker: usize, forwarded: Forwarded) -> bool {
        let mailbox = &self.mailboxes[worker];
        let has_room = mailbox.outgoing.try_send(forwarded).is_ok();
        if has_room {
            if let Err(e) = mailbox.waker.wake() {
                debug!("cannot wake worker {worker}: {e}");
            }
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;
    use mio::Token;
    use quiche::ecn::Codepoint;
    use quiche::RecvInfo;

    use crate::quic::connection_id::tests::reader;

    fn arrival(ecn: Codepoint) -> Arrival {
        let (from, to) = ("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap());
        Arrival { info: RecvInfo { from, to }, ecn }
    }

    fn three_workers() -> (Poll, Vec<Forwarding>) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        (poll, Forwarding::connect(Steering::new(3, reader().mask_key), vec![waker; 3]))
    }

    #[test]
    fn datagram_goes_to_its_worker_only() {
        let (_poll, workers) = three_workers();
        for byte in 0..9 {
            let forwarded = workers[0].forward(arrival(Codepoint::NotEct), &[0x40, byte, 7]);
            assert_eq!(forwarded, byte % 3 != 0, "{byte}");
        }
        let taken = |worker: usize| -> Vec<_> {
            std::iter::from_fn(|| workers[worker].next()).map(|f| f.datagram[1]).collect()
        };
        assert_eq!([taken(0), taken(1), taken(2)], [vec![], vec![1, 4, 7], vec![2, 5, 8]]);
    }

    #[test]
    fn forwarded_datagram_keeps_its_codepoint() {
        let (_poll, workers) = three_workers();
        for ecn in [Codepoint::Ce, Codepoint::Ect0] {
            workers[0].forward(arrival(ecn), &[0x40, 1]);
            assert_eq!(workers[1].next().unwrap().arrival, arrival(ecn));
        }
    }

    #[test]
    fn datagrams_beyond_a_full_queue_are_lost() {
        let (_poll, workers) = three_workers();
        for _ in 0..2 * QUEUE_MAX {
            assert!(workers[0].forward(arrival(Codepoint::NotEct), &[0x40, 1]));
        }
        assert_eq!(std::iter::from_fn(|| workers[1].next()).count(), QUEUE_MAX);
    }
}
