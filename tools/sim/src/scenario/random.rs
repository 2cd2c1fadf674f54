//! Random values of a scenario file's keys.
//!
//! `[random]` has `draws`, how often every value is drawn, a `seed`, and by key the
//! range of each value: `{ log = [5, 1000] }`, in which equal ratios are equally likely,
//! `{ linear = [0.25, 1] }`, or `{ whole = [1, 8] }`. Values are drawn in the order of
//! the file, and replace those of the file and its cases. Every draw is a scenario of its
//! own, or as many as the file's lists and cases make of it; a draw has the same values in
//! all of them.
//!
//! Each `[[random.kind]]` has a `name`, a `share` of the draws on average, and values besides, of
//! which some may be fixed: a mix of unlike paths.

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use serde_json::Map;
use toml::Table;
use toml::Value;

use super::tables::is_name;
use super::tables::merge;
use super::tables::table_of;
use super::tables::NAME_RULE;
use crate::random::Random;
use crate::seeds::Purpose;

/// The values of one draw.
#[derive(Debug, Default)]
pub struct Draw {
    /// From 1; none where the file has no `[random]`.
    pub number: Option<u64>,
    /// Where the file has kinds.
    pub kind: Option<String>,
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
        parameters.extend(self.kind.clone().map(|kind| ("kind".to_owned(), kind.into())));
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
    let kinds = take_kinds(&mut ranges)?;
    let draws_some = !ranges.is_empty() || !kinds.is_empty();
    ensure!(draws_some, "[random] draws nothing: say path.rate_mbps = {EXAMPLE}");
    let draw = |number| {
        let mut random = Random::new(seed, Purpose::Draw, number);
        let kind = of_share(&kinds, &mut random);
        let mut values = drawn("random", &ranges, false, &mut random)?;
        if let Some(kind) = kind {
            let part = format!("random.kind {}", kind.name);
            merge(&mut values, drawn(&part, &kind.ranges, true, &mut random)?);
        }
        Ok(Draw { number: Some(number), kind: kind.map(|kind| kind.name.clone()), values })
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

/// A kind of draws.
struct Kind {
    name: String,
    share: f64,
    ranges: Table,
}

fn take_kinds(random: &mut Table) -> anyhow::Result<Vec<Kind>> {
    let Some(kinds) = random.remove("kind") else { return Ok(Vec::new()) };
    let Value::Array(kinds) = kinds else {
        bail!("random.kind: write [[random.kind]] before each")
    };
    let kind = |value: Value| {
        let mut ranges = table_of("[random.kind]", value)?;
        let name = match ranges.remove("name") {
            Some(Value::String(name)) if is_name(&name) => name,
            Some(other) => bail!("random.kind.name = {other}: {NAME_RULE}"),
            None => bail!("a [[random.kind]] has no name: say name = \"…\""),
        };
        let share = ranges.remove("share").as_ref().and_then(number);
        let share = share.filter(|share| *share > 0.0 && share.is_finite());
        let share =
            share.with_context(|| format!("random.kind {name}.share: say a number above 0"))?;
        Ok(Kind { name, share, ranges })
    };
    let kinds = kinds.into_iter().map(kind).collect::<anyhow::Result<Vec<Kind>>>()?;
    for (index, kind) in kinds.iter().enumerate() {
        let is_old = kinds[..index].iter().any(|other| other.name == kind.name);
        ensure!(!is_old, "two kinds are named {}", kind.name);
    }
    Ok(kinds)
}

/// Draws one of the kinds by their shares.
fn of_share<'a>(kinds: &'a [Kind], random: &mut Random) -> Option<&'a Kind> {
    let (last, others) = kinds.split_last()?;
    let all: f64 = kinds.iter().map(|kind| kind.share).sum();
    let mut at = random.uniform(0.0, all);
    let below = |kind: &&Kind| {
        at -= kind.share;
        at < 0.0
    };
    Some(others.iter().find(below).unwrap_or(last))
}

/// Returns a value of each range, in the order of the file, and fixed values if they are allowed.
fn drawn(
    part: &str,
    ranges: &Table,
    may_be_fixed: bool,
    random: &mut Random,
) -> anyhow::Result<Table> {
    let mut values = Table::new();
    for (key, value) in ranges {
        let name = format!("{part}.{key}");
        let Value::Table(inner) = value else {
            ensure!(
                may_be_fixed && number(value).is_some(),
                "{name} = {value}: say a range, {EXAMPLE} or {{ linear = [0.25, 1] }}"
            );
            values.insert(key.clone(), value.clone());
            continue;
        };
        let value = match range(&name, inner)? {
            Some((Scale::Linear, low, high)) => random.uniform(low, high).into(),
            Some((Scale::Log, low, high)) => random.log(low, high).into(),
            Some((Scale::Whole, low, high)) => {
                (random.whole(low as u64, high as u64) as i64).into()
            }
            None => drawn(&name, inner, may_be_fixed, random)?.into(),
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
