//! Reports of downloads: what they share, whoever made the downloads.
//!
//! JSON lines are read and written by [`record`], judged against [`bound`], put
//! into figures by [`stats`], drawn by [`chart`] and framed by [`page`]. What a
//! report says is its own affair.

pub mod bound;
pub mod chart;
pub mod page;
pub mod record;
pub mod stats;
