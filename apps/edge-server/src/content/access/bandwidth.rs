//! Bandwidth of each client: buckets of an access rule, which all workers and the TCP side share.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use ab_test::ClientUnit;
use foldhash::HashMap;

use crate::http::response_rate::ByteBucket;
use crate::http::response_rate::ByteRate;

/// Clients that are remembered, a few megabytes of them. If more were busy lately, those without a
/// response under way are forgotten.
const CLIENTS_MAX: usize = 65_536;

/// Bandwidth that a rule limits.
#[derive(Debug)]
pub struct Bandwidth {
    rate: ByteRate,
    clients: Mutex<ClientTable>,
}

#[derive(Debug, Default)]
struct ClientTable {
    /// Buckets of responses under way, and those that were not full when they were last looked at.
    buckets: HashMap<ClientUnit, Arc<ByteBucket>>,

    /// Size at which others are removed.
    cleaning_at: usize,
}

impl Bandwidth {
    /// Returns a bandwidth of this rate for each client.
    pub fn new(rate: ByteRate) -> Self {
        Self { rate, clients: Mutex::default() }
    }

    /// Returns whether it allows what another one does.
    pub fn has_limits_of(&self, other: &Self) -> bool {
        self.rate == other.rate
    }

    /// Returns the bucket of a client.
    pub fn bucket_of(&self, client: IpAddr, now: Instant) -> Arc<ByteBucket> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = ClientUnit::of(client);
        if let Some(bucket) = clients.buckets.get(&client) {
            return Arc::clone(bucket);
        }
        let bucket = Arc::new(ByteBucket::new(self.rate, now));
        clients.clean(now);
        clients.buckets.insert(client, Arc::clone(&bucket));
        bucket
    }
}

impl ClientTable {
    /// Removes full buckets, once the table has doubled since the last time.
    fn clean(&mut self, now: Instant) {
        if self.buckets.len() < self.cleaning_at {
            return;
        }
        let is_under_way = |bucket: &Arc<ByteBucket>| Arc::strong_count(bucket) > 1;
        self.buckets.retain(|_, bucket| is_under_way(bucket) || !bucket.is_full(now));
        if self.buckets.len() >= CLIENTS_MAX {
            self.buckets.retain(|_, bucket| is_under_way(bucket));
        }
        let kept = self.buckets.len();
        self.cleaning_at = match kept < CLIENTS_MAX {
            true => (2 * kept).clamp(16, CLIENTS_MAX),
            false => 2 * kept,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::Ipv4Addr;
    use std::time::Duration;

    use crate::http::response_rate::ResponseRate;

    const RATE: ByteRate = ByteRate { bytes_per_second: 1000, burst_bytes: 1200 };

    /// Has a client take its burst.
    fn take(bandwidth: &Bandwidth, client: IpAddr, now: Instant) -> Box<ResponseRate> {
        let mut rate = ResponseRate::new(vec![bandwidth.bucket_of(client, now)], now).unwrap();
        if let Ok(bytes) = rate.poll(1200, now) {
            rate.on_sent(bytes);
        }
        rate
    }

    #[test]
    fn responses_of_a_client_share_a_bucket() {
        let now = quiche::clock::now();
        let bandwidth = Bandwidth::new(RATE);
        let bucket = |client: &str| bandwidth.bucket_of(client.parse().unwrap(), now);
        for (one, other, is_shared) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(Arc::ptr_eq(&bucket(one), &bucket(other)), is_shared, "{one} {other}");
        }
    }

    #[test]
    fn client_table_is_bounded_and_keeps_what_is_under_way() {
        let start = quiche::clock::now();
        let bandwidth = Bandwidth::new(RATE);
        let len = || bandwidth.clients.lock().unwrap().buckets.len();
        let client = |number: u32| Ipv4Addr::from_bits(number).into();
        let under_way = take(&bandwidth, client(0), start);
        for number in 1..10_000 {
            drop(take(&bandwidth, client(number), start + Duration::from_millis(100) * number));
            assert!(len() <= 40, "{}", len());
        }
        let later = start + Duration::from_secs(5000);
        let most = (1..150_000).map(|number| {
            drop(take(&bandwidth, client(number), later));
            len()
        });
        assert!(most.max().unwrap() <= CLIENTS_MAX);
        let same = ResponseRate::new(vec![bandwidth.bucket_of(client(0), later)], later).unwrap();
        assert!(under_way.has_buckets_of(&same));
    }
}
