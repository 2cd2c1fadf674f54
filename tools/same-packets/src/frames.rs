//! Log of the crate under test, between the lines of the trace.

use log::LevelFilter;
use log::Metadata;
use log::Record;

struct Printer;

impl log::Log for Printer {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        println!("    {}", record.args());
    }

    fn flush(&self) {}
}

/// Begins to print.
pub fn print() {
    if log::set_logger(&Printer).is_ok() {
        log::set_max_level(LevelFilter::Trace);
    }
}
