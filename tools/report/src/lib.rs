//! Reports of downloads: the parts that all reports share.
//!
//! [`record`] reads and writes JSON lines, [`provenance`] says what made them, [`qlog`] and
//! [`timeline`] read what a server logs of one connection, [`bound`] has the bounds of downloads, [`stats`]
//! computes figures, [`chart`] draws them and [`page`] makes a page of them.

pub mod bound;
pub mod chart;
pub mod page;
pub mod provenance;
pub mod qlog;
pub mod record;
pub mod stats;
pub mod timeline;
