//! Settings of renewals.

use crate::acme::challenges::ChallengeKind;
use crate::config::acme::AcmeOptions;
use crate::config::Config;

/// Hosts whose certificates are renewed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    pub options: AcmeOptions,

    /// Names of each host.
    pub hosts: Vec<Vec<String>>,
    pub kind: ChallengeKind,
}

impl AcmeSettings {
    /// Returns the settings of a configuration.
    pub fn new(config: &Config, kind: ChallengeKind) -> Self {
        let hosts = config.file.named().filter(|host| host.acme).map(|host| host.names);
        Self { options: config.flags.acme.clone(), hosts: hosts.collect(), kind }
    }
}
