//! Names and tables of a scenario file.

use anyhow::bail;
use toml::Table;
use toml::Value;

/// What a name is, as messages say.
pub const NAME_RULE: &str = "a name is letters, digits, points, hyphens and underscores";

/// Names are typed in a shell and separated by commas.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.chars().all(plain)
}

/// Sets values of `changes` in a table, and of tables in it.
pub fn merge(into: &mut Table, changes: Table) {
    for (key, value) in changes {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Returns the table that a value is.
///
/// # Errors
///
/// It is none; `name` is how the message names it.
pub fn table_of(name: &str, value: Value) -> anyhow::Result<Table> {
    match value {
        Value::Table(table) => Ok(table),
        other => bail!("{name} = {other}: must be a table, [{name}]"),
    }
}
