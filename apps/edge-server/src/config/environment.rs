//! Options in the environment: `EDGE_SERVER_LISTEN` is `--listen`.
//!
//! They are converted to arguments, as those of the file are, which they override. The command line
//! overrides them.

use std::ffi::OsString;

use clap::Arg;
use clap::ArgAction;

/// Beginning of the variables' names.
const PREFIX: &str = "EDGE_SERVER_";

/// Option that asks for one action, and is not for every start.
const NOT_IN_ENVIRONMENT: &str = "check";

/// Returns the arguments that variables are, with the names of the variables, in their order.
///
/// # Errors
///
/// One line that names the variable.
pub fn arguments(
    variables: impl Iterator<Item = (OsString, OsString)>,
    options: &[Arg],
) -> Result<Vec<(String, Vec<OsString>)>, String> {
    let mut arguments = Vec::new();
    for (variable, value) in variables {
        let variable = variable.to_string_lossy().into_owned();
        let upper = variable.to_ascii_uppercase();
        let Some(name) = upper.strip_prefix(PREFIX).filter(|name| !is_of_kubernetes(name)) else {
            continue;
        };
        if variable != upper {
            return Err(format!("{variable}: write {upper}, or unset it"));
        }
        let name = name.to_lowercase().replace('_', "-");
        let option = options.iter().find(|option| option.get_long() == Some(&name));
        if name == NOT_IN_ENVIRONMENT {
            return Err(format!("{variable}: --{name} is for the command line alone; unset it"));
        }
        let option = option.ok_or_else(|| {
            format!("{variable}: there is no option --{name}; see edge-server --help")
        })?;
        let of_variable = of_option(option, &name, &value).map_err(|e| format!("{variable}: {e}"));
        arguments.push((variable, of_variable?));
    }
    arguments.sort();
    Ok(arguments)
}

fn of_option(option: &Arg, name: &str, value: &OsString) -> Result<Vec<OsString>, String> {
    let value = value.to_str().ok_or("write text in UTF-8")?;
    if !option.get_action().takes_values() {
        return match value {
            "true" | "on" | "1" => Ok(vec![format!("--{name}").into()]),
            "false" | "off" | "0" | "" => Ok(Vec::new()),
            _ => Err("write true or false".to_owned()),
        };
    }
    let argument = |value: &str| format!("--{name}={value}").into();
    Ok(match option.get_action() {
        ArgAction::Append => {
            value.lines().map(str::trim).filter(|line| !line.is_empty()).map(argument).collect()
        }
        _ => vec![argument(value)],
    })
}

/// Returns whether Kubernetes sets a variable for containers beside a service of the name
/// `edge-server`.
fn is_of_kubernetes(name: &str) -> bool {
    name == "PORT" || name.starts_with("PORT_") || name.starts_with("SERVICE_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Cli;
    use clap::CommandFactory;

    fn parsed(variables: &[(&str, &str)]) -> Result<String, String> {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let options: Vec<_> = Cli::command().get_arguments().cloned().collect();
        let words = arguments(variables, &options)?.into_iter().flat_map(|(_, words)| words);
        let words: Vec<_> = words.map(|word| word.into_string().unwrap()).collect();
        Ok(words.join(" "))
    }

    #[test]
    fn variables_are_options() {
        for (name, value, expected) in [
            ("HOME", "/root", Ok("")),
            ("EDGE_SERVER_ROOT", "/srv/a b", Ok("--root=/srv/a b")),
            ("EDGE_SERVER_CONFIG", "edge.toml", Ok("--config=edge.toml")),
            (
                "EDGE_SERVER_LISTEN",
                "[::]:1\n [::]:2,cc=reno \n",
                Ok("--listen=[::]:1 --listen=[::]:2,cc=reno"),
            ),
            ("EDGE_SERVER_SPEEDTEST", "on", Ok("--speedtest")),
            ("EDGE_SERVER_SPEEDTEST", "false", Ok("")),
            ("EDGE_SERVER_SPEEDTEST", "maybe", Err("EDGE_SERVER_SPEEDTEST: write true or false")),
            ("EDGE_SERVER_IDLE_TIMEOUT", "9", Ok("--idle-timeout=9")),
            ("EDGE_SERVER_PORT", "tcp://10.0.0.1:443", Ok("")),
            ("EDGE_SERVER_PORT_443_TCP", "tcp://10.0.0.1:443", Ok("")),
            ("EDGE_SERVER_SERVICE_HOST", "10.0.0.1", Ok("")),
            (
                "EDGE_SERVER_LISTN",
                "x",
                Err("EDGE_SERVER_LISTN: there is no option --listn; see edge-server --help"),
            ),
            (
                "EDGE_SERVER_CHECK",
                "1",
                Err("EDGE_SERVER_CHECK: --check is for the command line alone; unset it"),
            ),
            (
                "edge_server_root",
                "/srv",
                Err("edge_server_root: write EDGE_SERVER_ROOT, or unset it"),
            ),
            (
                "EDGE_SERVER_root",
                "/srv",
                Err("EDGE_SERVER_root: write EDGE_SERVER_ROOT, or unset it"),
            ),
            ("edge_server_port", "1", Ok("")),
        ] {
            let parsed = parsed(&[(name, value)]);
            assert_eq!(parsed.as_deref().map_err(String::as_str), expected, "{name}={value}");
        }
    }
}
