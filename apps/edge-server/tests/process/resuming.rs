//! Careful Resume across a restart of the server, with a store on disk. What it does on a
//! path is tested in memory: `worker/tests/careful_resume.rs`.

use crate::support::lab::PhaseChange;
use crate::support::lab::StoreFolder;

/// 50 Mbit/s and 40 ms hold 250 kB: the first download is many times that.
const PATH: &str = "--rate 50 --rtt 40 --buffer 250000";
const FIRST_BYTES: u64 = 6_000_000;
const SECOND_BYTES: u64 = 2_000_000;

/// How a jump begins. How it ends depends on how busy the machine is.
const JUMP: [&str; 2] = ["reconnaissance", "unvalidated: congestion_window_limited"];

fn begin(phases: &[PhaseChange]) -> Vec<&str> {
    phases.iter().take(2).map(|change| change.what.as_str()).collect()
}

#[test]
fn restarted_server_resumes_from_its_store() {
    let folder = StoreFolder::new();
    let first = folder.download("first", PATH, FIRST_BYTES);
    assert_eq!(begin(&first), ["normal: no_saved_set"], "nothing was known yet");
    // On a busy machine the reply of the store may come too late for a jump.
    let later = |run| folder.download(&format!("later-{run}"), PATH, SECOND_BYTES);
    assert!((0..10).any(|run| begin(&later(run)) == JUMP));
}
