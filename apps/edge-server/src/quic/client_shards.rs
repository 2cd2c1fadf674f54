//! Shards of clients, for limits that one client must not use up for all: a client's shard is random,
//! and differs between processes.

use std::hash::BuildHasher;

use ab_test::ClientUnit;
use foldhash::quality::RandomState;

/// Assignment of clients to shards.
#[derive(Default)]
pub struct ClientShards {
    hasher: RandomState,
}

impl ClientShards {
    /// Number of shards.
    pub const COUNT: usize = 64;

    /// Returns the shard of a client.
    pub fn of(&self, client: ClientUnit) -> usize {
        self.hasher.hash_one(client) as usize % Self::COUNT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_spread_over_the_shards() {
        let shards = ClientShards::default();
        let mut counts = [0; ClientShards::COUNT];
        for client in 0..64_000_u32 {
            counts[shards.of(ClientUnit::of(client.to_be_bytes().into()))] += 1;
        }
        assert!(counts.iter().all(|count| (700..1300).contains(count)), "{counts:?}");
    }
}
