//! Poller of sockets, the next release time, and signals.

use anyhow::Context;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::Itimerspec;
use rustix::time::TimerfdClockId;
use rustix::time::TimerfdFlags;
use rustix::time::TimerfdTimerFlags;
use rustix::time::Timespec;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use std::io;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const EVENTS_MAX: usize = 256;
const STOP: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
const LISTEN: u64 = u64::MAX - 2;

/// Level-triggered readiness of many sockets, and one timer. The timer is a
/// timerfd, because the time-outs of epoll are late by the timer slack, which
/// grows with the time-out.
pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed: Option<Duration>,
    events: Vec<epoll::Event>,
    /// Readable once the process has received a signal.
    stop: UnixStream,
}

/// Event that ended a wait, except the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The socket that clients send to.
    Listen,
    /// The socket of the client with this key.
    Client(usize),
    /// SIGTERM or SIGINT came.
    Stop,
}

impl Poller {
    /// Sets up the timer, and catches SIGTERM and SIGINT from now on.
    ///
    /// # Errors
    ///
    /// If the system has no more file descriptors.
    pub fn new() -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("cannot create an epoll")?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)
            .context("cannot create a timer")?;
        let (stop, signalled) = UnixStream::pair().context("cannot create a socket pair")?;
        for signal in [SIGTERM, SIGINT] {
            signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)
                .context("cannot catch signals")?;
        }
        let poller =
            Self { epoll, timer, armed: None, events: Vec::with_capacity(EVENTS_MAX), stop };
        poller.add(&poller.timer, TIMER)?;
        poller.add(&poller.stop, STOP)?;
        Ok(poller)
    }

    /// Watches the socket that clients send to.
    pub fn add_listen(&self, socket: impl AsFd) -> io::Result<()> {
        self.add(socket, LISTEN)
    }

    /// Watches the socket of the client with this key, until it is closed.
    pub fn add_client(&self, socket: impl AsFd, key: usize) -> io::Result<()> {
        self.add(socket, key as u64)
    }

    fn add(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, source, data, epoll::EventFlags::IN)?)
    }

    /// Waits for a socket, a signal, or `until`, and puts what is ready into
    /// `ready`, in place of what was there.
    ///
    /// # Errors
    ///
    /// Those of the system calls, which are not expected.
    pub fn wait(&mut self, until: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        if self.armed != until {
            self.arm(until)?;
        }
        ready.clear();
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            match event.data.u64() {
                STOP => ready.push(Ready::Stop),
                LISTEN => ready.push(Ready::Listen),
                // To be armed again, which also takes the expiry off.
                TIMER => self.armed = Some(Duration::MAX),
                key => ready.push(Ready::Client(key as usize)),
            }
        }
        Ok(())
    }

    fn arm(&mut self, until: Option<Duration>) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = until.map_or(Ok(zero), Timespec::try_from);
        let it_value = it_value.map_err(|_| io::ErrorKind::InvalidInput)?;
        let timer = Itimerspec { it_interval: zero, it_value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer)?;
        self.armed = until;
        Ok(())
    }
}
