//! Sampling of connections for qlog, by rate and client subnet.

use std::borrow::Borrow;
use std::net::IpAddr;

use crate::config::subnets::Subnets;
use crate::config::Cli;
use crate::quic::connection_id::Cid;

/// Sampling rule of `--qlog-rate` and `--qlog-subnet`.
#[derive(Clone, Debug, PartialEq)]
pub struct QlogSample {
    /// Share of connections, from 0 to 1.
    rate: f64,

    /// Subnets of sampled clients; all clients if empty.
    subnets: Subnets,
}

impl QlogSample {
    pub fn new(cli: &Cli) -> Self {
        Self { rate: cli.qlog_rate, subnets: Subnets::new(&cli.qlog_subnet) }
    }

    /// Returns whether the connection with the server's ID `id` and this client is sampled.
    pub fn selects(&self, id: &Cid, client: IpAddr) -> bool {
        (self.subnets.is_empty() || self.subnets.contains(client)) && draw(id) < self.rate
    }
}

/// Returns a number from 0 to below 1 that is derived from the random end of the ID.
fn draw(id: &Cid) -> f64 {
    let bytes: &[u8] = id.borrow();
    let end = bytes.last_chunk().copied().map_or(0, u32::from_be_bytes);
    f64::from(end) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::connection_id::tests::generator;
    use crate::quic::connection_id::Origin;

    fn sample(rate: f64, subnets: &[&str]) -> QlogSample {
        let subnets: Vec<_> = subnets.iter().map(|subnet| subnet.parse().unwrap()).collect();
        QlogSample { rate, subnets: Subnets::new(&subnets) }
    }

    #[test]
    fn sampled_share_matches_rate() {
        const CONNECTIONS: usize = 10_000;
        let generator = generator(Origin::default());
        let ids: Vec<_> = (0..CONNECTIONS).map(|_| generator.generate().unwrap().cid).collect();
        for (rate, at_least, at_most) in
            [(0.0, 0, 0), (0.1, 800, 1200), (0.5, 4700, 5300), (1.0, CONNECTIONS, CONNECTIONS)]
        {
            let sample = sample(rate, &[]);
            let selected =
                ids.iter().filter(|id| sample.selects(id, [192, 0, 2, 1].into())).count();
            assert!((at_least..=at_most).contains(&selected), "{rate}: {selected}");
        }
    }

    #[test]
    fn client_of_other_subnet_is_not_sampled() {
        let all = sample(1.0, &["192.0.2.0/24"]);
        let id = Cid::new(&[0; 16]);
        assert!(all.selects(&id, [192, 0, 2, 9].into()));
        assert!(!all.selects(&id, [192, 0, 3, 9].into()));
        assert!(!sample(0.0, &["192.0.2.0/24"]).selects(&id, [192, 0, 2, 9].into()));
    }
}
