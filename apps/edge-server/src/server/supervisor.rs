//! Supervisor of the process, such as systemd: tells it that the server is ready, reloads or ends, and
//! that its event loops iterate (sd_notify(3)).
//!
//! Each message is a datagram to the socket that `NOTIFY_SOCKET` names. Without that, nothing is sent.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use log::debug;
use log::warn;
use rustix::time::clock_gettime;
use rustix::time::ClockId;

use crate::telemetry::health::Health;

/// Variables of the environment.
const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_INTERVAL: &str = "WATCHDOG_USEC";

/// Variable that names the process which the watchdog is told by. Another process has another.
pub const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";

/// Messages to the watchdog in its interval, of which one may be late.
const MESSAGES_PER_INTERVAL: u32 = 3;

/// Time of the process after its drain: the store's last records, and the log's.
const LAST_STEPS: Duration = Duration::from_secs(10);

/// Time that a supervisor may take for a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// Handle of the supervisor.
#[derive(Clone, Default)]
pub struct Supervisor(Arc<Notifier>);

#[derive(Default)]
struct Notifier {
    address: Option<SocketAddr>,
    watchdog_interval: Option<Duration>,

    /// Whether another process of the same unit speaks for it.
    is_silent: AtomicBool,
}

impl Supervisor {
    /// Returns that which the environment names, if any.
    pub fn of_environment() -> Self {
        let address = env::var_os(SOCKET).and_then(|name| address(name.as_bytes()).ok());
        let number = |name| env::var(name).ok()?.parse().ok();
        let is_meant = env::var_os(WATCHDOG_PROCESS).is_none()
            || number(WATCHDOG_PROCESS) == Some(u64::from(std::process::id()));
        let interval = number(WATCHDOG_INTERVAL).filter(|us| is_meant && *us > 0);
        let watchdog_interval = interval.map(Duration::from_micros);
        Self(Arc::new(Notifier { address, watchdog_interval, ..Notifier::default() }))
    }

    /// Tells that this process is the unit's main one and serves.
    pub fn ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}\nSTATUS=Serving", std::process::id()));
    }

    /// Tells that the configuration is being read again, until the server is [ready](Self::ready).
    pub fn reloading(&self) {
        let time = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", time.as_micros()));
    }

    /// Tells that the server ends, after `drain` at the latest.
    pub fn stopping(&self, drain: Duration) {
        let time = drain + LAST_STEPS;
        let time_us = time.as_micros();
        self.send(&format!("STOPPING=1\nSTATUS=Draining\nEXTEND_TIMEOUT_USEC={time_us}"));
    }

    /// Makes another process of the same unit its main one, which is to be told before this one ends.
    pub fn set_main_process(&self, id: u32) {
        self.send(&format!("MAINPID={id}\nSTATUS=Serving"));
    }

    /// Leaves all to another process of the same unit, or speaks again.
    pub fn set_silent(&self, is_silent: bool) {
        self.0.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Starts the thread that tells the watchdog, if there is one, that all event loops iterate.
    ///
    /// # Errors
    ///
    /// The process may have no more threads.
    pub fn start_watchdog(&self, health: Health) -> io::Result<()> {
        let Self(notifier) = self;
        let interval = notifier.watchdog_interval.filter(|_| notifier.address.is_some());
        let Some(interval) = interval else { return Ok(()) };
        let supervisor = self.clone();
        let watch = move || loop {
            supervisor.check(&health);
            thread::sleep(interval / MESSAGES_PER_INTERVAL);
        };
        thread::Builder::new().name("watchdog".into()).spawn(watch).map(drop)
    }

    fn check(&self, health: &Health) {
        match health.stuck() {
            stuck if stuck.is_empty() => self.send("WATCHDOG=1"),
            stuck => warn!("the watchdog is not told: event loops that do not iterate: {stuck:?}"),
        }
    }

    fn send(&self, message: &str) {
        let Some(address) = &self.0.address else { return };
        if self.0.is_silent.load(Ordering::Relaxed) {
            return;
        }
        if let Err(e) = send(address, message) {
            debug!("cannot notify the supervisor: {e}");
        }
    }
}

fn send(address: &SocketAddr, message: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIMEOUT))?;
    socket.send_to_addr(message.as_bytes(), address).map(drop)
}

/// Returns the address of a path, or of a name in the abstract namespace, which begins with `@`.
fn address(name: &[u8]) -> io::Result<SocketAddr> {
    match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        path => SocketAddr::from_pathname(OsStr::from_bytes(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;
    use mio::Token;
    use mio::Waker;

    /// Supervisor at an abstract address, and what it receives from.
    fn supervisor(name: &str) -> (Supervisor, UnixDatagram) {
        let name = format!("@edge-server-{name}-{}", std::process::id());
        let address = address(name.as_bytes()).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_nonblocking(true).unwrap();
        (Supervisor(Arc::new(Notifier { address: Some(address), ..Notifier::default() })), socket)
    }

    fn received(socket: &UnixDatagram) -> Option<String> {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).ok()?;
        Some(String::from_utf8_lossy(&message[..length]).into_owned())
    }

    #[test]
    fn watchdog_is_told_unless_an_event_loop_is_stuck() {
        let (supervisor, socket) = supervisor("watchdog");
        let health = Health::default();
        supervisor.check(&health);
        assert_eq!(received(&socket).as_deref(), Some("WATCHDOG=1"));

        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let _heartbeats = health.watch([waker]);
        supervisor.check(&health);
        assert_eq!(received(&socket), None);
    }

    #[test]
    fn silent_process_says_nothing() {
        let (supervisor, socket) = supervisor("silence");
        supervisor.set_silent(true);
        supervisor.stopping(Duration::ZERO);
        assert_eq!(received(&socket), None);
        supervisor.set_silent(false);
        supervisor.set_main_process(1);
        assert_eq!(received(&socket).as_deref(), Some("MAINPID=1\nSTATUS=Serving"));
    }
}
