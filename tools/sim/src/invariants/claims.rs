//! Claims on saved parameters: the simulator's own record of them, beside the store's.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::LINGER;

use super::rule::check;
use super::rule::Rule;
use super::rule::Violation;

#[derive(Clone, Copy, Debug)]
struct Holder {
    flow: usize,

    /// No jump begins later.
    lease_end: Duration,
}

/// Claims that were granted and not given back, and what was retreated with, by
/// subnet.
#[derive(Debug, Default)]
pub struct Claims {
    held: BTreeMap<u16, Holder>,

    /// Observations up to this time have failed.
    failed: BTreeMap<u16, SystemTime>,
}

impl Claims {
    /// Notes that the store granted `flow` the claim on the record of `subnet` for `lease`.
    ///
    /// # Errors
    ///
    /// Another flow was given the same and may still rely on it.
    pub fn granted(
        &mut self,
        subnet: u16,
        flow: usize,
        now: Duration,
        lease: Duration,
    ) -> Result<(), Violation> {
        if let Some(other) = self.held.get(&subnet) {
            let until = other.lease_end + LINGER;
            check(now >= until, Rule::OneClaim, || {
                format!(
                    "subnet {subnet} claimed while flow {} holds it until {until:?}",
                    other.flow
                )
            })?;
        }
        self.held.insert(subnet, Holder { flow, lease_end: now + lease });
        Ok(())
    }

    /// Checks that a flow may use what was observed at this time.
    ///
    /// # Errors
    ///
    /// Another one has retreated with it.
    pub fn used(&self, subnet: u16, observed: SystemTime) -> Result<(), Violation> {
        let failed = self.failed.get(&subnet);
        check(failed.is_none_or(|failed| observed > *failed), Rule::Forgotten, || {
            format!("subnet {subnet}: observed {observed:?}, and {failed:?} has failed")
        })
    }

    /// Notes that a flow retreated with what was observed at this time.
    pub fn failed(&mut self, subnet: u16, observed: SystemTime) {
        let failed = self.failed.entry(subnet).or_insert(observed);
        *failed = observed.max(*failed);
    }

    /// Notes that `flow` released its claim.
    pub fn ended(&mut self, subnet: u16, flow: usize) {
        if self.held.get(&subnet).is_some_and(|holder| holder.flow == flow) {
            self.held.remove(&subnet);
        }
    }

    /// Checks that `flow` may jump.
    ///
    /// # Errors
    ///
    /// It held no claim, or no longer.
    pub fn jumped(&self, subnet: u16, flow: usize, now: Duration) -> Result<(), Violation> {
        let holder = self.held.get(&subnet);
        let holds = holder.is_some_and(|holder| holder.flow == flow && now < holder.lease_end);
        check(holds, Rule::ClaimedJump, || {
            format!("subnet {subnet} is held by {holder:?}, not by flow {flow} at {now:?}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn held() -> Claims {
        let mut claims = Claims::default();
        claims.granted(1, 0, ms(10), ms(100)).unwrap();
        claims
    }

    #[test]
    fn second_claim_is_a_violation_until_first_ends() {
        let rule = |result: Result<(), Violation>| result.unwrap_err().rule;
        assert_eq!(rule(held().granted(1, 1, ms(2109), ms(100))), Rule::OneClaim);
        assert_eq!(held().granted(1, 1, ms(2110), ms(100)), Ok(()));
        assert_eq!(held().granted(2, 1, ms(20), ms(100)), Ok(()));

        let mut claims = held();
        claims.ended(1, 1);
        assert_eq!(rule(claims.granted(1, 1, ms(20), ms(100))), Rule::OneClaim);
        claims.ended(1, 0);
        assert_eq!(claims.granted(1, 1, ms(20), ms(100)), Ok(()));
    }

    #[test]
    fn failed_parameters_are_not_used_again() {
        let at = |secs| SystemTime::UNIX_EPOCH + Duration::from_secs(secs);
        let mut claims = Claims::default();
        assert_eq!(claims.used(1, at(0)), Ok(()));
        claims.failed(1, at(5));
        claims.failed(1, at(3));
        assert_eq!(claims.used(1, at(5)).unwrap_err().rule, Rule::Forgotten);
        assert_eq!(claims.used(1, at(6)), Ok(()));
        assert_eq!(claims.used(2, at(5)), Ok(()));
    }

    #[test]
    fn jump_without_claim_is_a_violation() {
        assert_eq!(held().jumped(1, 0, ms(50)), Ok(()));
        for (subnet, flow, now) in [(1, 1, 50), (2, 0, 50), (1, 0, 110)] {
            let seen = held().jumped(subnet, flow, ms(now)).unwrap_err();
            assert_eq!(seen.rule, Rule::ClaimedJump);
        }
    }
}
