//! Priority of threads whose work must not delay event loops.

use log::debug;

/// Below event loops: work of clients that are served all the same.
pub const BELOW_EVENT_LOOPS: i32 = 10;

/// Below everything else: work that nobody waits for.
pub const LOWEST: i32 = 19;

/// Lowers the priority of this thread to a niceness (sched(7)).
pub fn lower(niceness: i32) {
    // Of this thread alone, on Linux.
    if let Err(e) = rustix::process::setpriority_process(None, niceness) {
        debug!("cannot lower the priority of a thread: {e}");
    }
}
