//! ECN codepoints, and the setting.

/// Codepoint of the ECN field in an IP header (RFC 3168, 5). The values are
/// those on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Codepoint {
    /// Not ECN-capable.
    #[default]
    NotEct = 0b00,

    /// ECN-capable; reserved for experiments such as L4S (RFC 9331).
    Ect1 = 0b01,

    /// ECN-capable.
    Ect0 = 0b10,

    /// Congestion experienced.
    Ce = 0b11,
}

impl Codepoint {
    /// Returns the codepoint of the two low bits of an IPv4 TOS field or an IPv6
    /// traffic class.
    pub fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Codepoint::NotEct,
            0b01 => Codepoint::Ect1,
            0b10 => Codepoint::Ect0,
            _ => Codepoint::Ce,
        }
    }
}

/// Settings of `Config::set_ecn()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnConfig {
    /// Whether Reno and CUBIC keep more of the window, 0.8 and 0.85, after a
    /// mark in congestion avoidance than after a loss (RFC 8511). BBR has no
    /// such factor.
    pub alternative_backoff: bool,

    /// Whether Reno and CUBIC mark with ECT(1), and answer marks as L4S asks
    /// (RFC 9331, 4.3). BBR marks with ECT(0).
    pub l4s: bool,
}
