//! Controlled comparison (A/B test) of Careful Resume with slow start, as edge-server makes it and
//! `path-store gain` evaluates it.
//!
//! - [`Arm`], [`ClientUnit`] and [`SizeClass`] say who and what is compared; server and evaluation
//!   share them.
//! - [`Samples`] collects the responses of access logs ([`LogLine`]).
//! - [`Gain`] is the comparison: quantiles of the time to the last byte in both arms, with
//!   confidence intervals, and the checks that the arms can be compared.
//!
//! docs/edge-server/control-group.md has the rules.

mod arm;
mod balance;
mod bootstrap;
mod client_unit;
mod gain;
mod log_line;
mod samples;
mod size_class;

pub use self::arm::Arm;
pub use self::balance::Balance;
pub use self::client_unit::ClientUnit;
pub use self::gain::ArmSize;
pub use self::gain::ClassGain;
pub use self::gain::Gain;
pub use self::gain::Interval;
pub use self::gain::Quantile;
pub use self::gain::QuantileGain;
pub use self::gain::Settings;
pub use self::log_line::LogLine;
pub use self::log_line::Response;
pub use self::log_line::UnknownLine;
pub use self::samples::ArmTotals;
pub use self::samples::Samples;
pub use self::size_class::SizeClass;
