//! Relay between old and new process during a takeover: forwards datagrams of unknown connections.
//!
//! Each worker relays to the same worker of the other processes. A datagram of none of its
//! connections goes to the older processes first. If none of them has a connection for it, it
//! returns to the newest, which accepts new clients.

use quiche::RecvInfo;

use crate::net::process_link::Closed;
use crate::net::process_link::Link;

/// Source of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramSource {
    Socket,

    /// The older process has no connection for it.
    Older,

    /// The newer process has no connection for it.
    Newer,
}

/// Links of one worker.
#[derive(Default)]
pub struct ProcessRelay {
    older: Option<Link>,
    newer: Option<Link>,
}

impl ProcessRelay {
    /// Returns the links of a worker, whose process has taken over from an older one or not.
    pub fn new(older: Option<Link>) -> Self {
        Self { older, newer: None }
    }

    /// Adds the link to a process that takes over.
    pub fn hand_over(&mut self, newer: Link) {
        self.newer = Some(newer);
    }

    /// Returns the link to the older process.
    pub fn older(&self) -> Option<&Link> {
        self.older.as_ref()
    }

    /// Sends a datagram of no connection here to another process. Returns whether it did: if
    /// no other process may have a connection for it, it is this worker's.
    pub fn forward(&mut self, source: DatagramSource, info: RecvInfo, datagram: &[u8]) -> bool {
        if source != DatagramSource::Older {
            match self.older.as_ref().map(|older| older.send(info, datagram)) {
                Some(Ok(())) => return true,
                Some(Err(Closed)) => self.older = None,
                None => (),
            }
        }
        // If the newer process is gone, nobody accepts new clients: this one does not.
        self.newer.as_ref().is_some_and(|newer| {
            let _ = newer.send(info, datagram);
            true
        })
    }

    /// Receives the next datagram of another process, into `buffer`.
    pub fn next<'a>(
        &mut self,
        buffer: &'a mut [u8],
    ) -> Option<(DatagramSource, RecvInfo, &'a mut [u8])> {
        for (link, source) in
            [(&mut self.older, DatagramSource::Older), (&mut self.newer, DatagramSource::Newer)]
        {
            match link.as_ref().map(|link| link.receive(buffer)) {
                Some(Ok(Some((info, range)))) => return Some((source, info, &mut buffer[range])),
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

    /// Returns the relays of three processes, the newest first.
    fn three() -> [ProcessRelay; 3] {
        let pairs = [Link::pair().unwrap(), Link::pair().unwrap()];
        let [(of_middle, newer_of_oldest), (of_newest, newer_of_middle)] = pairs;
        let (mut oldest, mut middle) =
            (ProcessRelay::new(None), ProcessRelay::new(Some(of_middle)));
        oldest.hand_over(Link::new(newer_of_oldest));
        middle.hand_over(Link::new(newer_of_middle));
        [ProcessRelay::new(Some(of_newest)), middle, oldest]
    }

    /// Lets a worker relay a datagram that it does not know. Returns whether it keeps it.
    fn turn(worker: &mut ProcessRelay, expected: DatagramSource) -> bool {
        let mut buffer = [0; 100];
        let (source, info, datagram) = worker.next(&mut buffer).unwrap();
        assert_eq!((source, &*datagram), (expected, &b"x"[..]));
        assert!(worker.next(&mut [0; 100]).is_none());
        !worker.forward(source, info, datagram)
    }

    #[test]
    fn unknown_datagram_returns_to_the_newest_process() {
        let [mut newest, mut middle, mut oldest] = three();
        assert!(newest.forward(DatagramSource::Socket, info(), b"x"));
        assert!(!turn(&mut middle, DatagramSource::Newer));
        assert!(!turn(&mut oldest, DatagramSource::Newer));
        assert!(!turn(&mut middle, DatagramSource::Older));
        assert!(turn(&mut newest, DatagramSource::Older));
    }

    #[test]
    fn dead_process_is_left_out() {
        let [mut newest, mut middle, oldest] = three();
        drop(oldest);
        assert!(newest.forward(DatagramSource::Socket, info(), b"x"));
        assert!(!turn(&mut middle, DatagramSource::Newer));
        assert!(turn(&mut newest, DatagramSource::Older));
        drop(middle);
        assert!(!newest.forward(DatagramSource::Socket, info(), b"x"));
    }

    #[test]
    fn older_process_keeps_nothing_when_the_newer_dies() {
        let [newest, middle, mut oldest] = three();
        drop((newest, middle));
        assert!(oldest.forward(DatagramSource::Newer, info(), b"x"));
    }
}
