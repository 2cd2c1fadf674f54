//! Random values of a scenario file's keys.
//!
//! `[random]` has `draws`, how often every value is drawn, a `seed`, and by key the
//! range of each value: `{ log = [5, 1000] }`, in which equal ratios are equally likely,
//! `{ linear = [0.25, 1] }`, or `{ whole = [1, 8] }`. Values are drawn in the order of
//! the file, and replace those of the file and its cases. Every draw is a scenario of its
//! own, or as many as the file's lists and cases make of it; a draw has the same values in
//! all of them.

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use serde_json::Map;
use toml::Table;
use toml::Value;

use crate::random::Random;
use crate::seeds::Purpose;

/// The values of one draw.
#[derive(Debug, Default)]
pub struct Draw {
    /// From 1; none where the file has no `[random]`.
    pub number: Option<u64>,
    /// As a case sets them.
    pub values: Table,
}

/// Scale on which values are drawn evenly.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Log,
    /// Whole numbers, both ends included.
    Whole,
}

impl Draw {
    /// Returns its number and values by key, as outcomes have them.
    pub fn parameters(&self) -> Map<String, serde_json::Value> {
        let mut parameters = Map::new();
        parameters.extend(self.number.map(|number| ("draw".to_owned(), number.into())));
        flatten("", &self.values, &mut parameters);
        parameters
    }
}

fn flatten(part: &str, values: &Table, into: &mut Map<String, serde_json::Value>) {
    for (key, value) in values {
        match value {
            Value::Table(inner) => flatten(&format!("{part}{key}."), inner, into),
            Value::Integer(number) => {
                into.insert(format!("{part}{key}"), (*number).into());
            }
            other => {
                into.insert(format!("{part}{key}"), other.as_float().into());
            }
        }
    }
}

/// Takes `[random]` from a file, `draws_max` draws at most; one draw without values when
/// it has none.
///
/// # Errors
///
/// A message that names a key, its value and what is allowed.
pub fn take_draws(file: &mut Table, draws_max: usize) -> anyhow::Result<Vec<Draw>> {
    let mut ranges = match file.remove("random") {
        None => return Ok(vec![Draw::default()]),
        Some(Value::Table(ranges)) => ranges,
        Some(other) => bail!("random = {other}: must be a table, [random]"),
    };
    let draws = whole(&mut ranges, "draws")?;
    ensure!(
        (1..=draws_max as u64).contains(&draws),
        "random.draws = {draws}: name 1 to {draws_max}"
    );
    let seed = whole(&mut ranges, "seed")?;
    ensure!(!ranges.is_empty(), "[random] draws nothing: say path.rate_mbps = {EXAMPLE}");
    let draw = |number| {
        let mut random = Random::new(seed, Purpose::Draw, number);
        Ok(Draw { number: Some(number), values: drawn("random", &ranges, &mut random)? })
    };
    (1..=draws).map(draw).collect()
}

const EXAMPLE: &str = "{ log = [5, 1000] }";

fn whole(table: &mut Table, key: &str) -> anyhow::Result<u64> {
    let value = table
        .remove(key)
        .with_context(|| format!("random.{key} is missing: say a whole number"))?;
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    number.with_context(|| format!("random.{key} = {value}: must be a whole number, not negative"))
}

/// Returns a value of each range, in the order of the file.
fn drawn(part: &str, ranges: &Table, random: &mut Random) -> anyhow::Result<Table> {
    let mut values = Table::new();
    for (key, value) in ranges {
        let name = format!("{part}.{key}");
        let Value::Table(inner) = value else {
            bail!("{name} = {value}: say a range, {EXAMPLE} or {{ linear = [0.25, 1] }}");
        };
        let value = match range(&name, inner)? {
            Some((Scale::Linear, low, high)) => random.uniform(low, high).into(),
            Some((Scale::Log, low, high)) => random.log(low, high).into(),
            Some((Scale::Whole, low, high)) => {
                (random.whole(low as u64, high as u64) as i64).into()
            }
            None => drawn(&name, inner, random)?.into(),
        };
        values.insert(key.clone(), value);
    }
    Ok(values)
}

/// Returns the range that `table` is, if it is one.
fn range(name: &str, table: &Table) -> anyhow::Result<Option<(Scale, f64, f64)>> {
    let scales = [("linear", Scale::Linear), ("log", Scale::Log), ("whole", Scale::Whole)];
    let Some((key, scale)) = scales.into_iter().find(|(key, _)| table.contains_key(*key)) else {
        return Ok(None);
    };
    let ends = match table.get(key).and_then(Value::as_array).map(Vec::as_slice) {
        Some([low, high]) if table.len() == 1 => number(low).zip(number(high)),
        _ => None,
    };
    let (least, most, must) = match scale {
        Scale::Linear => (f64::MIN, f64::MAX, ""),
        Scale::Log => (f64::MIN_POSITIVE, f64::MAX, ", both above 0"),
        Scale::Whole => (0.0, 2_f64.powi(53), ", whole numbers, not negative"),
    };
    let is_whole = |end: f64| scale != Scale::Whole || end.fract() == 0.0;
    let ends = ends.filter(|(low, high)| {
        least <= *low && low < high && *high <= most && is_whole(*low) && is_whole(*high)
    });
    let (low, high) = ends.with_context(|| {
        format!(
            "{name} = {}: say the lower end and the upper end of a range{must}",
            Value::Table(table.clone())
        )
    })?;
    Ok(Some((scale, low, high)))
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}
