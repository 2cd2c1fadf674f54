//! Reports of downloads: the parts that all reports share.
//!
//! [`record`] reads and writes JSON lines, [`provenance`] says what made them, [`bound`] has the bounds of downloads, [`stats`]
//! computes figures, [`chart`] draws them and [`page`] makes a page of them.

pub mod bound;
pub mod chart;
pub mod page;
pub mod provenance;
pub mod record;
pub mod stats;
