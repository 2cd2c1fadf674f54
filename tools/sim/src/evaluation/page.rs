//! Report of an evaluation, as a page and as text.

use report::page::bad;
use report::page::escape;
use report::page::good;
use report::page::note;
use report::stats;

use super::data::Chapter;
use super::findings::Findings;
use super::findings::Published;
use super::verdict::Verdict;

/// Returns a table of plain text. The first cell of a row is its head.
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for row in rows {
        let mut cells = row.iter().map(|cell| escape(cell));
        let head = cells.next().unwrap_or_default();
        let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
        out += &format!("<tr><th>{head}</th>{cells}</tr>\n");
    }
    report::page::table(heads, &out)
}

/// Returns a table whose cells are sentences.
fn table_of_words(heads: &[&str], rows: &[Vec<String>]) -> String {
    format!("<div class=\"words\">{}</div>\n", table(heads, rows))
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

/// Returns the page: the summary, then the chapters. `made` says what made the results.
pub fn html(findings: &[(&Chapter, Findings)], verdicts: &[Verdict], made: &str) -> String {
    let mut out = paragraph(
        "Whole connections of the patched quiche, HTTP/3 included, simulated in virtual time over \
         modelled paths. With Careful Resume, the store holds saved path state; slow start has \
         Careful Resume off, and pacing as well unless its exit needs it. TTLB is the time from \
         the client's first packet to the last byte, including the handshake. A bound is the \
         shortest time that a fluid model allows: no measurement can be below it, and how close \
         one comes is the figure to quote. BDP is the path's rate times its RTT. Figures of \
         several runs are medians unless stated otherwise.",
    );
    out += &note(made);
    out += &summary(verdicts);
    out += &published(findings);
    for (chapter, findings) in findings {
        out += &format!("<h2>{}</h2>\n", escape(&chapter.file.title));
        for part in chapter.file.about.trim().split("\nPass:").enumerate() {
            out += &match part {
                (0, asked) => paragraph(&joined(asked)),
                (_, pass) => paragraph(&format!("Pass: {}", joined(pass))),
            };
        }
        let (scenarios, runs) = (chapter.file.scenarios.len(), chapter.file.runs);
        let each = if runs == 1 { "one run each".into() } else { format!("{runs} runs each") };
        let file = &chapter.file.stem;
        out += &note(&format!("scenarios/{file}.toml: {scenarios} scenarios, {each}."));
        out += &findings.html;
    }
    report::page::page("Careful Resume, evaluated in simulation", &out)
}

/// Joins several lines to one.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn summary(verdicts: &[Verdict]) -> String {
    let broken: Vec<&Verdict> = verdicts.iter().filter(|v| !v.is_met()).collect();
    let missed = verdicts.iter().filter(|v| v.is_met() && !v.missed.is_empty()).count();
    let mut out = match (broken.len(), missed) {
        (0, 0) => good("All rules are met."),
        (0, missed) => good(&format!("All rules are met; {missed} aims are missed.")),
        (broken, _) => heading(&format!("{broken} of {} rules are violated", verdicts.len())),
    };
    for verdict in broken {
        out += &bad(&verdict.rule, &shortened(verdict.breaches.clone()));
    }
    let missed = verdicts.iter().flat_map(|v| shortened(v.missed.clone()));
    let missed: Vec<String> = missed.collect();
    out += &bad("Missed aims, which violate no rule", &missed);

    let row = |v: &Verdict| vec![v.rule.clone(), mark(v).into(), v.found.clone()];
    let rows: Vec<Vec<String>> = verdicts.iter().map(row).collect();
    out + "<h2>Rules</h2>\n" + &table_of_words(&["rule", "", "found"], &rows)
}

fn mark(verdict: &Verdict) -> &'static str {
    match (verdict.is_met(), verdict.missed.is_empty()) {
        (true, true) => "✓ met",
        (true, false) => "○ aim missed",
        (false, _) => "✗ violated",
    }
}

/// Returns the first lines of a rule, and how many more there are.
fn shortened(mut lines: Vec<String>) -> Vec<String> {
    const LINES_MAX: usize = 6;
    if let Some(more) = lines.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
        lines.truncate(LINES_MAX);
        lines.push(format!("and {more} more of this rule, which sim report prints"));
    }
    lines
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

fn published(findings: &[(&Chapter, Findings)]) -> String {
    let all = all_published(findings).into_iter();
    let row =
        |p: &Published| vec![p.what.clone(), p.published.clone(), p.ours.clone(), p.bound.clone()];
    let rows: Vec<Vec<String>> = all.map(row).collect();
    let heads = ["published results", "published", "ours", "fluid bound"];
    format!("<h2>What was published, and what came out</h2>\n{}", table_of_words(&heads, &rows))
}

/// Returns the key figures for a terminal.
pub fn text(findings: &[(&Chapter, Findings)], verdicts: &[Verdict]) -> String {
    let mut out = String::new();
    for p in all_published(findings) {
        out += &format!("{}\n", p.what);
        for (name, words) in [("published", &p.published), ("ours", &p.ours), ("bound", &p.bound)] {
            if !words.is_empty() {
                out += &format!("    {name:<10} {words}\n");
            }
        }
    }
    out += "\n";
    for verdict in verdicts {
        out += &format!("{}  {}\n    {}\n", mark(verdict), verdict.rule, verdict.found);
        for line in &verdict.missed {
            out += &format!("    aim missed: {line}\n");
        }
    }
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
}
