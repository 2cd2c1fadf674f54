//! Who holds which saved set: the simulator's own book, beside the store's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::check;
use super::Rule;
use super::Violation;

#[derive(Clone, Copy, Debug)]
struct Holder {
    flow: usize,
    until: Duration,
}

/// Claims that were granted and not given back, by subnet.
#[derive(Debug, Default)]
pub struct Claims {
    held: BTreeMap<u16, Holder>,
}

impl Claims {
    /// The store gave `flow` the claim on the set of `subnet` for `lease`.
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
            check(now >= other.until, Rule::OneClaim, || {
                format!(
                    "subnet {subnet} claimed while flow {} holds it until {:?}",
                    other.flow, other.until
                )
            })?;
        }
        self.held.insert(subnet, Holder { flow, until: now + lease });
        Ok(())
    }

    /// `flow` gave its claim back.
    pub fn ended(&mut self, subnet: u16, flow: usize) {
        if self.held.get(&subnet).is_some_and(|holder| holder.flow == flow) {
            self.held.remove(&subnet);
        }
    }

    /// `flow` jumped.
    ///
    /// # Errors
    ///
    /// It held no claim, or no longer.
    pub fn jumped(&self, subnet: u16, flow: usize, now: Duration) -> Result<(), Violation> {
        let holder = self.held.get(&subnet);
        let holds = holder.is_some_and(|holder| holder.flow == flow && now < holder.until);
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
    fn a_second_claim_is_a_violation_until_the_first_ends() {
        let rule = |result: Result<(), Violation>| result.unwrap_err().rule;
        assert_eq!(rule(held().granted(1, 1, ms(109), ms(100))), Rule::OneClaim);
        assert_eq!(held().granted(1, 1, ms(110), ms(100)), Ok(()));
        assert_eq!(held().granted(2, 1, ms(20), ms(100)), Ok(()));

        let mut claims = held();
        claims.ended(1, 1);
        assert_eq!(rule(claims.granted(1, 1, ms(20), ms(100))), Rule::OneClaim);
        claims.ended(1, 0);
        assert_eq!(claims.granted(1, 1, ms(20), ms(100)), Ok(()));
    }

    #[test]
    fn who_holds_no_claim_does_not_jump() {
        assert_eq!(held().jumped(1, 0, ms(50)), Ok(()));
        for (subnet, flow, now) in [(1, 1, 50), (2, 0, 50), (1, 0, 110)] {
            let seen = held().jumped(subnet, flow, ms(now)).unwrap_err();
            assert_eq!(seen.rule, Rule::ClaimedJump);
        }
    }
}
