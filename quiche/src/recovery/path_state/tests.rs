//! Tests of path state: claims, lifetimes, retreats, keys.

use super::*;
use std::net::IpAddr;

const HOUR: Duration = Duration::from_secs(3600);

fn wall(secs: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + secs)
}

fn state(saved_cwnd: u64) -> PathState {
    PathState {
        saved_cwnd,
        saved_rtt: Duration::from_millis(50),
        observed: wall(0),
        expires: wall(0) + HOUR,
        limited: false,
        validated: false,
    }
}

fn endpoint(client: &str) -> RemoteEndpoint {
    let client: IpAddr = client.parse().unwrap();
    RemoteEndpoint::new("192.0.2.1", client, PrefixLengths::default())
}

#[test]
fn path_state_survives_its_encoding() {
    for (limited, validated) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let set = PathState {
            limited,
            validated,
            ..state(3_125_000)
        };

        assert_eq!(PathState::from_bytes(&set.to_bytes()), Ok(set));
    }
}

#[test]
fn bytes_that_are_no_path_state_are_refused() {
    let good = state(1).to_bytes();

    let mut newer = good;
    newer[0] = 2;
    let mut unknown_flag = good;
    unknown_flag[1] = 4;
    let mut endless = good;
    endless[26..].fill(0xff);

    for (bytes, error) in [
        (&newer[..], DecodeError::UnknownVersion(2)),
        (&newer[..1], DecodeError::UnknownVersion(2)),
        (&unknown_flag[..], DecodeError::Malformed),
        (&good[..33], DecodeError::Malformed),
        (&[], DecodeError::Malformed),
    ] {
        assert_eq!(PathState::from_bytes(bytes), Err(error));
    }

    let error = PathState::from_bytes(&newer).unwrap_err();
    assert_eq!(error.to_string(), "path state of unknown version 2");

    // Whether that time exists depends on the platform; it must not panic.
    if let Ok(set) = PathState::from_bytes(&endless) {
        assert!(!set.is_expired(wall(0)));
    }
}

#[test]
fn path_state_expires_after_its_lifetime() {
    let set = state(1);

    assert!(!set.is_expired(wall(0)));
    assert!(!set.is_expired(wall(3599)));
    assert!(set.is_expired(wall(3600)));

    // A clock set back a little does no harm; far back, nothing is known.
    assert!(!set.is_expired(wall(0) - HOUR));
    assert!(set.is_expired(wall(0) - HOUR - Duration::from_secs(1)));
}

#[test]
fn unlimited_observation_replaces_the_held_one() {
    // (held, observed, limited, validated) -> (saved_cwnd, renewed)
    for (held, observed, limited, validated, saved_cwnd, renewed) in [
        (100, 50, false, false, 50, true),
        (100, 200, false, false, 200, true),
        (100, 50, true, false, 100, false),
        (100, 50, true, true, 100, true),
        (100, 100, true, false, 100, false),
        (100, 111, true, true, 100, true),
        (100, 112, true, false, 112, true),
        (100, 200, true, false, 200, true),
        (u64::MAX, u64::MAX, true, false, u64::MAX, true),
    ] {
        let observed = PathState {
            observed: wall(60),
            expires: wall(60) + HOUR,
            limited,
            validated,
            ..state(observed)
        };

        let kept = PathState::merged(Some(state(held)), observed, wall(60));
        assert_eq!(kept.saved_cwnd, saved_cwnd);
        assert_eq!(kept.expires == observed.expires, renewed);
        assert_eq!(kept.limited, limited && kept == observed);
    }
}

/// It does not say what the path holds, either.
#[test]
fn limited_observation_replaces_a_smaller_limited_one() {
    for (observed, saved_cwnd) in [(99, 100), (100, 100), (101, 101)] {
        let limited = |saved_cwnd, at| PathState {
            observed: at,
            expires: at + HOUR,
            limited: true,
            ..state(saved_cwnd)
        };
        let held = limited(100, wall(0));
        let observed = limited(observed, wall(60));

        let kept = PathState::merged(Some(held), observed, wall(60));
        assert_eq!(kept.saved_cwnd, saved_cwnd);
        assert_eq!(kept.observed == wall(60), observed.saved_cwnd >= 100);
    }
}

#[test]
fn expired_path_state_does_not_count_as_held() {
    let observed = PathState {
        limited: true,
        observed: wall(3600),
        expires: wall(7200),
        ..state(50)
    };

    let kept = PathState::merged(Some(state(100)), observed, wall(3600));
    assert_eq!(kept, observed);
}

/// A8: a renewed state keeps the values of one observation, and its time.
#[test]
fn renewal_extends_up_to_four_lifetimes() {
    let minutes = |n: u64| wall(60 * n);
    let held = state(100);
    let mut kept = held;

    // (when, until when it is renewed by then), in minutes
    for (now, expires) in
        [(45, 105), (90, 150), (135, 195), (180, 240), (239, 240)]
    {
        let observed = PathState {
            saved_rtt: Duration::from_millis(30),
            observed: minutes(now),
            expires: minutes(now) + HOUR,
            limited: true,
            validated: true,
            ..state(50)
        };
        kept = PathState::merged(Some(kept), observed, minutes(now));

        let expected = PathState {
            expires: minutes(expires),
            validated: true,
            ..held
        };
        assert_eq!(kept, expected);
    }

    // Nor does one shorten it that was told a shorter Lifetime.
    let short = PathState {
        observed: wall(60),
        expires: wall(61),
        limited: true,
        validated: true,
        ..state(50)
    };
    let kept = PathState::merged(Some(held), short, wall(60));
    assert_eq!(kept.expires, held.expires);
}

/// B6: saved_cwnd never goes with a saved_rtt, nor with a time, that it was not
/// observed with; nor does it outlive four Lifetimes since. Random sequences.
#[cfg(feature = "internal")]
#[test]
fn merged_state_is_of_one_observation() {
    use crate::rand::rand_u64_uniform;

    for seed in 0..2000 {
        let _time = crate::clock::Simulation::start(seed, Duration::ZERO);
        let mut now = wall(0);
        let mut known = Vec::new();
        let mut held = None;

        for _ in 0..50 {
            now += Duration::from_secs(60 * rand_u64_uniform(50));
            let observed = PathState {
                saved_cwnd: rand_u64_uniform(50),
                saved_rtt: Duration::from_millis(rand_u64_uniform(200)),
                observed: now,
                expires: now + HOUR,
                limited: rand_u64_uniform(4) > 0,
                validated: rand_u64_uniform(2) > 0,
            };
            let parts = |set: &PathState| {
                (set.saved_cwnd, set.saved_rtt, set.observed, set.limited)
            };
            known.push(parts(&observed));

            let kept = PathState::merged(held, observed, now);
            assert!(known.contains(&parts(&kept)), "{seed}: {kept:?}");
            assert!(!kept.is_expired(now), "{seed}: {kept:?}");
            assert!(kept.expires <= kept.observed + 4 * HOUR, "{seed}");
            held = Some(kept);
        }
    }
}

#[test]
fn clients_of_one_subnet_are_one_endpoint() {
    for (a, b, same) in [
        ("198.51.100.1", "198.51.100.254", true),
        ("198.51.100.1", "198.51.101.1", false),
        ("198.51.100.1", "::ffff:198.51.100.9", true),
        ("2001:db8:1::1", "2001:db8:1:ffff::2", true),
        ("2001:db8:1::1", "2001:db8:2::1", false),
    ] {
        assert_eq!(endpoint(a) == endpoint(b), same, "{a} {b}");
    }

    assert_eq!(
        endpoint("198.51.100.7").with_dscp(46).to_string(),
        "192.0.2.1>198.51.100.0/24#46"
    );
}

#[test]
fn pseudonym_replaces_the_subnet_alone() {
    let here = endpoint("198.51.100.7");
    let hidden = here.clone().with_pseudonym([0xa5; 16]);

    assert_eq!(here.prefix(), Some(([198, 51, 100, 0].into(), 24)));
    assert_eq!(hidden.prefix(), None);
    assert_eq!(
        hidden.clone().with_dscp(46).to_string(),
        "192.0.2.1>~a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5#46"
    );
    assert_ne!(hidden, here.with_pseudonym([0x5a; 16]));
}

#[test]
fn prefix_lengths_reach_from_everyone_to_one_host() {
    let client: IpAddr = "198.51.100.7".parse().unwrap();

    for (v4, text) in [
        (0, "s>0.0.0.0/0"),
        (20, "s>198.51.96.0/20"),
        (32, "s>198.51.100.7/32"),
        (99, "s>198.51.100.7/32"),
    ] {
        let lengths = PrefixLengths { v4, v6: 48 };
        let endpoint = RemoteEndpoint::new("s", client, lengths);
        assert_eq!(endpoint.to_string(), text);
    }
}

#[test]
fn leases_and_hold_offs_are_bounded() {
    let ms = Duration::from_millis;
    // (saved RTT, current RTT, lease), in milliseconds
    for (saved_rtt, rtt, expected) in [
        (50, 0, 1000),
        (600, 0, 4800),
        (600, 500, 4800),
        // The path is a longer one by now.
        (50, 450, 3600),
        (50, 500, 4000),
        // It is another path.
        (50, 501, 4000),
        (50, 3_600_000, 4000),
    ] {
        assert_eq!(lease(ms(saved_rtt), ms(rtt)), ms(expected));
    }
    assert_eq!(lease(Duration::MAX, Duration::MAX), Duration::MAX);

    let minutes = [1, 1, 2, 4, 8, 16, 32, 60, 60];
    for (retreats, minutes) in minutes.into_iter().enumerate() {
        let expected = Duration::from_secs(60 * minutes);
        assert_eq!(hold_off(retreats as u32), expected);
    }
    assert_eq!(hold_off(u32::MAX), HOUR);
}

#[cfg(feature = "internal")]
mod memory_store {
    use super::*;
    use crate::clock::Simulation;

    /// A connection's, shorter than what is saved.
    const RTT: Duration = Duration::from_millis(20);

    // A simulation whose wall clock shows wall(0).
    fn simulation() -> Simulation {
        let offset = wall(0).duration_since(UNIX_EPOCH).unwrap();
        Simulation::start(1, offset)
    }

    #[test]
    fn path_state_is_claimed_by_one_at_a_time() {
        let _time = simulation();
        let store = MemoryStore::new(10);
        let here = endpoint("198.51.100.1");

        assert_eq!(store.claim(&here, RTT).unwrap(), None);

        store.record(&here, &state(100)).unwrap();
        let claim = store.claim(&here, RTT).unwrap().unwrap();
        assert_eq!(claim.state, state(100));

        assert_eq!(store.claim(&here, RTT).unwrap(), None);
        assert_eq!(store.get(&here).unwrap(), Some(state(100)));

        store.release(&here, ClaimToken(!claim.token.0)).unwrap();
        assert_eq!(store.claim(&here, RTT).unwrap(), None);

        store.release(&here, claim.token).unwrap();
        assert!(store.claim(&here, RTT).unwrap().is_some());
    }

    #[test]
    fn claim_ends_with_its_lease() {
        let time = simulation();
        let store = MemoryStore::new(10);
        let here = endpoint("198.51.100.1");
        store.record(&here, &state(100)).unwrap();

        let lapsed = store.claim(&here, RTT).unwrap().unwrap();
        let end = lapsed.lease + LINGER;
        time.advance_to(end - Duration::from_millis(1));
        assert_eq!(store.claim(&here, RTT).unwrap(), None);
        time.advance_to(end);
        let current = store.claim(&here, RTT).unwrap().unwrap();

        // A connection that has lost the claim cannot release it.
        store.release(&here, lapsed.token).unwrap();
        assert_eq!(store.claim(&here, RTT).unwrap(), None);
        store.release(&here, current.token).unwrap();
        assert!(store.claim(&here, RTT).unwrap().is_some());
    }

    /// E1.
    #[test]
    fn retreat_forgets_what_was_used_after_the_lease_too() {
        let time = simulation();
        let store = MemoryStore::new(10);
        let here = endpoint("198.51.100.1");
        store.record(&here, &state(100)).unwrap();
        let claim = store.claim(&here, RTT).unwrap().unwrap();
        let used = claim.state.observed;

        time.advance_to(Duration::from_secs(20));
        store.forget(&here, claim.token, used).unwrap();
        assert_eq!(store.get(&here).unwrap(), None);
        store.record(&here, &state(100)).unwrap();
        assert_eq!(store.get(&here).unwrap(), None);
    }

    /// E1: what somebody observed meanwhile is not what failed; but nobody uses
    /// it at once.
    #[test]
    fn retreat_keeps_a_later_observation() {
        let time = simulation();
        let store = MemoryStore::new(10);
        let here = endpoint("198.51.100.1");
        store.record(&here, &state(100)).unwrap();
        let claim = store.claim(&here, RTT).unwrap().unwrap();
        let newer = PathState {
            observed: wall(1),
            ..state(80)
        };
        store.record(&here, &newer).unwrap();

        store
            .forget(&here, claim.token, claim.state.observed)
            .unwrap();
        assert_eq!(store.get(&here).unwrap(), Some(newer));
        assert_eq!(store.claim(&here, RTT).unwrap(), None);

        time.advance_to(hold_off(1));
        let next = store.claim(&here, RTT).unwrap().unwrap();
        assert_eq!(next.state, newer);
    }

    #[test]
    fn record_keeps_the_claim() {
        let _time = simulation();
        let store = MemoryStore::new(10);
        let here = endpoint("198.51.100.1");
        store.record(&here, &state(100)).unwrap();
        store.claim(&here, RTT).unwrap().unwrap();

        store.record(&here, &state(120)).unwrap();
        assert_eq!(store.claim(&here, RTT).unwrap(), None);
    }

    #[test]
    fn hold_off_keeps_records_out() {
        let time = simulation();
        let store = MemoryStore::new(10);
        let here = endpoint("198.51.100.1");
        let mut elapsed = Duration::ZERO;

        for retreats in 1..=3 {
            store.record(&here, &state(100)).unwrap();
            let claim = store.claim(&here, RTT).unwrap().unwrap();
            store
                .forget(&here, claim.token, claim.state.observed)
                .unwrap();

            elapsed += hold_off(retreats);
            time.advance_to(elapsed - Duration::from_millis(1));
            store.record(&here, &state(100)).unwrap();
            assert_eq!(store.get(&here).unwrap(), None);

            time.advance_to(elapsed);
        }
    }

    #[test]
    fn expired_path_state_is_deleted() {
        let time = simulation();
        let store = MemoryStore::new(10);
        let here = endpoint("198.51.100.1");
        store.record(&here, &state(100)).unwrap();

        time.advance_to(HOUR);
        assert_eq!(store.get(&here).unwrap(), None);
        assert_eq!(store.claim(&here, RTT).unwrap(), None);
        assert_eq!(store.flush().unwrap(), 0);
    }

    #[test]
    fn stalest_endpoint_makes_room() {
        let time = simulation();
        let store = MemoryStore::new(2);
        let (a, b, c) = (
            endpoint("198.51.100.1"),
            endpoint("198.51.101.1"),
            endpoint("198.51.102.1"),
        );

        for (millis, who) in [(1, &a), (2, &b), (3, &a), (4, &c)] {
            time.advance_to(Duration::from_millis(millis));
            store.record(who, &state(100)).unwrap();
        }

        assert!(store.get(&a).unwrap().is_some());
        assert_eq!(store.get(&b).unwrap(), None);
        assert!(store.get(&c).unwrap().is_some());
        assert_eq!(store.flush().unwrap(), 2);
        assert_eq!(store.get(&a).unwrap(), None);
    }

    // To look for the stalest of many endpoints for each new one would be too
    // slow.
    #[test]
    fn hundredth_of_many_endpoints_makes_room() {
        let time = simulation();
        let store = MemoryStore::new(500);
        let nth = |n: u64| endpoint(&format!("10.{}.{}.1", n / 256, n % 256));

        for n in 0..=500 {
            time.advance_to(Duration::from_millis(n));
            store.record(&nth(n), &state(100)).unwrap();
            if n == 2 {
                store.claim(&nth(0), RTT).unwrap().unwrap();
            }
        }

        let is_there = |n: &u64| store.get(&nth(*n)).unwrap().is_some();
        assert!(is_there(&0), "the claimed one goes last");
        assert_eq!((1..=500).find(is_there), Some(7));
        assert_eq!(store.flush().unwrap(), 495);
    }

    #[test]
    fn equally_stale_endpoints_go_only_as_needed() {
        let _time = simulation();
        let store = MemoryStore::new(500);

        for n in 0..=500 {
            let nth = endpoint(&format!("10.{}.{}.1", n / 256, n % 256));
            store.record(&nth, &state(100)).unwrap();
        }

        assert_eq!(store.flush().unwrap(), 495);
    }
}
