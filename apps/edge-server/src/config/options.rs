//! Options in the configuration file: the table `[server]`, with the names of the command line.
//!
//! They are converted to arguments, so that defaults, ranges and messages are defined once.

use std::ffi::OsString;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use clap::Arg;
use clap::ArgAction;
use toml::Value;

use crate::config::position::Position;

/// Options that may be repeated, and without a value are not what a list without one seems to say.
const NOT_EMPTY: [&str; 3] = ["cert", "key", "listen"];

/// Key of the table and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub name: String,

    pub position: Position,
    pub value: Value,
}

impl Setting {
    /// Returns the setting as arguments of `option`.
    ///
    /// # Errors
    ///
    /// The value has a type that the option does not take.
    pub fn arguments(&self, option: &Arg) -> anyhow::Result<Vec<OsString>> {
        let name = &self.name;
        if !option.get_action().takes_values() {
            return match self.value {
                Value::Boolean(true) => Ok(vec![format!("--{name}").into()]),
                Value::Boolean(false) => Ok(Vec::new()),
                _ => bail!("write true or false"),
            };
        }
        let values = match &self.value {
            Value::Array(values) => values.iter().map(text).collect(),
            value => text(value).map(|text| vec![text]),
        };
        let values: Vec<String> = values.context("write a text, a number, or a list of these")?;
        let may_be_empty =
            matches!(option.get_action(), ArgAction::Append) && !NOT_EMPTY.contains(&name.as_str());
        let remedy = match name.as_str() {
            "listen" => "write an address, such as [::]:443",
            "root" => "write a folder",
            _ => "leave it out",
        };
        ensure!(may_be_empty || !values.is_empty(), "the list is empty; {remedy}");
        Ok(values.into_iter().map(|value| format!("--{name}={value}").into()).collect())
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(on) => Some(if *on { "on" } else { "off" }.to_owned()),
        _ => None,
    }
}
