//! Tests of the command: its output and exit codes.

use std::fs;
use std::process::Command;
use std::process::Output;

fn sim(args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    command.args(args.split_whitespace()).output().expect("the command runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn results_do_not_depend_on_the_number_of_jobs() {
    let what = "run paths dynamics fairness --runs 2 --only LEO-0.75MB --only terrestrial-0.25MB \
                --only one-subnet --only path.rate_mbps=25,background.count=4";
    let one = sim(&format!("{what} --jobs 1"));
    let two = sim(&format!("{what} --jobs 2"));
    assert!(one.status.success(), "{}", text(&one.stderr));
    assert_eq!(text(&one.stdout), text(&two.stdout));
    assert_eq!(text(&one.stdout).lines().count(), 2 * (4 + 4 + 4 + 3));
    assert!(one.stderr.is_empty(), "no terminal, no bar");
}

/// Slow start does not use what is saved: its runs are one simulation, and lines of their own.
#[test]
fn runs_alike_have_the_same_flows_and_lines_of_their_own() {
    let what = "run recovery --runs 2 --only path.buffer_bdp=1,path.loss=0,slow-start";
    let together = sim(what);
    let lines: Vec<serde_json::Value> = text(&together.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2 * 5);
    let alone = sim(&format!("{what},flow.saved.cwnd_bdp=16"));
    for (together, alone) in lines[8..].iter().zip(text(&alone.stdout).lines()) {
        assert_eq!(*together, serde_json::from_str::<serde_json::Value>(alone).expect("JSON"));
    }
    let saved = |line: &serde_json::Value| line["parameters"]["flow.saved.cwnd_bdp"].clone();
    assert_ne!(saved(&lines[0]), saved(&lines[8]));
    assert_eq!(lines[0]["flows"], lines[8]["flows"]);
}

#[test]
fn run_is_repeated_by_its_seed() {
    let only = "run dynamics --only jitter,path.jitter_ms=10,cubic,careful-resume";
    let both = sim(&format!("{only} --seed 4 --runs 2"));
    let second = sim(&format!("{only} --seed 5 --runs 1"));
    let lines: Vec<_> = text(&both.stdout).lines().collect();
    let again = text(&second.stdout).trim_end().replace("\"run\":1", "\"run\":2");
    assert_eq!(lines[1], again);
    assert_ne!(
        lines[0].replace("\"run\":1", "\"run\":2").replace("\"seed\":4", "\"seed\":5"),
        again
    );
}

#[test]
fn failed_run_is_reported_with_its_replay() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("late.toml");
    fs::write(
        &file,
        "title = \"t\"\nabout = \"a\"\n[path]\nrate_mbps = 10\nrtt_ms = 40\n\
         [[flow]]\nobject_bytes = [20_000_000, 10_000]\n[[case]]\nname = \"c\"\ndeadline_s = 2\n",
    )
    .expect("a file");
    let out = folder.path().join("out.jsonl");
    let result = sim(&format!("run {} --seed 9 --out {}", file.display(), out.display()));
    assert_eq!(result.status.code(), Some(1));
    let said = text(&result.stderr);
    let again = format!(
        "again: sim run {} --only case=c,flow.object_bytes=20000000 --seed 9 --runs 1",
        file.display()
    );
    assert!(said.starts_with("sim: seed 9: ") && said.contains(&again), "{said}");
    assert!(said.contains("1 of 2 runs failed"), "{said}");
    let written = fs::read_to_string(&out).expect("results");
    assert!(written.lines().count() == 1 && written.contains("10000"), "{written}");
}

#[test]
fn bad_usage_is_one_line_and_code_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.toml");
    fs::write(&file, "title = \"t\"\nabout = \"a\"\n[path]\nrate_mbps = -1\nrtt_ms = 40\n[[flow]]\nobject_bdp = 1\n")
        .expect("a file");
    for (args, named) in [
        (format!("run {}", file.display()), "wrong.toml: path.rate_mbps = -1: must be above 0"),
        (
            "run no-such.toml".into(),
            "no file and no built-in scenario is named 'no-such.toml'; sim list shows",
        ),
        (
            "run paths --only no-such".into(),
            "--only no-such: no scenario has it; the parameters are case, flow.cc, flow.mode",
        ),
        ("run --all --runs 0".into(), "--runs <N>': must be at least 1"),
    ] {
        let result = sim(&args);
        let said = text(&result.stderr);
        assert_eq!(result.status.code(), Some(2), "{said}");
        assert!(said.contains(named) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn report_of_some_chapters_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let (results, page) = (folder.path().join("f.jsonl"), folder.path().join("f.html"));
    let only = "--only LEO-0.75MB,cubic,slow-start --runs 1";
    assert!(sim(&format!("run paths {only} --out {}", results.display())).status.success());
    let result =
        sim(&format!("report --evaluation {} --out {}", results.display(), page.display()));
    let said = text(&result.stderr);
    assert_eq!(result.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("sim: no results of live, node, nothing-saved, grid, objects, "),
        "{said}"
    );
    assert!(said.ends_with(": the report needs the results of sim run --all\n"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// A reader such as `head` closes the output.
#[test]
fn closed_output_is_no_failure() {
    for args in ["list", "fuzz --cases 1"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
        command.args(args.split(' ')).stdout(writer);
        let result = command.output().expect("the command runs");
        assert!(result.status.success(), "{args}: {}", text(&result.stderr));
    }
}

#[test]
fn columns_of_the_list_are_aligned() {
    let list = sim("list");
    let columns: std::collections::BTreeSet<_> =
        text(&list.stdout).lines().map(|line| line.find(" runs ")).collect();
    assert_eq!(columns.len(), 1, "{}", text(&list.stdout));
}

#[test]
fn list_names_every_file() {
    let list = sim("list");
    let stems: Vec<_> = text(&list.stdout).lines().filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(stems.len(), sim::scenario::shipped::SHIPPED.len());
    assert!(stems.contains(&"fairness"));
}

/// The scenario that docs/experiments.md shows: from at most 25 lines to a page in one command.
#[test]
fn short_scenario_with_a_trace_becomes_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("lte.html");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/paths/lte.toml");
    assert!(fs::read_to_string(scenario).expect("the example").lines().count() <= 25);
    let draw = || {
        let result = sim(&format!("run {scenario} --runs 2 --page {}", page.display()));
        assert!(result.status.success(), "{}", text(&result.stderr));
        fs::read_to_string(&page).expect("a page")
    };
    let html = draw();
    let title = |words: &str| html.contains(&format!("<h2>{words}</h2>"));
    assert!(title("Flow completion times") && title("Distribution of completion times"));
    assert!(title("Lost packets") && title("Fairness") && title("Runs over time"));
    // Four of all runs, and five of the first run in each mode.
    assert_eq!(html.matches("<svg").count(), 4 + 2 * 5);
    assert!(html.contains("--seed 1 --runs 1") && html.contains("lines of schema 3"));
    assert_eq!(html, draw(), "the same seeds give the same page");

    let results = page.with_extension("jsonl");
    let line = fs::read_to_string(&results).expect("results");
    let line: serde_json::Value =
        serde_json::from_str(line.lines().next().expect("a line")).expect("JSON");
    assert_eq!((line["schema"].as_u64(), line["seed"].as_u64()), (Some(3), Some(1)));
    assert_eq!(line["settings"]["path"]["trace"], "traces/lte.csv");
    assert!(line["program"].as_str().is_some_and(|program| program.starts_with("sim 0.")));
}

#[test]
fn two_varied_numbers_become_a_map_of_the_speed_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("grid.toml");
    let html = |rtts: &str| {
        let lines = format!(
            "title = \"t\"\nabout = \"a\"\nruns = 3\n[path]\nrate_mbps = [10, 50]\nrtt_ms = {rtts}\n\
             jitter_ms = 1\n[[flow]]\nobject_bdp = 1\nmode = [\"slow-start\", \"careful-resume\"]\n"
        );
        fs::write(&scenario, lines).expect("written");
        let page = folder.path().join("grid.html");
        let result = sim(&format!("run {} --page {}", scenario.display(), page.display()));
        assert!(result.status.success(), "{}", text(&result.stderr));
        fs::read_to_string(page).expect("a page")
    };
    let both = html("[100, 300, 600]");
    assert!(both.contains("<h2>Speed-up</h2>") && both.contains("path.rtt_ms"));
    for words in
        ["Of the first 5 of 12 kinds", "<th>flow (rate_mbps 10, rtt_ms 100)</th>", "none lost"]
    {
        assert!(both.contains(words), "{words}");
    }
    assert!(!html("300").contains("<h2>Speed-up</h2>"));
}

#[test]
fn page_tells_of_failed_runs_and_replaces_no_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("mine.toml");
    let draw = |rates: &str, page: &str| {
        let lines = format!(
            "title = \"t\"\nabout = \"a\"\ndeadline_s = 20\n[path]\nrate_mbps = {rates}\nrtt_ms = 100\n\
             [[flow]]\nobject_bytes = 100_000\n"
        );
        fs::write(&scenario, lines).expect("written");
        let page = folder.path().join(page);
        let result = sim(&format!("run {} --page {}", scenario.display(), page.display()));
        assert_eq!(result.status.code(), Some(1));
        (text(&result.stderr).to_owned(), fs::read_to_string(page).unwrap_or_default())
    };
    let (said, html) = draw("[10, 0.01]", "some.html");
    assert!(said.contains("1 of 2 runs failed"), "{said}");
    assert!(html.contains("1 of 2 runs failed, and are in no figure."));
    let (said, html) = draw("0.01", "none.html");
    assert!(said.ends_with("sim: no page: every run failed\n") && html.is_empty(), "{said}");
    let (said, results) = draw("10", "mine.jsonl");
    assert!(said.contains("mine.jsonl has the results, name another page"), "{said}");
    assert!(results.starts_with('{'), "{results}");
}

#[test]
fn results_and_pages_replace_no_scenario() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = folder.path().join("mine.toml");
    fs::write(&scenario, "not even read").expect("written");
    let mine = scenario.display();
    for (option, others) in [("--out", ""), ("--page", " --out -")] {
        let result = sim(&format!("run {mine} {option} {mine}{others}"));
        assert_eq!(result.status.code(), Some(2));
        let refusal = format!("sim: {mine} is a scenario file, name another {option}\n");
        assert_eq!(text(&result.stderr), refusal);
        assert_eq!(fs::read_to_string(&scenario).expect("read"), "not even read");
    }
}

/// The other example of docs/experiments.md.
#[test]
fn page_of_an_archive_is_downloaded() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/paths/page.toml");
    let result = sim(&format!("run {scenario} --runs 2 --page {}", page.display()));
    assert!(result.status.success(), "{}", text(&result.stderr));
    let results = fs::read_to_string(page.with_extension("jsonl")).expect("results");
    let lines: Vec<serde_json::Value> =
        results.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3 * 2 * 2);
    assert_eq!(lines[0]["settings"]["flow"][0]["page"], "page.har");
    assert_eq!(lines[0]["flows"][0]["object_bytes"], 829_887);
}

#[test]
fn results_are_drawn_without_traces() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("mine.jsonl");
    let only = "--only LEO-0.75MB,cubic --runs 2";
    assert!(sim(&format!("run paths {only} --out {}", results.display())).status.success());
    let result = sim(&format!("report {}", results.display()));
    assert!(result.status.success(), "{}", text(&result.stderr));
    let html = fs::read_to_string(folder.path().join("mine.html")).expect("a page");
    assert_eq!(html.matches("<svg").count(), 3, "a flow alone shares with nobody");
    assert!(html.contains("Modes compared"));
    let none = folder.path().join("none");
    let said = sim(&format!("report {} --trace {}", results.display(), none.display()));
    let missing =
        format!("sim: there is no folder {}, name that of sim run --trace\n", none.display());
    assert_eq!((said.status.code(), text(&said.stderr)), (Some(1), &*missing));
    fs::write(&results, "").expect("no results");
    let said = sim(&format!("report {}", results.display()));
    assert_eq!(text(&said.stderr), "sim: no results: run sim run --out FILE first\n");
}
