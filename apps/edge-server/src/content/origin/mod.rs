//! Origins of a virtual host: servers that have some of its paths. Requests for those are forwarded.

mod attempt;
mod balance;
mod connector;
pub mod delivery;
pub mod error;
mod failure_log;
pub mod fields;
pub mod forwarding;
mod health;
mod health_check;
mod pool;
pub mod reply;
mod runtime;
pub mod server;
mod servers_behind;
mod shared_servers;
pub mod upload;
pub mod upstream;
pub mod vacancies;

use std::sync::Arc;

use anyhow::anyhow;
use anyhow::Context;
use quiche::path_state::PrefixLengths;

use crate::config::file::Host;
use crate::config::file::OriginRule;
use crate::content::origin::server::OriginServer;
use crate::content::path_pattern::PathPattern;

/// Methods that are for this server: a tunnel through it, and the request as it has it.
const NOT_FORWARDED: [&str; 2] = ["CONNECT", "TRACE"];

/// Origins of a host, by the paths that they have.
#[derive(Clone, Debug)]
pub struct HostOrigins(Vec<PathOrigin>);

#[derive(Clone, Debug)]
struct PathOrigin {
    path: PathPattern,
    origin: Arc<OriginServer>,
}

impl HostOrigins {
    /// Validates the origins of a host. Subnets of clients have these prefix lengths.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(host: &Host, lengths: PrefixLengths) -> anyhow::Result<Self> {
        let rules = || host.origin.iter().flatten();
        let all = rules().position(|rule| rule.path == "**");
        if let Some(unreachable) = all.and_then(|all| rules().nth(all + 1)) {
            let never = "origin: gets no request, as an earlier one has all paths; move it up";
            return Err(anyhow!(never).context(unreachable.position));
        }
        let is_earlier = |at: usize, path: &str| rules().take(at).any(|other| other.path == path);
        let twice = rules().enumerate().find(|(at, rule)| is_earlier(*at, &rule.path));
        if let Some((_, rule)) = twice {
            let path = &rule.path;
            let never = format!(
                "origin: path = '{path}' is that of an earlier one, which gets all of its requests; leave one \
                 out, or list both in its url"
            );
            return Err(anyhow!(never).context(rule.position));
        }
        let origins = rules().map(|rule| PathOrigin::new(rule, lengths).context(rule.position));
        Ok(Self(origins.collect::<anyhow::Result<_>>()?))
    }

    /// Returns the first origin that has a decoded path.
    pub fn find(&self, path: &str) -> Option<&Arc<OriginServer>> {
        self.0.iter().find(|rule| rule.path.is_match(path)).map(|rule| &rule.origin)
    }
}

/// Returns whether requests with a method are forwarded.
pub fn is_forwarded(method: &str) -> bool {
    !NOT_FORWARDED.contains(&method)
}

impl PathOrigin {
    fn new(rule: &OriginRule, lengths: PrefixLengths) -> anyhow::Result<Self> {
        let path = PathPattern::new("origin", &rule.path)?;
        Ok(Self { path, origin: shared_servers::find_or_create(rule, lengths)? })
    }
}
