//! Format of tables: a time, and the rate, round-trip time and loss from then on.

use super::steps::lines;
use super::steps::Fault;
use super::steps::PathTrace;
use super::steps::Step;
use crate::rate::Rate;
use std::time::Duration;

const RTT_MS_MAX: f64 = 60_000.0;

const HEADER: &str =
    "the first line names the columns: time_ms and at least one of rate_mbps, rtt_ms, loss";

/// A column besides the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Rate,
    Rtt,
    Loss,
}

impl Column {
    fn of(name: &str) -> Option<Self> {
        match name {
            "rate_mbps" => Some(Self::Rate),
            "rtt_ms" => Some(Self::Rtt),
            "loss" => Some(Self::Loss),
            _ => None,
        }
    }
}

pub fn parse(text: &str) -> Result<PathTrace, Fault> {
    let mut lines = lines(text);
    let (line, header) = lines.next().ok_or((None, HEADER.to_owned()))?;
    let columns = columns(line, header)?;
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for (line, text) in lines {
        let row = row(text, &columns).map_err(|reason| (Some(line), reason))?;
        check_order(rows.last(), &row).map_err(|reason| (Some(line), reason))?;
        rows.push((line, row));
    }
    let complete = rows.first().is_some_and(|(_, row)| row.values == columns.len());
    if !complete {
        let line = rows.first().map(|(line, _)| *line);
        return Err((line, "the first values are those at 0 ms, one in each column".into()));
    }
    let is_end = |(_, row): &(usize, Row)| row.values == 0;
    let ends = rows.last().is_some_and(is_end);
    let end = rows.pop_if(|_| ends).map(|(_, row)| row.step.at);
    if let Some((line, _)) = rows.iter().find(|row| is_end(row)) {
        let reason = "a time without values ends the trace: leave out this line, or what follows";
        return Err((Some(*line), reason.into()));
    }
    check_outages(&rows, end.is_some())?;
    Ok(PathTrace { steps: rows.into_iter().map(|(_, row)| row.step).collect(), period: end })
}

/// Refuses rates that stay at 0.
fn check_outages(rows: &[(usize, Row)], begins_again: bool) -> Result<(), Fault> {
    let mut rates = rows.iter().filter_map(|(line, row)| Some((*line, row.step.rate?)));
    let line = match rates.clone().next_back() {
        Some((line, last)) if last.is_zero() => line,
        _ => return Ok(()),
    };
    if begins_again && !rates.all(|(_, rate)| rate.is_zero()) {
        return Ok(());
    }
    let reason =
        "rate_mbps is 0 for good: add a line with the rate after the outage, or, if there is \
                  one before, a last line with a time alone, at which the trace begins again";
    Err((Some(line), reason.into()))
}

fn columns(line: usize, header: &str) -> Result<Vec<Column>, Fault> {
    let mut names = header.split(',').map(str::trim);
    if names.next() != Some("time_ms") {
        return Err((Some(line), HEADER.into()));
    }
    let mut columns = Vec::new();
    for name in names {
        let known = Column::of(name).filter(|column| !columns.contains(column));
        columns.push(known.ok_or_else(|| (Some(line), format!("column {name:?}: {HEADER}")))?);
    }
    if columns.is_empty() {
        return Err((Some(line), HEADER.into()));
    }
    Ok(columns)
}

/// A line, and how many values it has.
struct Row {
    step: Step,
    values: usize,
}

fn row(text: &str, columns: &[Column]) -> Result<Row, String> {
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    if cells.len() > columns.len() + 1 {
        return Err(format!("{} values: the header names {}", cells.len(), columns.len() + 1));
    }
    let at = ms(cells[0], f64::INFINITY)
        .ok_or_else(|| format!("time_ms is {}: a time is 0 ms or more", cells[0]))?;
    let mut row = Row { step: Step { at, ..Step::default() }, values: 0 };
    for (column, cell) in columns.iter().zip(&cells[1..]).filter(|(_, cell)| !cell.is_empty()) {
        set(&mut row.step, *column, cell)?;
        row.values += 1;
    }
    Ok(row)
}

fn set(step: &mut Step, column: Column, cell: &str) -> Result<(), String> {
    match column {
        Column::Rate => {
            let mbps = cell.parse().unwrap_or(f64::NAN);
            let rate = Rate::of_change(mbps);
            step.rate = Some(rate.map_err(|error| format!("rate_mbps is {cell}: {error}"))?);
        }
        Column::Rtt => {
            let rtt = ms(cell, RTT_MS_MAX).filter(|rtt| !rtt.is_zero());
            step.rtt = Some(rtt.ok_or_else(|| {
                format!("rtt_ms is {cell}: a round-trip time is above 0, to {RTT_MS_MAX} ms")
            })?);
        }
        Column::Loss => {
            let loss = cell.parse().ok().filter(|loss| (0.0..=1.0).contains(loss));
            step.loss =
                Some(loss.ok_or_else(|| {
                    format!("loss is {cell}: a loss is a probability from 0 to 1")
                })?);
        }
    }
    Ok(())
}

fn ms(text: &str, ms_max: f64) -> Option<Duration> {
    let ms: f64 = text.parse().ok().filter(|ms| *ms <= ms_max)?;
    Duration::try_from_secs_f64(ms / 1e3).ok()
}

fn check_order(before: Option<&(usize, Row)>, row: &Row) -> Result<(), String> {
    match before {
        None if !row.step.at.is_zero() => Err("the first line is the one at 0 ms".into()),
        Some((line, before)) if before.step.at >= row.step.at => {
            Err(format!("not after the time of line {line}: times rise"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbps(mbps: f64) -> Option<Rate> {
        Some(Rate::from_mbit_per_s(mbps).unwrap())
    }

    #[test]
    fn values_hold_from_their_time_on() {
        let text = "time_ms, rate_mbps, rtt_ms, loss\n0, 10, 40, 0\n\n# fade\n2.5, 1, , 0.1\n9\n";
        let trace = parse(text).unwrap();
        let ms = Duration::from_millis;
        let at = |us| Duration::from_micros(us);
        let first = Step { at: at(0), rate: mbps(10.0), rtt: Some(ms(40)), loss: Some(0.0) };
        let second = Step { at: at(2_500), rate: mbps(1.0), rtt: None, loss: Some(0.1) };
        assert_eq!(trace.steps(), [first, second]);
        assert_eq!(trace.period(), Some(ms(9)));
        assert_eq!(parse("time_ms,loss\n0,0\n5,1\n").unwrap().period(), None);
    }

    #[test]
    fn rate_of_0_is_an_outage() {
        for text in ["0,0\n5,10\n", "0,10\n5,0\n9,20\n", "0,10\n5,0\n9\n"] {
            let trace = parse(&format!("time_ms,rate_mbps\n{text}")).unwrap();
            assert!(trace.steps().iter().any(|step| step.rate == Some(Rate::ZERO)), "{text}");
        }
    }

    #[test]
    fn bad_line_is_named_with_what_would_do() {
        for (text, line, named) in [
            ("", None, "the first line names the columns"),
            ("0,10\n", Some(1), "time_ms and at least one of"),
            ("time_ms\n0\n", Some(1), "at least one of rate_mbps"),
            ("time_ms,speed\n", Some(1), "column \"speed\""),
            ("time_ms,loss,loss\n", Some(1), "column \"loss\""),
            ("time_ms,loss\n", None, "the first values are those at 0 ms"),
            ("time_ms,loss,rtt_ms\n0,0\n", Some(2), "one in each column"),
            ("time_ms,loss\n1,0\n", Some(2), "the one at 0 ms"),
            ("time_ms,loss\n0,0\n5,0\n5,0.5\n", Some(4), "not after the time of line 3"),
            ("time_ms,loss\n0,0\n5,\n9,0.5\n", Some(3), "a time without values ends the trace"),
            ("time_ms,loss\n0,0,7\n", Some(2), "3 values: the header names 2"),
            ("time_ms,loss\nx,0\n", Some(2), "time_ms is x"),
            ("time_ms,loss\n0,2\n", Some(2), "probability from 0 to 1"),
            ("time_ms,rtt_ms\n0,0\n", Some(2), "rtt_ms is 0: a round-trip time is above 0"),
            ("time_ms,rate_mbps\n0,0.0001\n", Some(2), "rate_mbps is 0.0001: a rate is 0"),
            ("time_ms,rate_mbps\n0,0\n", Some(2), "rate_mbps is 0 for good"),
            ("time_ms,rate_mbps\n0,0\n5,0\n9,\n", Some(3), "rate_mbps is 0 for good"),
            ("time_ms,rate_mbps,loss\n0,5,0\n5,0,\n9,,1\n", Some(3), "rate_mbps is 0 for good"),
        ] {
            let (found, reason) = parse(text).unwrap_err();
            assert!(found == line && reason.contains(named), "{text:?}: {found:?} {reason}");
        }
    }
}
