//! Heading of the page.

/// What the page says besides the downloads.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    /// When the measurement was made, as text.
    pub date: String,
    /// What was measured and with what, a few sentences; plain text.
    pub about: Vec<String>,
    /// Rules that were broken; see [`crate::verdict`].
    pub failures: Vec<String>,
    /// Downloads that measured the machine; see [`crate::verdict`].
    pub notes: Vec<String>,
}
