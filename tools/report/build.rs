//! Commit that the programs are built from, which their results name.

use std::path::Path;
use std::process::Command;

/// What results depend on, from this folder.
const SOURCES: [&str; 6] = [
    "../link/src",
    "../report/src",
    "../sim",
    "../speed-test/src",
    "../../patches",
    "../../quiche/src",
];

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let mark = if changed.is_some_and(|files| !files.is_empty()) { "+changes" } else { "" };
    // Without git, as in a released archive, the version says it all.
    let commit = commit.map_or(String::new(), |commit| commit + mark);
    println!("cargo::rustc-env=BUILT_FROM={commit}");
    // It has a line for every commit, merge and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    for file in log.iter().map(String::as_str).chain(SOURCES) {
        if Path::new(file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
}

/// Returns what a command of git prints; none if it fails.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
