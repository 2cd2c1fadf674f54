//! Signal handling: SIGHUP reloads, SIGUSR1 reopens the log, SIGTERM drains, SIGINT stops.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread;

use command_line::EXIT_FAILED;
use log::warn;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;

use crate::config::PROGRAM;
use crate::server::reload::Reloader;
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::health::Health;
use crate::worker::command::Command;
use crate::worker::command::CommandSender;
use crate::worker::drain::DrainReason;

/// Signals, held until somebody [follows](Self::follow) them.
pub struct SignalHandler(Signals);

/// Takes the signals over. A second one to end it ends the process at once.
///
/// # Errors
///
/// The process may have no more file descriptors.
pub fn install() -> io::Result<SignalHandler> {
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        let now = Arc::clone(&stopping);
        signal_hook::flag::register_conditional_shutdown(signal, EXIT_FAILED.into(), now)?;
        signal_hook::flag::register(signal, Arc::clone(&stopping))?;
    }
    Ok(SignalHandler(Signals::new([SIGHUP, SIGUSR1, SIGTERM, SIGINT])?))
}

impl SignalHandler {
    /// Does what signals ask, on a thread of its own.
    ///
    /// # Errors
    ///
    /// The process may have no more threads.
    pub fn follow(
        mut self,
        commands: Arc<CommandSender>,
        reloader: Reloader,
        health: Health,
        access_log: Option<AccessLog>,
    ) -> io::Result<()> {
        let follow = move || {
            for signal in self.0.forever() {
                let reopen_log = || access_log.iter().for_each(AccessLog::reopen);
                match signal {
                    SIGUSR1 => reopen_log(),
                    SIGHUP => {
                        reopen_log();
                        reload(&commands, &reloader);
                    }
                    SIGTERM => {
                        health.drain();
                        let drain = || Command::Drain(DrainReason::Ordered);
                        commands.broadcast_and_wait(std::iter::repeat_with(drain))
                    }
                    _ => {
                        health.drain();
                        commands.broadcast_and_wait(std::iter::repeat_with(|| Command::Stop))
                    }
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(follow)?;
        Ok(())
    }
}

fn reload(commands: &CommandSender, reloader: &Reloader) {
    match reloader.read(commands.workers()) {
        Ok(configs) => {
            commands.broadcast_and_wait(
                configs.into_iter().map(|config| Command::Reload(Box::new(config))),
            );
            PROGRAM.say("reloaded");
        }
        Err(e) => warn!("cannot reload, nothing has changed: {e:#}"),
    }
}
