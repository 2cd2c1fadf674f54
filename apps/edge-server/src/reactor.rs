//! Waiting: for the socket, the next deadline, or other threads.

use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use mio::unix::SourceFd;
use mio::Events;
use mio::Interest;
use mio::Poll;
use mio::Token;
use mio::Waker;
use rustix::time::Itimerspec;
use rustix::time::TimerfdClockId;
use rustix::time::TimerfdFlags;
use rustix::time::TimerfdTimerFlags;
use rustix::time::Timespec;

const SOCKET: Token = Token(0);
const TIMER: Token = Token(1);
const MAIL: Token = Token(2);
const OLDER: Token = Token(3);
const NEWER: Token = Token(4);

/// One poll of one worker. The timer is a timerfd: mio's own time-outs are in
/// whole milliseconds, an eternity between two packets.
pub struct Reactor {
    poll: Poll,
    events: Events,
    timer: OwnedFd,
    armed: Option<Instant>,
    mail: Arc<Waker>,
}

/// What a wait ended with. An expired timer needs no name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    pub readable: bool,
    pub writable: bool,

    /// Another thread has something for the worker: an order, the store, a disk, or
    /// another worker.
    pub mail: bool,

    /// Another process may have passed something on.
    pub passed_on: bool,
}

impl Reactor {
    /// # Errors
    ///
    /// The process may have no more file descriptors.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry();
        let mail = Arc::new(Waker::new(registry, MAIL)?);
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;

        Ok(Self { poll, events: Events::with_capacity(64), timer, armed: None, mail })
    }

    /// Reports when `socket` becomes readable or writable. Each is reported
    /// once, until the socket has been read dry or filled.
    pub fn watch(&self, socket: &impl AsRawFd) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut SourceFd(&fd), SOCKET, interest)
    }

    /// Reports no more that `socket` becomes readable.
    pub fn leave_reading(&self, socket: &impl AsRawFd) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        self.poll.registry().reregister(&mut SourceFd(&fd), SOCKET, Interest::WRITABLE)
    }

    /// Reports when something comes from the older process, as [`Woken::passed_on`].
    pub fn watch_older(&self, link: &impl AsRawFd) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&link.as_raw_fd()), OLDER, Interest::READABLE)
    }

    /// The same, from the newer process.
    pub fn watch_newer(&self, link: &impl AsRawFd) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&link.as_raw_fd()), NEWER, Interest::READABLE)
    }

    /// Ends a wait from another thread, as [`Woken::mail`].
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.mail)
    }

    /// Takes what has happened, without waiting.
    pub fn look(&mut self) -> io::Result<Woken> {
        self.poll(Some(Duration::ZERO))
    }

    /// Waits until something happens, or the deadline comes. `now` must be
    /// fresh: it sets the timer.
    pub fn wait(&mut self, deadline: Option<Instant>, now: Instant) -> io::Result<Woken> {
        if deadline.is_some_and(|deadline| deadline <= now) {
            return self.look();
        }
        // One that expires too early costs less than to move it with every packet.
        if let Some(deadline) = deadline.filter(|at| self.armed.is_none_or(|armed| *at < armed)) {
            self.arm(deadline - now)?;
            self.armed = Some(deadline);
        }
        self.poll(None)
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<Woken> {
        let mut woken = Woken::default();
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => (),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(woken),
            Err(e) => return Err(e),
        }
        for event in &self.events {
            match event.token() {
                SOCKET => {
                    woken.readable |= event.is_readable();
                    woken.writable |= event.is_writable();
                }
                // Setting the timer again takes the expiry off.
                TIMER => self.armed = None,
                MAIL => woken.mail = true,
                OLDER | NEWER => woken.passed_on = true,
                _ => (),
            }
        }
        Ok(woken)
    }

    fn arm(&self, after: Duration) -> io::Result<()> {
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(after).map_err(|_| io::ErrorKind::InvalidInput)?;
        let timer = Itimerspec { it_interval, it_value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
        Ok(())
    }
}
