//! Processes that share one store.
//!
//! A child is this test program again; environment variables have its task.

mod support;

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;

use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use support::child::ChildProcess;
use support::endpoint;
use support::nth_endpoint;
use support::open;
use support::state;
use support::RTT;

const TASK: &str = "PATH_STORE_TEST_TASK";
const STORE: &str = "PATH_STORE_TEST_STORE";

/// Prefix of a child's lines, among those of the test framework.
const MARK: &str = "child: ";

fn spawn(task: &str, store: &Path) -> ChildProcess {
    ChildProcess::spawn([(TASK, task.as_ref()), (STORE, store.as_os_str())])
}

/// Returns what the child says, line by line, to the end of the last whole line.
fn lines(child: &mut ChildProcess) -> impl Iterator<Item = String> {
    let mut output = BufReader::new(child.stdout());

    std::iter::from_fn(move || loop {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let whole = line.strip_suffix('\n')?;
        // The framework's "test child_process ... " shares the first line.
        if let Some((_, said)) = whole.split_once(MARK) {
            return Some(said.to_string());
        }
    })
}

fn say(text: impl std::fmt::Display) {
    let mut out = std::io::stdout();
    writeln!(out, "{MARK}{text}").and_then(|()| out.flush()).unwrap();
}

// Not a test by itself: the part of the children.
#[test]
fn child_process() {
    let (Ok(task), Ok(store)) = (std::env::var(TASK), std::env::var(STORE)) else {
        return;
    };
    let path = Path::new(&store);

    match task.as_str() {
        "claim" => claim_when_told(path),
        "hold" => hold_a_claim(path),
        other => panic!("no task {other}"),
    }
}

/// Claims at every line on stdin, each of which is a race, and prints whether this process won.
fn claim_when_told(path: &Path) {
    let store = open(path);
    say("ready");

    for round in std::io::stdin().lines() {
        let here = nth_endpoint(round.unwrap().parse().unwrap());
        say(store.claim(&here, RTT).unwrap().is_some());
    }
}

fn hold_a_claim(path: &Path) {
    let claim = open(path).claim(&endpoint("198.51.100.7"), RTT).unwrap();
    say(claim.is_some());
    let _ = std::io::stdin().lines().next();
}

#[test]
fn claim_goes_to_one_of_many_processes() {
    const PROCESSES: usize = 6;
    const ROUNDS: u64 = 40;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paths.db");
    let store = open(&path);
    for n in 0..ROUNDS {
        // The leases outlast the test.
        let saved_rtt = std::time::Duration::from_secs(100);
        store.record(&nth_endpoint(n), &PathState { saved_rtt, ..state(n) }).unwrap();
    }

    let mut children: Vec<ChildProcess> = (0..PROCESSES).map(|_| spawn("claim", &path)).collect();
    let mut outputs: Vec<_> = children.iter_mut().map(lines).collect();
    for output in &mut outputs {
        assert_eq!(output.next().as_deref(), Some("ready"));
    }

    for round in 0..ROUNDS {
        for child in &mut children {
            writeln!(child.stdin(), "{round}").unwrap();
        }
        let won: Vec<String> = outputs.iter_mut().map(|output| output.next().unwrap()).collect();
        let winners = won.iter().filter(|won| *won == "true").count();
        assert_eq!(winners, 1, "round {round}: {won:?}");
    }
}

#[test]
fn claim_of_killed_holder_ends_with_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paths.db");
    let here = endpoint("198.51.100.7");
    let store = open(&path);
    let saved_rtt = std::time::Duration::from_millis(50);
    store.record(&here, &PathState { saved_rtt, ..state(100) }).unwrap();

    let mut child = spawn("hold", &path);
    assert_eq!(lines(&mut child).next().as_deref(), Some("true"));
    child.kill();

    // The claim lasts three seconds; the speed of this machine does not matter.
    let claim = (0..1500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        store.claim(&here, RTT).unwrap()
    });
    assert!(claim.is_some());
}
