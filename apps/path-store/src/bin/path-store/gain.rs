//! Output of the gain of Careful Resume, from access logs: a table, JSON, or a drawing.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ab_test::Balance;
use ab_test::ClassGain;
use ab_test::Gain;
use ab_test::Interval;
use ab_test::LogLine;
use ab_test::Quantile;
use ab_test::QuantileGain;
use ab_test::Samples;
use ab_test::Settings;
use comfy_table::CellAlignment;
use comfy_table::Table;
use serde::Serialize;

use crate::cli::GainArgs;
use crate::failure::Failure;
use crate::gain_plot;

const HEADER: [&str; 7] = [
    "SIZE",
    "QUANTILE",
    "CONTROL",
    "RESUME",
    "RATIO (95 %)",
    "DIFFERENCE (95 %)",
    "CLIENTS: RESUME / CONTROL",
];

/// Smallest probability that is printed as it is.
const P_MIN: f64 = 1e-9;

/// First bytes of a file that gzip wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The evaluation as JSON.
#[derive(Serialize)]
struct GainJson<'a> {
    lines: u64,
    unreadable: u64,
    seed: u64,
    verdict: Verdict,
    #[serde(flatten)]
    gain: &'a Gain,
}

/// Use of the figures.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Usable,

    /// No quantile has enough clients.
    TooSmall,

    /// The share or the secrets have changed.
    ClientsInBothArms,

    /// Something other than the jump differs.
    ArmsDoNotFit,
}

/// Lines of logs that are none of edge-server's.
#[derive(Default)]
struct Unreadable {
    count: u64,

    /// Place of the first.
    first: Option<String>,
}

/// Evaluates logs, and prints what Careful Resume gains.
pub fn gain(args: &GainArgs, json: bool) -> Result<(), Failure> {
    let (samples, unreadable) = read(args)?;
    let gain = Gain::new(&samples, Settings { share: args.share, seed: args.seed });
    if gain.resume.clients + gain.control.clients == 0 {
        return Err(format!(
            "no client of {} lines has an arm; start edge-server with --resume-share 0.9",
            samples.lines()
        )
        .into());
    }
    let text = match json {
        true => {
            let lines = samples.lines();
            let (seed, unreadable) = (args.seed, unreadable.count);
            let verdict = verdict(&gain);
            serde_json::to_string(&GainJson { lines, unreadable, seed, verdict, gain: &gain })?
                + "\n"
        }
        false => text(&gain, &unreadable),
    };
    io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &args.plot {
        let svg = gain_plot::draw(&gain)?;
        std::fs::write(path, svg).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    Ok(())
}

fn verdict(gain: &Gain) -> Verdict {
    let fits = [&gain.arms, &gain.compared].into_iter().flatten().all(Balance::is_plausible);
    match (fits, gain.clients_in_both_arms, gain.is_enough()) {
        (false, ..) => Verdict::ArmsDoNotFit,
        (_, 1.., _) => Verdict::ClientsInBothArms,
        (_, _, false) => Verdict::TooSmall,
        _ => Verdict::Usable,
    }
}

fn read(args: &GainArgs) -> Result<(Samples, Unreadable), Failure> {
    let (mut samples, mut unreadable) = (Samples::default(), Unreadable::default());
    let mut files = HashSet::new();
    for path in &args.logs {
        let name = path.display();
        let cannot_read = |e| format!("cannot read {name}: {e}");
        let file = path.metadata().map(|file| (file.dev(), file.ino()));
        if file.is_ok_and(|file| !files.insert(file)) {
            return Err(format!("{name} is the same file as another log; name each once").into());
        }
        let mut log = open(path).map_err(cannot_read)?;
        if log.fill_buf().map_err(cannot_read)?.starts_with(&GZIP) {
            return Err(
                format!("{name} is compressed; use: zcat {name} | path-store gain -").into()
            );
        }
        let lines_before = samples.lines();
        let (mut line, mut number) = (Vec::new(), 0_u64);
        while log.read_until(b'\n', &mut line).map_err(cannot_read)? > 0 {
            number += 1;
            let parsed = std::str::from_utf8(&line).ok().and_then(|text| text.parse().ok());
            match parsed {
                Some(parsed) => samples.add(LogLine::into(parsed)),
                None => unreadable.add(&format!("{name}:{number}")),
            }
            line.clear();
        }
        if number > 0 && samples.lines() == lines_before {
            return Err(format!("{name} is no access log of edge-server").into());
        }
    }
    Ok((samples, unreadable))
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let input: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path)?),
    };
    Ok(Box::new(BufReader::new(input)))
}

impl Unreadable {
    fn add(&mut self, place: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| place.to_string());
    }
}

fn text(gain: &Gain, unreadable: &Unreadable) -> String {
    let mut text = String::new();
    for line in notes(gain, unreadable) {
        let _ = writeln!(text, "{line}");
    }
    let rows: Vec<_> = gain.classes.iter().flat_map(rows).collect();
    if !rows.is_empty() {
        let _ = writeln!(text, "\n{}", table(rows));
    }
    let short: Vec<_> = gain.classes.iter().filter_map(shortage).collect();
    if !short.is_empty() {
        let _ = writeln!(text, "\n{}", short.join("\n"));
    }
    if gain.resume.responses + gain.control.responses == 0 {
        text += "\nNo connection could jump: few clients return within --path-lifetime, or responses are\n\
                 short.\n";
    } else if gain.is_enough() {
        text += "\nRATIO is the time to the last byte of clients that may jump, divided by that of the\n\
                 control group: below 1 is faster. An interval that holds 1 shows no difference.\n";
    } else if gain.resume.responses == 0 || gain.control.responses == 0 {
        text += "\nOne arm has no response: nothing to compare with. Log with a --resume-share between 0\n\
                 and 1.\n";
    } else {
        text += "\nThe sample is too small for any figure. Log for longer.\n";
    }
    text
}

/// Returns what to know before the figures.
fn notes(gain: &Gain, unreadable: &Unreadable) -> Vec<String> {
    let Gain { resume, control, clients_in_both_arms, arms, compared, .. } = gain;
    let mut notes = vec![match arms {
        None => format!(
            "clients: {} resume, {} control; --share checks them against edge-server's",
            resume.clients, control.clients
        ),
        Some(arms) => {
            format!("clients: {}", checked(arms, &format!("the share {}", arms.share)))
        }
    }];
    if let Some(compared) = compared {
        notes.push(format!("could jump: {}", checked(compared, "all clients")));
    }
    for (name, arm) in [("resume", resume), ("control", control)] {
        let retreated = match arm.retreated {
            0 => String::new(),
            count => format!(", {count} of connections that retreated"),
        };
        notes.push(format!(
            "{name}: {} responses, of which {} are incomplete and left out{retreated}",
            arm.responses, arm.incomplete
        ));
    }
    if *clients_in_both_arms > 0 {
        notes.push(format!(
            "{}: the share or the secrets have changed, do not trust the figures; evaluate logs with \
             the same ones only",
            counted(*clients_in_both_arms, "client was in both arms", "clients were in both arms")
        ));
    }
    if let Unreadable { count, first: Some(first) } = unreadable {
        let lines = counted(*count, "line is", "lines are");
        notes.push(format!("{lines} none of edge-server's, the first is {first}"));
    }
    notes
}

/// Returns the clients of each arm, and whether they fit `what`.
fn checked(balance: &Balance, what: &str) -> String {
    let Balance { resume, control, p, .. } = balance;
    match balance.is_plausible() {
        true => format!("{resume} resume, {control} control, which fits {what} (p = {p:.2})"),
        false => format!(
            "{resume} resume, {control} control, which DOES NOT FIT {what} ({}): do not trust the \
             figures before you know why",
            small(*p)
        ),
    }
}

/// Returns a small probability. Far below, the test is not exact.
fn small(p: f64) -> String {
    match p < P_MIN {
        true => format!("p < {P_MIN:e}"),
        false => format!("p = {p:.1e}"),
    }
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn table(rows: Vec<[String; HEADER.len()]>) -> Table {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_header(HEADER);
    for column in 1..HEADER.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.add_rows(rows);
    table
}

fn rows(class: &ClassGain) -> Vec<[String; HEADER.len()]> {
    let row = |gain: &QuantileGain| {
        let interval = |Interval { value, low, high }, digits: usize| {
            format!("{value:.digits$} ({low:.digits$} to {high:.digits$})")
        };
        [
            class.size.to_string(),
            format!("p{}", gain.percent.percent()),
            format!("{:.0} ms", gain.control_ms),
            format!("{:.0} ms", gain.resume_ms),
            interval(gain.ratio, 3),
            format!("{} ms", interval(gain.difference_ms, 0)),
            format!("{} / {}", class.resume.clients, class.control.clients),
        ]
    };
    class.quantiles.iter().map(row).collect()
}

/// Returns which quantiles of a class have too few clients.
fn shortage(class: &ClassGain) -> Option<String> {
    let short: Vec<_> = Quantile::ALL.into_iter().filter(|q| !class.has_enough_for(*q)).collect();
    let needs =
        |quantile: &Quantile| format!("p{} needs {}", quantile.percent(), quantile.clients_min());
    let needs: Vec<_> = short.iter().map(needs).collect();
    (!needs.is_empty()).then(|| {
        format!(
            "{}: too few clients for {}; resume has {}, control {}",
            class.size,
            needs.join(", "),
            effective(class.resume),
            effective(class.control)
        )
    })
}

/// Returns a number of clients, and how many count if they have unequal numbers of responses.
fn effective(arm: ab_test::ArmSize) -> String {
    match arm.clients_effective + 1.0 < arm.clients as f64 {
        true => format!("{} that count as {:.0}", arm.clients, arm.clients_effective.floor()),
        false => arm.clients.to_string(),
    }
}
