//! Schedule of changes on the command line: `--at 5s:rate=10,loss=0.01`.

use crate::cli::probability;
use crate::cli::rtt;
use link::Rate;
use link::Step;
use std::str::FromStr;
use std::time::Duration;

/// The value of one `--at`: what changes in both directions, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Changes {
    /// Since the start of the emulator.
    pub at: Duration,
    pub rate: Option<Rate>,
    pub rate_up: Option<Rate>,
    pub rtt: Option<Duration>,
    pub loss: Option<f64>,
}

impl From<&Step> for Changes {
    fn from(step: &Step) -> Self {
        let Step { at, rate, rtt, loss } = *step;
        Self { at, rate, rate_up: None, rtt, loss }
    }
}

impl FromStr for Changes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((time, settings)) = text.split_once(':') else {
            return Err("a time comes first, as in 5s:rate=10,loss=0.01".into());
        };
        let mut changes = Self { at: parse_time(time)?, ..Self::default() };
        for setting in settings.split(',') {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let is_new = match name {
                "rate" => changes.rate.replace(changed_rate(value)?).is_none(),
                "rate-up" => changes.rate_up.replace(changed_rate(value)?).is_none(),
                "rtt" => changes.rtt.replace(rtt(value)?).is_none(),
                "loss" => changes.loss.replace(probability(value)?).is_none(),
                _ => {
                    return Err(format!(
                        "{setting:?} is none of rate=MBIT, rate-up=MBIT, rtt=MS, loss=P"
                    ))
                }
            };
            if !is_new {
                return Err(format!("{name} is given twice: once is enough"));
            }
        }
        Ok(changes)
    }
}

/// Parses a rate in Mbit/s, or 0 for an outage.
fn changed_rate(text: &str) -> Result<Rate, String> {
    let mbit_per_s = text.parse().unwrap_or(f64::NAN);
    Rate::of_change(mbit_per_s).map_err(|error| error.to_string())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let (number, s_per_unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(ms), _) => (ms, 1e-3),
        (None, Some(s)) => (s, 1.0),
        (None, None) => ("", 1.0),
    };
    let s: f64 = number.parse().unwrap_or(f64::NAN);
    Duration::try_from_secs_f64(s * s_per_unit)
        .map_err(|_| format!("a time is like 5s, 1.5s or 500ms, not {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mbit(mbit_per_s: f64) -> Option<Rate> {
        Some(Rate::from_mbit_per_s(mbit_per_s).unwrap())
    }

    #[test]
    fn changes_parse_time_and_settings() {
        let (s, ms) = (Duration::from_secs(1), Duration::from_millis(1));
        let none = Changes::default();
        let cases = [
            ("5s:rate=10", Changes { at: 5 * s, rate: mbit(10.0), ..none }),
            ("1.5s:loss=0.01", Changes { at: 1_500 * ms, loss: Some(0.01), ..none }),
            ("5s:rate=0", Changes { at: 5 * s, rate: Some(Rate::ZERO), ..none }),
            ("250ms:rtt=80", Changes { at: 250 * ms, rtt: Some(80 * ms), ..none }),
            (
                "0s:loss=1,rate-up=0.5,rate=2,rtt=0",
                Changes {
                    at: Duration::ZERO,
                    rate: mbit(2.0),
                    rate_up: mbit(0.5),
                    rtt: Some(Duration::ZERO),
                    loss: Some(1.0),
                },
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn changes_error_names_what_would_do() {
        let cases = [
            ("5s", "a time comes first"),
            ("rate=10", "a time comes first"),
            ("5:rate=10", "5s, 1.5s or 500ms, not \"5\""),
            ("-1s:rate=10", "not \"-1s\""),
            ("xs:rate=10", "not \"xs\""),
            ("5s:", "rate=MBIT"),
            ("5s:speed=10", "\"speed=10\" is none of rate=MBIT"),
            ("5s:rate", "0.001"),
            ("5s:rate=0.0001", "a rate is 0 for an outage"),
            ("5s:rtt=70000", "0 to 60000 ms"),
            ("5s:loss=2", "0 to 1"),
            ("5s:rate=1,rate=2", "rate is given twice"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Changes>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
