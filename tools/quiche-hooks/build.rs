//! Looks which hooks are in quiche/, and sets `cfg(hook = "…")` for each.

const LIB: &str = "../../quiche/src/lib.rs";

/// The hook, and the line of quiche/src/lib.rs by which its patch is known.
const HOOKS: [(&str, &str); 10] = [
    ("clock", "pub mod clock;"),
    ("path_state", "pub use crate::recovery::path_state;"),
    ("careful_resume", "pub use crate::recovery::resume;"),
    ("avoid_runts", "pub fn set_avoid_runts("),
    ("slow_start", "pub use crate::recovery::slow_start;"),
    ("address_validation", "pub use crate::address_validation::refuse;"),
    ("send_at", "pub fn send_on_path_at("),
    ("coalesce_streams", "pub fn set_coalesce_streams("),
    ("unacknowledged", "mod unacknowledged;"),
    ("shrink", "mod shrink;"),
];

fn main() {
    println!("cargo::rerun-if-changed={LIB}");
    let lib = std::fs::read_to_string(LIB).expect("quiche/ is written by: make quiche");

    for (hook, line) in HOOKS {
        println!("cargo::rustc-check-cfg=cfg(hook, values(\"{hook}\"))");
        if lib.contains(line) {
            println!("cargo::rustc-cfg=hook=\"{hook}\"");
        }
    }

    // Our files are compiled as they are in the fork.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"internal\"))");
    println!("cargo::rustc-cfg=feature=\"internal\"");
}
