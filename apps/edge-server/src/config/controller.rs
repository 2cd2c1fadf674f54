//! Congestion controller, as options and hosts name it.

use std::str::FromStr;

use clap::ValueEnum;
use serde::de::Error;
use serde::Deserialize;
use serde::Deserializer;

/// Congestion controller of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CongestionController {
    Cubic,
    Reno,
    Bbr2,
}

impl CongestionController {
    const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr2];

    /// Returns the name in options and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr2 => "bbr2",
        }
    }
}

impl FromStr for CongestionController {
    type Err = String;

    /// Parses a name. The error names the value and those that there are.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|controller| controller.name() == name);
        found.ok_or_else(|| format!("cc = '{name}': use cubic, reno or bbr2"))
    }
}

impl<'de> Deserialize<'de> for CongestionController {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_option() {
        for controller in CongestionController::ALL {
            let value = controller.to_possible_value().unwrap();
            assert_eq!(value.get_name(), controller.name());
            assert_eq!(controller.name().parse(), Ok(controller));
        }
        assert_eq!(CongestionController::ALL.len(), CongestionController::value_variants().len());
    }

    #[test]
    fn unknown_name_is_told_with_those_that_there_are() {
        for name in ["bbr3", "CUBIC", ""] {
            let error = name.parse::<CongestionController>().unwrap_err();
            assert_eq!(error, format!("cc = '{name}': use cubic, reno or bbr2"));
        }
    }
}
