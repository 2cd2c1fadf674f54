//! Ranking of subnets, clients or connections by how much each has of something.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::hash::Hash;

/// What each of several has, all that have something.
#[derive(Debug)]
pub struct Ranking<K> {
    totals: HashMap<K, u64>,
    by_total: BTreeSet<(u64, K)>,
}

/// Changes what one of a group has.
pub fn change_in<G: Copy + Eq + Hash, K: Copy + Ord + Hash>(
    groups: &mut HashMap<G, Ranking<K>>,
    group: G,
    one: K,
    before: u64,
    now: u64,
) {
    let ranking = groups.entry(group).or_default();
    ranking.change(one, before, now);
    if ranking.totals.is_empty() {
        groups.remove(&group);
    }
}

impl<K> Default for Ranking<K> {
    fn default() -> Self {
        Self { totals: HashMap::new(), by_total: BTreeSet::new() }
    }
}

impl<K: Copy + Ord + Hash> Ranking<K> {
    /// Returns what one has.
    pub fn total_of(&self, one: K) -> u64 {
        self.totals.get(&one).copied().unwrap_or(0)
    }

    /// Changes a part of what one has.
    pub fn change(&mut self, one: K, before: u64, now: u64) {
        let total = self.totals.remove(&one).unwrap_or(0);
        self.by_total.remove(&(total, one));
        let total = total - before + now;
        if total > 0 {
            self.totals.insert(one, total);
            self.by_total.insert((total, one));
        }
    }

    /// Returns the one that has most.
    pub fn largest(&self) -> Option<K> {
        self.by_total.last().map(|(_, one)| *one)
    }

    /// Returns those that have more than `least`, the largest first.
    pub fn larger_than(&self, least: u64) -> impl Iterator<Item = K> + '_ {
        self.by_total.iter().rev().take_while(move |(total, _)| *total > least).map(|(_, one)| *one)
    }

    /// Returns what each has, in no order.
    pub fn totals(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        self.totals.iter().map(|(one, total)| (*one, *total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranking_has_those_that_have_something_the_largest_first() {
        let mut ranking = Ranking::default();
        for (one, before, now) in [('a', 0, 5), ('b', 0, 9), ('a', 0, 6), ('c', 0, 1), ('c', 1, 0)]
        {
            ranking.change(one, before, now);
        }
        assert_eq!((ranking.total_of('a'), ranking.total_of('c')), (11, 0));
        assert_eq!(ranking.larger_than(0).collect::<Vec<_>>(), ['a', 'b']);
        assert_eq!(ranking.larger_than(9).collect::<Vec<_>>(), ['a']);
        ranking.change('a', 11, 2);
        assert_eq!((ranking.largest(), ranking.totals().count()), (Some('b'), 2));
    }
}
