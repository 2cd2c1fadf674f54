//! Poller of one worker: waits for the socket, the next deadline, or other threads.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use log::debug;
use mio::unix::SourceFd;
use mio::Events;
use mio::Interest;
use mio::Poll;
use mio::Token;
use mio::Waker;
use quiche::clock;
use rustix::time::Itimerspec;
use rustix::time::TimerfdClockId;
use rustix::time::TimerfdFlags;
use rustix::time::TimerfdTimerFlags;
use rustix::time::Timespec;

/// The longest time for which packets gather before one turn serves them all.
const GATHER_MAX: Duration = Duration::from_micros(250);

const SOCKET: Token = Token(0);
const TIMER: Token = Token(1);
const WAKE: Token = Token(2);
const OLDER: Token = Token(3);
const NEWER: Token = Token(4);

/// Poller of one worker. The timer is a timerfd, because mio's timeouts are in whole
/// milliseconds: too long between two packets.
pub struct Poller {
    poll: Poll,
    events: Events,
    timer: OwnedFd,
    armed: Option<Instant>,
    waker: Arc<Waker>,
    watched: Watched,
}

/// Events of the socket that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    readable: bool,
    writable: bool,
}

/// Events that ended a wait. An expired timer is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    pub readable: bool,
    pub writable: bool,

    /// Another thread has something for the worker: a command, a reply of the store, a chunk
    /// from disk, or a datagram.
    pub woken: bool,

    /// Another process may have sent datagrams.
    pub relayed: bool,
}

impl Poller {
    /// # Errors
    ///
    /// The process may have no more file descriptors.
    pub fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry();
        let waker = Arc::new(Waker::new(registry, WAKE)?);
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;

        let events = Events::with_capacity(64);
        let watched = Watched { readable: false, writable: false };
        Ok(Self { poll, events, timer, armed: None, waker, watched })
    }

    /// Reports when `socket` becomes readable: once, until it has been emptied.
    pub fn watch(&mut self, socket: &impl AsRawFd) -> io::Result<()> {
        self.report(socket, Watched { readable: true, ..self.watched })
    }

    /// Reports no longer when `socket` becomes readable.
    pub fn leave_reading(&mut self, socket: &impl AsRawFd) -> io::Result<()> {
        self.report(socket, Watched { readable: false, ..self.watched })
    }

    /// Reports when `socket` becomes writable, if it is `wanted`: only while packets wait,
    /// because a socket that is never full becomes writable after every packet.
    pub fn watch_writable(&mut self, socket: &impl AsRawFd, wanted: bool) -> io::Result<()> {
        self.report(socket, Watched { writable: wanted, ..self.watched })
    }

    /// Reports datagrams of the older process, as [`Readiness::relayed`].
    pub fn watch_older(&self, link: &impl AsRawFd) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&link.as_raw_fd()), OLDER, Interest::READABLE)
    }

    /// Reports them no longer.
    pub fn leave_older(&self, link: &impl AsRawFd) -> io::Result<()> {
        self.poll.registry().deregister(&mut SourceFd(&link.as_raw_fd()))
    }

    /// Reports datagrams of the newer process, likewise.
    pub fn watch_newer(&self, link: &impl AsRawFd) -> io::Result<()> {
        let registry = self.poll.registry();
        registry.register(&mut SourceFd(&link.as_raw_fd()), NEWER, Interest::READABLE)
    }

    /// Returns the waker that ends a wait from another thread, as [`Readiness::woken`].
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Returns a function that does so, for callers without a poll.
    pub fn wake(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = self.waker();
        Arc::new(move || {
            if let Err(e) = waker.wake() {
                debug!("cannot wake the event loop: {e}");
            }
        })
    }

    /// Returns what has happened, without waiting.
    pub fn look(&mut self) -> io::Result<Readiness> {
        self.poll(Some(Duration::ZERO))
    }

    /// Waits until something happens or the deadline passes. If they `may_gather`, packets do
    /// so for a moment before. `now` must be exact: it sets the timer.
    pub fn wait(
        &mut self,
        deadline: Option<Instant>,
        may_gather: bool,
        mut now: Instant,
    ) -> io::Result<Readiness> {
        if may_gather {
            gather(deadline, now);
            now = clock::now();
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            return self.look();
        }
        // A timer that expires too early costs less than to set it with every packet.
        if let Some(deadline) = deadline.filter(|at| self.armed.is_none_or(|armed| *at < armed)) {
            self.arm(deadline - now)?;
            self.armed = Some(deadline);
        }
        self.poll(None)
    }

    fn report(&mut self, socket: &impl AsRawFd, wanted: Watched) -> io::Result<()> {
        if wanted == self.watched {
            return Ok(());
        }
        let fd = socket.as_raw_fd();
        let (source, registry) = (&mut SourceFd(&fd), self.poll.registry());
        match (self.watched.interest(), wanted.interest()) {
            (None, Some(interest)) => registry.register(source, SOCKET, interest)?,
            (Some(_), Some(interest)) => registry.reregister(source, SOCKET, interest)?,
            (_, None) => registry.deregister(source)?,
        }
        self.watched = wanted;
        Ok(())
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<Readiness> {
        let mut readiness = Readiness::default();
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => (),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(readiness),
            Err(e) => return Err(e),
        }
        for event in &self.events {
            match event.token() {
                SOCKET => {
                    readiness.readable |= event.is_readable();
                    readiness.writable |= event.is_writable();
                }
                // Setting the timer again clears the expiry.
                TIMER => self.armed = None,
                WAKE => readiness.woken = true,
                OLDER | NEWER => readiness.relayed = true,
                _ => (),
            }
        }
        Ok(readiness)
    }

    fn arm(&self, after: Duration) -> io::Result<()> {
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(after).map_err(|_| io::ErrorKind::InvalidInput)?;
        let timer = Itimerspec { it_interval, it_value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)?;
        Ok(())
    }
}

impl Watched {
    fn interest(self) -> Option<Interest> {
        match (self.readable, self.writable) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        }
    }
}

/// Makes this thread's sleeps exact. By default the kernel may add more than the time between
/// two packets (timer_slack of prctl(2)).
pub fn sleep_precisely() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

/// Lets packets gather, but not beyond the deadline.
fn gather(deadline: Option<Instant>, now: Instant) {
    let left = deadline.map_or(GATHER_MAX, |deadline| deadline.saturating_duration_since(now));
    std::thread::sleep(left.min(GATHER_MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn writable_socket_is_reported_only_when_watched() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut poller = Poller::new().unwrap();
        poller.watch(&socket).unwrap();
        for (wanted, expected) in [(false, false), (true, true), (false, false)] {
            poller.watch_writable(&socket, wanted).unwrap();
            // What is taken makes room, which would be news.
            for _ in 0..3 {
                socket.send_to(b"x", peer.local_addr().unwrap()).unwrap();
                peer.recv(&mut [0; 9]).unwrap();
            }
            let readiness = poller.look().unwrap();
            assert_eq!(readiness, Readiness { writable: expected, ..Readiness::default() });
        }
        poller.leave_reading(&socket).unwrap();
        poller.watch_writable(&socket, true).unwrap();
        assert!(poller.look().unwrap().writable);
    }

    #[test]
    fn packets_gather_but_not_beyond_a_deadline() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut poller = Poller::new().unwrap();
        poller.watch(&socket).unwrap();
        let mut shortest = |gathers, ahead: Option<Duration>| {
            let waits = (0..20).map(|_| {
                socket.send_to(b"x", socket.local_addr().unwrap()).unwrap();
                let before = clock::now();
                let deadline = ahead.map(|ahead| before + ahead);
                assert!(poller.wait(deadline, gathers, before).unwrap().readable);
                let waited = clock::now() - before;
                socket.recv(&mut [0; 9]).unwrap();
                waited
            });
            waits.min().unwrap()
        };
        sleep_precisely().unwrap();
        assert_eq!(rustix::thread::current_timer_slack(), Ok(1));
        let whole = shortest(true, None);
        assert!(whole >= GATHER_MAX);
        assert!(shortest(true, Some(Duration::from_secs(3600))) >= GATHER_MAX);
        let half = shortest(true, Some(GATHER_MAX / 2));
        assert!((GATHER_MAX / 2..whole).contains(&half), "{half:?} {whole:?}");
        assert!(shortest(false, None) < half);
    }
}
