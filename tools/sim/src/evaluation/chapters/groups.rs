//! Groups of a chapter's pairs, and distinct values.

use crate::evaluation::data::Pair;
use crate::evaluation::names::controller_name;

/// Returns a chapter's pairs by congestion controller, with its name.
pub fn by_controller<'a>(pairs: &'a [Pair<'a>]) -> Vec<(&'static str, Vec<&'a Pair<'a>>)> {
    let controllers = distinct(pairs.iter().map(Pair::controller));
    let of = |cc| (controller_name(cc), pairs.iter().filter(|p| p.controller() == cc).collect());
    controllers.into_iter().map(of).collect()
}

/// Values in the order of their first appearance.
pub fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}
