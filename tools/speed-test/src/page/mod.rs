//! Page of downloads: self-contained HTML with inline SVG and CSS, without scripts.
//!
//! Timelines come from the server's qlog, which the caller finds, so that the page can
//! report any source of downloads.

mod charts;
pub mod heading;
mod html;

use std::path::Path;

use self::heading::Heading;
use crate::summary::groups;
use crate::summary::Group;
use report::qlog;
use report::record::Download;
use report::record::Mode;
use report::timeline::Timeline;

/// Renders the page. `timeline` finds the timeline of a download, if any.
///
/// # Errors
///
/// A figure cannot be drawn.
pub fn render(
    heading: &Heading,
    downloads: &[Download],
    timeline: &dyn Fn(&Download) -> Option<Timeline>,
) -> anyhow::Result<String> {
    let groups = groups(downloads);
    let mut sections = Vec::new();
    for group in &groups {
        sections.push(section(group, timeline)?);
    }
    Ok(html::page(heading, &groups, &sections))
}

/// Reads a download's timeline from its qlog, relative to `folder`.
pub fn timeline_in(folder: &Path, download: &Download) -> Option<Timeline> {
    let log = qlog::read(&folder.join(download.qlog.as_ref()?)).ok()?;
    Some(Timeline::new(&log))
}

/// Returns the downloads whose timelines the page draws: the median run of each mode, of
/// our own server, without visits. The resumed run first: it is the one that needs to be looked at.
fn drawn<'a>(group: &'a Group<'a>) -> impl Iterator<Item = &'a Download> {
    let rows = group.rows.iter().rev();
    rows.filter(|r| !r.is_other_server() && r.visit.is_none()).map(|r| r.median_run())
}

/// Returns the qlogs that the page draws, relative to the results' folder.
pub fn drawn_qlogs(downloads: &[Download]) -> Vec<String> {
    let groups = groups(downloads);
    groups.iter().flat_map(drawn).filter_map(|d| d.qlog.clone()).collect()
}

fn section(
    group: &Group,
    timeline: &dyn Fn(&Download) -> Option<Timeline>,
) -> anyhow::Result<html::Section> {
    let mut lines: Vec<(String, Timeline)> = Vec::new();
    for run in drawn(group) {
        if let Some(line) = timeline(run).filter(|t| !t.samples.is_empty()) {
            let title = format!("{}, run {}: {:.0} ms", sentence(run.mode), run.run, run.ttlb_ms);
            lines.push((title, line));
        }
    }

    // One scale for all timelines of a path, so that they can be compared.
    let end_ms = lines.iter().map(|(_, t)| t.end_ms()).fold(0.0, f64::max);
    let bytes = lines.iter().map(|(_, t)| t.bytes_max()).max().unwrap_or(0);
    let scale = charts::Scale { end_ms, bytes, bdp_bytes: charts::bdp_of(group) };

    let mut timelines = Vec::new();
    for (title, line) in &lines {
        timelines.push((title.clone(), charts::timeline(line, &scale)?));
    }
    Ok(html::Section { times: charts::times(group)?, visits: charts::visits(group)?, timelines })
}

fn sentence(mode: Mode) -> String {
    let text = mode.to_string();
    let mut chars = text.chars();
    let first = chars.next().map_or(String::new(), |c| c.to_uppercase().to_string());
    first + chars.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::download;

    fn downloads() -> Vec<Download> {
        let mut all = Vec::new();
        for run in 1..=3 {
            let jitter_ms = f64::from(run) * 4.0;
            all.push(download(Mode::SlowStart, run, 570.0 + jitter_ms));
            all.push(download(Mode::CarefulResume, run, 284.0 + jitter_ms));
            let mut other = download(Mode::SlowStart, run, 576.0 + jitter_ms);
            other.server = Some("<pristine>".into());
            all.push(other);
        }
        all
    }

    fn timeline(_: &Download) -> Option<Timeline> {
        let log =
            qlog::parse(&include_bytes!("../../../report/tests/data/resumed.sqlog")[..]).ok()?;
        Some(Timeline::new(&log))
    }

    fn page(failures: &[&str]) -> String {
        let heading = Heading {
            date: "2030-01-02".into(),
            about: vec!["Rates & times".into()],
            failures: failures.iter().map(|f| f.to_string()).collect(),
            notes: Vec::new(),
        };
        render(&heading, &downloads(), &timeline).expect("rendered")
    }

    #[test]
    fn path_has_a_chart_of_times_and_timelines() {
        assert_eq!(page(&[]).matches("<svg").count(), 3);
    }

    #[test]
    fn visits_have_a_chart_of_their_own() {
        let mut all = downloads();
        for visit in 1..=3 {
            let mut d = download(Mode::CarefulResume, 1, 900.0 / f64::from(visit));
            (d.mode, d.visit) = (Mode::Visit, Some(visit));
            all.push(d);
        }
        let page = render(&Heading::default(), &all, &|_| None).expect("rendered");
        assert_eq!(page.matches("<svg").count(), 2);
        for part in ["Visits from an empty store", "visit 1 from", "visit 3 from"] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn page_without_logs_draws_times_alone() {
        let page = render(&Heading::default(), &downloads(), &|_| None).expect("rendered");
        assert_eq!(page.matches("<svg").count(), 1);
    }

    #[test]
    fn page_has_the_table_units_and_phases() {
        let page = page(&[]);
        for part in [
            "500 Mbit/s, 50 ms, 6.25 MB",
            "Careful Resume",
            "slow start",
            "0.96",
            "RTTs saved",
            "unvalidated",
            "validating",
            "congestion window",
            "bytes in flight",
            "acknowledged",
            "MB",
            "ms",
            "2030-01-02",
            "Every check passed",
            "1 BDP",
        ] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn timeline_has_one_dashed_curve() {
        assert_eq!(page(&[]).matches("stroke-dasharray").count(), 2);
    }

    #[test]
    fn page_escapes_text() {
        let page = page(&[]);
        assert!(page.contains("&lt;pristine&gt;") && page.contains("Rates &amp; times"));
        assert!(!page.contains("<pristine>"));
    }

    #[test]
    fn page_lists_failures() {
        let page = page(&["GEO, run 2: too fast"]);
        assert!(page.contains("GEO, run 2: too fast"));
        assert!(!page.contains("Every check passed"));
    }

    #[test]
    fn page_notes_a_disturbed_run() {
        let heading = Heading { notes: vec!["run 2: <lost>".into()], ..Heading::default() };
        let page = render(&heading, &downloads(), &timeline).expect("rendered");
        assert!(page.contains("run 2: &lt;lost&gt;"));
        assert!(!page.contains("Every check passed"));
    }

    #[test]
    fn page_is_small_and_fetches_nothing() {
        let page = page(&[]);
        for word in ["src=", "href=", "@import", "url(", "<script"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.len() < 1_000_000, "{}", page.len());
    }
}
