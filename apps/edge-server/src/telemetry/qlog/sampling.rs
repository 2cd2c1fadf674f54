//! Which connections have a qlog: a share of those from some subnets.

use std::borrow::Borrow;
use std::net::IpAddr;

use crate::config::subnets::Subnets;
use crate::config::Cli;
use crate::quic::connection_id::Cid;

/// The operator's choice.
#[derive(Clone, Debug, PartialEq)]
pub struct QlogSample {
    /// From 0 to 1.
    rate: f64,

    /// All clients' if there are none.
    subnets: Subnets,
}

impl QlogSample {
    pub fn new(cli: &Cli) -> Self {
        Self { rate: cli.qlog_rate, subnets: Subnets::new(&cli.qlog_subnet) }
    }

    /// Whether the connection of this ID of ours and this client has one.
    pub fn takes(&self, id: &Cid, client: IpAddr) -> bool {
        (self.subnets.is_empty() || self.subnets.contains(client)) && lot(id) < self.rate
    }
}

/// From 0 to below 1, as random as the ID's end is.
fn lot(id: &Cid) -> f64 {
    let bytes: &[u8] = id.borrow();
    let end = bytes.last_chunk().copied().map_or(0, u32::from_be_bytes);
    f64::from(end) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::connection_id::ConnectionIdGenerator;
    use crate::quic::secrets::tests::shared;
    use crate::quic::secrets::tests::ONE;

    fn sample(rate: f64, subnets: &[&str]) -> QlogSample {
        let subnets: Vec<_> = subnets.iter().map(|subnet| subnet.parse().unwrap()).collect();
        QlogSample { rate, subnets: Subnets::new(&subnets) }
    }

    #[test]
    fn the_share_of_connections_is_the_rate() {
        const CONNECTIONS: usize = 10_000;
        let maker = ConnectionIdGenerator::new(7, shared(&[ONE]));
        let ids: Vec<_> = (0..CONNECTIONS).map(|_| maker.connection_id().unwrap()).collect();
        for (rate, at_least, at_most) in
            [(0.0, 0, 0), (0.1, 800, 1200), (0.5, 4700, 5300), (1.0, CONNECTIONS, CONNECTIONS)]
        {
            let sample = sample(rate, &[]);
            let taken = ids.iter().filter(|id| sample.takes(id, [192, 0, 2, 1].into())).count();
            assert!((at_least..=at_most).contains(&taken), "{rate}: {taken}");
        }
    }

    #[test]
    fn clients_of_other_subnets_have_none() {
        let all = sample(1.0, &["192.0.2.0/24"]);
        let id = Cid::new(&[0; 16]);
        assert!(all.takes(&id, [192, 0, 2, 9].into()));
        assert!(!all.takes(&id, [192, 0, 3, 9].into()));
        assert!(!sample(0.0, &["192.0.2.0/24"]).takes(&id, [192, 0, 2, 9].into()));
    }
}
