//! Tests of the access log: reopening, lost lines.

use super::*;

use std::fs::File;

use crate::http::exchange::tests::finished;
use crate::http::exchange::FinishedRequest;
use crate::http::request_summary::tests::of_path;

use rustix::fs::FileType;
use rustix::fs::Mode;

fn write(log: &AccessLog, path: &str) {
    let summary = of_path(path);
    let request = &FinishedRequest { summary, ..finished() };
    let client = "192.0.2.7:4433".parse().unwrap();
    let connection = LoggedConnection {
        client,
        name: "",
        client_certificate: None,
        cc: None,
        ecn: None,
        resume: None,
    };
    log.write(&LogLine { connection, request });
}

#[test]
fn lines_after_reopen_go_to_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("log"), dir.path().join("log.1"));
    std::fs::write(&path, "earlier\n").unwrap();
    let dropped = Counter::default();
    let log = AccessLog::start(&path, AccessLogFormat::Json, dropped.clone()).unwrap();
    write(&log, "/one");
    std::fs::rename(&path, &moved).unwrap();
    write(&log, "/two");
    log.reopen();
    write(&log, "/three");
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
fn failed_reopen_keeps_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, moved) = (dir.path().join("logs"), dir.path().join("moved"));
    std::fs::create_dir(&folder).unwrap();
    let log =
        AccessLog::start(&folder.join("log"), AccessLogFormat::Common, Counter::default()).unwrap();
    std::fs::rename(&folder, &moved).unwrap();
    log.reopen();
    write(&log, "/one");
    assert!(log.close());
    assert!(std::fs::read_to_string(moved.join("log")).unwrap().contains("/one"));
}

#[test]
fn full_queue_drops_and_counts_lines() {
    let log = AccessLog::in_memory(AccessLogFormat::Json);
    let path = format!("/{}", "x".repeat(8 << 10));
    while log.dropped.get() < 3 {
        write(&log, &path);
    }
    assert!(log.take_lines().len() > 100);
    write(&log, &path);
    assert_eq!((log.dropped.get(), log.take_lines().len()), (3, 1));
}

#[test]
fn lines_gather_and_nobody_who_waits_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = AccessLog::start(&path, AccessLogFormat::Json, Counter::default()).unwrap();
    let lines = || std::fs::read_to_string(&path).unwrap().lines().count();
    // More than gather: the first of a pause are written at once, the rest soon.
    for count in [1, 1000] {
        let before = lines();
        (0..count).for_each(|_| write(&log, "/"));
        while lines() < before + count {
            thread::sleep(Duration::from_millis(1));
        }
    }
    (0..10).for_each(|_| write(&log, "/"));
    log.reopen_and_wait().unwrap();
    assert_eq!(lines(), 1011);
    write(&log, "/");
    assert!(log.close());
    assert_eq!(lines(), 1012);
}

/// A collector that hangs must not keep signals from being handled.
#[test]
fn stalled_reader_delays_neither_reopening_nor_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let reader = File::options().read(true).write(true).open(&pipe).unwrap();
    let dropped = Counter::default();
    let log = AccessLog::start(&pipe, AccessLogFormat::Json, dropped.clone()).unwrap();
    while dropped.get() == 0 {
        write(&log, "/");
    }
    log.reopen();
    let error = log.reopen_and_wait().unwrap_err();
    assert!(format!("{error:#}").ends_with("its reader"), "{error:#}");
    assert!(!log.close());
    drop(reader);
}

#[test]
fn reopening_is_over_when_its_outcome_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, moved) = (dir.path().join("logs"), dir.path().join("moved"));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("log");
    let log = AccessLog::start(&path, AccessLogFormat::Json, Counter::default()).unwrap();
    write(&log, "/old");
    std::fs::rename(&path, folder.join("log.1")).unwrap();
    log.reopen_and_wait().unwrap();
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&path) == 0 && size(&folder.join("log.1")) > 0);

    std::fs::rename(&folder, &moved).unwrap();
    let error = log.reopen_and_wait().unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.ends_with("the old file"), "{error}");
    write(&log, "/new");
    assert!(log.close());
    assert!(size(&moved.join("log")) > 0);
}

#[test]
fn pipe_without_a_reader_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let log = AccessLog::start(&pipe, AccessLogFormat::Json, Counter::default());
    let error = format!("{:#}", log.map(drop).unwrap_err());
    assert!(error.contains(pipe.to_str().unwrap()), "{error}");
    assert!(error.ends_with("a pipe that nobody reads; start its reader"), "{error}");
}

#[test]
fn full_disk_counts_lost_lines() {
    let dropped = Counter::default();
    let log = AccessLog::start(Path::new("/dev/full"), AccessLogFormat::Json, dropped.clone());
    let log = log.unwrap();
    for _ in 0..1000 {
        write(&log, "/");
    }
    log.reopen_and_wait().unwrap();
    assert_eq!(dropped.get(), 1000);
    assert!(log.close());
}

#[test]
fn error_names_unwritable_path() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["", "none/log"] {
        let path = dir.path().join(name);
        let started = AccessLog::start(&path, AccessLogFormat::Json, Counter::default());
        let errors =
            [started.map(drop), check(&path)].map(|result| format!("{:#}", result.unwrap_err()));
        assert!(
            errors.iter().all(|error| error.contains(&path.display().to_string())),
            "{errors:?}"
        );
    }
    assert!(check(Path::new("-")).is_ok());
}
