//! Crate under test: the one that the module of this side names.

pub use super::super::quiche::*;
