//! Poller of sockets and signals, with time-outs.

use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use command_line::EXIT_FAILED;
use mio::unix::SourceFd;
use mio::Events;
use mio::Interest;
use mio::Poll;
use mio::Token;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook_mio::v1_0::Signals;

use crate::failure::Failure;
use crate::system;

const SIGNAL: Token = Token(usize::MAX - 1);

/// Poll of the whole run. Stop signals end any wait at once.
pub struct Poller {
    poll: Poll,
    events: Events,
    signals: Signals,
}

impl Poller {
    /// Creates a poll that handles SIGINT and SIGTERM.
    pub fn new() -> io::Result<Self> {
        end_on_second_signal()?;

        let poll = Poll::new()?;
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        poll.registry().register(&mut signals, SIGNAL, Interest::READABLE)?;

        Ok(Self { poll, events: Events::with_capacity(256), signals })
    }

    /// Reports when `socket` becomes readable, as `index`. It is edge-triggered: the caller reads
    /// the socket until it is empty.
    pub fn watch(&self, socket: &impl AsRawFd, index: usize) -> io::Result<()> {
        let fd: RawFd = socket.as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&fd), Token(index), Interest::READABLE)
    }

    /// Waits until a socket is readable, and returns true, or until `timeout` has passed. May
    /// return early.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, Failure> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(e) if e.kind() != io::ErrorKind::Interrupted => {
                return Err(Failure::failed(format!("cannot wait: {e}")))
            }
            // The signal stays readable for the next call.
            Err(_) => {
                self.events.clear();
                return Ok(false);
            }
            Ok(()) => (),
        }

        if self.signals.pending().next().is_some() {
            return Err(Failure::Interrupted);
        }
        Ok(self.readable().next().is_some())
    }

    /// Returns the sockets that the last wait found readable.
    pub fn readable(&self) -> impl Iterator<Item = usize> + '_ {
        self.events.iter().map(|event| event.token()).filter(|t| *t != SIGNAL).map(usize::from)
    }

    /// Waits for `length`, or until the user stops the program.
    pub fn sleep(&mut self, length: Duration) -> Result<(), Failure> {
        let until: Instant = system::now() + length;
        loop {
            let left = until.saturating_duration_since(system::now());
            if left.is_zero() {
                return Ok(());
            }
            self.wait(Some(left))?;
        }
    }
}

/// Ends the process at the second signal, even while it blocks in a write or a name look-up.
/// The first one stops the event loop.
fn end_on_second_signal() -> io::Result<()> {
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(EXIT_FAILED),
            Arc::clone(&stopping),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&stopping))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_never_short() {
        let length = Duration::from_millis(20);
        let before = system::now();
        Poller::new().unwrap().sleep(length).unwrap();
        assert!(system::now() - before >= length);
    }
}
