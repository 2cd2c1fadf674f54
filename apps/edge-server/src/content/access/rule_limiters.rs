//! Limiters of access rules, with what they remember of clients: a reload keeps those of rules that stay
//! as they are.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::file::AccessRule;
use crate::config::file::Host;
use crate::content::access::bandwidth::Bandwidth;
use crate::content::access::request_rate::RequestRate;

/// Rule that a limiter is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuleKey {
    /// First name of the host, if it has any.
    host: Option<String>,
    path: String,
    except: Vec<String>,

    /// How many rules of the host with the same paths come before it.
    earlier: usize,
}

/// Limiters of all rules of a configuration.
#[derive(Debug, Default)]
pub struct RuleLimiters {
    rates: HashMap<RuleKey, Arc<RequestRate>>,
    bandwidths: HashMap<RuleKey, Arc<Bandwidth>>,
}

impl RuleKey {
    /// Returns the key of a host's rule.
    pub fn new(host: &Host, index: usize, rule: &AccessRule) -> Self {
        let earlier = host.access.iter().flatten().take(index);
        let has_paths =
            |other: &&AccessRule| other.path == rule.path && other.except == rule.except;
        Self {
            host: host.names.first().cloned(),
            path: rule.path.clone(),
            except: rule.except.clone(),
            earlier: earlier.filter(has_paths).count(),
        }
    }
}

impl RuleLimiters {
    /// Adds the request rate of a rule: the one of `previous`, if that limits the same.
    pub fn add_rate(
        &mut self,
        key: &RuleKey,
        new: RequestRate,
        previous: &Self,
    ) -> Arc<RequestRate> {
        keep(&mut self.rates, key, new, &previous.rates, RequestRate::has_limits_of)
    }

    /// Adds the bandwidth of a rule: the one of `previous`, if that limits the same.
    pub fn add_bandwidth(
        &mut self,
        key: &RuleKey,
        new: Bandwidth,
        previous: &Self,
    ) -> Arc<Bandwidth> {
        keep(&mut self.bandwidths, key, new, &previous.bandwidths, Bandwidth::has_limits_of)
    }
}

/// Adds the limiter of a rule: the previous one, if it `is_same`.
fn keep<L>(
    limiters: &mut HashMap<RuleKey, Arc<L>>,
    key: &RuleKey,
    new: L,
    previous: &HashMap<RuleKey, Arc<L>>,
    is_same: impl Fn(&L, &L) -> bool,
) -> Arc<L> {
    let kept = previous.get(key).filter(|kept| is_same(kept, &new)).cloned();
    let limiter = kept.unwrap_or_else(|| Arc::new(new));
    limiters.insert(key.clone(), Arc::clone(&limiter));
    limiter
}
