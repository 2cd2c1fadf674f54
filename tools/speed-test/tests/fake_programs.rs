//! Tests of the runner with fake programs: how it calls them, in which order, and how it
//! handles their output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use report::record::Download;
use report::record::Mode;
use speed_test::page::timeline_in;
use speed_test::path::parse_path;
use speed_test::process::Programs;
use speed_test::runner;
use speed_test::runner::Plan;
use speed_test::verdict::failures;
use speed_test::verdict::notes;

/// Notes its arguments and its end, and logs a resumed connection when the
/// store has been there before.
const SERVER: &str = r#"
echo "server $*" >> "$HERE/calls"
while [ $# -gt 0 ]; do
    case $1 in --store) store=$2 ;; --qlog-dir) logs=$2 ;; esac
    shift
done
[ -e "$store" ] && cp "$HERE/resumed.sqlog" "$logs/0a.sqlog" || : > "$logs/0a.sqlog"
: > "$store"
trap 'echo "server stopped" >> "$HERE/calls"; exit 0' TERM
echo "edge-server: listening on 127.0.0.1:4001" >&2
while :; do sleep 0.02; done
"#;

const EMULATOR: &str = r#"
echo "emulator $*" >> "$HERE/calls"
echo "link-emulator: listening on 127.0.0.1:4002" >&2
exec sleep 100
"#;

const CLIENT: &str = r#"
echo "client $*" >> "$HERE/calls"
echo "{\"url\":\"u\",\"bytes\":${1##*/},\"ttfb_ms\":101.5,\"ttlb_ms\":600.5,\"min_rtt_ms\":50.5,\"status\":200}"
"#;

fn install(folder: &Path, name: &str, script: &str) {
    let file = folder.join(name);
    let text = format!("#!/bin/sh\nHERE={}\n{script}", folder.display());
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Lost packets of its own, or delayed them by 2.6 ms, during the second and third connection, which
/// are the first slow start and its repetition, and during the fourth.
const BUSY_EMULATOR: &str = r#"
echo run >> "$HERE/runs"
lost=0
late=50
case $(wc -l < "$HERE/runs" | tr -d ' ') in 2|3|4) DISTURBED ;; esac
lateness="\"late_us_p99\":$late,\"late_us_limit\":2500"
trap 'echo "{\"up\":{\"overrun_packets\":0},\"down\":{\"overrun_packets\":$lost,$lateness}}"; exit 0' TERM
echo "link-emulator: listening on 127.0.0.1:4002" >&2
while :; do sleep 0.02; done
"#;

fn measure(folder: &Path, client: &str) -> anyhow::Result<Vec<Download>> {
    measure_through(folder, EMULATOR, client)
}

fn measure_through(folder: &Path, emulator: &str, client: &str) -> anyhow::Result<Vec<Download>> {
    install(folder, "edge-server", SERVER);
    install(folder, "link-emulator", emulator);
    install(folder, "edge-client", client);
    fs::write(
        folder.join("resumed.sqlog"),
        include_bytes!("../../report/tests/data/resumed.sqlog"),
    )?;
    let plan = Plan {
        paths: vec![parse_path("500M").map_err(anyhow::Error::msg)?],
        runs: 2,
        cc: "bbr2".into(),
        pristine_server: None,
        early_data: false,
        results: folder.join("results"),
    };
    let programs = Programs::in_folder(folder)?;
    runner::run(&plan, &programs, &Arc::new(AtomicBool::new(false)))
}

#[test]
fn connections_have_servers_of_their_own() {
    let dir = tempfile::tempdir().expect("temporary folder");
    measure(dir.path(), CLIENT).expect("measured");
    let calls = fs::read_to_string(dir.path().join("calls")).expect("calls");
    let of = |kind: &str| calls.lines().filter(|l| l.starts_with(kind)).collect::<Vec<_>>();

    // One first connection, two of each mode, and two series of three visits.
    assert_eq!(of("server --").len(), 11);
    assert_eq!(of("server stopped").len(), 11);
    let store =
        |l: &&str| l.split("--store ").nth(1).and_then(|s| s.split(' ').next()).map(String::from);
    let resumed: Vec<_> =
        of("server --").iter().filter(|l| l.contains("--resume on")).map(store).collect();
    let slow: Vec<_> =
        of("server --").iter().filter(|l| l.contains("--resume off")).map(store).collect();
    assert_eq!((resumed.len(), slow.len()), (9, 2));
    let (warm, visits) = resumed.split_at(3);
    assert!(warm.iter().all(|s| *s == warm[0]));
    assert!(slow.iter().all(|s| *s != warm[0]));
    assert!(visits.chunks(3).all(|series| series.iter().all(|s| *s == series[0])));
    assert!(visits[0] != visits[3] && visits.iter().all(|s| *s != warm[0]));

    assert!(of("server --").iter().all(|l| l.contains("--cc bbr2")));

    let emulator = of("emulator")[0];
    for part in ["--to 127.0.0.1:4001", "--rate 500", "--rtt 50", "--buffer 3125000"] {
        assert!(emulator.contains(part), "{part} in {emulator}");
    }
    let clients = of("client");
    assert!(clients[0].contains("/bytes/31250000") && clients[1].contains("/bytes/6250000"));
    assert!(clients.iter().all(|c| c.contains("--connect 127.0.0.1:4002") && c.contains("--json")));
}

#[test]
fn results_have_figures_of_client_and_log() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let all = measure(dir.path(), CLIENT).expect("measured");
    let resumed = all.iter().find(|d| d.mode == Mode::CarefulResume).expect("resumed");
    assert_eq!((resumed.ttfb_ms, resumed.ttlb_ms, resumed.run), (101.5, 600.5, 1));
    assert_eq!(resumed.cc.as_deref(), Some("bbr2"));
    assert_eq!((resumed.lost_packets, resumed.jump_lost_packets), (Some(6), Some(2)));
    assert_eq!(resumed.saved_cwnd_bytes, Some(3_000_000));
    assert_eq!(resumed.phases.len(), 4);
    assert!(timeline_in(&dir.path().join("results"), resumed).is_some());

    // The canned log says that the jump lost packets, that of later visits as well;
    // nothing else is wrong but the first connection, too fast for its ten BDP.
    let broken = failures(&all);
    assert_eq!(
        broken.iter().filter(|f| f.contains("two RTTs of the jump")).count(),
        2 + 4,
        "{broken:?}"
    );
    assert_eq!(broken.len(), 7, "{broken:?}");
}

#[test]
fn disturbed_download_is_repeated_once() {
    for (disturbed, note) in
        [("lost=9", "slow start, run 1: "), ("late=2600", "in 1 of 11 downloads")]
    {
        let dir = tempfile::tempdir().expect("temporary folder");
        let emulator = BUSY_EMULATOR.replace("DISTURBED", disturbed);
        let all = measure_through(dir.path(), &emulator, CLIENT).expect("measured");
        let seen: Vec<_> = all.iter().map(Download::is_disturbed).collect();
        // First, slow start (twice disturbed), Careful Resume (once), and the rest.
        let expected: Vec<_> = (0..11).map(|step| step == 1).collect();
        assert_eq!(seen, expected, "{disturbed}");
        assert_eq!(all[0].late_ms, Some(0.05));
        let runs = fs::read_to_string(dir.path().join("runs")).expect("runs");
        assert_eq!(runs.lines().count(), 11 + 2);
        let notes = notes(&all);
        assert!(notes.len() == 1 && notes[0].contains(note), "{notes:?}");
    }
}

#[test]
fn missing_pristine_server_is_named_first() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let plan = Plan {
        paths: vec![parse_path("500M").expect("known")],
        runs: 1,
        cc: "bbr2".into(),
        pristine_server: Some(dir.path().join("missing")),
        early_data: false,
        results: dir.path().join("results"),
    };
    for name in ["edge-server", "link-emulator", "edge-client"] {
        install(dir.path(), name, "exit 1");
    }
    let programs = Programs::in_folder(dir.path()).expect("programs");
    let stop = Arc::new(AtomicBool::new(false));
    let error = runner::run(&plan, &programs, &stop).expect_err("missing").to_string();
    assert!(error.contains("--pristine-server") && error.contains("missing"), "{error}");
}

#[test]
fn failing_client_is_quoted_with_its_download() {
    let dir = tempfile::tempdir().expect("temporary folder");
    let client = "echo 'edge-client: no response from 127.0.0.1:4002' >&2; exit 1";
    let error = measure(dir.path(), client).expect_err("failed");
    let line = format!("{error:#}");
    assert!(line.contains("first connection, run 1") && line.contains("no response"), "{line}");
    assert!(!line.contains('\n'), "{line}");
}
