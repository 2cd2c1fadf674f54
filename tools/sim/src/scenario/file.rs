//! Scenario files: TOML, of one scenario or many.
//!
//! Owns lists of values, cases, and the errors of a file: one line that names the file,
//! the key, the value and the way out. [`Scenario`] has the meaning of the settings.
//!
//! - A list in place of a value stands for each of its values; several lists
//!   for every combination, in the order of the file, the last key fastest.
//! - Each `[[case]]` has a `name` and sets other values, by the same keys as the
//!   rest of the file, a flow's under the flow's name: what changes together.
//! - `[random]` sets values that are drawn for each draw, by the same keys: [`random`].

use std::fs;
use std::io::ErrorKind;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::Map;
use toml::Table;
use toml::Value;

use super::check;
use super::message;
use super::named_files::NamedFiles;
use super::pages;
use super::random;
use super::random::Draw;
use super::tables::is_name;
use super::tables::merge;
use super::tables::table_of;
use super::tables::NAME_RULE;
use super::traces;
use super::Page;
use super::Scenario;
use super::TraceFile;

/// The most scenarios that one file may stand for.
const SCENARIOS_MAX: usize = 100_000;

/// Keys of a scenario that are in no table.
const SCENARIO_KEYS: [&str; 2] = ["deadline_s", "visit_pause_s"];

/// A scenario file, read.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// Its name without folder and ending, which outcomes call `scenario`.
    pub stem: String,
    /// The path or the name that it was found by.
    pub source: String,
    pub title: String,
    /// Why, method and pass criterion.
    pub about: String,
    /// How many runs of each scenario, each with a seed of its own.
    pub runs: u32,
    /// In the order of the file.
    pub scenarios: Vec<Named>,
}

/// One of a file's scenarios.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// `case=…,path.rate_mbps=…`: its parameters; empty when the file has one scenario.
    pub name: String,
    /// The draw, the case, and the values taken from lists, by key, in the order of the file.
    pub parameters: Map<String, serde_json::Value>,
    pub scenario: Scenario,
}

impl Named {
    /// Returns whether it has every one of `terms`, which are separated by commas: a
    /// parameter as `key=value`, or its value alone.
    pub fn matches(&self, terms: &str) -> bool {
        let has = |term: &str| {
            let is = |own: &str| own == term || own.split_once('=').is_some_and(|(_, v)| v == term);
            self.name.split(',').any(is)
        };
        terms.split(',').all(has)
    }
}

/// Header of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    title: String,
    about: String,
    #[serde(default = "one")]
    runs: u32,
}

fn one() -> u32 {
    1
}

/// The parts of a scenario, each a table: `""` (the file's own keys), `path`,
/// and each flow under its name.
type Parts = Vec<(String, Table)>;

/// Name of a case in a file, and the values that it sets.
#[derive(Default)]
struct Case {
    name: Option<String>,
    changes: Table,
}

/// A key with a list of values: part, path of keys in it, values.
struct Axis {
    part: usize,
    keys: Vec<String>,
    values: Vec<Value>,
}

/// Files that a scenario file names.
struct Beside {
    traces: NamedFiles<TraceFile>,
    pages: NamedFiles<Page>,
}

/// Reads the file at `source`.
///
/// # Errors
///
/// One line that names the file, the key, its value, and the way out.
pub fn read(source: &str) -> anyhow::Result<File> {
    let text = fs::read_to_string(source).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::anyhow!(
            "no file and no built-in scenario is named '{source}'; sim list shows the built-in ones"
        ),
        _ => anyhow::anyhow!("cannot read {source}: {error}"),
    })?;
    parse(source, &text)
}

/// Reads `text`, which was found by `source`.
///
/// # Errors
///
/// As [`read`].
pub fn parse(source: &str, text: &str) -> anyhow::Result<File> {
    parts_of(source, text).with_context(|| format!("in {source}")).map_err(one_line)
}

fn one_line(error: anyhow::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", format!("{error:#}").replace('\n', " "))
}

fn parts_of(source: &str, text: &str) -> anyhow::Result<File> {
    let mut table: Table = toml::from_str(text).map_err(|error| syntax(&error, text))?;
    let draws = random::take_draws(&mut table, SCENARIOS_MAX)?;
    let cases = take_cases(&mut table)?;
    let path = table.remove("path").context("[path] is missing: say at least rate_mbps, rtt_ms")?;
    let flows = table.remove("flow").context("[[flow]] is missing: a scenario has a flow")?;
    let mut rest = Table::new();
    for key in SCENARIO_KEYS {
        rest.extend(table.remove(key).map(|value| (key.to_owned(), value)));
    }
    let head: Head = deserialize("", table)?;
    ensure!((1..=10_000).contains(&head.runs), "runs = {}: name 1 to 10000", head.runs);

    let mut parts: Parts = vec![(String::new(), rest)];
    parts.push(("path".into(), table_of("path", path)?));
    parts.extend(named_flows(flows)?);

    let mut scenarios = Vec::new();
    let beside = Beside { traces: NamedFiles::of(source), pages: NamedFiles::of(source) };
    for draw in &draws {
        for case in &cases {
            scenarios.extend(of_case(parts.clone(), draw, case, &beside)?);
            ensure!(
                scenarios.len() <= SCENARIOS_MAX,
                "more than {SCENARIOS_MAX} scenarios: shorten a list"
            );
        }
    }
    let stem = source.rsplit(['/', '\\']).next().unwrap_or(source).trim_end_matches(".toml").into();
    let Head { title, about, runs } = head;
    Ok(File { stem, source: source.into(), title, about, runs, scenarios })
}

/// Returns the scenarios of a case with the values of a draw.
fn of_case(
    mut parts: Parts,
    draw: &Draw,
    case: &Case,
    beside: &Beside,
) -> anyhow::Result<Vec<Named>> {
    let mut parameters = draw.parameters();
    parameters.extend(case.name.as_ref().map(|name| ("case".to_owned(), name.as_str().into())));
    let mut expanded = || {
        override_parts(&mut parts, case.changes.clone())?;
        override_parts(&mut parts, draw.values.clone()).context("random")?;
        expand(parts.clone(), &parameters, beside)
    };
    match &case.name {
        Some(name) => expanded().with_context(|| format!("case {name}")),
        None => expanded(),
    }
}

/// Returns the file's cases; one without a name, which changes nothing, when it has none.
fn take_cases(table: &mut Table) -> anyhow::Result<Vec<Case>> {
    let Some(cases) = table.remove("case") else { return Ok(vec![Case::default()]) };
    let Value::Array(cases) = cases else { bail!("case: write [[case]] before each") };
    let mut named = Vec::new();
    for case in cases {
        let mut case = table_of("case", case)?;
        let name = match case.remove("name") {
            Some(Value::String(name)) if is_name(&name) => name,
            Some(other) => bail!("case.name = {other}: {NAME_RULE}"),
            None => bail!("a [[case]] has no name: say name = \"…\""),
        };
        let is_old = named.iter().any(|other: &Case| other.name.as_ref() == Some(&name));
        ensure!(!is_old, "two cases are named {name}");
        named.push(Case { name: Some(name), changes: case });
    }
    Ok(named)
}

fn named_flows(flows: Value) -> anyhow::Result<Parts> {
    let Value::Array(flows) = flows else { bail!("flow: write [[flow]] before each") };
    let mut parts = Parts::new();
    for flow in flows {
        let flow = table_of("flow", flow)?;
        let name = match flow.get("name") {
            None => super::default::name(),
            Some(Value::String(name)) if is_name(name) && name != "path" => name.clone(),
            Some(other) => bail!("flow.name = {other}: {NAME_RULE}, and not path"),
        };
        ensure!(!parts.iter().any(|(n, _)| *n == name), "two flows are named {name}: name each");
        parts.push((name, flow));
    }
    Ok(parts)
}

/// Sets what a case changes: `path` and flows by their names, all else is the file's own.
fn override_parts(parts: &mut Parts, changes: Table) -> anyhow::Result<()> {
    for (key, value) in changes {
        if let Some((_, part)) = parts[1..].iter_mut().find(|(name, _)| *name == key) {
            merge(part, table_of(&key, value)?);
        } else if SCENARIO_KEYS.contains(&key.as_str()) {
            parts[0].1.insert(key, value);
        } else {
            let names: Vec<_> = parts[1..].iter().map(|(name, _)| name.as_str()).collect();
            let keys = SCENARIO_KEYS.join(", ");
            bail!("{key}: no such part; there are {}, {keys}", names.join(", "));
        }
    }
    Ok(())
}

/// Returns every combination of the lists' values, the last key fastest.
fn expand(
    parts: Parts,
    fixed: &Map<String, serde_json::Value>,
    beside: &Beside,
) -> anyhow::Result<Vec<Named>> {
    let mut axes = Vec::new();
    for (part, (name, table)) in parts.iter().enumerate() {
        find_axes(part, name, table, &mut Vec::new(), &mut axes)?;
    }
    let count = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.values.len()));
    let count = count.filter(|n| *n <= SCENARIOS_MAX);
    let count =
        count.with_context(|| format!("more than {SCENARIOS_MAX} scenarios: shorten a list"))?;
    (0..count).map(|index| combination(&parts, &axes, index, fixed, beside)).collect()
}

fn find_axes(
    part: usize,
    name: &str,
    table: &Table,
    keys: &mut Vec<String>,
    axes: &mut Vec<Axis>,
) -> anyhow::Result<()> {
    for (key, value) in table {
        keys.push(key.clone());
        match value {
            Value::Table(inner) => find_axes(part, name, inner, keys, axes)?,
            Value::Array(values) if values.is_empty() => {
                bail!("{} = []: name at least one value", key_of(name, keys));
            }
            Value::Array(values) if !values.iter().all(Value::is_table) => {
                axes.push(Axis { part, keys: keys.clone(), values: values.clone() });
            }
            _ => {}
        }
        keys.pop();
    }
    Ok(())
}

/// Returns the full key, such as `path.rate_mbps`.
fn key_of(part: &str, keys: &[String]) -> String {
    let all = (!part.is_empty()).then_some(part).into_iter().chain(keys.iter().map(String::as_str));
    all.collect::<Vec<_>>().join(".")
}

fn combination(
    parts: &Parts,
    axes: &[Axis],
    index: usize,
    fixed: &Map<String, serde_json::Value>,
    beside: &Beside,
) -> anyhow::Result<Named> {
    let mut parts = parts.clone();
    let mut parameters = fixed.clone();
    let mut stride: usize = axes.iter().map(|axis| axis.values.len()).product();
    for axis in axes {
        stride /= axis.values.len();
        let value = axis.values[index / stride % axis.values.len()].clone();
        let (part, table) = &mut parts[axis.part];
        let key = key_of(part, &axis.keys);
        let plain = serde_json::to_value(&value)?;
        ensure!(
            matches!(&value, Value::String(s) if is_name(s))
                || plain.is_number()
                || plain.is_boolean(),
            "{key} = {value}: in a list, say numbers, names, true or false"
        );
        set(table, &axis.keys, value);
        parameters.insert(key, plain);
    }
    let scenario = scenario_of(parts, beside)?;
    let say = |(key, value): (&String, &serde_json::Value)| match value {
        serde_json::Value::String(text) => format!("{key}={text}"),
        other => format!("{key}={other}"),
    };
    let name = parameters.iter().map(say).collect::<Vec<_>>().join(",");
    Ok(Named { name, parameters, scenario })
}

fn set(table: &mut Table, keys: &[String], value: Value) {
    match keys {
        [key] => {
            table.insert(key.clone(), value);
        }
        [key, rest @ ..] => {
            if let Some(Value::Table(inner)) = table.get_mut(key) {
                set(inner, rest, value);
            }
        }
        [] => {}
    }
}

fn scenario_of(parts: Parts, beside: &Beside) -> anyhow::Result<Scenario> {
    /// The keys of a scenario that are in no table.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rest {
        #[serde(default = "super::default::deadline_s")]
        deadline_s: f64,
        #[serde(default)]
        visit_pause_s: Option<f64>,
    }

    let mut parts = parts.into_iter();
    let (Some((_, rest)), Some((_, mut path))) = (parts.next(), parts.next()) else {
        bail!("a scenario has a path")
    };
    let Rest { deadline_s, visit_pause_s } = deserialize("", rest)?;
    let trace = traces::take(&beside.traces, &mut path)?;
    let path = super::Path { trace, ..deserialize("path", path)? };
    let mut flows = Vec::new();
    for (name, mut table) in parts {
        let page = pages::take(&beside.pages, &name, &mut table)?;
        flows.push(super::Flow { page, ..deserialize(&name, table)? });
    }
    let mut scenario = Scenario { path, flows, visit_pause_s, deadline_s };
    scenario.flows.retain(|flow| flow.count > 0);
    check::check(&scenario)?;
    Ok(scenario)
}

fn deserialize<T: DeserializeOwned>(part: &str, table: Table) -> anyhow::Result<T> {
    serde_path_to_error::deserialize(Value::Table(table.clone())).map_err(|error| {
        let keys = error.path().to_string();
        let value = keys
            .split('.')
            .try_fold(&Value::Table(table.clone()), |at, key| at.get(key))
            .map(|value| format!(" = {value}"));
        let known = keys != ".";
        let key = key_of(part, known.then(|| keys.clone()).as_slice());
        let reason = error.inner().message();
        message::missing(&key, reason).unwrap_or_else(|| {
            let reason = message::must(reason) + message::named_file_key(part, reason);
            let hint = message::misplaced(part, &keys);
            anyhow::anyhow!("{key}{}: {reason}{hint}", value.unwrap_or_default())
        })
    })
}

/// Describes a syntax error of the TOML, with its line.
fn syntax(error: &toml::de::Error, text: &str) -> anyhow::Error {
    let start = error.span().map_or(0, |span| span.start);
    let line = 1 + text.bytes().take(start).filter(|b| *b == b'\n').count();
    let written = text.lines().nth(line - 1).map_or("", str::trim);
    match error.message() {
        "duplicate key" => anyhow::anyhow!("line {line}: {written}: the key stands there twice"),
        message => anyhow::anyhow!("line {line}: {message}"),
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
