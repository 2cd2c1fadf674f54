//! Request rate of each client subnet: buckets of an access rule, which all workers and the TCP side
//! share.

use std::fmt;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Instant;

use foldhash::HashMap;
use ipnet::IpNet;
use quiche::path_state::PrefixLengths;

use crate::admission::connection_limits::subnet_of;
use crate::admission::token_bucket::TokenBucket;
use crate::content::access::refusal::AccessRefusal;

/// Subnets that are remembered, a few megabytes of them. If more are busy at once, all are forgotten.
const SUBNETS_MAX: usize = 65_536;

/// Rate that a rule limits.
pub struct RequestRate {
    per_second: u32,

    /// Requests that may come at once.
    burst: u32,
    lengths: PrefixLengths,
    buckets: Mutex<BucketTable>,
}

#[derive(Default)]
struct BucketTable {
    /// Buckets that were not full when they were last looked at.
    by_subnet: HashMap<IpNet, TokenBucket>,

    /// Size at which full buckets are removed.
    cleaning_at: usize,
}

impl fmt::Debug for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { per_second, burst, .. } = self;
        write!(f, "RequestRate {{ {per_second} per second, burst {burst} }}")
    }
}

impl RequestRate {
    /// Returns a rate whose subnets have these prefix lengths.
    pub fn new(per_second: u32, burst: u32, lengths: PrefixLengths) -> Self {
        Self { per_second, burst, lengths, buckets: Mutex::default() }
    }

    /// Returns whether it allows what another one does.
    pub fn has_limits_of(&self, other: &Self) -> bool {
        let limits = |rate: &Self| (rate.per_second, rate.burst, rate.lengths);
        limits(self) == limits(other)
    }

    /// Counts a request of a client.
    ///
    /// # Errors
    ///
    /// There were too many before.
    pub fn take(&self, client: IpAddr, now: Instant) -> Result<(), AccessRefusal> {
        let subnet = subnet_of(client, self.lengths);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.by_subnet.entry(subnet).or_insert_with(|| TokenBucket::new(now));
        let is_available = bucket.take_of(self.burst, self.per_second, now);
        buckets.clean(now);
        match is_available {
            true => Ok(()),
            false => Err(AccessRefusal::Rate),
        }
    }
}

impl BucketTable {
    /// Removes full buckets, once the table has doubled since the last time.
    fn clean(&mut self, now: Instant) {
        if self.by_subnet.len() <= self.cleaning_at {
            return;
        }
        self.by_subnet.retain(|_, bucket| !bucket.is_full(now));
        if self.by_subnet.len() >= SUBNETS_MAX {
            self.by_subnet.clear();
        }
        self.cleaning_at = (2 * self.by_subnet.len()).clamp(16, SUBNETS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    const LENGTHS: PrefixLengths = PrefixLengths { v4: 24, v6: 48 };

    #[test]
    fn subnet_has_its_burst_and_then_its_rate() {
        let start = quiche::clock::now();
        let rate = RequestRate::new(10, 5, LENGTHS);
        let taken = |client: &str, ms| {
            let now = start + Duration::from_millis(ms);
            (0..100).filter(|_| rate.take(client.parse().unwrap(), now).is_ok()).count()
        };
        for (client, ms, expected) in [
            ("192.0.2.1", 0, 5),
            ("192.0.2.2", 0, 0),
            ("::ffff:192.0.2.3", 0, 0),
            ("192.0.3.1", 0, 5),
            ("2001:db8::1", 0, 5),
            ("2001:db8:0:9::1", 0, 0),
            ("192.0.2.1", 99, 0),
            ("192.0.2.1", 100, 1),
            ("192.0.2.1", 400, 3),
            ("192.0.2.1", 9000, 5),
        ] {
            assert_eq!(taken(client, ms), expected, "{client} {ms}");
        }
    }

    #[test]
    fn table_is_bounded_and_forgets_full_buckets() {
        let start = quiche::clock::now();
        let rate = RequestRate::new(1, 1, LENGTHS);
        let len = || rate.buckets.lock().unwrap().by_subnet.len();
        let take = |number: u32, seconds| {
            let client = Ipv4Addr::from_bits(number << 8).into();
            rate.take(client, start + Duration::from_secs(seconds)).is_ok()
        };
        for number in 0..10_000 {
            assert!(take(number, u64::from(number) / 10));
            assert!(len() <= 40, "{}", len());
        }
        let most = (0..200_000).map(|number| {
            take(number, 5000);
            len()
        });
        assert!(most.max().unwrap() <= SUBNETS_MAX);
    }
}
