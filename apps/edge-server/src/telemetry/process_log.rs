//! Log on standard error: each line has time, level, origin and message, as text or as JSON. What it
//! shows can be changed while the server runs.

use std::cell::RefCell;
use std::io;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use env_filter::Filter;
use log::Level;
use log::LevelFilter;
use log::Log;
use log::Metadata;
use log::Record;
use quiche::clock;
use serde::Serialize;

use crate::config::LogFormat;
use crate::config::PROGRAM;
use crate::telemetry::printable::in_ascii;
use crate::telemetry::printable::printable;

/// Variable that sets the filter of the start.
const VARIABLE: &str = "RUST_LOG";

/// What the log shows by default: the warnings of this program and of the store.
const FILTER_DEFAULT: &str = "edge_server=warn,path_store=warn";

/// Crates of ours whose messages a filter may name.
const CRATES: [&str; 3] = ["edge_server", "path_store", "quiche"];

/// Longest line, in bytes: a pipe takes it as a whole or not at all.
const LINE_BYTES_MAX: usize = 4096;

/// The log of the process.
static LOG: OnceLock<ProcessLog> = OnceLock::new();

thread_local! {
    /// Warnings of this thread, while somebody gathers them.
    static GATHERED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

struct ProcessLog {
    format: LogFormat,
    filter: RwLock<(String, Filter)>,
}

/// JSON object of a line.
#[derive(Serialize)]
struct JsonRecord<'a> {
    time: &'a str,
    level: &'a str,
    target: &'a str,
    message: &'a str,
}

/// Logs a notice of the server, which every filter shows.
macro_rules! notice {
    ($($message:tt)+) => {
        log::info!(target: $crate::config::PROGRAM.0, $($message)+)
    };
}

pub(crate) use notice;

/// Starts the log. The environment may set what it shows.
pub fn start(format: LogFormat) {
    let text = std::env::var(VARIABLE).unwrap_or_else(|_| FILTER_DEFAULT.to_owned());
    let mut builder = env_filter::Builder::new();
    let filter = (text.clone(), builder.parse(&text).build());
    let process_log = LOG.get_or_init(|| ProcessLog { format, filter: RwLock::new(filter) });
    if log::set_logger(process_log).is_ok() {
        process_log.set_max_level();
    }
    if let Err(reason) = check_filter(&text) {
        notice!("{VARIABLE}: {reason}");
    }
}

/// Calls `act`, and returns the warnings that this thread has logged meanwhile, besides.
pub fn gather_warnings<T>(act: impl FnOnce() -> T) -> (T, Vec<String>) {
    GATHERED.set(Some(Vec::new()));
    let result = act();
    (result, GATHERED.take().unwrap_or_default())
}

/// Keeps a message if it is a warning, and somebody gathers those of this thread.
fn gather(record: &Record<'_>) {
    if record.level() <= Level::Warn {
        GATHERED.with_borrow_mut(|gathered| {
            gathered.iter_mut().for_each(|lines| lines.push(record.args().to_string()));
        });
    }
}

/// Returns what the log shows.
pub fn filter() -> String {
    LOG.get().map(ProcessLog::filter).unwrap_or_default()
}

/// Changes what the log shows: a level, or a list like `edge_server=debug,path_store=warn`.
///
/// # Errors
///
/// One line that names the invalid word and says what to write.
pub fn set_filter(text: &str) -> Result<(), String> {
    check_filter(text)?;
    LOG.get().map_or(Ok(()), |process_log| process_log.set_filter(text))
}

/// Checks that each word of a filter is a level, or sets the level of a target of ours: others would
/// only silence the log.
fn check_filter(text: &str) -> Result<(), String> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_valid = |word: &str| match word.split_once('=') {
        Some((target, level)) => {
            let crate_name = target.split_once("::").map_or(target, |(first, _)| first);
            is_level(level) && CRATES.contains(&crate_name)
        }
        None => is_level(word),
    };
    match text.split(',').map(str::trim).find(|word| !is_valid(word)) {
        None => Ok(()),
        Some(word) => Err(format!(
            "'{}' is no log filter; write off, error, warn, info, debug or trace, or TARGET=LEVEL, \
             where TARGET begins with {}",
            printable(word),
            CRATES.join(", ")
        )),
    }
}

impl ProcessLog {
    fn filter(&self) -> String {
        self.filter.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn set_filter(&self, text: &str) -> Result<(), String> {
        let mut builder = env_filter::Builder::new();
        let filter = builder.try_parse(text).map_err(|_| {
            "not a log filter; write off, error, warn, info, debug or trace, or edge_server=debug"
        })?;
        let filter = filter.build();
        *self.filter.write().unwrap_or_else(PoisonError::into_inner) = (text.to_owned(), filter);
        self.set_max_level();
        Ok(())
    }

    /// Spares the cost of messages that nobody sees.
    fn set_max_level(&self) {
        let filter = self.filter.read().unwrap_or_else(PoisonError::into_inner);
        // Notices are always shown.
        log::set_max_level(filter.1.filter().max(LevelFilter::Info));
    }

    /// Returns the line of a message, without a line break.
    fn line(&self, record: &Record<'_>, now: SystemTime) -> String {
        let time = humantime::format_rfc3339_millis(now.max(UNIX_EPOCH)).to_string();
        let (level, target) = (record.level().as_str(), record.target());
        let message = record.args().to_string();
        match self.format {
            LogFormat::Text => {
                let mut line = format!("{time} {level} {target}: {}", printable(&message));
                truncate(&mut line, LINE_BYTES_MAX - 1);
                line
            }
            LogFormat::Json => {
                let json = |message: &str| {
                    let line = JsonRecord { time: &time, level, target, message };
                    in_ascii(&serde_json::to_string(&line).unwrap_or_default())
                };
                let mut message = message;
                let mut line = json(&message);
                // An escape is six bytes.
                if line.len() >= LINE_BYTES_MAX {
                    truncate(&mut message, LINE_BYTES_MAX / 8);
                    line = json(&message);
                }
                line
            }
        }
    }
}

impl Log for ProcessLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == PROGRAM.0
            || self.filter.read().unwrap_or_else(PoisonError::into_inner).1.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        gather(record);
        let is_shown = record.target() == PROGRAM.0
            || self.filter.read().unwrap_or_else(PoisonError::into_inner).1.matches(record);
        if is_shown {
            let mut line = self.line(record, clock::wall_now());
            line.push('\n');
            // A closed reader is no reason to stop.
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

fn truncate(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn process_log(format: LogFormat, text: &str) -> ProcessLog {
        let filter = env_filter::Builder::new().parse(text).build();
        ProcessLog { format, filter: RwLock::new((text.to_owned(), filter)) }
    }

    fn line(format: LogFormat, message: &str) -> String {
        let now = UNIX_EPOCH + Duration::from_millis(784_111_777_250);
        let args = format_args!("{message}");
        let record =
            Record::builder().level(Level::Warn).target("edge_server::worker").args(args).build();
        process_log(format, "warn").line(&record, now)
    }

    #[test]
    fn line_has_time_level_and_origin_in_each_format() {
        assert_eq!(
            line(LogFormat::Text, "the disk is full"),
            "1994-11-06T08:49:37.250Z WARN edge_server::worker: the disk is full"
        );
        let json: serde_json::Value =
            serde_json::from_str(&line(LogFormat::Json, "the disk is full")).unwrap();
        let expected = serde_json::json!({
            "time": "1994-11-06T08:49:37.250Z", "level": "WARN",
            "target": "edge_server::worker", "message": "the disk is full",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn line_has_no_characters_that_terminals_obey() {
        let message = "a\nb\r\u{1b}[31m\u{9b}1m\u{202e}\u{2028}\u{2066}\u{feff}\u{7f}é";
        let text = line(LogFormat::Text, message);
        let shown = r"a\nb\r\u{1b}[31m\u{9b}1m\u{202e}\u{2028}\u{2066}\u{feff}\u{7f}é";
        assert!(text.ends_with(shown), "{text}");
        let json = line(LogFormat::Json, message);
        assert!(json.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["message"], message);
    }

    #[test]
    fn long_line_fits_into_pipe() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let line = line(format, &"é\n".repeat(LINE_BYTES_MAX));
            assert!(line.len() < LINE_BYTES_MAX, "{}", line.len());
            assert!(format == LogFormat::Text || line.ends_with("\"}"), "{line}");
        }
    }

    #[test]
    fn filter_with_word_that_shows_nothing_is_refused() {
        for good in ["off", "DEBUG", "edge_server=debug, path_store=warn", "warn,quiche::h3=trace"]
        {
            assert_eq!(check_filter(good), Ok(()), "{good}");
        }
        for (bad, word) in [
            ("", "''"),
            ("wran", "'wran'"),
            ("edge_server", "'edge_server'"),
            ("debug,edge-server=debug", "'edge-server=debug'"),
            ("edge_server=loud", "'edge_server=loud'"),
            ("edge_server=", "'edge_server='"),
            ("edge_servers::h3=debug", "'edge_servers::h3=debug'"),
            ("debug,,warn", "''"),
            ("debug/x\u{1b}", r"'debug/x\u{1b}'"),
        ] {
            let reason = check_filter(bad).unwrap_err();
            assert!(reason.starts_with(word), "{bad}: {reason}");
        }
    }

    #[test]
    fn warnings_of_the_thread_are_gathered() {
        let process_log = process_log(LogFormat::Text, "off");
        let log = |level, line: &str| {
            process_log.log(&Record::builder().level(level).args(format_args!("{line}")).build());
        };
        log(Level::Warn, "before");
        let (result, warnings) = gather_warnings(|| {
            log(Level::Warn, "one");
            log(Level::Info, "notice");
            log(Level::Error, "two");
            7
        });
        log(Level::Warn, "after");
        assert_eq!((result, warnings), (7, vec!["one".to_owned(), "two".to_owned()]));
    }

    #[test]
    fn filter_changes_what_is_shown() {
        let process_log = process_log(LogFormat::Text, "warn");
        let shows = |level, target| {
            process_log.enabled(&Metadata::builder().level(level).target(target).build())
        };
        assert!(shows(Level::Warn, "edge_server") && !shows(Level::Debug, "edge_server"));
        process_log.set_filter("edge_server=debug").unwrap();
        assert!(shows(Level::Debug, "edge_server::h3") && !shows(Level::Warn, "path_store"));
        assert!(process_log.set_filter("edge_server=loud").unwrap_err().contains("off, error"));
        assert_eq!(process_log.filter(), "edge_server=debug");
        process_log.set_filter("off").unwrap();
        assert!(!shows(Level::Error, "edge_server") && shows(Level::Info, PROGRAM.0));
    }
}
