//! Congestion controllers of hosts, selected by server name (SNI).

use quiche::BufFactory;
use quiche::CongestionControlAlgorithm;

use crate::config::controller::CongestionController;
use crate::config::host_map::HostMap;
use crate::config::Config;

/// Congestion controllers of the hosts that name one.
#[derive(Clone, Debug, Default)]
pub struct HostControllers {
    named: HostMap<CongestionController>,

    /// For other names, and clients without SNI.
    default: Option<CongestionController>,
}

impl HostControllers {
    /// Returns those of a configuration.
    ///
    /// # Errors
    ///
    /// One line that names the host whose name is unusable.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let mut named = HostMap::default();
        for host in config.file.named() {
            let Some(controller) = host.cc else { continue };
            for name in &host.names {
                let inserted = named.insert(name, controller);
                inserted.map_err(|e| config.host_error(&host, &e))?;
            }
        }
        Ok(Self { named, default: config.file.default_host().cc })
    }

    /// Returns whether names matter.
    pub fn is_by_name(&self) -> bool {
        !self.named.is_empty()
    }

    /// Returns the controller for a server name, if a host has it and names one.
    pub fn find(&self, server_name: Option<&str>) -> Option<CongestionController> {
        server_name.and_then(|name| self.named.find(name)).copied()
    }

    /// Returns the controller for all other names, which `otherwise` is unless the host without
    /// names has one.
    pub fn default_or(&self, otherwise: CongestionController) -> CongestionController {
        self.default.unwrap_or(otherwise)
    }
}

impl From<CongestionController> for CongestionControlAlgorithm {
    fn from(controller: CongestionController) -> Self {
        match controller {
            CongestionController::Cubic => Self::CUBIC,
            CongestionController::Reno => Self::Reno,
            CongestionController::Bbr2 => Self::Bbr2Gcongestion,
        }
    }
}

/// Returns the name of a connection's controller, if the transport tells it.
pub fn of<F: BufFactory>(quic: &quiche::Connection<F>) -> Option<&'static str> {
    let controller = match quiche::cc_algorithm(quic)? {
        CongestionControlAlgorithm::CUBIC => CongestionController::Cubic,
        CongestionControlAlgorithm::Reno => CongestionController::Reno,
        CongestionControlAlgorithm::Bbr2Gcongestion => CongestionController::Bbr2,
    };
    Some(controller.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn controllers(toml: &str) -> HostControllers {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edge.toml");
        fs::write(&file, toml).unwrap();
        let args = ["edge-server", "--listen", "[::1]:0", "--root", ".", "--config"];
        let args = args.into_iter().map(Into::into).chain([file.into_os_string()]);
        HostControllers::new(&crate::config::parse(args).unwrap()).unwrap()
    }

    #[test]
    fn controller_follows_from_server_name() {
        use CongestionController::*;
        let named = "[[host]]\nnames = ['a', '*.a']\ncc = 'bbr2'\n[[host]]\nnames = ['b']\n";
        let without_names = "[[host]]\ncc = 'reno'\n";
        for (toml, name, expected) in [
            (named.to_owned(), Some("a"), Bbr2),
            (named.to_owned(), Some("X.A"), Bbr2),
            (named.to_owned(), Some("b"), Cubic),
            (named.to_owned(), Some("c"), Cubic),
            (named.to_owned(), None, Cubic),
            (format!("{named}{without_names}"), Some("a"), Bbr2),
            (format!("{named}{without_names}"), Some("b"), Reno),
            (format!("{named}{without_names}"), Some("c"), Reno),
            (format!("{without_names}{named}"), None, Reno),
            (String::new(), Some("a"), Cubic),
        ] {
            let controllers = controllers(&toml);
            let found = controllers.find(name);
            let found = found.unwrap_or_else(|| controllers.default_or(Cubic));
            assert_eq!(found, expected, "{name:?} of {toml}");
            assert_eq!(controllers.is_by_name(), toml.contains("'a'"), "{toml}");
        }
    }
}
