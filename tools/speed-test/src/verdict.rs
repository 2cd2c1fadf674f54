//! Rules for measured downloads. If a download breaks one, the measurement is wrong or
//! Careful Resume did not follow RFC 9959.

use report::bound::bdp_bytes;
use report::record::Download;
use report::record::Mode;

use crate::summary::groups;
use crate::summary::Group;
use crate::summary::Row;

/// Legal values of saved_cwnd, in bandwidth-delay products.
const SAVED_CWND_BDP: std::ops::RangeInclusive<f64> = 0.85..=1.05;

/// Smallest ratio of a time to its fluid bound.
const BOUND_TOLERANCE: f64 = 0.97;

/// The visit that must be as fast as one from a warm store, and the largest ratio of
/// their times, on a machine that has other things to do.
const WARM_VISIT: u32 = 3;
const WARM_TOLERANCE: f64 = 1.1;

/// The phases of a resumed connection that was not limited by anything else.
const RESUMED_PHASES: [&str; 4] = ["reconnaissance", "unvalidated", "validating", "normal"];

/// Returns every rule that one of the downloads breaks, one line each. A download that
/// this machine disturbed says nothing about the path: it breaks none, and is
/// in [`notes`] instead.
pub fn failures(downloads: &[Download]) -> Vec<String> {
    let broken = |d: &Download| {
        let who = d.title();
        rules(d).into_iter().map(move |why| format!("{who}: {why}")).collect::<Vec<_>>()
    };
    let judged = downloads.iter().filter(|d| !d.is_disturbed()).flat_map(broken);
    judged.chain(unjudged(downloads)).chain(slow_visits(downloads)).collect()
}

/// Returns the paths whose visits from an empty store were not fast in time, one line each.
fn slow_visits(downloads: &[Download]) -> Vec<String> {
    let late = |group: &Group| {
        let ttlb_ms = |is: &dyn Fn(&Row) -> bool| Some(group.rows.iter().find(|r| is(r))?.ttlb_ms);
        let warm_ms = ttlb_ms(&|row| row.mode == Mode::CarefulResume)?;
        let visit_ms = ttlb_ms(&|row| row.visit == Some(WARM_VISIT))?;
        // An object that is shorter than the path does not show all of it.
        let bdp_bytes = bdp_bytes(group.rate_mbps?, group.rtt_ms?);
        let fills = group.object_bytes as f64 >= bdp_bytes;
        (fills && visit_ms > WARM_TOLERANCE * warm_ms).then(|| {
            format!(
                "{}: visit {WARM_VISIT} from an empty store takes {visit_ms:.0} ms, more than 10 % \
                 longer than {warm_ms:.0} ms with all that is known of the path",
                group.path
            )
        })
    };
    let undisturbed: Vec<Download> =
        downloads.iter().filter(|d| !d.is_disturbed() && !d.varies).cloned().collect();
    groups(&undisturbed).iter().filter_map(late).collect()
}

/// Kinds of downloads of which none could be checked because packets were lost, one line each. Those
/// whose packets were late alone are only slower: their notes say so.
fn unjudged(downloads: &[Download]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for d in downloads.iter().filter(|d| d.overrun_packets > Some(0)) {
        let same = |o: &&Download| {
            (&o.path, o.mode, &o.server, o.visit) == (&d.path, d.mode, &d.server, d.visit)
        };
        let line = format!("{}, {}: this machine disturbed every run", d.path, d.kind());
        if downloads.iter().filter(same).all(Download::is_disturbed) && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Returns the downloads that measured this machine instead of the path: one line each for those that
/// it lost packets of, and one for all whose packets were late.
pub fn notes(downloads: &[Download]) -> Vec<String> {
    let note = |d: &Download| {
        let packets = d.overrun_packets.filter(|packets| *packets > 0)?;
        let mut note = format!(
            "{}: this machine, not the path, lost {packets} packets, so it was not checked; leave the \
             machine more CPU time, or raise net.core.rmem_max",
            d.title(),
        );
        let broken = rules(d);
        if !broken.is_empty() {
            note += &format!(" (else: {})", broken.join("; "));
        }
        Some(note)
    };
    let lost = downloads.iter().filter_map(note);
    lost.chain(late(downloads)).collect()
}

/// Returns a line on the downloads whose packets left the emulated link late, and were not lost.
fn late(downloads: &[Download]) -> Option<String> {
    let late: Vec<&Download> = downloads
        .iter()
        .filter(|d| d.is_disturbed() && d.overrun_packets.unwrap_or(0) == 0)
        .collect();
    let worst_ms = late.iter().filter_map(|d| d.late_ms).reduce(f64::max)?;
    Some(format!(
        "in {} of {} downloads, this machine delayed 1 % of the packets by up to {worst_ms:.1} ms more than the \
         path does: their times are the machine's as well, and they were not checked; leave the machine \
         more CPU time",
        late.len(),
        downloads.len()
    ))
}

fn rules(d: &Download) -> Vec<String> {
    if d.varies {
        return Vec::new();
    }
    let mut broken: Vec<String> = too_fast(d).into_iter().collect();
    if matches!(d.mode, Mode::CarefulResume | Mode::EarlyData) {
        broken.extend(saved_cwnd(d));
    }
    if d.may_jump() {
        broken.extend(phases(d));
        broken.extend(jump_loss(d));
    }
    broken
}

fn too_fast(d: &Download) -> Option<String> {
    let bound_ms = d.bound_ms()?;
    (d.ttlb_ms < BOUND_TOLERANCE * bound_ms).then(|| {
        format!("TTLB of {:.0} ms is more than 3 % under its bound of {bound_ms:.0} ms", d.ttlb_ms)
    })
}

fn saved_cwnd(d: &Download) -> Option<String> {
    let Some(saved_bytes) = d.saved_cwnd_bytes else {
        return Some("no saved path was restored".into());
    };
    let saved_bdp = saved_bytes as f64 / bdp_bytes(d.rate_mbps?, d.rtt_ms?);
    (!SAVED_CWND_BDP.contains(&saved_bdp)).then(|| {
        let (least, most) = (SAVED_CWND_BDP.start(), SAVED_CWND_BDP.end());
        format!("saved_cwnd of {saved_bdp:.2} BDP is not within {least} to {most} BDP")
    })
}

fn phases(d: &Download) -> Option<String> {
    let seen: Vec<&str> = d.phases.iter().map(|p| p.1.as_str()).collect();
    (seen != RESUMED_PHASES).then(|| {
        let seen = if seen.is_empty() { "none".into() } else { seen.join(", ") };
        format!("phases were {seen}; expected {}", RESUMED_PHASES.join(", "))
    })
}

fn jump_loss(d: &Download) -> Option<String> {
    let lost = d.jump_lost_packets.filter(|&lost| lost > 0)?;
    Some(format!("{lost} packets were lost within two RTTs of the jump"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::download;
    use report::record::PhaseEntry;

    fn with(change: impl FnOnce(&mut Download)) -> Vec<String> {
        let mut d = download(Mode::CarefulResume, 2, 291.0);
        change(&mut d);
        failures(&[d])
    }

    fn sequence(names: &[&str]) -> Vec<PhaseEntry> {
        names.iter().map(|n| (1.0, n.to_string(), None)).collect()
    }

    #[test]
    fn good_downloads_break_no_rule() {
        assert_eq!(with(|_| ()), [""; 0]);
        assert_eq!(failures(&[download(Mode::SlowStart, 1, 580.0)]), [""; 0]);
    }

    #[test]
    fn time_may_be_three_percent_below_its_bound() {
        // The bounds are 274.8 ms and 544.9 ms.
        for (mode, ttlb_ms, broken) in [
            (Mode::CarefulResume, 267.0, 0),
            (Mode::CarefulResume, 266.0, 1),
            (Mode::EarlyData, 219.0, 0),
            (Mode::EarlyData, 218.0, 1),
            (Mode::SlowStart, 529.0, 0),
            (Mode::SlowStart, 528.0, 1),
            (Mode::First, 528.0, 1),
        ] {
            assert_eq!(failures(&[download(mode, 1, ttlb_ms)]).len(), broken, "{mode} {ttlb_ms}");
        }
    }

    #[test]
    fn saved_cwnd_is_between_085_and_105_bdp() {
        for (saved_bytes, broken) in [
            (Some(2_650_000), 1),
            (Some(2_660_000), 0),
            (Some(3_280_000), 0),
            (Some(3_290_000), 1),
            (None, 1),
        ] {
            let found = with(|d| d.saved_cwnd_bytes = saved_bytes);
            assert_eq!(found.len(), broken, "{saved_bytes:?}: {found:?}");
        }
    }

    #[test]
    fn other_sequence_of_phases_fails() {
        for names in [
            &[][..],
            &["reconnaissance", "normal"],
            &["reconnaissance", "unvalidated", "normal"],
            &["reconnaissance", "unvalidated", "safe_retreat", "normal"],
        ] {
            assert_eq!(with(|d| d.phases = sequence(names)).len(), 1, "{names:?}");
        }
    }

    #[test]
    fn loss_after_the_jump_fails_and_names_the_run() {
        assert_eq!(
            with(|d| d.jump_lost_packets = Some(7)),
            ["500 Mbit/s, 50 ms, 6.25 MB, Careful Resume, run 2: \
              7 packets were lost within two RTTs of the jump"]
        );
    }

    #[test]
    fn disturbed_run_is_noted_and_fails_nothing() {
        let mut d = download(Mode::CarefulResume, 2, 291.0);
        d.jump_lost_packets = Some(7);
        assert_eq!(notes(std::slice::from_ref(&d)), [""; 0]);

        d.late_limit_ms = Some(2.5);
        let undisturbed = download(Mode::CarefulResume, 1, 291.0);
        let lost =
            ["Careful Resume, run 2", "7 packets were lost within", "lost 70 packets", "rmem_max"];
        let late = ["in 1 of 2 downloads", "1 % of the packets by up to 2.6 ms", "CPU time"];
        for (overrun_packets, late_ms, told) in
            [(Some(70), Some(9.0), &lost[..]), (None, Some(2.6), &late)]
        {
            let both = [Download { overrun_packets, late_ms, ..d.clone() }, undisturbed.clone()];
            assert_eq!(failures(&both), [""; 0]);
            let notes = notes(&both);
            assert_eq!(notes.len(), 1);
            for part in told {
                assert!(notes[0].contains(part), "{part} in {}", notes[0]);
            }
        }
        d.late_ms = Some(2.5);
        assert_eq!(notes(&[d]), [""; 0]);
    }

    #[test]
    fn mode_without_checked_runs_fails() {
        let mut all = [1, 2].map(|run| download(Mode::CarefulResume, run, 291.0));
        for d in &mut all {
            d.overrun_packets = Some(1);
        }
        let found = failures(&all);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("disturbed every run"), "{found:?}");
        for d in &mut all {
            d.overrun_packets = None;
            (d.late_ms, d.late_limit_ms) = (Some(9.0), Some(2.5));
        }
        assert_eq!((failures(&all), notes(&all).len()), (vec![], 1));
    }

    #[test]
    fn visits_jump_from_the_second_on() {
        let visit = |visit: u32, ttlb_ms: f64| {
            let warm = download(Mode::CarefulResume, 1, ttlb_ms);
            Download { mode: Mode::Visit, visit: Some(visit), saved_cwnd_bytes: Some(1), ..warm }
        };
        let mut first = visit(1, 580.0);
        first.phases = sequence(&["reconnaissance", "normal"]);
        let all = |third_ms: f64| {
            let warm = download(Mode::CarefulResume, 1, 290.0);
            [warm, first.clone(), visit(2, 400.0), visit(3, third_ms)]
        };
        assert_eq!(failures(&all(318.0)), [""; 0]);
        let late = failures(&all(320.0));
        assert!(late.len() == 1 && late[0].contains("visit 3 from an empty store"), "{late:?}");

        let mut no_jump = all(318.0);
        no_jump[2].phases = sequence(&["reconnaissance", "normal"]);
        let found = failures(&no_jump);
        assert!(found.len() == 1 && found[0].contains("phases were"), "{found:?}");
    }

    #[test]
    fn path_that_varies_is_not_judged() {
        let broken = |varies| {
            with(|d| {
                (d.varies, d.ttlb_ms, d.jump_lost_packets) = (varies, 1.0, Some(7));
                d.phases = sequence(&["reconnaissance", "normal"]);
            })
        };
        assert_eq!((broken(false).len(), broken(true).len()), (3, 0));
    }

    #[test]
    fn unknown_path_has_no_bound() {
        let mut d = download(Mode::Later, 1, 1.0);
        d.rate_mbps = None;
        assert_eq!(failures(&[d]), [""; 0]);
    }
}
