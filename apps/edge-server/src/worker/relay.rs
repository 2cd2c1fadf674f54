//! One worker among those of processes that were started before its own, and after: a
//! datagram that belongs to none of its connections goes to the older ones first. What
//! none of them knows, comes back to the newest, which takes new clients.

use quiche::RecvInfo;

use crate::net::process_link::Closed;
use crate::net::process_link::Link;
use crate::net::process_link::MESSAGE_BYTES_MAX;

/// Where a datagram came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramSource {
    Socket,

    /// The older process has no connection for it.
    Older,

    /// The newer process has no connection for it.
    Newer,
}

/// A worker's links.
#[derive(Default)]
pub struct ProcessRelay {
    older: Option<Link>,
    newer: Option<Link>,
    room: Vec<u8>,
}

impl ProcessRelay {
    /// Of a process that has taken over, or not.
    pub fn new(older: Option<Link>) -> Self {
        Self { older, newer: None, room: Vec::new() }
    }

    /// Another process takes over.
    pub fn hand_over(&mut self, newer: Link) {
        self.newer = Some(newer);
    }

    /// The link to the older process.
    pub fn older(&self) -> Option<&Link> {
        self.older.as_ref()
    }

    /// Passes on a datagram that belongs to no connection here. False if there is nobody
    /// else to know it: it is for this worker, whatever it is.
    pub fn forward(&mut self, source: DatagramSource, info: RecvInfo, datagram: &[u8]) -> bool {
        if source != DatagramSource::Older {
            match self.older.as_ref().map(|older| older.send(info, datagram)) {
                Some(Ok(())) => return true,
                Some(Err(Closed)) => self.older = None,
                None => (),
            }
        }
        // Without the newer process nobody serves what is new, which is not for this one.
        self.newer.as_ref().is_some_and(|newer| {
            let _ = newer.send(info, datagram);
            true
        })
    }

    /// The next datagram of another process.
    pub fn next(&mut self) -> Option<(DatagramSource, RecvInfo, Vec<u8>)> {
        self.room.resize(MESSAGE_BYTES_MAX, 0);
        for (link, source) in
            [(&mut self.older, DatagramSource::Older), (&mut self.newer, DatagramSource::Newer)]
        {
            match link.as_ref().map(|link| link.receive(&mut self.room)) {
                Some(Ok(Some((info, datagram)))) => return Some((source, info, datagram)),
                Some(Err(Closed)) if source == DatagramSource::Older => *link = None,
                _ => (),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> RecvInfo {
        let address = "192.0.2.7:443".parse().unwrap();
        RecvInfo { from: address, to: address }
    }

    /// Three relay, the newest first.
    fn three() -> [ProcessRelay; 3] {
        let pairs = [Link::pair().unwrap(), Link::pair().unwrap()];
        let [(of_middle, newer_of_oldest), (of_newest, newer_of_middle)] = pairs;
        let (mut oldest, mut middle) =
            (ProcessRelay::new(None), ProcessRelay::new(Some(of_middle)));
        oldest.hand_over(Link::new(newer_of_oldest));
        middle.hand_over(Link::new(newer_of_middle));
        [ProcessRelay::new(Some(of_newest)), middle, oldest]
    }

    /// Lets a worker pass on what it does not know. Returns whether it serves it.
    fn turn(worker: &mut ProcessRelay, expected: DatagramSource) -> bool {
        let (source, info, datagram) = worker.next().unwrap();
        assert_eq!((source, datagram.as_slice()), (expected, &b"x"[..]));
        assert!(worker.next().is_none());
        !worker.forward(source, info, &datagram)
    }

    #[test]
    fn what_nobody_knows_comes_back_to_the_newest() {
        let [mut newest, mut middle, mut oldest] = three();
        assert!(newest.forward(DatagramSource::Socket, info(), b"x"));
        assert!(!turn(&mut middle, DatagramSource::Newer));
        assert!(!turn(&mut oldest, DatagramSource::Newer));
        assert!(!turn(&mut middle, DatagramSource::Older));
        assert!(turn(&mut newest, DatagramSource::Older));
    }

    #[test]
    fn a_process_that_is_gone_knows_nothing() {
        let [mut newest, mut middle, oldest] = three();
        drop(oldest);
        assert!(newest.forward(DatagramSource::Socket, info(), b"x"));
        assert!(!turn(&mut middle, DatagramSource::Newer));
        assert!(turn(&mut newest, DatagramSource::Older));
        drop(middle);
        assert!(!newest.forward(DatagramSource::Socket, info(), b"x"));
    }

    #[test]
    fn an_older_process_takes_nobody_new_when_the_newer_one_dies() {
        let [newest, middle, mut oldest] = three();
        drop((newest, middle));
        assert!(oldest.forward(DatagramSource::Newer, info(), b"x"));
    }
}
