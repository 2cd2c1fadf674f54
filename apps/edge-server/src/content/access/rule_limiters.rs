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
        let kept = previous.rates.get(key).filter(|kept| kept.has_limits_of(&new)).cloned();
        let rate = kept.unwrap_or_else(|| Arc::new(new));
        self.rates.insert(key.clone(), Arc::clone(&rate));
        rate
    }

    /// Adds the bandwidth of a rule: the one of `previous`, if that limits the same.
    pub fn add_bandwidth(
        &mut self,
        key: &RuleKey,
        new: Bandwidth,
        previous: &Self,
    ) -> Arc<Bandwidth> {
        let kept = previous.bandwidths.get(key).filter(|kept| kept.has_limits_of(&new)).cloned();
        let bandwidth = kept.unwrap_or_else(|| Arc::new(new));
        self.bandwidths.insert(key.clone(), Arc::clone(&bandwidth));
        bandwidth
    }
}
