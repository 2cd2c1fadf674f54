//! Command line of a program: parses it with clap. A usage error is one line that names the bad
//! input and what to do, and an exit code.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::Command;
use clap::Parser;
use clap::ValueEnum;

mod generate;

/// Exit code: the program failed.
pub const EXIT_FAILED: u8 = 1;

/// Exit code: the command line is invalid.
pub const EXIT_USAGE: u8 = 2;

/// Name of a program, the prefix of each line that it writes to standard error.
#[derive(Clone, Copy, Debug)]
pub struct Program(pub &'static str);

/// Value of an option that switches something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

/// Value of the option that marks packets as ECN-capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EcnMode {
    On,
    Off,

    /// With ECT(1) (RFC 9331).
    L4s,
}

/// Reason why a program ends after parsing its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Text to print: help, or the version.
    Print(String),

    /// One line that names the bad input and what to do.
    Usage(String),
}

/// Parses a command line.
///
/// # Errors
///
/// The command line is invalid, or asks for help, the version, or what packages install.
pub fn parse<C: Parser>(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<C, Stop> {
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    if let Some(stop) = generated(&args, C::command) {
        return Err(stop);
    }
    C::try_parse_from(args).map_err(|e| Stop::new::<C>(&e))
}

/// Returns what a command line of `--generate man|bash|zsh|fish` asks for, or `None` if it is another
/// one. [`parse()`] looks itself.
pub fn generated(args: &[OsString], command: impl FnOnce() -> Command) -> Option<Stop> {
    Some(match generate::text(args, command)? {
        Ok(text) => Stop::Print(text),
        Err(line) => Stop::Usage(line),
    })
}

/// Parses a share from 0 to 1, as clap's value parser.
///
/// # Errors
///
/// What a share is.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is from 0 to 1, such as 0.9".to_owned())
}

/// Messages of the standard library's parsers, and what a value must be instead.
const REASONS: [(&str, &str); 6] = [
    ("number would be zero for non-zero type", "must be at least 1"),
    ("invalid digit found in string", "must be a whole number"),
    ("cannot parse integer from empty string", "must be a whole number"),
    ("number too large to fit in target type", "is too large"),
    ("invalid float literal", "must be a number"),
    ("invalid socket address syntax", "expected ADDR:PORT, such as 127.0.0.1:4434"),
];

/// Returns the first paragraph of clap's message as one line, without tips and usage.
pub fn one_line<C: Parser>(error: &clap::Error) -> String {
    let text = error.to_string();
    let paragraph = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "no command"
        }
        _ => text.split("\n\n").next().unwrap_or_default(),
    };
    let words: Vec<_> = paragraph.split_whitespace().collect();
    let reason = words.join(" ");
    let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
    format!("{}; see {} --help", explained(reason), C::command().get_name())
}

/// Replaces the reason of a standard parser by what the value must be.
fn explained(reason: &str) -> String {
    let argument =
        reason.strip_prefix("unexpected argument '").and_then(|rest| rest.split_once('\''));
    if let Some((number, _)) = argument.filter(|(text, _)| text.parse::<f64>().is_ok()) {
        return format!("no option has a value below zero, such as '{number}'");
    }
    let known = REASONS.iter().find_map(|(std, must)| Some((reason.strip_suffix(std)?, must)));
    known.map_or_else(|| reason.to_owned(), |(before, must)| format!("{before}{must}"))
}

impl Stop {
    /// Converts clap's error.
    pub fn new<C: Parser>(error: &clap::Error) -> Self {
        match error.use_stderr() {
            true => Self::Usage(one_line::<C>(error)),
            false => Self::Print(error.to_string()),
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Print(text) | Self::Usage(text)) = self;
        f.write_str(text)
    }
}

impl Program {
    /// Writes a line to standard error, and ignores a closed one. Controls in the line, which a
    /// terminal would obey, are escaped.
    pub fn say(self, line: impl fmt::Display) {
        let _ = writeln!(io::stderr(), "{}: {}", self.0, without_controls(&line.to_string()));
    }

    /// Writes the reason of a failure, and returns the exit code.
    pub fn fail(self, line: impl fmt::Display) -> ExitCode {
        self.say(line);
        ExitCode::from(EXIT_FAILED)
    }

    /// Writes text to standard output, and ignores a closed one: a reader such as `head` has read
    /// what it needs.
    pub fn print(self, text: impl fmt::Display) {
        let _ = write!(io::stdout(), "{text}");
    }

    /// Prints the text or the usage error, and returns the exit code.
    pub fn stop(self, stop: &Stop) -> ExitCode {
        match stop {
            Stop::Print(text) => {
                self.print(text);
                ExitCode::SUCCESS
            }
            Stop::Usage(line) => {
                self.say(line);
                ExitCode::from(EXIT_USAGE)
            }
        }
    }
}

fn without_controls(line: &str) -> String {
    let shown = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    line.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Subcommand;
    use std::net::SocketAddr;
    use std::num::NonZeroU8;

    /// Example of a command line.
    #[derive(Debug, Parser)]
    #[command(name = "example", version)]
    struct Cli {
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
        count: Option<u8>,

        #[arg(long)]
        jobs: Option<NonZeroU8>,

        #[arg(long)]
        seed: Option<u8>,

        #[arg(long)]
        rate: Option<f64>,

        #[arg(long)]
        listen: Option<SocketAddr>,

        #[command(subcommand)]
        command: ExampleCommand,
    }

    #[derive(Debug, PartialEq, Eq, Subcommand)]
    enum ExampleCommand {
        Run { from: String, to: String },
    }

    fn parse_words(line: &str) -> Result<Cli, Stop> {
        parse(line.split(' '))
    }

    #[test]
    fn valid_command_line_is_parsed() {
        let cli = parse_words("example --count 3 run a b").unwrap();
        let run = ExampleCommand::Run { from: "a".to_owned(), to: "b".to_owned() };
        assert_eq!((cli.count, cli.command), (Some(3), run));
    }

    #[test]
    fn controls_of_a_line_are_escaped() {
        assert_eq!(without_controls("é 'a\u{1b}[2J\nb'"), "é 'a\\u{1b}[2J\\nb'");
    }

    #[test]
    fn help_and_version_are_printed() {
        for (line, text) in [
            ("example --help", "Usage: example"),
            ("example run --help", "Usage: example run"),
            ("example --version", "example "),
        ] {
            let stop = parse_words(line).unwrap_err();
            assert!(matches!(&stop, Stop::Print(said) if said.contains(text)), "{line}: {stop}");
        }
    }

    #[test]
    fn manual_and_completions_name_options_and_commands() {
        for (form, texts) in [
            ("man", [".TH example 1", "\\-\\-count", ".SH \"EXAMPLE RUN\"", "<\\fIFROM\\fR>"]),
            ("bash", ["_example()", "--count", "run)", "--seed"]),
            ("zsh", ["#compdef example", "--count=", "(run)", "--seed="]),
            ("fish", ["complete -c example", "-l count", "-a \"run\"", "-l seed"]),
        ] {
            let stop = parse_words(&format!("example --generate {form}")).unwrap_err();
            let Stop::Print(said) = stop else { panic!("{form}: {stop}") };
            for text in texts {
                assert!(said.contains(text), "{form}: no {text} in {said}");
            }
        }
        for line in ["example --generate", "example --generate pdf", "example --generate man 1"] {
            let stop = parse_words(line).unwrap_err();
            assert_eq!(
                stop,
                Stop::Usage("--generate takes one of man, bash, zsh, fish".to_owned())
            );
        }
    }

    #[test]
    fn usage_error_tells_what_a_value_must_be() {
        for (line, must) in [
            ("--jobs 0", "'--jobs <JOBS>': must be at least 1;"),
            ("--seed x", "'--seed <SEED>': must be a whole number;"),
            ("--jobs 256", "'--jobs <JOBS>': is too large;"),
            ("--seed -1", "no option has a value below zero, such as '-1';"),
            ("--rate fast", "'--rate <RATE>': must be a number;"),
            ("--listen x", "expected ADDR:PORT, such as 127.0.0.1:4434;"),
        ] {
            let stop = parse_words(&format!("example {line} run a b")).unwrap_err();
            assert!(stop.to_string().contains(must), "{stop}");
        }
    }

    #[test]
    fn share_is_from_0_to_1() {
        for (text, share) in [("0", Some(0.0)), ("0.9", Some(0.9)), ("1", Some(1.0)), ("1.1", None)]
        {
            assert_eq!(parse_share(text).ok(), share, "{text}");
        }
        for text in ["-0.1", "nan", "x", ""] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn usage_error_is_one_line_naming_input() {
        for (line, named) in [
            ("example", "no command"),
            ("example --count 3", "no command"),
            ("example walk", "'walk'"),
            ("example run a", "<TO>"),
            ("example run", "<FROM> <TO>"),
            ("example --count 0 run a b", "'0'"),
            ("example --counts 1 run a b", "'--counts'"),
        ] {
            let Err(Stop::Usage(said)) = parse_words(line) else { panic!("{line}") };
            assert!(said.contains(named) && said.ends_with("; see example --help"), "{said}");
            assert!(!said.contains('\n') && !said.starts_with("error"), "{said}");
        }
    }
}
