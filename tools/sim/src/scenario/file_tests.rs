//! Tests of scenario files.

use super::*;

const PATH: &str = "[path]\nrate_mbps = 50\nrtt_ms = 600\n";
const FLOW: &str = "[[flow]]\nobject_bdp = 1\n";

fn parse_text(text: &str) -> anyhow::Result<File> {
    parse("dir/some.toml", &format!("title = \"t\"\nabout = \"a\"\n{text}"))
}

fn names(text: &str) -> Vec<String> {
    let file = parse_text(text).expect("a file that makes sense");
    file.scenarios.into_iter().map(|s| s.name).collect()
}

#[test]
fn file_without_lists_is_one_unnamed_scenario() {
    let file = parse_text(&format!("runs = 3\n{PATH}{FLOW}")).expect("a file that makes sense");
    assert_eq!((file.stem.as_str(), file.runs, file.scenarios.len()), ("some", 3, 1));
    let Named { name, parameters, scenario } = &file.scenarios[0];
    assert_eq!((name.as_str(), parameters.len()), ("", 0));
    assert_eq!((scenario.path.buffer_bdp, scenario.deadline_s), (1.0, 600.0));
    assert_eq!(scenario.flows[0].each_bytes(&scenario.path), 3_750_000);
}

#[test]
fn lists_give_every_combination() {
    let text = "[path]\nrtt_ms = [20, 600]\nrate_mbps = [0.5, 50]\n\
                [[flow]]\nobject_bdp = 1\nmode = [\"slow-start\", \"careful-resume\"]\n\
                saved.cwnd_bdp = 0.5\nsaved.age_s = [1]\n";
    let all = names(text);
    assert_eq!(all.len(), 8);
    assert_eq!(all[0], "path.rtt_ms=20,path.rate_mbps=0.5,flow.mode=slow-start,flow.saved.age_s=1");
    assert_eq!(
        all[1],
        "path.rtt_ms=20,path.rate_mbps=0.5,flow.mode=careful-resume,flow.saved.age_s=1"
    );
    assert_eq!(all[6], "path.rtt_ms=600,path.rate_mbps=50,flow.mode=slow-start,flow.saved.age_s=1");
    let file = parse_text(text).expect("a file that makes sense");
    let last = &file.scenarios[7];
    assert_eq!(last.scenario.path.rate_mbps, 50.0);
    assert_eq!(last.scenario.flows[0].saved.cwnd_bdp, 0.5);
    assert_eq!(last.parameters["path.rtt_ms"], 600);
    assert_eq!(last.parameters["flow.mode"], "careful-resume");
}

#[test]
fn case_sets_values_that_change_together() {
    let text = format!(
        "{PATH}[[flow]]\nobject_bdp = 1\ncc = [\"cubic\", \"reno\"]\n[[flow]]\nname = \"extra\"\nobject_bdp = 40\n\
         [[case]]\nname = \"none\"\nextra.count = 0\n\
         [[case]]\nname = \"GEO\"\npath.rate_mbps = 10\nflow.cc = \"reno\"\ndeadline_s = 9\n\
         [[case]]\nname = \"LEO\"\nflow.start_ms = [1, 2]\nflow.cc = \"cubic\"\nextra.saved.cwnd_bdp = 2\n"
    );
    assert_eq!(
        names(&text),
        [
            "case=none,flow.cc=cubic",
            "case=none,flow.cc=reno",
            "case=GEO",
            "case=LEO,flow.start_ms=1",
            "case=LEO,flow.start_ms=2",
        ]
    );
    let file = parse_text(&text).expect("a file that makes sense");
    let of = |index: usize| &file.scenarios[index].scenario;
    assert_eq!((of(0).flows.len(), of(2).flows.len()), (1, 2), "no flow is left of a count of 0");
    assert_eq!(
        (of(0).path.rate_mbps, of(2).path.rate_mbps, of(3).path.rate_mbps),
        (50.0, 10.0, 50.0)
    );
    assert_eq!((of(2).deadline_s, of(3).deadline_s), (9.0, 600.0));
    assert_eq!((of(4).flows[0].start_ms, of(4).flows[1].saved.cwnd_bdp), (2.0, 2.0));
}

const RANDOM: &str = "[random]\ndraws = 40\nseed = 7\n";

#[test]
fn draw_has_the_same_values_in_every_case() {
    let text = format!(
        "{RANDOM}path.rate_mbps = {{ log = [1, 100] }}\nflow.saved.cwnd_bdp = {{ linear = [0, 1.0] }}\nflow.count = {{ whole = [1, 3] }}\n\
         {PATH}[[flow]]\nobject_bdp = 1\ncc = [\"cubic\", \"reno\"]\n\
         [[case]]\nname = \"a\"\n[[case]]\nname = \"b\"\npath.rtt_ms = 9\nflow.cc = \"reno\"\n"
    );
    let file = parse_text(&text).expect("a file that makes sense");
    let of: Vec<&[Named]> = file.scenarios.chunks(3).collect();
    assert_eq!(of.len(), 40);
    assert!(of.iter().any(|cases| cases[0].scenario.flows[0].count == 3));
    let told: Vec<&str> = of[1].iter().map(|named| named.name.as_str()).collect();
    for (name, end) in told.iter().zip(["case=a,flow.cc=cubic", "case=a,flow.cc=reno", "case=b"]) {
        assert!(name.starts_with("draw=2,path.rate_mbps=") && name.ends_with(end), "{name}");
    }
    let rate_mbps = file.scenarios[0].scenario.path.rate_mbps;
    assert_eq!(file.scenarios[0].parameters["path.rate_mbps"], rate_mbps);
    let values = |named: &Named| {
        let Scenario { path, flows, .. } = &named.scenario;
        (path.rate_mbps, flows[0].saved.cwnd_bdp)
    };
    for cases in &of {
        assert!(cases.iter().all(|case| values(case) == values(&cases[0])));
        let (rate_mbps, saved_bdp) = values(&cases[0]);
        assert!((1.0..=100.0).contains(&rate_mbps) && (0.0..=1.0).contains(&saved_bdp));
    }
    let below = |limit: f64| of.iter().filter(|cases| values(&cases[0]).0 < limit).count();
    assert!((10..30).contains(&below(10.0)), "half of a logarithmic range is below its middle");
    let all: std::collections::BTreeSet<String> =
        of.iter().map(|c| format!("{:?}", values(&c[0]))).collect();
    assert_eq!(all.len(), 40);
    assert_eq!(parse_text(&text).expect("again"), file);
    assert_ne!(parse_text(&text.replace("seed = 7", "seed = 8")).expect("another"), file);
}

#[test]
fn array_of_tables_is_no_list_of_values() {
    let text = format!("{PATH}[[path.change]]\nat_ms = 5\nloss = 0.5\n[[path.change]]\nat_ms = 7\nrtt_ms = 9\n{FLOW}");
    let file = parse_text(&text).expect("a file that makes sense");
    assert_eq!(file.scenarios.len(), 1);
    assert_eq!(file.scenarios[0].scenario.path.changes[1].rtt_ms, Some(9.0));
}

#[test]
fn terms_choose_scenarios() {
    let text = "[path]\nrate_mbps = [5, 50]\nrtt_ms = 5\n\
                [[flow]]\nobject_bdp = 1\nmode = \"slow-start\"\ncc = [\"reno\", \"cubic\"]\n";
    let file = parse_text(text).expect("a file that makes sense");
    let count = |terms: &str| file.scenarios.iter().filter(|s| s.matches(terms)).count();
    assert_eq!(count("path.rate_mbps=5"), 2, "50 is not 5");
    assert_eq!((count("reno"), count("reno,50"), count("50,flow.cc=cubic")), (2, 1, 1));
    assert_eq!((count("ren"), count("reno,7"), count("")), (0, 0, 0));
}

#[test]
fn objects_have_at_least_twenty_packets() {
    for (size, count, bytes) in [
        ("object_bdp = 0.001", 1, 27_000),
        ("object_bytes = 1000", 1, 1000),
        ("total_bdp = 100", 4, 93_750_000),
        ("total_bdp = 0.001", 4, 27_000),
    ] {
        let text = format!("{PATH}[[flow]]\n{size}\ncount = {count}\n");
        let file = parse_text(&text).expect(size);
        let scenario = &file.scenarios[0].scenario;
        assert_eq!(scenario.flows[0].each_bytes(&scenario.path), bytes, "{size}");
    }
}

#[test]
fn file_without_title_is_told_to_have_one() {
    let error = parse("a.toml", &format!("about = \"a\"\n{PATH}{FLOW}")).expect_err("no title");
    assert_eq!(error.to_string(), "in a.toml: title is missing: say title = \"…\"");
}

#[test]
fn bad_file_is_one_line_with_key_and_value() {
    let long =
        format!("[path]\nrate_mbps = {0:?}\nrtt_ms = {0:?}\n{FLOW}", (1..400).collect::<Vec<_>>());
    for (text, said) in [
        ("[path\n", "line 3: "),
        (&format!("{PATH}rtt_ms = 9\n{FLOW}"), "line 6: rtt_ms = 9: the key stands there twice"),
        (&format!("{PATH}{FLOW}ecn = true\n"), "flow.ecn = true: must be text in quotes"),
        (FLOW, "[path] is missing"),
        (PATH, "[[flow]] is missing"),
        ("[path]\nrate_mbps = 50\n[[flow]]\nobject_bdp = 1\n", "path.rtt_ms is missing: say rtt_ms = 600"),
        (&format!("runs = 0\n{PATH}{FLOW}"), "runs = 0: name 1 to 10000"),
        (&format!("speed = 1\n{PATH}{FLOW}"), "speed = 1: unknown field `speed`"),
        (&format!("{PATH}rate = 1\n{FLOW}"), "path.rate = 1: unknown field `rate`, expected one of"),
        (&format!("{PATH}loss = \"much\"\n{FLOW}"), "path.loss = \"much\": must be a number"),
        (&format!("{PATH}loss = 1.0\n{FLOW}"), "path.loss = 1: must be from 0 to less than 1"),
        (&format!("{PATH}loss = nan\n{FLOW}"), "path.loss = NaN: must be from 0"),
        (&format!("{PATH}up_rate_mbps = inf\n{FLOW}"), "path.up_rate_mbps = inf: must be above 0"),
        (&format!("{PATH}buffer_bdp = [1, -2]\n{FLOW}"), "path.buffer_bdp = -2: must be above 0"),
        (&format!("{PATH}{FLOW}slow_start_exit = \"bbr\"\n"), "flow.slow_start_exit = \"bbr\": must be one of queue, rapid, hystart, search, search-3"),
        (&format!("{PATH}{FLOW}search_threshold = 0.3\n"), "slow_start_exit = queue has none"),
        (
            &format!("{PATH}{FLOW}cc = \"bbr2\"\necn = \"l4s\"\n"),
            "flow.ecn = \"l4s\": it is for cubic and reno; with cc = \"bbr2\", say \"on\"",
        ),
        (
            &format!("{PATH}{FLOW}cc = [\"cubic\", \"bbr2\"]\necn = \"alternative\"\n"),
            "flow.ecn = \"alternative\": it is for cubic and reno",
        ),
        (
            &format!("{PATH}{FLOW}slow_start_exit = \"search\"\nsearch_threshold = 1\n"),
            "search_threshold = 1: must be between 0 and 1",
        ),
        (&format!("{PATH}buffer_bdp = []\n{FLOW}"), "path.buffer_bdp = []: name at least one value"),
        (&format!("{PATH}queue = \"red\"\n{FLOW}"), "path.queue = \"red\": must be one of drop-tail, codel"),
        (&format!("{PATH}ack_thinning = 0\n{FLOW}"), "path.ack_thinning = 0: must be above 0"),
        (&format!("{PATH}[[path.change]]\nat_ms = 1\n{FLOW}"), "path.change.at_ms = 1: say a rate_mbps"),
        (
            &format!("{PATH}[[path.change]]\nat_ms = 5\nrate_mbps = 0\n[[path.change]]\nat_ms = 9\nloss = 0\n{FLOW}"),
            "path.change.rate_mbps = 0 from at_ms = 5 on, for good: add a path.change with the rate after",
        ),
        (
            &format!("{PATH}[[path.change]]\nat_ms = 2\nloss = 0\n[[path.change]]\nat_ms = 1\nloss = 0\n{FLOW}"),
            "path.change.at_ms = 1: write changes in order of time",
        ),
        (&format!("{PATH}swing = {{}}\n{FLOW}"), "path.swing: say a rate_share or an rtt_share above 0"),
        (&format!("{PATH}swing.rate_share = 1\n{FLOW}"), "path.swing.rate_share = 1: must be from 0 to less than 1"),
        (&format!("{PATH}swing = {{ rtt_share = 0.1, period_rtts = 0 }}\n{FLOW}"), "path.swing.period_rtts = 0: must be above 0"),
        (
            &format!("{PATH}swing.rtt_share = 0.1\n[[path.change]]\nat_ms = 1\nloss = 0\n{FLOW}"),
            "path.swing and path.change: a path has one of them",
        ),
        (
            &format!("{PATH}up_rate_mbps = 1\nswing.rtt_share = 0.1\n{FLOW}"),
            "path.swing and path.up_rate_mbps: a path that swings has one rate",
        ),
        (&format!("{PATH}[[flow]]\n"), "flow has no size: say one of"),
        (&format!("{PATH}{FLOW}object_bytes = 1\n"), "flow has several sizes"),
        (&format!("{PATH}{FLOW}count = 0\n"), "no [[flow]] with a count above 0"),
        (&format!("{PATH}{FLOW}max_jump = 29039\n"), "flow.max_jump = 29039: must be at least 29040, as edge-server's"),
        (&format!("{PATH}{FLOW}in_turn = 1\n"), "flow.in_turn = 1: must be true or false"),
        (&format!("{PATH}{FLOW}count = 1.5\n"), "flow.count = 1.5: must be a whole number"),
        (&format!("{PATH}[[path.change]]\nloss = 0\n{FLOW}"), "path.change[0].at_ms is missing: say at_ms = 1000"),
        (&format!("{PATH}runs = 2\n{FLOW}"), "; runs stands before [path]"),
        (&format!("{PATH}{FLOW}deadline_s = 9\n"), "; deadline_s stands before [path]"),
        (&format!("{PATH}{FLOW}saved.cwnd_bdp = 0\n"), "flow.saved.cwnd_bdp = 0: must be above 0"),
        (&format!("{PATH}{FLOW}saved.cwnd = 1\n"), "flow.saved.cwnd = 1: unknown field"),
        (&format!("{PATH}{FLOW}start_ms = 600000\n"), "flow.start_ms = 600000: must be before deadline_s = 600"),
        (&format!("{PATH}{FLOW}{FLOW}"), "two flows are named flow"),
        (&format!("{PATH}{FLOW}name = \"path\"\n"), "flow.name = \"path\": a name is"),
        (&format!("{PATH}{FLOW}cc = [\"cubic\", [1]]\n"), "flow.cc = [1]: in a list, say"),
        (&format!("random = 1\n{PATH}{FLOW}"), "random = 1: must be a table, [random]"),
        (&format!("{RANDOM}{PATH}{FLOW}"), "[random] draws nothing: say path.rate_mbps = "),
        (&format!("[random]\nseed = 1\n{PATH}{FLOW}"), "random.draws is missing: say a whole number"),
        (&format!("[random]\ndraws = 1.5\n{PATH}{FLOW}"), "random.draws = 1.5: must be a whole number"),
        (&format!("[random]\ndraws = 0\n{PATH}{FLOW}"), "random.draws = 0: name 1 to 100000"),
        (&format!("{RANDOM}path.loss = 0.1\n{PATH}{FLOW}"), "random.path.loss = 0.1: say a range, { log"),
        (
            &format!("{RANDOM}path.loss = {{ log = [0, 1] }}\n{PATH}{FLOW}"),
            "random.path.loss = { log = [0, 1] }: say the lower end and the upper end of a range, both above 0",
        ),
        (&format!("{RANDOM}flow.count = {{ whole = [1, 2.5] }}\n{PATH}{FLOW}"), "a range, whole numbers, not negative"),
        (&format!("{RANDOM}path.loss = {{ linear = [1, 0] }}\n{PATH}{FLOW}"), "say the lower end and the"),
        (
            &format!("{RANDOM}path.rate = {{ log = [1, 2] }}\n{PATH}{FLOW}"),
            "unknown field `rate`",
        ),
        (
            &format!("{RANDOM}extra.loss = {{ log = [1, 2] }}\n{PATH}{FLOW}"),
            "random: extra: no such part; there are path, flow",
        ),
        (&format!("{RANDOM}kind = 1\n{PATH}{FLOW}"), "random.kind: write [[random.kind]] before each"),
        (&format!("{RANDOM}[[random.kind]]\nshare = 1\n{PATH}{FLOW}"), "a [[random.kind]] has no name"),
        (&format!("{RANDOM}[[random.kind]]\nname = \"a\"\n{PATH}{FLOW}"), "random.kind a.share: say a number"),
        (
            &format!("{RANDOM}[[random.kind]]\nname = \"a\"\nshare = 1\npath.loss = \"b\"\n{PATH}{FLOW}"),
            "random.kind a.path.loss = \"b\": say a range",
        ),
        (
            &format!("{PATH}[[flow]]\nmode = \"careful-resume\"\nobject_bdp = 1\ninitial_window_packets = 32\n"),
            "flow.initial_window_packets = 32: with Careful Resume it is 10",
        ),
        (&format!("{PATH}{FLOW}page = \"a.har\"\n"), "flow.page = \"a.har\": cannot be read: "),
        (&format!("{PATH}{FLOW}page = 1\n"), "flow.page = 1: must be the name of a HAR file"),
        (&format!("{PATH}{FLOW}initial_window_packets = 1\n"), "initial_window_packets = 1: must be at least 2"),
        (&format!("{PATH}{FLOW}send_buffer_bytes = 1\n"), "send_buffer_bytes = 1: must be at least 16000"),
        (&format!("{PATH}aggregation_ms = 1e5\n{FLOW}"), "aggregation_ms = 100000: must be at most 1000"),
        (
            &format!("{RANDOM}kind = [{{ name = \"a\", share = 1 }}, {{ name = \"a\", share = 1 }}]\n{PATH}{FLOW}"),
            "two kinds are named a",
        ),
        (&format!("{PATH}rate = 1\n{FLOW}"), ", `trace`"),
        (&format!("{PATH}{FLOW}pages = 1\n"), ", `page`"),
        (&format!("{PATH}{FLOW}release_late_ms = -1\n"), "flow.release_late_ms = -1: must be 0 or more"),
        (&format!("{PATH}jitter_share = 1\n{FLOW}"), "path.jitter_share = 1: must be from 0 to less"),
        (&format!("{PATH}aggregation_ms = -1\n{FLOW}"), "path.aggregation_ms = -1: must be 0 or more"),
        (&format!("{PATH}{FLOW}[[case]]\npath.rtt_ms = 1\n"), "a [[case]] has no name"),
        (&format!("{PATH}{FLOW}[[case]]\nname = \"a b\"\n"), "case.name = \"a b\": a name is letters"),
        (&format!("{PATH}{FLOW}[[case]]\nname = \"a\"\n[[case]]\nname = \"a\"\n"), "two cases are named a"),
        (
            &format!("{PATH}{FLOW}[[case]]\nname = \"a\"\nbackground.count = 1\n"),
            "case a: background: no such part; there are path, flow, deadline_s, visit_pause_s",
        ),
        (&format!("{PATH}{FLOW}[[case]]\nname = \"a\"\npath.loss = 2\n"), "case a: path.loss = 2: must be"),
        (&long, "more than 100000 scenarios: shorten a list"),
    ] {
        let error = parse_text(text).expect_err(text).to_string();
        assert!(error.contains(said), "{text}\nsays: {error}");
        assert!(error.starts_with("in dir/some.toml: ") && !error.contains('\n'), "{error}");
    }
}

#[test]
fn kinds_are_drawn_by_their_shares_with_values_of_their_own() {
    let text = format!(
        "{}path.rate_mbps = {{ log = [1, 100] }}\n\
         [[random.kind]]\nname = \"near\"\nshare = 3\npath.rtt_ms = {{ linear = [10, 20] }}\n\
         [[random.kind]]\nname = \"far\"\nshare = 1\npath.rtt_ms = 600\npath.loss = 0.1\n{PATH}{FLOW}",
        RANDOM.replace("40", "400")
    );
    let file = parse_text(&text).expect("a file that makes sense");
    let (far, near): (Vec<&Named>, Vec<&Named>) =
        file.scenarios.iter().partition(|named| named.parameters["kind"] == "far");
    assert!((70..130).contains(&far.len()), "{}", far.len());
    assert!(far.iter().all(|n| (n.scenario.path.rtt_ms, n.scenario.path.loss) == (600.0, 0.1)));
    let is_near = |n: &&Named| (10.0..20.0).contains(&n.scenario.path.rtt_ms);
    assert!(near.iter().all(is_near) && near[0].scenario.path.loss == 0.0);
    let rates: std::collections::BTreeSet<u64> =
        near.iter().map(|n| n.scenario.path.rate_mbps.to_bits()).collect();
    assert!(rates.len() > near.len() * 9 / 10, "{}", rates.len());
    assert!(far[0].name.contains(",kind=far,"), "{}", far[0].name);
}

#[test]
fn page_is_read_beside_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let har =
        r#"{"log": {"entries": [{"response": {"bodySize": 700}}, {"response": {"bodySize": 9}}]}}"#;
    std::fs::write(folder.path().join("a.har"), har).expect("written");
    let file = folder.path().join("mine.toml");
    let text = |flow: &str| {
        format!("title = \"t\"\nabout = \"a\"\n{PATH}[[flow]]\npage = \"a.har\"\n{flow}")
    };
    std::fs::write(&file, text("")).expect("written");
    let read_file = || read(file.to_str().expect("UTF-8"));
    let scenario = read_file().expect("a file that makes sense").scenarios.remove(0).scenario;
    let page = scenario.flows[0].page.as_ref().expect("a page");
    assert_eq!((&page.name[..], &page.objects[..]), ("a.har", &[700, 9][..]));
    assert_eq!(scenario.flows[0].each_bytes(&scenario.path), 709);
    for (key, said) in [
        ("object_bdp = 1", "flow has several sizes"),
        ("size_pareto = { shape = 1, most = 2 }", "flow.size_pareto and flow.page: a flow has one"),
    ] {
        std::fs::write(&file, text(key)).expect("written");
        let error = read_file().expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// Returns the file of a scenario beside a trace of the name.
fn with_trace(trace: &str, text: &str, path: &str) -> anyhow::Result<File> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join(trace), text)?;
    let file = folder.path().join("mine.toml");
    std::fs::write(&file, format!("title = \"t\"\nabout = \"a\"\n[path]\n{path}\n{FLOW}"))?;
    read(file.to_str().expect("UTF-8"))
}

#[test]
fn trace_is_read_beside_its_file_and_gives_rate_and_rtt() {
    let table = "time_ms,rate_mbps,rtt_ms\n0,10,40\n500,20,80\n1000,,\n";
    let file = with_trace("a.csv", table, "trace = \"a.csv\"").expect("a file that makes sense");
    let path = &file.scenarios[0].scenario.path;
    assert_eq!((path.rate_mbps, path.rtt_ms), (15.0, 60.0));
    let path = "trace = [\"a.csv\"]\nrtt_ms = [50, 60]\nrate_mbps = 1";
    let file = with_trace("a.csv", table, path).expect("a file that makes sense");
    let path = &file.scenarios[1].scenario.path;
    assert_eq!((path.rate_mbps, path.rtt_ms), (1.0, 60.0));
    assert_eq!(file.scenarios[1].name, "path.trace=a.csv,path.rtt_ms=60");
    assert_eq!(path.trace.as_ref().map(|file| file.trace.steps().len()), Some(2));
}

#[test]
fn bad_trace_is_one_line_with_file_and_line() {
    for (trace, text, path, named) in [
        ("a.down", "1\nx\n", "rtt_ms = 9\ntrace = \"a.down\"", "a.down, line 2: \"x\" is no"),
        ("a.down", "1\n", "trace = \"a.down\"", "path.rtt_ms is missing: say rtt_ms = 600"),
        (
            "a.csv",
            "time_ms,loss\n0,0\n",
            "rate_mbps = 1\nrtt_ms = 9\nloss = 0.1\ntrace = \"a.csv\"",
            "path.loss = 0.1: the trace has losses",
        ),
        ("a.csv", "", "trace = \"b.csv\"", "b.csv: cannot read the trace: "),
        ("a.csv", "", "trace = 5", "path.trace = 5: must be the name of a file in quotes"),
        (
            "a.down",
            "1\n",
            "rtt_ms = 9\ntrace = \"a.down\"\nswing.rate_share = 0.1",
            "path.trace, path.change and path.swing: a path has one of them",
        ),
    ] {
        let error = with_trace(trace, text, path).expect_err(named).to_string();
        assert!(error.contains(named) && error.lines().count() == 1, "{error}");
    }
}
