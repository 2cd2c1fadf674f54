//! Build script: detects the patches applied in quiche/, and sets `cfg(hook)`.
//!
//! Each hook found sets `cfg(hook = "…")`; `cfg(stand_ins)` is set if one is missing.

const LIB: &str = "../../quiche/src/lib.rs";
const HTTP: &str = "../../quiche/src/h3/mod.rs";
const RECOVERY: &str = "../../quiche/src/recovery/mod.rs";

/// The hook, and the line by which its patch is known.
const HOOKS: [(&str, &str, &str); 18] = [
    ("clock", LIB, "pub mod clock;"),
    ("path_state", LIB, "pub use crate::recovery::path_state;"),
    ("careful_resume", LIB, "pub use crate::recovery::careful_resume;"),
    ("sws_avoidance", LIB, "pub fn set_sws_avoidance("),
    ("slow_start", LIB, "pub use crate::recovery::slow_start;"),
    ("address_validation", LIB, "pub use crate::address_validation::refuse;"),
    ("send_at", LIB, "pub fn send_on_path_at("),
    ("send_batch", LIB, "pub use crate::data_packets::TransmitBatch;"),
    ("coalesce_streams", LIB, "pub fn set_coalesce_streams("),
    ("unacknowledged", LIB, "mod unacknowledged;"),
    ("shrink", LIB, "mod shrink;"),
    ("response_fast_path", HTTP, "mod response_fast_path;"),
    ("spurious_loss", LIB, "pub fn set_spurious_loss_evidence("),
    ("hystart_samples", LIB, "pub fn set_hystart_samples_per_ack("),
    ("bbr2_batches", LIB, "bbr2_batches: bool,"),
    ("pmtud_start_after", LIB, "pub fn set_pmtud_start_after("),
    ("ecn", LIB, "pub mod ecn;"),
    ("initial_rtt", RECOVERY, "mod initial_rtt;"),
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(stand_ins)");
    let mut is_whole = true;
    for (hook, file, line) in HOOKS {
        println!("cargo::rerun-if-changed={file}");
        println!("cargo::rustc-check-cfg=cfg(hook, values(\"{hook}\"))");
        let text = std::fs::read_to_string(file).expect("quiche/ is written by: make quiche");
        if text.contains(line) {
            println!("cargo::rustc-cfg=hook=\"{hook}\"");
        } else {
            is_whole = false;
        }
    }
    if !is_whole {
        println!("cargo::rustc-cfg=stand_ins");
    }

    // Our files are compiled as they are in the fork.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"internal\"))");
    println!("cargo::rustc-cfg=feature=\"internal\"");
}
