//! Tests of the evaluation.

use super::*;
use crate::scenario::file;
use crate::scenario::Mode;

/// Those of some hundred subnets, of every kind.
const NODE_SCENARIOS: usize = 4 * 100;

/// Returns the scenario files with few runs, but for those that need many.
fn files() -> Vec<File> {
    let mut files = shipped::all().expect("files that make sense");
    for file in &mut files {
        file.runs = file.runs.min(match file.stem.as_str() {
            "dual-queue" => 20,
            stem if stem == "fairness" || stem.ends_with("neighbours") => 30,
            _ => 2,
        });
    }
    let node = files.iter_mut().find(|file| file.stem == "node").expect("a file");
    node.scenarios.truncate(NODE_SCENARIOS);
    files
}

fn outcomes(files: &[File]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = files.iter().flat_map(fake::outcomes).collect();
    publish(&mut outcomes);
    overshoot(&mut outcomes);
    outcomes
}

/// Lets one condition of each published case give the published medians.
fn publish(outcomes: &mut [Outcome]) {
    for (case, slow_ms, careful_ms) in
        [("GEO", 19_300.0, 12_300.0), ("LEO", 2700.0, 1700.0), ("terrestrial", 1400.0, 1100.0)]
    {
        let is = |o: &&mut Outcome| o.scenario == "published" && o.parameters["case"] == case;
        for outcome in outcomes.iter_mut().filter(is) {
            let flow = &mut outcome.flows[0];
            // Not below the bound.
            flow.ttlb_ms = flow.ttlb_ms.max(match flow.mode {
                Mode::SlowStart => slow_ms,
                Mode::CarefulResume => careful_ms,
            });
        }
    }
}

/// Lets slow start exceed the path, with Careful Resume and without.
fn overshoot(outcomes: &mut [Outcome]) {
    for outcome in outcomes.iter_mut().filter(|o| o.scenario == "overshoot") {
        outcome.flows[0].dropped_packets = 100 + u64::from(outcome.run % 5);
    }
}

/// A rule, the terms that find some outcomes, and what to do with these.
type RuleBreak<'a> = (&'a str, &'a [&'a str], &'a dyn Fn(&mut Outcome));

/// Returns the breaches after `change` of some runs.
fn breaches(terms: &[&str], change: impl Fn(&mut Outcome)) -> Vec<String> {
    changed(terms, change).breaches().collect()
}

/// Returns those of the files alone that have outcomes with all of `terms`; that others are missing
/// is one, too.
fn breaches_of_file(terms: &[&str], change: impl Fn(&mut Outcome)) -> Vec<String> {
    let is_of = |file: &File| {
        let said = |named: &file::Named| format!("{} {:?}", file.stem, named.parameters);
        file.scenarios.iter().any(|named| terms.iter().all(|term| said(named).contains(term)))
    };
    let files = files().into_iter().filter(is_of).collect();
    let evaluation = changed_of(files, terms, change);
    // Known misses count here.
    let missed = evaluation.verdicts.iter().filter(|verdict| verdict.known.is_some());
    let missed = missed.flat_map(|v| v.missed.iter().map(|line| format!("{}: {line}", v.rule)));
    evaluation.breaches().chain(missed).collect()
}

/// Returns the evaluation after `change` of every run whose scenario and parameters hold
/// all of `terms`.
fn changed(terms: &[&str], change: impl Fn(&mut Outcome)) -> Evaluation {
    changed_of(files(), terms, change)
}

fn changed_of(files: Vec<File>, terms: &[&str], change: impl Fn(&mut Outcome)) -> Evaluation {
    let mut outcomes = outcomes(&files);
    let mut changed = 0;
    for outcome in &mut outcomes {
        let said = format!("{} {:?}", outcome.scenario, outcome.parameters);
        if terms.iter().all(|term| said.contains(term)) {
            change(outcome);
            changed += 1;
        }
    }
    assert!(changed > 0, "nothing has {terms:?}");
    report_of(&files, &outcomes).expect("reported")
}

#[test]
fn good_outcomes_break_no_rule() {
    let files = files();
    let evaluation = report_of(&files, &outcomes(&files)).expect("reported");
    assert_eq!(evaluation.breaches().collect::<Vec<_>>(), [""; 0]);
    assert!(evaluation.html.contains("rules are met"));
}

/// Makes the first flow's bottleneck drop `bdp` BDPs more.
fn drop(bdp: f64) -> impl Fn(&mut Outcome) {
    move |outcome| {
        let packets = bdp * outcome.rate_mbps * 125.0 * outcome.rtt_ms / 1350.0;
        outcome.flows[0].dropped_packets += packets.ceil() as u64;
    }
}

/// Breaks every rule: the terms find some outcomes, and the change breaks the rule.
#[test]
fn rule_is_broken_by_what_it_forbids() {
    const CAREFUL: &str = "\"careful-resume\"";
    const CAREFUL_CASE: &str = "-careful-resume\"";
    const CAREFUL_START: &str = "String(\"careful-resume\")";
    let share = |ratio: f64| {
        move |o: &mut Outcome| {
            let bytes = o.flows[1].share_bytes.unwrap_or(0) as f64 * ratio;
            o.flows[0].share_bytes = Some(bytes as u64);
        }
    };
    let slow_down = |factor: f64| move |o: &mut Outcome| o.flows[0].ttlb_ms *= factor;
    let delay = |rtts: f64| move |o: &mut Outcome| o.flows[0].ttlb_ms += rtts * o.flows[0].rtt_ms;
    let retreat = |o: &mut Outcome| o.flows[0].phases[2].1 = "safe_retreat".into();
    let jump = |o: &mut Outcome| o.flows[0].jump_cwnd_bytes = Some(1);
    let lose = |packets: u64| move |o: &mut Outcome| o.flows[0].lost_packets += packets;
    let drop_packets = |packets: u64| move |o: &mut Outcome| o.flows[0].dropped_packets += packets;
    let drop_bytes = |o: &mut Outcome| o.flows[0].dropped_bytes += 100_000_000;
    let lose_more = |o: &mut Outcome| {
        for flow in o.flows.iter_mut().filter(|f| f.name == "background") {
            flow.lost_packets += flow.sent_packets / 500;
        }
    };

    let slow_down_all = |times: f64| {
        move |o: &mut Outcome| o.flows.iter_mut().for_each(|flow| flow.ttlb_ms *= times)
    };

    let rules: [RuleBreak; 66] = [
        ("fluid bound", &["dynamics", "steady", "cubic", "slow-start"], &slow_down(0.99)),
        ("CUBIC: at least 3 RTTs", &["objects", "GEO", "Number(20)", CAREFUL], &delay(2.9)),
        ("CUBIC, GEO, 3.75 MB: at most 0.64", &["paths", "GEO-3.75MB", CAREFUL], &slow_down(1.5)),
        ("CUBIC, GEO, 10 MB: at most 0.64", &["paths", "GEO-10MB", CAREFUL], &slow_down(1.3)),
        ("CUBIC, LEO, 0.75 MB: at most 0.63", &["paths", "LEO-0.75MB", CAREFUL], &slow_down(1.5)),
        ("CUBIC, terrestrial, 0.25 MB", &["paths", "terrestrial-0.25MB", CAREFUL], &slow_down(1.5)),
        ("paths: Careful Resume is slower", &["paths", "LEO-5MB", CAREFUL], &slow_down(2.0)),
        ("grid: Careful Resume is slower", &["grid", "Number(1)", CAREFUL], &slow_down(3.0)),
        ("objects: Careful Resume is slower", &["objects", "fibre", CAREFUL], &slow_down(3.0)),
        ("buffers: a jump", &["buffers", "LEO", CAREFUL], &retreat),
        ("with HyStart++, at most", &["overshoot", "\"hystart\"", CAREFUL], &drop_packets(30)),
        ("without HyStart++, at most", &["overshoot", "\"none\"", CAREFUL], &drop_packets(30)),
        ("overshoot: a jump", &["overshoot", CAREFUL], &retreat),
        ("changed: at most 2 RTTs", &["changed", "LEO", CAREFUL], &slow_down(3.0)),
        ("ceiling: no more", &["ceiling", "LEO", "\"ceiling\""], &drop_packets(1)),
        ("loses nothing in any run before", &["paths", "GEO-10MB", CAREFUL], &|o| {
            o.flows[0].dropped_before_validated_packets = Some(1);
        }),
        ("paths: in all", &["paths", "GEO-10MB", "cubic", CAREFUL], &drop_bytes),
        ("grid: in all", &["grid", "Number(1)", CAREFUL], &drop_bytes),
        ("objects: in all", &["objects", "fibre", CAREFUL], &drop_bytes),
        ("buffers: in all", &["buffers", "LEO", "Number(0.25)", CAREFUL], &drop_bytes),
        ("changed, what fits: in all", &["changed", "LEO", CAREFUL], &drop_bytes),
        ("recovery: in all", &["recovery", CAREFUL], &drop_bytes),
        ("nothing-saved: in all", &["nothing-saved", "GEO", CAREFUL], &drop_bytes),
        ("nothing-saved: nothing jumps", &["nothing-saved", "GEO", CAREFUL], &jump),
        ("nothing-saved: at most", &["nothing-saved", "GEO", CAREFUL], &slow_down(1.011)),
        ("live: Careful Resume is slower", &["live", "P14", CAREFUL], &slow_down(4.0)),
        ("node: visits take no longer", &["node", "GEO", CAREFUL_START], &slow_down_all(2.0)),
        ("node: at most one visit of", &["node", "LEO", CAREFUL_START], &slow_down_all(4.0)),
        ("node: at most one jump of fifty", &["node", "5G", CAREFUL_START], &|o| {
            o.flows.iter_mut().for_each(|flow| flow.phases[2].1 = "safe_retreat".into());
        }),
        ("node: the path drops", &["node", "cable", CAREFUL_START], &drop_bytes),
        ("steady: slow start loses at most", &["steady", "default", "slow-start"], &drop(0.25)),
        ("steady: Careful Resume loses at most", &["steady", "default", CAREFUL], &drop(0.08)),
        ("jittery: Careful Resume loses at most", &["jittery", "default", CAREFUL], &drop(0.06)),
        (
            "jittery: Careful Resume takes nowhere",
            &["jittery", "default", CAREFUL],
            &slow_down(3.0),
        ),
        ("what it takes unrestrained", &["random-steady", "default", CAREFUL], &slow_down(1.1)),
        ("visits: the third", &["visits", "GEO", "Bool(true)", "Number(1)"], &|o| {
            o.flows[2].ttlb_ms *= 1.06;
        }),
        ("recovery: the mean", &["recovery", CAREFUL], &slow_down(3.0)),
        ("fairness: background", &["fairness", "\"careful-resume\"", "Number(16)"], &lose_more),
        ("neighbours: background", &["neighbours", "60-ms", "\"careful-resume\""], &lose_more),
        ("bbr2-neighbours: background", &["bbr2-neighbours", "among-cubic", CAREFUL], &lose_more),
        ("bbr2, GEO-3.75MB: at most", &["GEO-3.75MB", "\"bbr2\"", CAREFUL], &slow_down(1.1)),
        ("bbr2, 500M-6.25MB: at most", &["500M", "\"bbr2\"", CAREFUL], &slow_down(1.1)),
        ("bbr2: slow start takes", &["GEO-3.75MB", "\"bbr2\"", "slow-start"], &slow_down(1.1)),
        ("bbr2: nothing is lost", &["GEO-10MB", "\"bbr2\"", CAREFUL], &drop_packets(1)),
        ("bbr2: Careful Resume is slower", &["LEO-5MB", "\"bbr2\"", CAREFUL], &slow_down(2.0)),
        ("ecn: nothing is lost", &["ecn {", "codel", "\"on\""], &lose(1)),
        ("ecn: every jump that the step", &["step-refused", "\"on\"", CAREFUL], &|o| {
            o.flows[0].phases.clear();
        }),
        ("ecn: a marked jump", &["codel-refused", "\"on\"", CAREFUL], &slow_down(2.0)),
        ("ecn: marks cost at most", &["bleached", "\"on\"", CAREFUL], &slow_down(1.01)),
        ("ecn-neighbours: background", &["ecn-neighbours", "one-marks", CAREFUL], &lose_more),
        ("dual-queue: a flow of L4S has at most", &["share-200M-20ms"], &share(2.1)),
        ("dual-queue: a flow of L4S has at least", &["share-20M-80ms"], &share(0.45)),
        ("dual-queue: beside L4S over CoDel", &["codel-20M-80ms\""], &share(4.0)),
        ("dual-queue: packets of L4S wait", &["share-200M-5ms"], &|o| {
            o.l4s_wait_p99_ms = Some(2.1);
        }),
        ("dual-queue: a flow with Careful Resume jumps", &["jump-ecn", CAREFUL_CASE], &lose(1)),
        ("dual-queue: background", &["jump-classic", CAREFUL_CASE], &lose_more),
        ("dual-queue, L4S: background", &["jump-l4s", CAREFUL_CASE], &lose_more),
        ("dual-queue: background flows of L4S get", &["jump-l4s", CAREFUL_CASE], &|o| {
            for flow in o.flows.iter_mut().filter(|f| f.name == "background") {
                flow.marked_packets = flow.marked_packets.map(|m| m + flow.sent_packets / 50);
            }
        }),
        ("changed: an RTT of less", &["changed", "Number(4)", CAREFUL], &jump),
        ("dynamics: Careful Resume is", &["dynamics", "codel", CAREFUL], &slow_down(3.0)),
        ("swinging: by 0.2 RTTs", &["swinging", "Number(0.1)", "\"queue\""], &slow_down(1.3)),
        ("swinging: by 0.3 RTTs", &["swinging", "Number(0.3)", "\"queue\""], &slow_down(1.6)),
        ("swinging: a queue as the exit loses", &["swinging", "\"queue\""], &drop(1.0)),
        ("lossy: Careful Resume is slower", &["lossy", "fibre", CAREFUL], &slow_down(3.0)),
        ("lossy: Careful Resume takes less", &["lossy", "fibre", "reno", CAREFUL], &slow_down(3.0)),
        ("P6, LEO: conditions", &["published", "LEO", "slow-start"], &slow_down(3.0)),
    ];
    for (rule, terms, change) in rules {
        let found = breaches_of_file(terms, change);
        assert!(found.iter().any(|line| line.contains(rule)), "{rule}: {found:?}");
    }
}

#[test]
fn grid_rule_is_broken_by_gain_of_smaller_path() {
    let found = breaches(&["grid", "Number(100)", "Number(400)", "careful-resume"], |o| {
        o.flows[0].ttlb_ms *= 1.4;
    });
    assert!(found.iter().any(|line| line.contains("does not fall")), "{found:?}");

    // max_jump is the limit from 200 Mbit/s and 800 ms on.
    let found = breaches(&["grid", "Number(500)", "Number(800)", "careful-resume"], |o| {
        o.flows[0].ttlb_ms *= 1.3;
    });
    assert_eq!(found, [""; 0]);
}

/// Aims, the terms that find some outcomes, and what to do with them.
#[test]
fn missed_aim_is_reported_and_breaks_nothing() {
    const CAREFUL: &str = "\"careful-resume\"";
    let lose = |o: &mut Outcome| {
        o.flows.iter_mut().for_each(|f| f.lost_packets = f.lost_packets * 11 / 10);
    };
    let slow_down = |o: &mut Outcome| o.flows.iter_mut().for_each(|f| f.ttlb_ms *= 2.0);
    let delay = |o: &mut Outcome| o.flows[0].ttlb_ms += 2.9 * o.flows[0].rtt_ms;
    let aims: [RuleBreak; 12] = [
        ("1 flows, 50 Mbit/s", &["fairness", CAREFUL, "Number(1)", "Number(50)"], &lose),
        ("GEO, CUBIC, 1 BDP saved, HyStart++", &["overshoot", CAREFUL, "\"hystart\""], &|o| {
            o.flows[0].dropped_packets = o.flows[0].dropped_packets * 12 / 10;
        }),
        ("Reno: at least 3 RTTs", &["paths", "GEO-3.75MB", "reno", CAREFUL], &delay),
        ("Reno, GEO, 3.75 MB", &["paths", "GEO-3.75MB", "reno", CAREFUL], &slow_down),
        ("loses nothing in all", &["paths", "GEO-10MB", CAREFUL], &|o| {
            o.flows[0].dropped_packets = 1;
        }),
        ("at most 5 % longer", &["overshoot", "\"hystart\"", CAREFUL], &|o| {
            o.flows[0].ttlb_ms *= 1.1;
        }),
        ("exits, LEO: SEARCH is right", &["exits", "LEO", "search-3"], &|o| {
            o.flows[0].full_ms = None;
        }),
        ("jittery: slow start loses nothing", &["jittery", "default", "slow-start"], &drop(0.01)),
        ("steady: Careful Resume loses over", &["steady", "default", CAREFUL], &drop(0.051)),
        ("steady: slow start takes at most", &["steady", "default", "slow-start"], &|o| {
            o.flows[0].ttlb_ms *= 1.04;
        }),
        ("by the rules of RFC 9959", &["dynamics", "one-subnet", CAREFUL], &slow_down),
        ("by the rules of RFC 9959", &["dynamics", "rtt-falls", CAREFUL], &slow_down),
    ];
    for (aim, terms, change) in aims {
        let evaluation = changed(terms, change);
        assert_eq!(evaluation.breaches().collect::<Vec<_>>(), [""; 0], "{aim}");
        assert!(evaluation.html.contains("Missed aim: "), "{aim}");
        let misses = |v: &&Verdict| {
            let of_aim = |line: &String| format!("{}: {line}", v.rule).contains(aim);
            v.missed.iter().any(of_aim)
        };
        assert!(evaluation.verdicts.iter().any(|v| misses(&v)), "{aim} in {}", evaluation.text);
    }
}

#[test]
fn missing_run_is_a_breach() {
    let files = files();
    let all = outcomes(&files);
    let after = |outcomes: Vec<Outcome>| {
        let evaluation = report_of(&files, &outcomes).expect("reported");
        evaluation.breaches().collect::<Vec<_>>()
    };
    let without =
        |gone: &dyn Fn(&Outcome) -> bool| after(all.iter().filter(|o| !gone(o)).cloned().collect());

    let nothing = after(Vec::new());
    for file in &files {
        assert!(nothing.iter().any(|line| line.contains(&file.stem)), "{}", file.stem);
        let found = without(&|o| o.scenario == file.stem);
        assert!(found.iter().any(|line| line.contains("every scenario")), "{found:?}");
    }
    let found = without(&|o| o.scenario == "recovery" && o.run == 2 && o.rate_mbps == 100.0);
    assert!(found[0].contains("1 of 2 runs"), "{found:?}");
    let found = without(&|o| o.scenario == "fairness" && o.run > 29);
    assert!(found.iter().any(|line| line.contains("29 runs are less than 30")), "{found:?}");
}

#[test]
fn outcome_of_no_scenario_is_a_breach() {
    let found = breaches(&["paths", "GEO-10MB"], |o| o.scenario = "elsewhere".into());
    assert!(found.iter().any(|line| line.contains("of no scenario")), "{found:?}");
}

#[test]
fn chapter_without_its_file_is_a_breach() {
    let files: Vec<File> = files().into_iter().filter(|f| f.stem != "grid").collect();
    let evaluation = report_of(&files, &outcomes(&files)).expect("reported");
    let found: Vec<String> = evaluation.breaches().collect();
    assert!(found[0].contains("grid: there is no such"), "{found:?}");
}

/// Checks that nobody removes what the papers require from the files.
#[test]
fn scenario_files_cover_what_was_published() {
    let files = shipped::all().expect("files that make sense");
    let of = |stem: &str| files.iter().find(|f| f.stem == stem).expect(stem);
    let has = |stem: &str, terms: &str| {
        assert!(of(stem).scenarios.iter().any(|s| s.matches(terms)), "{stem}: {terms}");
    };
    for rate in ["1", "1000"] {
        for rtt in ["5", "800"] {
            has("grid", &format!("path.rate_mbps={rate},path.rtt_ms={rtt}"));
        }
    }
    for path in ["fibre", "5G", "GEO"] {
        has("objects", &format!("{path},flow.object_bdp=0.25"));
        has("objects", &format!("{path},flow.object_bdp=20"));
    }
    for terms in ["flow.saved.cwnd_bdp=0.1", "flow.saved.cwnd_bdp=10"] {
        has("changed", terms);
    }
    for terms in ["flow.saved.rtt_ratio=4", "flow.saved.rtt_ratio=0.05"] {
        has("changed", terms);
    }
    for count in [1, 2, 4, 8, 16] {
        for case in ["baseline", "slow-start", "careful-resume"] {
            has("fairness", &format!("{case},background.count={count}"));
        }
    }
    has("buffers", "path.buffer_bdp=0.25");
    has("buffers", "path.buffer_bdp=4");
    has("overshoot", "flow.slow_start_exit=none");
    assert!(of("fairness").runs >= 50);
    for file in &files {
        // Each random path is a draw of its own: intervals are over paths.
        let draws = file.scenarios[0].parameters.contains_key("draw");
        assert!(file.runs >= 20 || draws, "{}", file.stem);
        for named in &file.scenarios {
            assert!(named.scenario.path.longest_jitter_ms() >= 0.5, "{} {}", file.stem, named.name);
        }
    }
}

#[test]
fn page_is_complete_and_fetches_nothing() {
    let files = files();
    let evaluation = report_of(&files, &outcomes(&files)).expect("reported");
    for file in &files {
        assert!(evaluation.html.contains(&report::page::escape(&file.title)), "{}", file.title);
    }
    for part in [
        "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14",
        "P16", "P17",
    ] {
        for text in [&evaluation.html, &evaluation.text] {
            assert!(text.contains(&format!("{part},")), "{part}");
        }
    }
    let places = ["P1,", "P2,", "P3,", "P4,", "P8,", "P9,", "P10,", "P11,", "P14,"]
        .map(|p| evaluation.text.find(p));
    assert!(places.is_sorted(), "in the order of their numbers");
    for word in ["src=", "href=\"h", "@import", "url(", "<script", "NaN", "inf<"] {
        let around = |at: usize| evaluation.html[..at].chars().rev().take(200).collect::<Vec<_>>();
        let before = evaluation.html.find(word).map(around);
        let before = before.map(|all| all.into_iter().rev().collect::<String>());
        assert_eq!(before, None, "{word}");
    }
}

/// Checks the evaluation's rules on the first small paths of its chapters.
#[test]
fn random_paths_obey_the_rules() {
    const PATHS: usize = 100;
    const PACKETS_MAX: u64 = 3_000;

    for stem in ["random-steady", "random-jittery"] {
        let mut file = shipped::find(stem).expect("a shipped file");
        file.runs = 1;
        file.scenarios.retain(|named| named.scenario.data_packets() <= PACKETS_MAX);
        let draw = |named: &file::Named| named.parameters["draw"].as_u64();
        let last = file.scenarios.chunk_by(|a, b| draw(a) == draw(b)).nth(PATHS);
        let last = draw(&last.expect("so many small paths")[0]);
        file.scenarios.retain(|named| draw(named) < last);

        let run = |named: &file::Named| Outcome {
            scenario: file.stem.clone(),
            parameters: named.parameters.clone(),
            run: 1,
            ..crate::world::run(&named.scenario, 1).expect("a run that obeys every rule")
        };
        let outcomes: Vec<Outcome> = file.scenarios.iter().map(run).collect();
        let lost_bdp = outcomes.iter().filter(|o| o.parameters["flow.mode"] == "careful-resume");
        let lost_bdp = lost_bdp
            .filter(|o| o.parameters["case"] == "default")
            .map(|o| o.flows[0].dropped_bytes as f64 / (o.rate_mbps * 125.0 * o.rtt_ms));
        let lost_bdp = report::stats::mean(&lost_bdp.collect::<Vec<_>>()).expect("paths");
        assert!(lost_bdp.value <= 0.08, "{stem}: {lost_bdp:?}");
        let evaluation = report_of(&[file], &outcomes).expect("reported");
        // Intervals of so few paths are wide.
        let other = |rule: &str| ["300 paths", "at most"].iter().any(|words| rule.contains(words));
        let judged = |rule: &str| rule.starts_with("random paths") && !other(rule);
        for verdict in evaluation.verdicts.iter().filter(|v| judged(&v.rule)) {
            assert!(verdict.is_met(), "{verdict:?}");
        }
    }
}

#[test]
fn rule_judges_the_mean_of_like_flows() {
    let files = files();
    let outcomes = outcomes(&files);
    let dynamics = files.iter().find(|f| f.stem == "dynamics").expect("the file");
    let mut of_dynamics: Vec<Outcome> =
        outcomes.into_iter().filter(|o| o.scenario == "dynamics").collect();
    for outcome in &mut of_dynamics {
        for (flow, ms) in outcome.flows.iter_mut().zip([100.0, 200.0, 300.0, 400.0]) {
            flow.ttlb_ms = ms;
        }
    }
    let chapter = Chapter::new(dynamics, &of_dynamics);
    let of =
        |case: &str| chapter.cells.iter().find(|c| c.parameter("case") == case).expect("the case");
    assert_eq!(of("one-subnet").ttlb_ms(), 250.0);
    assert_eq!(of("steady").ttlb_ms(), 100.0);
}
