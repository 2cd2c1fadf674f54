//! Stage of the TCP side: serving, or about to end. What the kernel does with new connections follows it.

use std::os::fd::OwnedFd;
use std::time::Duration;
use std::time::Instant;

use quiche::clock;
use tokio::sync::watch;

use crate::tcp::listeners;

/// Stage of the TCP side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpStage {
    Serving,

    /// Another process accepts. Clients finish what they have requested by then.
    HandedOver {
        until: Instant,
    },

    /// This process is to end. Clients finish what they have requested by then. Nobody accepts, unless
    /// another process does.
    Draining {
        until: Instant,
        is_handed_over: bool,
    },

    /// Connections are closed, finished or not.
    Closing,
}

/// Control of the stage.
pub struct StageControl {
    stage: watch::Sender<TcpStage>,

    /// Descriptors of the sockets that listen. Other processes may have some, too.
    sockets: Vec<OwnedFd>,

    /// How long clients may finish what they have requested.
    drain: Duration,
}

impl StageControl {
    /// Returns one that serves.
    pub fn new(sockets: Vec<OwnedFd>, drain: Duration) -> (Self, watch::Receiver<TcpStage>) {
        let (stage, stages) = watch::channel(TcpStage::Serving);
        (Self { stage, sockets, drain }, stages)
    }

    pub fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    /// Leaves new clients to another process.
    pub fn hand_over(&self) {
        let until = clock::now() + self.drain;
        self.change(|now| (*now == TcpStage::Serving).then_some(TcpStage::HandedOver { until }));
    }

    /// Has that process ended: serves again, unless this one is to end.
    pub fn serve_again(&self) {
        self.change(|now| match now {
            TcpStage::HandedOver { .. } => {
                self.sockets.iter().for_each(listeners::resume);
                Some(TcpStage::Serving)
            }
            TcpStage::Draining { is_handed_over: true, .. } => {
                self.sockets.iter().for_each(listeners::stop);
                None
            }
            TcpStage::Serving | TcpStage::Draining { .. } | TcpStage::Closing => None,
        });
    }

    /// Accepts no more connections. When this returns, the kernel refuses them, and an older process that
    /// serves again may have it complete them.
    pub fn drain(&self) {
        let until = clock::now() + self.drain;
        self.change(|now| match now {
            TcpStage::Serving => {
                self.sockets.iter().for_each(listeners::stop);
                Some(TcpStage::Draining { until, is_handed_over: false })
            }
            // No time is added.
            TcpStage::HandedOver { until } => {
                Some(TcpStage::Draining { until: *until, is_handed_over: true })
            }
            TcpStage::Draining { .. } | TcpStage::Closing => None,
        });
    }

    /// Has every connection closed.
    pub fn close(&self) {
        self.change(|now| (*now != TcpStage::Closing).then_some(TcpStage::Closing));
    }

    fn change(&self, next: impl FnOnce(&TcpStage) -> Option<TcpStage>) {
        self.stage.send_if_modified(|now| {
            let next = next(now);
            *now = next.unwrap_or(*now);
            next.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::net::TcpStream;

    use crate::tcp::listeners::tests::bind_to_port;

    /// Two processes with the same socket, and its address.
    fn two() -> (StageControl, StageControl, SocketAddr) {
        let (socket, address) = bind_to_port();
        let other = socket.try_clone().unwrap();
        let control = |socket| StageControl::new(vec![socket], Duration::from_secs(9)).0;
        (control(socket), control(other), address)
    }

    // At each step nobody accepts: what the kernel says is what counts.
    #[test]
    fn kernel_refuses_connections_when_nobody_is_to_accept_them() {
        use StageControl as S;
        type Step = (&'static str, fn(&S));
        const HAND_OVER: Step = ("old", S::hand_over);
        const END: Step = ("old", S::serve_again);
        let table: [(&str, &[Step], bool); 8] = [
            ("alone", &[], true),
            ("drains alone", &[("old", S::drain)], false),
            ("handed over", &[HAND_OVER], true),
            ("the new one drains", &[HAND_OVER, ("new", S::drain)], false),
            ("it drains, and ends", &[HAND_OVER, ("new", S::drain), END], true),
            (
                "it is told to drain once more as the old one serves",
                &[HAND_OVER, ("new", S::drain), END, ("new", S::drain)],
                true,
            ),
            ("the old one drains", &[HAND_OVER, ("old", S::drain)], true),
            ("the old one drains, the new one ends", &[HAND_OVER, ("old", S::drain), END], false),
        ];
        for (name, steps, expected) in table {
            let (old, new, address) = two();
            for (who, step) in steps {
                step(if *who == "old" { &old } else { &new });
            }
            assert_eq!(TcpStream::connect(address).is_ok(), expected, "{name}");
        }
    }
}
