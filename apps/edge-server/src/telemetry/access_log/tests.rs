use super::*;
use crate::h3::exchanges::FinishedRequest;
use crate::h3::exchanges::RequestSummary;
use std::time::UNIX_EPOCH;

fn line(path: &str) -> LogLine {
    let asked = RequestSummary { path: path.into(), ..Default::default() };
    let (begun, duration) = (UNIX_EPOCH, Duration::ZERO);
    let ended = FinishedRequest { asked, begun, duration, status: 200, bytes: 1, complete: true };
    let client = "192.0.2.7:4433".parse().unwrap();
    LogLine { client, connection: String::new(), ended, resume: None }
}

#[test]
fn lines_are_appended_and_go_to_the_new_file_once_it_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
    std::fs::write(&path, "earlier\n").unwrap();
    let dropped = Counter::default();
    let log = AccessLog::start(&path, AccessLogFormat::Json, dropped.clone()).unwrap();
    log.write(line("/one"));
    std::fs::rename(&path, &moved).unwrap();
    log.write(line("/two"));
    log.reopen();
    log.write(line("/three"));
    assert!(log.close());

    let paths = |file| {
        let text = std::fs::read_to_string(file).unwrap();
        let value = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let lines = text.lines().filter(|line| *line != "earlier");
        lines.map(|line| value(line)["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (paths(&moved), paths(&path)),
        (vec!["/one".into(), "/two".into()], vec!["/three".into()])
    );
    assert!(std::fs::read_to_string(&moved).unwrap().starts_with("earlier\n"));
    assert_eq!(dropped.get(), 0);
}

#[test]
fn a_file_that_cannot_be_opened_anew_is_written_on() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, moved) = (dir.path().join("logs"), dir.path().join("moved"));
    std::fs::create_dir(&folder).unwrap();
    let log =
        AccessLog::start(&folder.join("log"), AccessLogFormat::Common, Counter::default()).unwrap();
    std::fs::rename(&folder, &moved).unwrap();
    log.reopen();
    log.write(line("/one"));
    assert!(log.close());
    assert!(std::fs::read_to_string(moved.join("log")).unwrap().contains("/one"));
}

#[test]
fn nobody_waits_for_a_full_queue_and_what_it_costs_is_counted() {
    let (news, _incoming) = sync_channel(2);
    let log = AccessLog { news, dropped: Counter::default() };
    for _ in 0..5 {
        log.write(line("/"));
    }
    assert_eq!(log.dropped.get(), 3);
}

#[test]
fn lines_that_a_full_disk_does_not_take_are_counted() {
    let dropped = Counter::default();
    let log = AccessLog::start(Path::new("/dev/full"), AccessLogFormat::Json, dropped.clone());
    let log = log.unwrap();
    // More than is buffered.
    for _ in 0..1000 {
        log.write(line("/"));
    }
    assert!(log.close());
    assert!(dropped.get() > 0);
}

#[test]
fn what_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["", "none/log"] {
        let path = dir.path().join(name);
        let started = AccessLog::start(&path, AccessLogFormat::Json, Counter::default());
        let said =
            [started.map(drop), check(&path)].map(|result| format!("{:#}", result.unwrap_err()));
        assert!(said.iter().all(|said| said.contains(&path.display().to_string())), "{said:?}");
    }
    assert!(check(Path::new("-")).is_ok());
}
