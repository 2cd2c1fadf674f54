//! Heat map of the speed-up over two parameters.

use report::chart::heat;
use report::chart::Heat;
use report::page::figure;
use serde_json::Value;

use super::groups::FlowGroup;
use super::groups::Groups;
use crate::interval::Interval;

/// Most rows and columns; a map of more is not read.
const SIDE_MAX: usize = 16;

/// A parameter with several numbers, in the order of the results.
struct VariedKey {
    key: String,
    values: Vec<f64>,
}

/// Returns the map with its heading if the results have both modes and vary in two numbers.
///
/// # Errors
///
/// The figure cannot be drawn.
pub fn html(groups: &Groups) -> anyhow::Result<String> {
    let pairs: Vec<(&FlowGroup, &FlowGroup)> =
        groups.pairs().filter(|(careful, _)| careful.name == groups.all[0].name).collect();
    let keys = varied_keys(&pairs);
    let [y, x] = &keys[..] else { return Ok(String::new()) };
    if pairs.len() != x.values.len() * y.values.len()
        || x.values.len().max(y.values.len()) > SIDE_MAX
    {
        return Ok(String::new());
    }
    let words = "Mean time with slow start over that with Careful Resume, of the same seeds, with the 95 % \
                 interval of a paired bootstrap.";
    Ok(format!("<h2>Speed-up</h2>\n{}", figure(words, &heat(&map(&pairs, x, y))?)))
}

/// Returns the parameters that differ among the pairs; none if one of them is no number.
fn varied_keys(pairs: &[(&FlowGroup, &FlowGroup)]) -> Vec<VariedKey> {
    let mut all: Vec<(&str, Vec<&Value>)> = Vec::new();
    for (careful, _) in pairs {
        for (key, value) in careful.parameters.iter().filter(|(key, _)| !key.ends_with(".mode")) {
            match all.iter_mut().find(|varied| varied.0 == key) {
                Some(varied) if varied.1.contains(&value) => {}
                Some(varied) => varied.1.push(value),
                None => all.push((key, vec![value])),
            }
        }
    }
    let varied = all.into_iter().filter(|varied| varied.1.len() > 1);
    let numbers = varied.map(|(key, values)| {
        let values = values.into_iter().map(Value::as_f64).collect::<Option<_>>()?;
        Some(VariedKey { key: key.to_owned(), values })
    });
    numbers.collect::<Option<_>>().unwrap_or_default()
}

fn map(pairs: &[(&FlowGroup, &FlowGroup)], x: &VariedKey, y: &VariedKey) -> Heat {
    let cell = |row: f64, column: f64| {
        let is = |group: &FlowGroup, varied: &VariedKey, value: f64| {
            group.parameters.get(&varied.key).and_then(Value::as_f64) == Some(value)
        };
        let (careful, slow) =
            pairs.iter().find(|(group, _)| is(group, y, row) && is(group, x, column))?;
        let (slow, careful) = (slow.by_seed(|f| f.ttlb_ms), careful.by_seed(|f| f.ttlb_ms));
        let times = slow.iter().filter_map(|(seed, ms)| Some((*ms, *careful.get(seed)?)));
        Some(Interval::ratio_of_means(&times.collect::<Vec<_>>()))
    };
    let rows = y.values.iter();
    let cells: Vec<Vec<Option<Interval>>> =
        rows.map(|row| x.values.iter().map(|column| cell(*row, *column)).collect()).collect();
    Heat {
        x_title: x.key.clone(),
        columns: x.values.iter().map(f64::to_string).collect(),
        y_title: y.key.clone(),
        rows: y.values.iter().map(f64::to_string).collect(),
        cells: each(&cells, |cell| Some(cell.value)),
        intervals: each(&cells, |cell| (cell.low < cell.high).then_some((cell.low, cell.high))),
        digits: 2,
    }
}

fn each<T>(
    cells: &[Vec<Option<Interval>>],
    part: impl Fn(&Interval) -> Option<T>,
) -> Vec<Vec<Option<T>>> {
    let row = |row: &Vec<Option<Interval>>| {
        row.iter().map(|cell| cell.as_ref().and_then(&part)).collect()
    };
    cells.iter().map(row).collect()
}
