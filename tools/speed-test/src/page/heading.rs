//! Heading of the page.

/// Text of the page beside the downloads.
#[derive(Clone, Debug, Default)]
pub struct Heading {
    /// Date of the measurement, as text.
    pub date: String,
    /// Subject and means of the measurement in a few sentences of plain text.
    pub about: Vec<String>,
    /// Rules that were broken; see [`crate::verdict`].
    pub failures: Vec<String>,
    /// Downloads that measured the machine; see [`crate::verdict`].
    pub notes: Vec<String>,
}
