//! Control of the running server: what signals and the admin socket command.

use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use log::warn;
use quiche::clock;

use crate::acme::AcmeHandle;
use crate::config::PROGRAM;
use crate::content::cache::purge::PurgeTarget;
use crate::quic::certificate::CertificateInfo;
use crate::server::reload::Reloaded;
use crate::server::reload::Reloader;
use crate::server::successor::SuccessorCommand;
use crate::server::supervisor::Supervisor;
use crate::tcp::TcpHandle;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::admin::socket::ConnectionInfo;
use crate::telemetry::admin::socket::Controls;
use crate::telemetry::admin::socket::ReloadOutcome;
use crate::telemetry::admin::socket::TcpConnectionInfo;
use crate::telemetry::health::Health;
use crate::telemetry::health::HealthState;
use crate::telemetry::process_log;
use crate::telemetry::process_log::notice;
use crate::worker::command::Command;
use crate::worker::command::CommandSender;
use crate::worker::drain::DrainReason;

/// How often the server warns of certificates that expire.
const WARNING_INTERVAL: Duration = Duration::from_secs(86_400);

/// Control of the server.
pub struct Control {
    pub commands: Arc<CommandSender>,

    /// Absent if it is off.
    pub tcp: Option<TcpHandle>,
    pub acme: AcmeHandle,
    pub health: Health,
    pub access_log: Option<AccessLog>,

    /// Generation of this process.
    pub generation: u8,

    /// Longest time of a drain.
    pub drain_time: Duration,

    /// One reload at a time.
    pub reloader: Mutex<Reloader>,

    pub supervisor: Supervisor,

    /// Absent if no process can take over. One at a time.
    pub successor: Option<Mutex<SuccessorCommand>>,

    /// The older process, if this one is its successor.
    pub predecessor: Option<u32>,
}

impl Control {
    /// Reopens the access log.
    pub fn reopen_log(&self) {
        self.access_log.iter().for_each(AccessLog::reopen);
    }

    /// Warns of certificates that expire, once a day, on a thread of its own.
    ///
    /// # Errors
    ///
    /// The process may have no more threads.
    pub fn watch_certificates(self: &Arc<Self>) -> io::Result<()> {
        let control = Arc::clone(self);
        let watch = move || loop {
            thread::sleep(WARNING_INTERVAL);
            control.reloader().certificates().warn_of_validity(clock::wall_now());
        };
        thread::Builder::new().name("certificates".into()).spawn(watch).map(drop)
    }

    fn reloader(&self) -> MutexGuard<'_, Reloader> {
        self.reloader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_reload(&self) -> anyhow::Result<Vec<String>> {
        let mut reloader = self.reloader();
        let reloaded = reloader.read()?;
        self.acme.reload(&reloader.config);
        self.apply(reloaded)
    }

    /// Takes certificates that ACME has brought into service, for new connections.
    pub fn reload_acme_certificates(&self) {
        let mut reloader = self.reloader();
        let applied = match reloader.read_acme() {
            Ok(None) => return,
            Ok(Some(reloaded)) => self.apply(reloaded).map(drop),
            Err(e) => Err(e),
        };
        match applied {
            Ok(()) => notice!("certificates of ACME are in service"),
            Err(e) => warn!("cannot use what ACME has brought: {e:#}"),
        }
    }

    /// Has workers and the TCP side serve with what was read. Returns the options that need a restart.
    fn apply(&self, reloaded: Reloaded) -> anyhow::Result<Vec<String>> {
        let Reloaded { workers, tcp, kept } = reloaded;
        let commands = workers.into_iter().map(|config| Command::Reload(Box::new(config)));
        let is_done = self.commands.broadcast_and_wait(commands);
        if let Some(handle) = &self.tcp {
            handle.reload(tcp);
        }
        ensure!(is_done, "a worker does not respond; see /healthz, and restart the server");
        Ok(kept)
    }

    /// Reloads the configuration. The log has the outcome.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn reload_configuration(&self) -> anyhow::Result<ReloadOutcome> {
        self.supervisor.reloading();
        let (reloaded, warnings) = process_log::gather_warnings(|| self.try_reload());
        self.supervisor.ready();
        let reloaded = reloaded.context("cannot reload, nothing has changed");
        let reloaded = reloaded.map(|kept| ReloadOutcome { kept, warnings });
        match &reloaded {
            Ok(ReloadOutcome { kept, .. }) => {
                if !kept.is_empty() {
                    let kept = kept.join(", ");
                    warn!(target: PROGRAM.0, "changed, but not applied until a restart: {kept}");
                }
                notice!("reloaded");
            }
            // Shown whatever the filter is, as success is.
            Err(e) => warn!(target: PROGRAM.0, "{e:#}"),
        }
        reloaded
    }
}

impl Controls for Control {
    fn reload(&self) -> anyhow::Result<ReloadOutcome> {
        let reopened = self.access_log.as_ref().map_or(Ok(()), AccessLog::reopen_and_wait);
        let outcome = self.reload_configuration()?;
        reopened.context("reloaded, but the access log is not reopened")?;
        Ok(outcome)
    }

    fn reopen(&self) -> anyhow::Result<()> {
        let log = self.access_log.as_ref();
        log.context("there is no access log; start the server with --access-log")?.reopen_and_wait()
    }

    fn restart(&self, only_if_needed: bool) -> anyhow::Result<Option<u32>> {
        let successor = self.successor.as_ref();
        let successor = successor.context("no process can take over; start with --takeover")?;
        let successor = successor.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            self.health.readiness() == HealthState::Ready,
            "this server does not serve any more; command the newer one, if there is one"
        );
        let is_needed = successor.has_new_program() || self.reloader().needs_restart();
        if only_if_needed && !is_needed {
            return Ok(None);
        }
        successor.run(&self.health, &self.supervisor).map(Some)
    }

    fn purge(&self, target: &PurgeTarget) -> anyhow::Result<usize> {
        let count = self.reloader().purge(target);
        count.context("there is no cache; start the server with --cache-memory-max")
    }

    fn drain(&self) {
        if self.health.drain() {
            notice!("draining: clients finish what they have requested");
            self.supervisor.stopping(self.drain_time);
        }
        self.acme.stop();
        self.tcp.iter().for_each(TcpHandle::drain);
        let drain = || Command::Drain(DrainReason::Ordered);
        self.commands.broadcast_and_wait(std::iter::repeat_with(drain));
    }

    fn roll_back(&self) -> anyhow::Result<()> {
        ensure!(
            self.older_servers() > 0,
            "no older server has connections, so none would serve; to end this one, use drain or stop"
        );
        notice!("rolling back: closing connections, then the older server serves again");
        self.health.drain();
        self.acme.stop();
        // Otherwise the supervisor takes the end of this one for that of the service.
        self.predecessor.iter().for_each(|id| self.supervisor.set_main_process(*id));
        self.tcp.iter().for_each(TcpHandle::close);
        self.commands.broadcast_and_wait(std::iter::repeat_with(|| Command::RollBack));
        Ok(())
    }

    fn older_servers(&self) -> usize {
        let (reply, replies) = channel();
        let list = move || Command::ListOlder { reply: reply.clone() };
        self.commands.broadcast_and_wait(std::iter::repeat_with(list));
        replies.try_iter().flatten().collect::<BTreeSet<_>>().len()
    }

    fn stop(&self) {
        self.health.drain();
        self.supervisor.stopping(Duration::ZERO);
        self.acme.stop();
        self.tcp.iter().for_each(TcpHandle::close);
        self.commands.broadcast_and_wait(std::iter::repeat_with(|| Command::Stop));
    }

    fn connections(&self, max: usize) -> (usize, Vec<ConnectionInfo>) {
        let (reply, replies) = channel();
        let list = move || Command::List { max, reply: reply.clone() };
        self.commands.broadcast_and_wait(std::iter::repeat_with(list));
        let mut open = 0;
        let mut listed = Vec::new();
        for (count, mut connections) in replies.try_iter() {
            open += count;
            listed.append(&mut connections);
        }
        listed.truncate(max);
        (open, listed)
    }

    fn tcp_connections(&self, max: usize) -> Option<(usize, Vec<TcpConnectionInfo>)> {
        self.tcp.as_ref().map(|tcp| tcp.connections(max))
    }

    fn certificates(&self) -> Vec<CertificateInfo> {
        self.reloader().certificates().list.clone()
    }

    fn workers(&self) -> (usize, u8) {
        (self.commands.workers(), self.generation)
    }
}
