//! Report of an evaluation, as a page and as text.

use std::collections::BTreeMap;

use report::chart::Point;
use report::page::bad;
use report::page::chapter;
use report::page::contents;
use report::page::escape;
use report::page::folded;
use report::page::good;
use report::page::note;
use report::stats;

use super::data::Chapter;
use super::findings::Findings;
use super::findings::Published;
use super::findings::Reproduction;
use super::verdict::Verdict;
use crate::interval::Interval;

/// Returns a table of plain text. The first cell of a row is its head.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for row in rows {
        let (head, cells) =
            row.split_first().map_or(("", row.as_slice()), |(h, c)| (h.as_str(), c));
        let cells: String = cells.iter().map(|cell| cell_html(cell)).collect();
        out += &format!("<tr><th>{}</th>{cells}</tr>\n", escape(head));
    }
    report::page::table(heads, &out)
}

/// Returns a cell; an interval may go to a line of its own.
fn cell_html(cell: &str) -> String {
    match cell.find(" (").filter(|_| cell.contains(" to ")) {
        Some(at) => {
            let (value, interval) = (escape(&cell[..at]), escape(&cell[at + 1..]));
            format!("<td class=\"interval\"><span>{value}</span> <span>{interval}</span></td>")
        }
        None => format!("<td>{}</td>", escape(cell)),
    }
}

/// Returns a table whose cells are sentences.
fn table_of_words(heads: &[&str], rows: &[Vec<String>]) -> String {
    let row = |row: &Vec<String>| {
        // On a phone, each cell is a line that its head begins.
        let cell = |(cell, head): (&String, &&str)| match head.is_empty() {
            true => format!("<td>{}</td>", escape(cell)),
            false => format!("<td data-head=\"{}\">{}</td>", escape(head), escape(cell)),
        };
        let cells: String = row.iter().zip(heads).skip(1).map(cell).collect();
        let head = row.first().map(|head| escape(head)).unwrap_or_default();
        format!("<tr><th>{head}</th>{cells}</tr>\n")
    };
    let rows: String = rows.iter().map(row).collect();
    format!("<div class=\"words\">{}</div>\n", report::page::table(heads, &rows))
}

pub fn paragraph(words: &str) -> String {
    format!("<p>{}</p>\n", escape(words))
}

pub fn heading(words: &str) -> String {
    format!("<h3>{}</h3>\n", escape(words))
}

/// Milliseconds, in the unit that reads better.
pub fn time(ms: f64) -> String {
    match ms {
        _ if !ms.is_finite() => "–".into(),
        _ if ms >= 10_000.0 => format!("{:.1} s", ms / 1000.0),
        _ if ms >= 2000.0 => format!("{:.2} s", ms / 1000.0),
        _ if ms >= 100.0 => format!("{ms:.0} ms"),
        _ => format!("{ms:.1} ms"),
    }
}

/// Returns a number, if it is one.
pub fn number(value: f64, digits: usize) -> String {
    match value.is_finite() {
        true => stats::number(Some(value), digits),
        false => "–".into(),
    }
}

/// Returns a figure with its interval.
pub fn interval(Interval { value, low, high, .. }: Interval, digits: usize) -> String {
    let (value, low, high) = (number(value, digits), number(low, digits), number(high, digits));
    match low == value && high == value {
        true => value,
        false => format!("{value} ({low} to {high})"),
    }
}

/// Returns the same as a point of a plot, if it is a number.
pub fn point(Interval { value, low, high, .. }: Interval) -> Option<Point> {
    let ends = |end: f64| if end.is_finite() { end } else { value };
    value.is_finite().then(|| Point { value, low: ends(low), high: ends(high) })
}

/// Returns the ends of an interval, for a bar.
pub fn ends(Interval { low, high, .. }: Interval) -> Option<(f64, f64)> {
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

/// Returns the values of a heat map.
pub fn values(rows: &[Vec<Option<Interval>>]) -> Vec<Vec<Option<f64>>> {
    let value = |cell: &Option<Interval>| cell.map(|cell| cell.value);
    rows.iter().map(|row| row.iter().map(value).collect()).collect()
}

/// Returns the intervals of a heat map, where they have a width.
pub fn all_ends(rows: &[Vec<Option<Interval>>]) -> Vec<Vec<Option<(f64, f64)>>> {
    let ends = |cell: &Option<Interval>| cell.and_then(ends).filter(|(low, high)| low < high);
    rows.iter().map(|row| row.iter().map(ends).collect()).collect()
}

/// Returns the least and the greatest of the values of some intervals, and the ends of all.
pub fn range_of(all: &[Interval], digits: usize) -> String {
    let values = range(all.iter().map(|one| one.value), digits);
    let ends = range(all.iter().flat_map(|one| [one.low, one.high]), digits);
    match ends == values {
        true => values,
        false => format!("{values} (intervals {ends})"),
    }
}

/// Returns the least and the greatest of some values that are numbers.
pub fn range(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let mut values = values.filter(|v| v.is_finite()).peekable();
    if values.peek().is_none() {
        return "–".into();
    }
    let (least, most) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
    let (least, most) = (number(least, digits), number(most, digits));
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

/// Returns the page: headline figures and what was published, the rules, then the chapters. `made`
/// says what made the results.
pub fn html(findings: &[(&Chapter, Findings)], verdicts: &[Verdict], made: &str) -> String {
    let (top, mut lines) = published(findings);
    let mut body = String::new();
    let (heading, line) = chapter("rules", "Rules");
    lines.push_str(&line);
    body += &heading;
    body += &rules(verdicts);
    for (chapter, findings) in findings {
        let (heading, line) = report::page::chapter(&chapter.file.stem, &chapter.file.title);
        lines.push_str(&line);
        body += &heading;
        body += &about(chapter);
        body += &findings.html;
    }
    let (heading, line) = chapter("method", "Method");
    lines.push_str(&line);
    body += &heading;
    body += &method(made);
    let html = summary(findings, verdicts) + &contents(&lines) + &top + &body;
    report::page::page("Careful Resume, evaluated in simulation", &html)
}

fn method(made: &str) -> String {
    paragraph(
        "Whole connections of the patched quiche, HTTP/3 included, simulated in virtual time over \
         modelled paths, which jitter by 0.5 ms or more. With Careful Resume, the store holds saved \
         path state; slow start has Careful Resume off, and pacing as well unless its exit needs it. \
         TTLB is the time from the client's first packet to the last byte, including the handshake. A \
         bound is the shortest time that a fluid model allows: no measurement can be below it, and \
         how close one comes is the figure to quote. BDP is the path's rate times its RTT.",
    ) + &paragraph(
        "Figures of several runs are means unless stated otherwise, ratios those of means. In \
         parentheses is the 95 % interval of 2000 bootstrap replicates, which draw pairs of runs with \
         the same seed. A rule is met only if the whole interval is on its side of the limit. \
         Reproduced means that the published figure lies in our interval, or that what was published \
         in words holds in all of it. Lost in all is what the path drops of a whole download; what is \
         lost before the jump was validated is what it drops until Careful Resume knows that the path \
         holds the jump, or does not.",
    ) + &note(made)
}

fn about(chapter: &Chapter) -> String {
    let mut out = String::new();
    for part in chapter.file.about.trim().split("\nPass:").enumerate() {
        out += &match part {
            (0, asked) => paragraph(&joined(asked)),
            (_, pass) => paragraph(&format!("Pass: {}", joined(pass))),
        };
    }
    let (scenarios, runs) = (chapter.file.scenarios.len(), chapter.file.runs);
    let each = if runs == 1 { "one run each".into() } else { format!("{runs} runs each") };
    let file = &chapter.file.stem;
    out + &note(&format!("scenarios/{file}.toml: {scenarios} scenarios, {each}."))
}

/// Joins several lines to one.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the headline: what is reproduced, and which rules are met.
fn summary(findings: &[(&Chapter, Findings)], verdicts: &[Verdict]) -> String {
    let all = all_published(findings);
    let count = |is: Reproduction| all.iter().filter(|p| p.reproduction == is).count();
    let (yes, no) = (count(Reproduction::Yes), count(Reproduction::No));
    let mut out = paragraph(&format!(
        "Of {} published results with a figure or a claim, {yes} are reproduced and {no} are not; the \
         table says why.",
        yes + no
    ));
    out += &match standing(verdicts) {
        Standing { violated: 0, missed: 0, aims: 0, .. } => good("All rules are met."),
        Standing { violated: 0, missed: 0, aims, .. } => {
            good(&format!("All rules are met; {aims} aims are missed."))
        }
        Standing { violated, missed, aims, all } => {
            let line =
                |(count, what): (usize, &str)| (count > 0).then(|| format!("{count} {what}"));
            let parts = [
                (violated, "violated"),
                (missed, "known to be missed (why: see the rule)"),
                (aims, "aims missed"),
            ];
            let parts: Vec<String> = parts.into_iter().filter_map(line).collect();
            bad(&format!("Of {all} rules and aims:"), &parts)
        }
    };
    out
}

/// How many rules stand how.
struct Standing {
    all: usize,
    violated: usize,
    missed: usize,
    aims: usize,
}

fn standing(verdicts: &[Verdict]) -> Standing {
    let count = |is: &dyn Fn(&Verdict) -> bool| verdicts.iter().filter(|v| is(v)).count();
    let is_missed = |v: &Verdict| v.is_met() && !v.missed.is_empty();
    Standing {
        all: verdicts.len(),
        violated: count(&|v| !v.is_met()),
        missed: count(&|v| is_missed(v) && v.known.is_some()),
        aims: count(&|v| is_missed(v) && v.known.is_none()),
    }
}

/// Returns the rules that are not met, and all of them, folded.
fn rules(verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for verdict in verdicts.iter().filter(|v| !v.is_met()) {
        out += &bad(&format!("Violated: {}", verdict.rule), &shortened(verdict.breaches.clone()));
    }
    for verdict in verdicts.iter().filter(|v| v.is_met() && !v.missed.is_empty()) {
        let kind = if verdict.known.is_some() { "Missed rule" } else { "Missed aim" };
        let why = verdict.known.map(|why| format!("Why: {why}"));
        let lines: Vec<String> = why.into_iter().chain(grouped(&verdict.missed)).collect();
        out += &bad(&format!("{kind}: {}", verdict.rule), &lines);
    }
    let row = |v: &Verdict| vec![v.rule.clone(), mark(v).into(), v.found.clone()];
    let rows: Vec<Vec<String>> = verdicts.iter().map(row).collect();
    let table = table_of_words(&["rule", "", "worst figure (95 % interval)"], &rows);
    out + &folded(&format!("All {} rules and aims", verdicts.len()), &table)
}

fn mark(verdict: &Verdict) -> &'static str {
    match (verdict.is_met(), verdict.missed.is_empty(), verdict.known) {
        (true, true, _) => "✓ met",
        (true, false, None) => "○ aim missed",
        (true, false, Some(_)) => "✗ missed",
        (false, ..) => "✗ violated",
    }
}

/// Returns the first lines of a rule, and how many more there are.
fn shortened(mut lines: Vec<String>) -> Vec<String> {
    const LINES_MAX: usize = 6;
    if let Some(more) = lines.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more"));
    }
    lines
}

/// Returns misses by what comes first in their names: one line each, with how many there are and the
/// first of them.
fn grouped(lines: &[String]) -> Vec<String> {
    if lines.len() <= 3 {
        return lines.to_vec();
    }
    let group = |line: &String| line.split([',', ':']).next().unwrap_or_default().to_owned();
    let mut groups: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for line in lines {
        groups.entry(group(line)).or_default().push(line);
    }
    let say = |all: Vec<&String>| match all.len() {
        1 => all[0].clone(),
        count => format!("{} (and {} like it)", all[0], count - 1),
    };
    shortened(groups.into_values().map(say).collect())
}

/// Returns all published figures in the order of their numbers.
fn all_published<'a>(findings: &'a [(&Chapter, Findings)]) -> Vec<&'a Published> {
    let number = |p: &Published| {
        let digits = p.what.trim_start_matches('P').split(',').next();
        digits.and_then(|digits| digits.parse::<u32>().ok())
    };
    let mut all: Vec<&Published> = findings.iter().flat_map(|(_, f)| &f.published).collect();
    all.sort_by_key(|p| number(p));
    all
}

/// Returns the table of what was published, and its line in the contents.
fn published(findings: &[(&Chapter, Findings)]) -> (String, String) {
    let row = |p: &Published| {
        let verdict = p.reproduction.words().to_owned();
        let figures = [p.what.clone(), p.published.clone(), p.ours.clone(), p.bound.clone()];
        figures.into_iter().chain([verdict, p.why.clone()]).collect()
    };
    let rows: Vec<Vec<String>> = all_published(findings).into_iter().map(row).collect();
    let heads = ["result", "published", "ours (95 % interval)", "fluid bound", "verdict", "why"];
    let (heading, line) = chapter("published-results", "What was published, and what came out");
    (heading + &table_of_words(&heads, &rows), line)
}

/// Returns the key figures for a terminal.
pub fn text(findings: &[(&Chapter, Findings)], verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for p in all_published(findings) {
        out += &format!("{}: {}\n", p.what, p.reproduction.words());
        let parts =
            [("published", &p.published), ("ours", &p.ours), ("bound", &p.bound), ("why", &p.why)];
        for (name, words) in parts {
            if !words.is_empty() {
                out += &format!("    {name:<10} {words}\n");
            }
        }
    }
    out += "\n";
    for verdict in verdicts {
        out += &format!("{}  {}\n    {}\n", mark(verdict), verdict.rule, verdict.found);
        if let Some(why) = verdict.known {
            out += &format!("    why: {why}\n");
        }
        for line in grouped(&verdict.missed) {
            out += &format!("    missed: {line}\n");
        }
    }
    let Standing { all, violated, missed, aims } = standing(verdicts);
    out += &format!(
        "\n{all} rules and aims: {violated} violated, {missed} known to be missed, {aims} aims missed\n"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_suitable_units_and_digits() {
        for (ms, text) in
            [(61.44, "61.4 ms"), (291.5, "292 ms"), (2698.0, "2.70 s"), (12_345.0, "12.3 s")]
        {
            assert_eq!(time(ms), text);
        }
    }

    #[test]
    fn range_of_equal_values_is_one_value() {
        assert_eq!(range([1.0, 3.0, 2.0].into_iter(), 1), "1.0 to 3.0");
        assert_eq!(range([1.01, 1.02].into_iter(), 1), "1.0");
        assert_eq!(range([-0.001, 0.01].into_iter(), 2), "0.00 to 0.01");
        assert_eq!(range([f64::NAN].into_iter(), 1), "–");
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let lines: Vec<String> = (0..50).map(|i| i.to_string()).collect();
        let short = shortened(lines);
        assert_eq!(short.len(), 7);
        assert!(short[6].contains("44 more"));
    }

    #[test]
    fn misses_are_grouped_by_their_chapter() {
        let of = |stem: &'static str| {
            (0..20).map(move |i| format!("{stem}, path {i}: 2 is less than 3"))
        };
        let lines: Vec<String> = of("grid").chain(of("paths")).collect();
        let found = grouped(&lines);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], "grid, path 0: 2 is less than 3 (and 19 like it)");
        assert_eq!(grouped(&lines[..3]), lines[..3]);
    }

    #[test]
    fn figure_is_said_with_its_interval() {
        let of = |low, high| Interval { value: 0.5, low, high, runs: 20 };
        assert_eq!(interval(of(0.4, 0.6), 2), "0.50 (0.40 to 0.60)");
        assert_eq!(interval(of(0.499, 0.501), 2), "0.50");
        assert_eq!(range_of(&[of(0.4, 0.6), of(0.3, 0.6)], 1), "0.5 (intervals 0.3 to 0.6)");
    }
}
