//! Command `path-store`, from outside.

mod support;

use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use quiche::path_state::PathStateStore;
use quiche::path_state::PrefixLengths;
use quiche::path_state::RemoteEndpoint;
use serde_json::Value;
use support::open;
use support::redis::open_redis;
use support::redis::RedisServer;
use support::state;
use support::RTT;

/// Exit code, stdout and stderr of the command.
type Output = (i32, String, String);

fn run(store: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_path-store"))
        .arg("--store")
        .arg(store)
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();

    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(store: &Path, arguments: &[&str]) -> Vec<Value> {
    let (code, out, err) = run(store, &[&["--json"], arguments].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Creates a store with a claimed record, one that is held off, one with a DSCP and one of IPv6.
/// This process has it open.
fn store_in_use(folder: &Path) -> (PathBuf, impl PathStateStore) {
    let path = folder.join("paths.db");
    let store = open(&path);
    let endpoint = |client: &str| {
        RemoteEndpoint::new("192.0.2.1", client.parse().unwrap(), PrefixLengths::default())
    };

    let (claimed, held_off) = (endpoint("198.51.100.7"), endpoint("198.51.101.7"));
    for here in [&claimed, &held_off, &endpoint("2001:db8:1::1"), &held_off.clone().with_dscp(46)] {
        store.record(here, &state(6_250_000)).unwrap();
    }
    store.claim(&claimed, RTT).unwrap().unwrap();
    let token = store.claim(&held_off, RTT).unwrap().unwrap().token;
    store.forget(&held_off, token, quiche::clock::wall_now()).unwrap();

    (path, store)
}

#[test]
fn list_shows_every_entry_of_a_store_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());

    let (code, out, err) = run(&path, &["list"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out.lines().count(), 5, "{out}");
    for expected in
        ["198.51.100.0/24", "2001:db8:1::/48", "6.25 MB", "600.0 ms", "claimed for", "held off for"]
    {
        assert!(out.contains(expected), "{expected}: {out}");
    }

    let entries = json(&path, &["list"]);
    assert_eq!(entries.len(), 4);
    let claimed = entries.iter().find(|e| e["prefix"] == "198.51.100.0/24").unwrap();
    assert_eq!(claimed["sender"], "192.0.2.1");
    assert_eq!(claimed["saved_cwnd"], 6_250_000);
    assert_eq!(claimed["saved_rtt_ms"], 600.0);
    assert!(claimed["lease_ms"].as_u64().unwrap() <= 6800);
    let held_off = entries.iter().find(|e| e["hold_off_ms"].is_u64()).unwrap();
    assert_eq!((held_off["retreats"].as_u64(), &held_off["saved_cwnd"]), (Some(1), &Value::Null));
}

#[test]
fn get_shows_entries_of_address_or_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());

    for (prefix, found) in
        [("198.51.100.200", 1), ("198.51.101.0/24", 2), ("198.51.0.0/16", 3), ("2001:db8::/32", 1)]
    {
        assert_eq!(json(&path, &["get", prefix]).len(), found, "{prefix}");
    }

    let (code, out, err) = run(&path, &["get", "203.0.113.1"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no entry for 203.0.113.1"), "{err}");
    assert_eq!(err.lines().count(), 1);
}

#[test]
fn delete_removes_entries_of_the_prefix_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());

    let (code, out, _) = run(&path, &["delete", "198.51.101.0/24"]);
    assert_eq!((code, out.as_str()), (0, "2 entries deleted\n"));
    assert_eq!(json(&path, &["list"]).len(), 2);
    assert_eq!(run(&path, &["delete", "198.51.101.0/24"]).0, 1);
}

#[test]
fn flush_deletes_everything_under_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let (path, store) = store_in_use(folder.path());

    assert_eq!(json(&path, &["flush"])[0]["deleted"], 3);
    assert_eq!(json(&path, &["list"]), [] as [Value; 0]);
    assert_eq!(store.get(&support::endpoint("198.51.100.7")).unwrap(), None);
}

#[test]
fn stats_counts_entries() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());

    let stats = &json(&path, &["stats"])[0];
    for (figure, value) in
        [("entries", 4), ("sets", 3), ("claimed", 1), ("held_off", 1), ("damaged", 0)]
    {
        assert_eq!(stats[figure], value, "{figure}");
    }
    assert!(stats["bytes"].as_u64().unwrap() > 0);

    let (code, out, _) = run(&path, &["stats"]);
    assert_eq!(code, 0);
    assert!(out.contains("4 of at most 100000"), "{out}");
}

#[test]
fn list_shows_entries_that_match_filters() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());

    for (filters, found) in [
        (&["--claimed"][..], 1),
        (&["--held-off"], 1),
        (&["--dscp", "46"], 1),
        (&["--sender", "192.0.2.1"], 4),
        (&["--sender", "192.0.2.2"], 0),
        (&["--prefix", "198.51.101.0/24"], 2),
        (&["--prefix", "198.51.101.0/24", "--dscp", "46"], 1),
        (&["--prefix", "2001:db8::/32", "--claimed"], 0),
    ] {
        let arguments = [&["list"][..], filters].concat();
        assert_eq!(json(&path, &arguments).len(), found, "{filters:?}");
    }
}

#[test]
fn put_saves_unless_endpoint_is_held_off() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());
    let figures = ["--sender", "192.0.2.1", "--cwnd", "3125000", "--rtt", "50.5"];
    let put = |prefix| run(&path, &[&["put", prefix], &figures[..]].concat());

    let (code, out, err) = put("203.0.113.0/24");
    assert_eq!((code, out.as_str()), (0, "192.0.2.1>203.0.113.0/24 put\n"), "{err}");
    let kept = json(&path, &["get", "203.0.113.9"]).remove(0);
    assert_eq!(
        (kept["saved_cwnd"].as_u64(), kept["saved_rtt_ms"].as_f64()),
        (Some(3_125_000), Some(50.5))
    );
    assert_eq!(
        kept["expires_ms"].as_u64().unwrap() - kept["observed_ms"].as_u64().unwrap(),
        3_600_000
    );

    let (code, _, err) = put("198.51.101.0/24");
    assert_eq!(code, 1);
    assert!(err.contains("held off") && err.contains("delete it first"), "{err}");
}

#[test]
fn put_and_get_hash_the_subnet_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());
    let keys = folder.path().join("keys");
    std::fs::write(&keys, format!("2026-01-01T00:00:00Z {}", "5a".repeat(32))).unwrap();
    let with_keys = ["--hash-keys", keys.to_str().unwrap()];
    let figures = ["--sender", "pop7", "--cwnd", "1000000", "--rtt", "50"];

    let put = [&with_keys[..], &["put", "203.0.113.0/24"], &figures].concat();
    assert_eq!(run(&path, &put).0, 0);
    assert_eq!(run(&path, &["get", "203.0.113.9"]).0, 1);
    let found = json(&path, &[&with_keys[..], &["get", "203.0.113.9"]].concat());
    assert_eq!(found.len(), 1);
    assert!(!found[0]["endpoint"].as_str().unwrap().contains("203.0"), "{found:?}");

    let (code, out, _) = run(&path, &[&with_keys[..], &["delete", "203.0.113.0/24"]].concat());
    assert_eq!((code, out.as_str()), (0, "1 entry deleted\n"));
    let (code, _, err) = run(&path, &["--hash-keys", "/nowhere/keys", "list"]);
    assert_eq!(code, 1);
    assert!(err.starts_with("path-store: /nowhere/keys: ") && err.lines().count() == 1, "{err}");
}

fn import(store: &str, lines: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_path-store"))
        .args(["--store", store, "import"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();

    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

// From the disk to Redis and back: every record is the same.
#[test]
fn export_is_imported_by_another_kind_of_store() {
    let folder = tempfile::tempdir().unwrap();
    let (path, store) = store_in_use(folder.path());
    let server = RedisServer::start(&[]);
    let fleet = server.url();

    let (code, exported, err) = run(&path, &["export"]);
    assert_eq!((code, exported.lines().count(), err.as_str()), (0, 3, ""));
    assert_eq!(import(&fleet, &exported), (0, "3 imported, 0 skipped\n".into(), String::new()));
    // Records that are not newer are skipped.
    assert_eq!(import(&fleet, &exported).1, "0 imported, 3 skipped\n");

    let (_, back, _) = run(Path::new(&fleet), &["export"]);
    let sets = |lines: &str| -> Vec<Value> {
        let set = |line| serde_json::from_str::<Value>(line).unwrap();
        let keep = |mut set: Value| {
            // The claim stayed where it was.
            set["lease_ms"] = Value::Null;
            set
        };
        lines.lines().map(set).map(keep).collect()
    };
    assert_eq!(sets(&back), sets(&exported));

    store.flush().unwrap();
    assert_eq!(import(path.to_str().unwrap(), &back).1, "3 imported, 0 skipped\n");
}

#[test]
fn import_names_the_line_that_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());
    let (_, exported, _) = run(&path, &["export"]);
    let first = exported.lines().next().unwrap();
    let expired = first.replace("expires_ms\":1", "expires_ms\":1,\"was\":1");

    for (lines, expected) in [
        (format!("{expired}\nrubbish\n"), "line 2 of the input is no record"),
        ("{}\n".to_string(), "line 1 of the input is no record"),
        (first.replace("\"saved_rtt_ms\":", "\"saved_rtt_ms\":-"), "saved_rtt_ms is no time"),
    ] {
        let (code, out, err) = import(path.to_str().unwrap(), &lines);
        assert_eq!((code, out.as_str()), (1, ""), "{lines}");
        assert!(err.contains(expected) && err.lines().count() == 1, "{err}");
    }
}

#[test]
fn command_works_on_redis_as_on_a_file() {
    let server = RedisServer::start(&[]);
    let url = server.url();
    let store = open_redis(&url, Default::default());
    let (claimed, held_off) =
        (support::endpoint("198.51.100.7"), support::endpoint("198.51.101.7"));
    for here in [&claimed, &held_off] {
        store.record(here, &state(6_250_000)).unwrap();
    }
    store.claim(&claimed, RTT).unwrap().unwrap();
    let token = store.claim(&held_off, RTT).unwrap().unwrap().token;
    store.forget(&held_off, token, quiche::clock::wall_now()).unwrap();

    let at = Path::new(&url);
    let entries = json(at, &["list"]);
    assert_eq!(entries.len(), 2);
    assert!(entries[0]["lease_ms"].as_u64().unwrap() <= 6800);
    assert_eq!(
        (entries[1]["retreats"].as_u64(), &entries[1]["saved_cwnd"]),
        (Some(1), &Value::Null)
    );
    let stats = json(at, &["stats"]).remove(0);
    assert_eq!(
        (&stats["entries"], &stats["claimed"], &stats["held_off"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert!(stats["bytes"].as_u64().unwrap() > 0);
    assert_eq!(run(at, &["delete", "198.51.101.7"]).1, "1 entry deleted\n");
    assert_eq!(run(at, &["flush"]).1, "1 record deleted\n");
    assert_eq!(json(at, &["list"]).len(), 0);
}

#[test]
fn watch_shows_changes_as_they_happen() {
    let folder = tempfile::tempdir().unwrap();
    let (path, store) = store_in_use(folder.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_path-store"))
        .args(["--store", path.to_str().unwrap(), "--json", "watch", "--interval", "20ms"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();

    // Changes before its first snapshot are not shown.
    let here = support::endpoint("203.0.113.7");
    let change = (0..).find_map(|n| {
        store.record(&here, &state(1000 + n)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        (n > 10).then(|| lines.next())
    });
    let line: Value = serde_json::from_str(&change.unwrap().unwrap().unwrap()).unwrap();
    assert_eq!((&line["change"], &line["prefix"]), (&"recorded".into(), &"203.0.113.0/24".into()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn command_names_unusable_store_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.db");
    std::fs::write(&broken, "SQLite format 3\0, damaged").unwrap();
    let other = folder.path().join("edge.toml");
    std::fs::write(&other, "this is not a database").unwrap();
    let missing = folder.path().join("missing.db");

    for (store, expected) in [
        (Path::new("memory:"), "a store in memory is seen by its own process alone"),
        (Path::new("redis://:secret@127.0.0.1:1"), "redis://127.0.0.1:1: Connection refused"),
        (Path::new(""), "no name"),
        (folder.path(), "is a directory"),
        (&broken, "damaged"),
        (&other, "edge.toml: the file is no store; name another path"),
        (&missing, "there is no store"),
    ] {
        for command in ["list", "flush", "stats"] {
            let (code, out, err) = run(store, &[command]);
            assert_eq!((code, out.as_str()), (1, ""), "{err}");
            assert!(err.starts_with("path-store: ") && err.contains(expected), "{err}");
            assert!(err.lines().count() == 1 && !err.contains("secret"), "{err}");
        }
    }
    assert!(!missing.exists());
}

#[test]
fn bad_usage_has_its_own_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _store) = store_in_use(folder.path());

    for arguments in [&["get", "198.51.100"][..], &["delete", "198.51.100.0/33"], &["look"], &[]] {
        let (code, _, err) = run(&path, arguments);
        assert_eq!(code, 2, "{err}");
        assert!(err.starts_with("path-store: ") && err.lines().count() == 1, "{err}");
    }
    assert!(run(&path, &["get", "x"]).2.contains("such as 198.51.100.0/24"));

    let usual = [("--cwnd", "1000000"), ("--rtt", "50"), ("--lifetime", "1h")];
    for (option, value, expected) in [
        ("--cwnd", "0", "'0' for '--cwnd"),
        ("--rtt", "0", "such as 50"),
        ("--rtt", "99999999999", "at most 60000"),
        ("--lifetime", "0s", "such as 1h"),
        ("--lifetime", "500000000000y", "at most 30days"),
    ] {
        let figures = usual.iter().map(|(name, usual)| match *name == option {
            true => [option, value],
            false => [*name, *usual],
        });
        let figures: Vec<&str> = figures.flatten().collect();
        let put = [&["put", "203.0.113.0/24", "--sender", "s"], &figures[..]].concat();
        let (code, _, err) = run(&path, &put);
        assert!(code == 2 && err.contains(expected) && err.lines().count() == 1, "{err}");
    }
    let (code, _, err) = run(&path, &["watch", "--interval", "0s"]);
    assert!(code == 2 && err.contains("at least 10ms"), "{err}");
}
