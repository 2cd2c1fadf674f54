//! Command `path-store gain`, from outside.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::process::Stdio;

use serde_json::Value;

/// Exit code, stdout and stderr of the command.
type GainOutput = (i32, String, String);

fn run(arguments: &[&str], input: &str) -> GainOutput {
    let mut child = Command::new(env!("CARGO_BIN_EXE_path-store"))
        .arg("gain")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();

    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A response in both formats.
fn lines(client: u32, arm: &str, bytes: u64, duration_ms: u32) -> [String; 2] {
    let [_, b, c, d] = client.to_be_bytes();
    let seconds = f64::from(duration_ms) / 1e3;
    let json = serde_json::json!({
        "time": "2026-01-01T00:00:00.000Z", "client": format!("10.{b}.{c}.{d}"), "port": 1,
        "connection": "00", "method": "GET", "host": "h", "path": "/", "status": 200,
        "bytes": bytes, "duration_ms": duration_ms, "complete": true, "user_agent": null,
        "referer": null, "resume": {
            "phase": "normal", "trigger": null, "jump_bytes": null, "retreat": false,
            "arm": arm, "could_jump": true,
        },
    });
    let common = format!(
        "10.{b}.{c}.{d} - - [01/Jan/2026:00:00:00 +0000] \"GET / HTTP/3\" 200 {bytes} \"-\" \"-\" \
         \"h\" {seconds:.3} {arm} could-jump complete"
    );
    [json.to_string() + "\n", common + "\n"]
}

/// Logs of so many clients in both formats: those that may jump take 600 to 700 ms, the others
/// 1000 to 1100 ms.
fn logs(clients: u32) -> [String; 2] {
    let mut logs = [String::new(), String::new()];
    for client in 0..clients {
        let (arm, least_ms) = if client % 2 == 0 { ("resume", 600) } else { ("control", 1000) };
        let duration_ms = least_ms + client * 7919 % 101;
        for (log, line) in logs.iter_mut().zip(lines(client, arm, 2_000_000, duration_ms)) {
            log.push_str(&line);
        }
    }
    logs
}

fn quantiles(json: &str) -> Vec<Value> {
    let json: Value = serde_json::from_str(json).unwrap();
    json["classes"][0]["quantiles"].as_array().unwrap().clone()
}

#[test]
fn gain_is_the_same_from_both_formats_and_from_several_logs() {
    let dir = tempfile::tempdir().unwrap();
    let [json, common] = logs(400);
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    let half = json.lines().count() / 2;
    let part = |lines: &mut dyn Iterator<Item = &str>| {
        lines.fold(String::new(), |mut text, line| {
            writeln!(text, "{line}").unwrap();
            text
        })
    };
    fs::write(&one, part(&mut json.lines().take(half))).unwrap();
    fs::write(&other, part(&mut json.lines().skip(half))).unwrap();

    let (code, whole, err) = run(&["--json", "-"], &json);
    assert_eq!((code, err.as_str()), (0, ""));
    let paths = [one.to_str().unwrap(), other.to_str().unwrap()];
    assert_eq!(run(&[&["--json"], &paths[..]].concat(), ""), (0, whole.clone(), String::new()));
    assert_eq!(run(&["--json", "-"], &common), (0, whole.clone(), String::new()));

    let quantiles = quantiles(&whole);
    let percents: Vec<_> = quantiles.iter().map(|q| q["percent"].as_u64().unwrap()).collect();
    assert_eq!(percents, [25, 50, 75, 90]);
    for quantile in quantiles {
        let interval =
            |key: &str| ["low", "value", "high"].map(|end| quantile[key][end].as_f64().unwrap());
        let [low, ratio, high] = interval("ratio");
        assert!((0.58..0.66).contains(&ratio) && low <= ratio && ratio <= high, "{quantile}");
        let [low, difference, high] = interval("difference_ms");
        assert!((-420.0..=-380.0).contains(&difference) && low < high, "{quantile}");
    }
}

#[test]
fn table_tells_gain_arms_and_what_is_too_small() {
    let (code, out, err) = run(&["--share", "0.5", "-"], &logs(400)[0]);
    assert_eq!((code, err.as_str()), (0, ""));
    for part in [
        "clients: 200 resume, 200 control, which fits the share 0.5 (p = 1.00)",
        "could jump: 200 resume, 200 control, which fits all clients",
        "1-3MB",
        "p50",
        "0.6",
        "1-3MB: too few clients for p99 needs 1000; resume has 200, control 200",
        "below 1 is faster",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }

    let (code, out, _) = run(&["--share", "0.9", "-"], &logs(400)[0]);
    assert_eq!(code, 0);
    assert!(out.contains("DOES NOT FIT the share 0.9 (p < 1e-9)"), "{out}");
}

#[test]
fn json_has_a_verdict() {
    let [log, _] = logs(400);
    let moved = log.clone() + &lines(0, "control", 2_000_000, 1000)[0];
    for (log, share, expected) in [
        (&log, "0.5", "usable"),
        (&log, "0.9", "arms_do_not_fit"),
        (&moved, "0.5", "clients_in_both_arms"),
        (&logs(20)[0], "0.5", "too_small"),
    ] {
        let (code, out, _) = run(&["--json", "--share", share, "-"], log);
        let json: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &json["verdict"]), (0, &expected.into()));
    }
    let (_, out, _) = run(&["-"], &moved);
    assert!(out.contains("1 client was in both arms: the share or the secrets"), "{out}");
}

#[test]
fn small_sample_gives_no_figure() {
    let (code, out, _) = run(&["-"], &logs(20)[0]);
    assert_eq!(code, 0);
    assert!(out.contains("The sample is too small for any figure"), "{out}");
    assert!(!out.contains("RATIO") && !out.contains("0.6"), "{out}");
    let one_arm: String = logs(20)[0]
        .lines()
        .filter(|line| line.contains("\"arm\":\"resume\""))
        .map(|line| format!("{line}\n"))
        .collect();
    let (code, out, _) = run(&["-"], &one_arm);
    assert_eq!(code, 0);
    assert!(out.contains("One arm has no response"), "{out}");
    let no_jumps = logs(20)[0].replace("\"could_jump\":true", "\"could_jump\":false");
    let (code, out, _) = run(&["-"], &no_jumps);
    assert_eq!(code, 0);
    assert!(out.contains("No connection could jump"), "{out}");
    let (code, out, _) = run(&["--json", "-"], &logs(20)[0]);
    assert_eq!((code, quantiles(&out)), (0, Vec::new()));
}

#[test]
fn plot_is_an_svg_with_each_interval() {
    let dir = tempfile::tempdir().unwrap();
    let plot = dir.path().join("gain.svg");
    let (code, ..) = run(&["--plot", plot.to_str().unwrap(), "-"], &logs(400)[0]);
    assert_eq!(code, 0);
    let svg = fs::read_to_string(&plot).unwrap();
    for part in ["<svg", "1-3MB, p25", "1-3MB, p90", "divided by control", "1 is no gain"] {
        assert!(svg.contains(part), "{part}");
    }
    assert_eq!(svg.matches("<circle").count(), 4);
}

#[test]
fn cut_line_is_counted_and_named() {
    let log = logs(400)[0].clone() + "{\"time\":\"2026-01-";
    let (code, out, _) = run(&["-"], &log);
    assert_eq!(code, 0);
    assert!(out.contains("1 line is none of edge-server's, the first is -:401"), "{out}");
}

#[test]
fn error_names_the_log_and_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, contents: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let other = file("other", b"hello\n");
    let compressed = file("log.gz", &[0x1f, 0x8b, 8, 0]);
    let no_arms = logs(2)[0].replace("\"resume\",\"could", "null,\"could");
    let no_arms = file(
        "no-arms",
        no_arms
            .replace("\"control\"", "null")
            .replace("\"arm\":\"resume\"", "\"arm\":null")
            .as_bytes(),
    );
    let plot = dir.path().join("none/plot.svg");
    let some = file("some", logs(400)[0].as_bytes());
    let (again, linked) = (some.clone(), dir.path().join("linked"));
    std::os::unix::fs::symlink(&some, &linked).unwrap();
    for (arguments, expected, named) in [
        (&["missing"][..], 1, "cannot read missing"),
        (&[&some, &again], 1, "some is the same file as another log"),
        (&[&some, linked.to_str().unwrap()], 1, "linked is the same file as another log"),
        (&[&other], 1, "other is no access log of edge-server"),
        (&[&compressed], 1, "log.gz | path-store gain -"),
        (&[&no_arms], 1, "start edge-server with --resume-share 0.9"),
        (&["--plot", plot.to_str().unwrap(), &some], 1, "none/plot.svg"),
        (&[], 2, "<LOG>"),
        (&["--share", "90", &some], 2, "a share is from 0 to 1, such as 0.9"),
    ] {
        let (code, _, err) = run(arguments, "");
        assert_eq!(code, expected, "{err}");
        assert!(err.contains(named) && err.lines().count() == 1, "{named}: {err}");
    }
}

#[test]
fn other_commands_still_need_a_store() {
    let list = Command::new(env!("CARGO_BIN_EXE_path-store")).arg("list").output().unwrap();
    let err = String::from_utf8(list.stderr).unwrap();
    assert_eq!(list.status.code(), Some(2));
    assert!(err.contains("--store <PATH|URL>") && err.lines().count() == 1, "{err}");
}
