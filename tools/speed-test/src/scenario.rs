//! Paths of the simulator's scenario files, as far as link-emulator has them.
//!
//! Owns which settings become options of link-emulator, and which real processes do not have: an
//! error. Of flows only the size of the object counts, since speed-test has its own downloads.

use std::path::Path;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use serde_json::Map;
use serde_json::Value;
use sim::scenario;
use sim::scenario::file;
use sim::scenario::Flow;
use sim::scenario::Queue;
use sim::scenario::Scenario;

use crate::path::PathSpec;

/// Keys of a flow that speed-test needs not, or has options for.
const FLOW_KEYS: [&str; 9] = [
    "name",
    "mode",
    "cc",
    "object_bytes",
    "object_bdp",
    "total_bdp",
    "start_ms",
    "start_spread_ms",
    "saved",
];

/// Reads the paths of a scenario file, each of them once.
///
/// # Errors
///
/// One line that names the file, the key and the way out.
pub fn read(source: &str) -> Result<Vec<PathSpec>, String> {
    paths(source).map_err(|error| format!("{error:#}"))
}

fn paths(source: &str) -> anyhow::Result<Vec<PathSpec>> {
    let file = file::read(source)?;
    let mut paths: Vec<PathSpec> = Vec::new();
    for named in &file.scenarios {
        let path = path(&file, &named.scenario).with_context(|| format!("in {source}"))?;
        if !paths.iter().any(|other| is_same(other, &path)) {
            paths.push(path);
        }
    }
    for (number, path) in (1..).zip(&mut paths).skip(1) {
        path.name = format!("{}-{number}", path.name).into();
        path.title = format!("{}, path {number}", path.title).into();
    }
    Ok(paths)
}

fn is_same(a: &PathSpec, b: &PathSpec) -> bool {
    (a.rate_mbps, a.rtt_ms, a.own_buffer_bytes, a.object_bytes, &a.link_options)
        == (b.rate_mbps, b.rtt_ms, b.own_buffer_bytes, b.object_bytes, &b.link_options)
}

fn path(file: &file::File, scenario: &Scenario) -> anyhow::Result<PathSpec> {
    let Scenario { path, flows, .. } = scenario;
    let [flow] = flows.as_slice() else {
        bail!("flow {}: speed-test has one download at a time; leave it out", flows[1].name)
    };
    check_flow(flow)?;
    let object_bytes = flow.each_bytes(path);
    let link_options = link_options(&file.source, path)?;
    let is_steady = link_options.chunks(2).all(|option| STEADY.contains(&option[0].as_str()));
    let (rate_mbps, rtt_ms) = (path.rate_mbps, path.rtt_ms);
    Ok(PathSpec {
        name: file.stem.clone().into(),
        title: format!("{}: {rate_mbps} Mbit/s, {rtt_ms} ms, {object_bytes} bytes", file.stem)
            .into(),
        rate_mbps,
        rtt_ms,
        own_buffer_bytes: Some(sim::world::buffer_bytes(path)),
        object_bytes,
        link_options,
        is_steady,
        scenario: Some(file.source.clone()),
    })
}

/// Options with which a path has the bounds of its rate and RTT, and loses nothing but by a full
/// buffer.
const STEADY: [&str; 1] = ["--rate-up"];

fn check_flow(flow: &Flow) -> anyhow::Result<()> {
    let name = &flow.name;
    let settings = |flow: &Flow| match serde_json::to_value(flow) {
        Ok(Value::Object(settings)) => settings,
        _ => Map::new(),
    };
    let plain: Flow = serde_json::from_value(serde_json::json!({ "object_bytes": 1 }))?;
    let plain = settings(&plain);
    let others = settings(flow)
        .into_iter()
        .find(|(key, value)| !FLOW_KEYS.contains(&key.as_str()) && plain.get(key) != Some(value));
    if let Some((key, value)) = others {
        bail!("{name}.{key} = {value}: speed-test has no such downloads; leave it out");
    }
    Ok(())
}

/// Returns the options of link-emulator for all of a path but rate, RTT and buffer.
fn link_options(source: &str, path: &scenario::Path) -> anyhow::Result<Vec<String>> {
    for (key, is_set) in [("swing", path.swing.is_some()), ("handover", path.handover.is_some())] {
        ensure!(!is_set, "path.{key}: link-emulator has none; write a path.trace instead");
    }
    let mut options = Vec::new();
    let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
    if let Some(up_rate_mbps) = path.up_rate_mbps {
        add("--rate-up", up_rate_mbps.to_string());
    }
    match path.queue {
        Queue::DropTail => {}
        Queue::Codel => add("--queue", "codel".into()),
        Queue::Pie => add("--queue", "pie".into()),
        Queue::FqCodel => add("--queue", "fq-codel".into()),
        Queue::Step => {
            add("--queue", format!("step:{}", path.mark_above_ms.unwrap_or_default()));
        }
        Queue::Dualpi2 => bail!(
            "path.queue = \"dualpi2\": link-emulator has drop-tail, codel, fq-codel, pie and step"
        ),
    }
    let ecn = serde_json::to_value(path.ecn)?;
    if let Some(handling) = ecn.as_str().filter(|handling| *handling != "pass") {
        add("--ecn", handling.into());
    }
    if path.loss > 0.0 {
        add("--loss", path.loss.to_string());
    }
    if let Some(burst) = path.burst {
        add("--burst-loss", format!("{},{},{}", burst.enter, burst.leave, burst.loss));
    }
    if let Some(policer) = path.policer {
        add("--policer", format!("{},{}", policer.rate_mbps, policer.burst_bytes));
    }
    if path.longest_jitter_ms() > 0.0 {
        add("--jitter", path.longest_jitter_ms().to_string());
    }
    if path.aggregation_ms > 0.0 {
        add("--aggregation", path.aggregation_ms.to_string());
    }
    if path.ack_thinning > 1 {
        add("--ack-thinning", path.ack_thinning.to_string());
    }
    for change in &path.changes {
        let value = |name: &str, value: Option<f64>| value.map(|value| format!("{name}={value}"));
        let changed = [
            value("rate", change.rate_mbps),
            value("rtt", change.rtt_ms),
            value("loss", change.loss),
        ];
        let changed: Vec<String> = changed.into_iter().flatten().collect();
        add("--at", format!("{}ms:{}", change.at_ms, changed.join(",")));
    }
    if let Some(file) = &path.trace {
        let folder = Path::new(source).parent().unwrap_or(Path::new(""));
        add("--path-trace", folder.join(&file.name).display().to_string());
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<PathSpec>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.csv"), "time_ms,rate_mbps\n0,10\n50,0\n90\n")
            .expect("a trace");
        let file = folder.path().join("mine.toml");
        std::fs::write(&file, format!("title = \"t\"\nabout = \"a\"\n{text}")).expect("a file");
        read(&file.display().to_string())
    }

    #[test]
    fn path_of_a_scenario_becomes_options_of_link_emulator() {
        let paths = read_text(
            "[path]\nrate_mbps = [20, 50]\nrtt_ms = 40\nbuffer_bdp = 2\nup_rate_mbps = 5\nloss = 0.01\n\
             jitter_ms = 3\naggregation_ms = 4\nack_thinning = 4\nqueue = \"fq-codel\"\n\
             [[path.change]]\nat_ms = 500\nrate_mbps = 0\n[[path.change]]\nat_ms = 700\nrate_mbps = 9\n\
             [[flow]]\nmode = [\"slow-start\", \"careful-resume\"]\nobject_bdp = 4\n",
        )
        .expect("paths");
        let names: Vec<&str> = paths.iter().map(|path| path.name.as_ref()).collect();
        assert_eq!(names, ["mine", "mine-2"]);
        let first = &paths[0];
        assert_eq!((first.rate_mbps, first.rtt_ms, first.object_bytes), (20.0, 40.0, 400_000));
        assert_eq!((first.buffer_bytes(), first.is_steady), (200_000, false));
        assert_eq!(
            first.link_options.join(" "),
            "--rate-up 5 --queue fq-codel --loss 0.01 --jitter 3 --aggregation 4 --ack-thinning 4 \
             --at 500ms:rate=0 --at 700ms:rate=9"
        );
        assert!(first.option().ends_with("mine.toml"), "{}", first.option());
    }

    #[test]
    fn trace_is_found_beside_its_scenario() {
        let text = "[path]\nrtt_ms = 40\ntrace = \"a.csv\"\n[[flow]]\nobject_bytes = 9000000\n";
        let paths = read_text(text).expect("a path");
        let [option, file] = paths[0].link_options.as_slice() else { panic!("{paths:?}") };
        assert_eq!(option, "--path-trace");
        assert!(file.ends_with("/a.csv") && file.len() > "/a.csv".len(), "{file}");
        assert!(!paths[0].is_steady);
    }

    #[test]
    fn steady_path_is_judged() {
        let text =
            "[path]\nrate_mbps = 20\nrtt_ms = 40\nup_rate_mbps = 9\n[[flow]]\nobject_bdp = 4\n";
        assert!(read_text(text).expect("a path")[0].is_steady);
    }

    #[test]
    fn what_real_processes_do_not_have_is_one_line() {
        let path = "[path]\nrate_mbps = 20\nrtt_ms = 40\n";
        let flow = "[[flow]]\nobject_bdp = 1\n";
        for (text, named) in [
            (format!("{path}swing.rtt_share = 0.1\n{flow}"), "path.swing: link-emulator has none"),
            (format!("{path}handover.every_ms = 900\n{flow}"), "path.handover: link-emulator"),
            (format!("{path}queue = \"dualpi2\"\n{flow}"), "path.queue = \"dualpi2\""),
            (
                format!("{path}{flow}name = \"a\"\n{flow}name = \"b\"\n"),
                "flow b: speed-test has one",
            ),
            (format!("{path}{flow}count = 3\n"), "flow.count = 3: speed-test has no such"),
            (format!("{path}{flow}access_mbps = 3\n"), "flow.access_mbps = 3.0: speed-test"),
            (format!("[path]\nrate_mbps = 0\nrtt_ms = 9\n{flow}"), "path.rate_mbps = 0"),
        ] {
            let error = read_text(&text).expect_err(named);
            assert!(error.contains(named) && error.contains("mine.toml"), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
