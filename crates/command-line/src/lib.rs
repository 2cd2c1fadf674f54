//! Command line of a program: reads it with clap, and ends the program with one line that
//! names the bad input and the way out, and with an exit code.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::Parser;

/// Exit code: the program could not do what it was asked for.
pub const EXIT_FAILED: u8 = 1;

/// Exit code: the command line makes no sense.
pub const EXIT_USAGE: u8 = 2;

/// Name of a program, which begins each line that it writes to standard error.
#[derive(Clone, Copy, Debug)]
pub struct Program(pub &'static str);

/// Reason why a program ends before it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The user asked for this text: help, or the version.
    Print(String),

    /// One line that names the bad input and the way out.
    Usage(String),
}

/// Reads a command line.
///
/// # Errors
///
/// It asks for help or the version, or makes no sense.
pub fn parse<C: Parser>(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<C, Stop> {
    C::try_parse_from(args).map_err(|e| Stop::new::<C>(&e))
}

/// Returns the first paragraph of clap's message as one line, without tips and usage.
pub fn one_line<C: Parser>(error: &clap::Error) -> String {
    let text = error.to_string();
    let paragraph = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "no command",
        _ => text.split("\n\n").next().unwrap_or_default(),
    };
    let words: Vec<_> = paragraph.split_whitespace().collect();
    let reason = words.join(" ");
    let reason = reason.strip_prefix("error: ").unwrap_or(&reason);
    format!("{reason}; see {} --help", C::command().get_name())
}

impl Stop {
    /// Sorts clap's errors.
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
    /// Writes a line to standard error. Nobody has to read it.
    pub fn say(self, line: impl fmt::Display) {
        let _ = writeln!(io::stderr(), "{}: {line}", self.0);
    }

    /// Says why the program failed, and returns its exit code.
    pub fn fail(self, line: impl fmt::Display) -> ExitCode {
        self.say(line);
        ExitCode::from(EXIT_FAILED)
    }

    /// Prints what the user asked for, or says what makes no sense, and returns the exit
    /// code.
    pub fn stop(self, stop: &Stop) -> ExitCode {
        match stop {
            Stop::Print(text) => {
                let _ = write!(io::stdout(), "{text}");
                ExitCode::SUCCESS
            }
            Stop::Usage(line) => {
                self.say(line);
                ExitCode::from(EXIT_USAGE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Subcommand;

    /// Stands for any program.
    #[derive(Debug, Parser)]
    #[command(name = "example", version)]
    struct Cli {
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..))]
        count: Option<u8>,

        #[command(subcommand)]
        command: Command,
    }

    #[derive(Debug, PartialEq, Eq, Subcommand)]
    enum Command {
        Run { from: String, to: String },
    }

    fn parse_words(line: &str) -> Result<Cli, Stop> {
        parse(line.split(' '))
    }

    #[test]
    fn a_good_line_is_understood() {
        let cli = parse_words("example --count 3 run a b").unwrap();
        let run = Command::Run { from: "a".to_owned(), to: "b".to_owned() };
        assert_eq!((cli.count, cli.command), (Some(3), run));
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
    fn bad_usage_is_one_line_naming_input_and_way_out() {
        for (line, named) in [
            ("example", "no command"),
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
