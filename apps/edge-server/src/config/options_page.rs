//! Options page of the documentation, rendered from the command line's definitions.

use std::fmt::Write;

use clap::Arg;
use clap::ArgAction;
use clap::Command;
use clap::CommandFactory;

use crate::config::Cli;
use crate::config::NOT_IN_FILE;
use crate::config::RELOADED;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/edge-server/options.md");

const OPENING: &str = "\
# Options of edge-server

Look up what an option does, which values it takes, how the configuration file sets it, and
whether a reload applies a change.

<!-- Written by `make options` from apps/edge-server/src/config; edit the texts there. -->

Set an option on the command line, or under the same name in the table `[server]` of the
[configuration file](content.md#the-configuration-file), shown here as TOML, or as a variable of
the environment: `EDGE_SERVER_IDLE_TIMEOUT` is `--idle-timeout`, with each of several values in a line of its own, and `true` or
`false` for an option that takes none. Variables win over the file, and the command line over both. \"Reload\" means that SIGHUP [applies a change](operation.md#reload); any other option needs a
restart, which [need not interrupt anything](operation.md#hot-restart).
";

/// Renders the page.
fn render(command: &Command) -> String {
    let mut headings: Vec<&str> = Vec::new();
    for heading in shown(command).filter_map(Arg::get_help_heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    let mut page = OPENING.to_owned();
    page += "\n| | options |\n|---|---|\n";
    for heading in &headings {
        let links: Vec<_> = under(command, heading).map(|option| link(name(option))).collect();
        writeln!(page, "| {heading} | {} |", links.join(", ")).unwrap();
    }
    for heading in &headings {
        write!(page, "\n## {heading}\n").unwrap();
        for option in under(command, heading) {
            page += &section(command, option);
        }
    }
    page
}

fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|option| !option.is_hide_set())
}

fn under<'a>(command: &'a Command, heading: &'a str) -> impl Iterator<Item = &'a Arg> {
    shown(command).filter(move |option| option.get_help_heading() == Some(heading))
}

fn name(option: &Arg) -> &str {
    option.get_long().expect("every option has a long name")
}

fn link(name: &str) -> String {
    format!("[`--{name}`](#--{name})")
}

/// Renders what the page says about one option.
fn section(command: &Command, option: &Arg) -> String {
    let name = name(option);
    let help = option.get_long_help().or(option.get_help()).expect("every option has a help text");
    let mut section = format!("\n### `--{name}`\n\n{}\n", facts(option));
    for paragraph in help.to_string().split("\n\n") {
        let paragraph = paragraph.split(" [default: ").next().unwrap_or_default();
        let stop = if paragraph.ends_with(['.', ':']) { "" } else { "." };
        write!(section, "\n{}{stop}\n", with_links(command, name, paragraph)).unwrap();
    }
    section
}

/// Renders usage, default, values, key in the file, and reload.
fn facts(option: &Arg) -> String {
    let name = name(option);
    let mut facts = vec![match value_name(option) {
        Some(value) => format!("`--{name} {value}`"),
        None => format!("`--{name}`"),
    }];
    facts.extend(default(option));
    facts.extend(values(option));
    if NOT_IN_FILE.contains(&name) {
        facts.push("command line only".to_owned());
    } else {
        facts.push(format!("`{name} = {}`", toml(option)));
        let counts = if RELOADED.contains(&name) { "reload" } else { "restart" };
        facts.push(counts.to_owned());
    }
    facts.join(" · ")
}

fn value_name(option: &Arg) -> Option<&str> {
    let takes_values = option.get_action().takes_values();
    takes_values.then(|| option.get_value_names()?.first().map(|name| name.as_str())).flatten()
}

fn default(option: &Arg) -> Option<String> {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    if let Some((_, told)) = help.split_once("[default: ") {
        return Some(format!("default: {}", told.trim_end_matches(']')));
    }
    if option.is_required_set() {
        return Some("required".to_owned());
    }
    let takes_values = option.get_action().takes_values();
    let default = option.get_default_values().first()?.to_str()?;
    takes_values.then(|| format!("default: `{default}`"))
}

/// Renders the values that an option takes, if they are few or a range.
fn values(option: &Arg) -> Option<String> {
    if value_name(option)?.contains("on|off") {
        return None;
    }
    let names: Vec<_> = option
        .get_possible_values()
        .iter()
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !names.is_empty() {
        return Some(names.join(", "));
    }
    let (least, most) = range(option)?;
    Some(match most.parse() == Ok(u32::MAX) {
        true => format!("{least} or more"),
        false => format!("{least} to {most}"),
    })
}

/// Returns the bounds of a number. Only the parser knows them, which names them when it
/// refuses one that is out of range.
fn range(option: &Arg) -> Option<(String, String)> {
    let refusal = |number: &str| {
        let argument = format!("--{}={number}", name(option));
        let refused = Cli::command().try_get_matches_from(["edge-server", &argument]).err()?;
        let refused = refused.to_string();
        let (_, bounds) = refused.split_once(" is not in ")?;
        let (least, most) = bounds.split_whitespace().next()?.split_once("..=")?;
        Some((least.to_owned(), most.to_owned()))
    };
    refusal("-1").or_else(|| refusal(&u64::MAX.to_string()))
}

/// Renders an option's value in the configuration file.
fn toml(option: &Arg) -> String {
    let Some(value) = value_name(option) else { return "true".to_owned() };
    let default = option.get_default_values().first().and_then(|value| value.to_str());
    let is_number =
        range(option).is_some() || default.is_some_and(|value| value.parse::<f64>().is_ok());
    match option.get_action() {
        ArgAction::Append => format!("[\"{value}\", …]"),
        _ if value == "on|off" => "true|false".to_owned(),
        _ if value == "on|off|l4s" => "true|false|\"l4s\"".to_owned(),
        _ if is_number => value.to_owned(),
        _ => format!("\"{value}\""),
    }
}

/// Turns the names of other options into links.
fn with_links(command: &Command, own: &str, text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let option = word.strip_prefix("--").and_then(|rest| {
            let end =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
            Some(rest.split_at(end)).filter(|(name, _)| {
                *name != own && shown(command).any(|option| option.get_long() == Some(name))
            })
        });
        option.map_or_else(|| word.to_owned(), |(name, rest)| link(name) + rest)
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn options_page_is_that_of_the_command_line() {
    let mut command = Cli::command();
    command.build();
    let page = render(&command);
    if std::env::var_os("UPDATE_OPTIONS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(written == page, "docs/edge-server/options.md is not current; run make options");
}
