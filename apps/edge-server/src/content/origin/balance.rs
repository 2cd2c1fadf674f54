//! Choice among the upstreams of an origin for a request.

use std::cmp::Reverse;

use ring::digest;

use crate::config::file::OriginBalance;

/// Upstream that a request may be sent to.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamCandidate<'a> {
    pub url: &'a str,

    /// Requests that it has.
    pub requests: usize,

    /// The request has been there before.
    pub is_tried: bool,
    pub is_available: bool,
}

/// Returns the index of the upstream that a request for a path is sent to. If all are out, one is tried
/// nevertheless. Upstreams with as few requests take turns, by `turn`.
pub fn choose(
    candidates: &[UpstreamCandidate<'_>],
    balance: OriginBalance,
    path: &str,
    turn: usize,
) -> usize {
    let rank = |candidate: &UpstreamCandidate<'_>| (candidate.is_tried, !candidate.is_available);
    let best = candidates.iter().map(rank).min();
    let count = candidates.len();
    let rest = (0..count).map(|step| (turn.wrapping_add(step)) % count);
    let rest = rest.filter(|index| Some(rank(&candidates[*index])) == best);
    let chosen = match balance {
        OriginBalance::LeastConnections => rest.min_by_key(|index| candidates[*index].requests),
        OriginBalance::ConsistentHash => {
            rest.min_by_key(|index| Reverse(weight(candidates[*index].url, path)))
        }
    };
    chosen.unwrap_or_default()
}

/// Returns the weight of an upstream for a path in rendezvous hashing: the heaviest gets the path, and
/// no other path moves when one is out.
fn weight(url: &str, path: &str) -> u64 {
    let hash = digest::digest(&digest::SHA256, format!("{url}\n{path}").as_bytes());
    hash.as_ref().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URLS: [&str; 3] = ["http://a", "http://b", "http://c"];

    fn candidates(requests: [usize; 3]) -> [UpstreamCandidate<'static>; 3] {
        let of = |index: usize| UpstreamCandidate {
            url: URLS[index],
            requests: requests[index],
            is_tried: false,
            is_available: true,
        };
        [of(0), of(1), of(2)]
    }

    #[test]
    fn upstream_with_the_fewest_requests_is_chosen() {
        // Requests, those that were tried, those that are out, turn, and the choice.
        for (requests, tried, out, turn, expected) in [
            ([0, 0, 0], &[][..], &[][..], 0, 0),
            ([0, 0, 0], &[], &[], 1, 1),
            ([0, 0, 0], &[], &[], usize::MAX, usize::MAX % 3),
            ([2, 1, 2], &[], &[], 0, 1),
            ([0, 1, 2], &[0], &[], 0, 1),
            ([0, 1, 2], &[], &[0], 0, 1),
            ([0, 1, 2], &[1], &[0], 0, 2),
            ([0, 1, 2], &[1, 2], &[0], 0, 0),
            ([2, 1, 2], &[], &[0, 1, 2], 0, 1),
            ([2, 1, 2], &[0, 1, 2], &[], 0, 1),
        ] {
            let mut candidates = candidates(requests);
            tried.iter().for_each(|index: &usize| candidates[*index].is_tried = true);
            out.iter().for_each(|index: &usize| candidates[*index].is_available = false);
            let chosen = choose(&candidates, OriginBalance::LeastConnections, "/", turn);
            assert_eq!(chosen, expected, "{requests:?} {tried:?} {out:?} {turn}");
        }
    }

    #[test]
    fn path_has_its_upstream_and_moves_only_when_that_is_out() {
        let paths: Vec<_> = (0..3000).map(|number| format!("/app/{number}")).collect();
        let all = candidates([9, 0, 5]);
        let mut without = all;
        without[1].is_available = false;
        let mut shares = [0; 3];
        for (turn, path) in paths.iter().enumerate() {
            let chosen = choose(&all, OriginBalance::ConsistentHash, path, turn);
            let then = choose(&without, OriginBalance::ConsistentHash, path, 0);
            assert!(then != 1 && (chosen == 1 || then == chosen), "{path}");
            shares[chosen] += 1;
        }
        assert!(shares.iter().all(|share| (800..1200).contains(share)), "{shares:?}");
    }
}
