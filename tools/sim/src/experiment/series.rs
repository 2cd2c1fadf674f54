//! One run over time, from its traces: window, bytes in flight, queue, RTT and losses.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::ensure;
use anyhow::Context;
use report::chart::axis::Unit;
use report::chart::curves;
use report::chart::palette::PHASES;
use report::chart::style::SERIES;
use report::chart::Curves;
use report::chart::NumberCurve;
use report::chart::Stretch;
use report::page::escape;
use report::page::figure;
use report::qlog;
use report::qlog::Sample;
use report::timeline::Timeline;

use crate::outcome::Outcome;
use crate::trace;

/// Points of the queue, at most.
const QUEUE_POINTS_MAX: f64 = 600.0;

/// Returns where `sim run --trace` puts the traces of a run.
pub fn folder(outcome: &Outcome, traces: &Path) -> PathBuf {
    trace::folder_of(traces, &outcome.scenario, &name(outcome), outcome.seed)
}

/// Returns the scenario's name, as its file has it.
fn name(outcome: &Outcome) -> String {
    let say = |(key, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::String(text) => format!("{key}={text}"),
        other => format!("{key}={other}"),
    };
    outcome.parameters.iter().map(say).collect::<Vec<_>>().join(",")
}

/// The flows of a run over time.
struct TracedRun<'a> {
    outcome: &'a Outcome,
    /// By flow; times are since the start of the run.
    flows: Vec<(String, Timeline)>,
    end_ms: f64,
}

/// Returns the figures of a run whose traces are in `folder`.
///
/// # Errors
///
/// A trace cannot be read, or a figure cannot be drawn.
pub fn html(outcome: &Outcome, folder: &Path) -> anyhow::Result<String> {
    let run = TracedRun::read(outcome, folder)?;
    let title = match name(outcome) {
        name if name.is_empty() => format!("seed {}", outcome.seed),
        name => format!("{name}, seed {}", outcome.seed),
    };
    let mut html = format!("<h3>{}</h3>\n", escape(&title));
    let mut add = |words: &str, class: &str, svg: String| {
        html += &format!("<div class=\"{class}\">{}</div>\n", figure(words, &svg));
    };
    let words = format!(
        "Window and bytes in flight of flow \"{}\"; its phases are shaded if it is to resume.",
        run.flows[0].0
    );
    // The shades are for dark text.
    add(&words, "light", run.window()?);
    let in_flight = run.of_flows("in flight (kB)", |s| Some(s.bytes_in_flight as f64 / 1e3))?;
    add("Bytes in flight of all flows.", "", in_flight);
    add("The queue at the bottleneck.", "", run.queue(folder)?);
    add("Round-trip times.", "", run.of_flows("RTT (ms)", |s| s.rtt_ms)?);
    let lost = run.of_flows("lost packets", |s| Some(s.lost_packets as f64))?;
    add("Packets that were declared lost, up to each time.", "", lost);
    Ok(html)
}

impl<'a> TracedRun<'a> {
    fn read(outcome: &'a Outcome, folder: &Path) -> anyhow::Result<Self> {
        let mut flows = Vec::new();
        for (index, flow) in outcome.flows.iter().take(SERIES.len()).enumerate() {
            let log = qlog::read(&folder.join(format!("server-{index}.sqlog")))?;
            let mut timeline = Timeline::new(&log);
            let begin_ms = flow.start_ms + flow.accepted_ms;
            timeline.samples.iter_mut().for_each(|sample| sample.time_ms += begin_ms);
            timeline.phases.iter_mut().for_each(|phase| phase.0 += begin_ms);
            let like = outcome.flows.iter().filter(|other| other.name == flow.name).count();
            let name = if like > 1 { format!("{} {index}", flow.name) } else { flow.name.clone() };
            flows.push((name, timeline));
        }
        ensure!(!flows.is_empty(), "a run without flows in {}", folder.display());
        let ends = flows.iter().map(|(_, timeline)| timeline.end_ms());
        let end_ms = ends.fold(1.0, f64::max);
        Ok(Self { outcome, flows, end_ms })
    }

    /// Draws the first flow, from its start to its end.
    fn window(&self) -> anyhow::Result<String> {
        let (_, timeline) = &self.flows[0];
        let start_ms = self.outcome.flows[0].start_ms;
        let of = |value: fn(&Sample) -> u64| {
            let point = |s: &Sample| (s.time_ms - start_ms, value(s) as f64 / 1e3);
            timeline.samples.iter().map(point).collect()
        };
        let end_ms = timeline.end_ms() - start_ms;
        let ends = timeline.phases.iter().skip(1).map(|phase| phase.0 - start_ms).chain([end_ms]);
        let stretch = |((from, name, _), to): (&(f64, String, Option<String>), f64)| Stretch {
            from: (from - start_ms).min(end_ms),
            to: to.min(end_ms),
            name: name.clone(),
            shade: PHASES.iter().find(|s| s.0 == name).map_or(PHASES[4].1, |s| s.1),
        };
        let curve = |name: &str, points| NumberCurve { name: name.into(), points };
        curves(&Curves {
            x_title: "time since the client's first packet".into(),
            x_unit: Unit::of_time(end_ms),
            x_end: end_ms * 1.02,
            y_title: "kB".into(),
            curves: vec![
                curve("bytes in flight", of(|s| s.bytes_in_flight)),
                curve("congestion window", of(|s| s.congestion_window)),
            ],
            stretches: timeline.phases.iter().zip(ends).map(stretch).collect(),
        })
    }

    fn of_flows(
        &self,
        y_title: &str,
        value: impl Fn(&Sample) -> Option<f64>,
    ) -> anyhow::Result<String> {
        let curve = |(name, timeline): &(String, Timeline)| NumberCurve {
            name: name.clone(),
            points: timeline
                .samples
                .iter()
                .filter_map(|sample| Some((sample.time_ms, value(sample)?)))
                .collect(),
        };
        self.chart(y_title, self.flows.iter().map(curve).collect())
    }

    fn queue(&self, folder: &Path) -> anyhow::Result<String> {
        let file = folder.join("queue.csv");
        let text =
            fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let points = queue_points(&text, self.end_ms / QUEUE_POINTS_MAX);
        self.chart("queue (kB)", vec![NumberCurve { name: String::new(), points }])
    }

    fn chart(&self, y_title: &str, drawn: Vec<NumberCurve>) -> anyhow::Result<String> {
        curves(&Curves {
            x_title: "time since the start of the run".into(),
            x_unit: Unit::of_time(self.end_ms),
            x_end: self.end_ms * 1.02,
            y_title: y_title.into(),
            curves: drawn,
            stretches: vec![],
        })
    }
}

/// Returns time in ms and kB of `queue.csv`, the longest queue of each slice of time.
fn queue_points(text: &str, slice_ms: f64) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for line in text.lines().skip(1) {
        let mut cells = line.split(',');
        let mut number = |skipped| cells.nth(skipped).and_then(|cell| cell.parse::<f64>().ok());
        let (Some(time_ms), Some(bytes)) = (number(0), number(1)) else { continue };
        let same =
            |last: &&mut (f64, f64)| (time_ms / slice_ms).floor() == (last.0 / slice_ms).floor();
        match points.last_mut().filter(same) {
            Some(last) => last.1 = last.1.max(bytes / 1e3),
            None => points.push((time_ms, bytes / 1e3)),
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_keeps_its_peaks() {
        let text = "time_ms,packets,bytes,dropped_packets\n1,1,1000,0\n2,9,9000,0\n3,1,2000,1\n\
                    11,5,5000,0\n";
        assert_eq!(queue_points(text, 10.0), [(1.0, 9.0), (11.0, 5.0)]);
    }
}
