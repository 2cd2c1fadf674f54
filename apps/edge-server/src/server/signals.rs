//! Signal handling: SIGHUP reloads, SIGUSR1 reopens the log, SIGTERM drains, SIGINT stops.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;

use command_line::EXIT_FAILED;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;

use crate::server::control::Control;
use crate::telemetry::admin::socket::Controls;

/// Signals, held until somebody [follows](Self::follow) them.
pub struct SignalHandler {
    signals: Signals,
    starting: Arc<AtomicBool>,
}

/// Takes the signals over. One to end it ends the process at once if nobody follows it yet, or if it
/// is the second.
///
/// # Errors
///
/// The process may have no more file descriptors.
pub fn install() -> io::Result<SignalHandler> {
    let stopping = Arc::new(AtomicBool::new(false));
    let starting = Arc::new(AtomicBool::new(true));
    for signal in [SIGTERM, SIGINT] {
        let [now, before] = [&stopping, &starting].map(Arc::clone);
        signal_hook::flag::register_conditional_shutdown(signal, EXIT_FAILED.into(), now)?;
        signal_hook::flag::register_conditional_shutdown(signal, 0, before)?;
        signal_hook::flag::register(signal, Arc::clone(&stopping))?;
    }
    let signals = Signals::new([SIGHUP, SIGUSR1, SIGTERM, SIGINT])?;
    Ok(SignalHandler { signals, starting })
}

impl SignalHandler {
    /// Does what signals ask, on a thread of its own.
    ///
    /// # Errors
    ///
    /// The process may have no more threads.
    pub fn follow(mut self, control: Arc<Control>) -> io::Result<()> {
        self.starting.store(false, Ordering::Relaxed);
        let follow = move || {
            for signal in self.signals.forever() {
                match signal {
                    SIGUSR1 => control.reopen_log(),
                    SIGHUP => {
                        control.reopen_log();
                        drop(control.reload_configuration());
                    }
                    SIGTERM => control.drain(),
                    _ => control.stop(),
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(follow)?;
        Ok(())
    }
}
