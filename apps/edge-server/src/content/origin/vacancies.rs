//! Vacancies of an origin: requests that it may still have, of all clients and of one subnet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use ipnet::IpNet;

/// Requests that one subnet may have at a time, of all of them.
const SUBNET_SHARE: usize = 2;

/// Vacancies of one origin.
#[derive(Debug)]
pub struct OriginVacancies {
    requests_max: usize,
    taken: Mutex<TakenVacancies>,
}

#[derive(Debug, Default)]
struct TakenVacancies {
    requests: usize,
    of_subnets: HashMap<IpNet, usize>,
}

/// Permit of one request.
pub struct OriginPermit {
    vacancies: Arc<OriginVacancies>,
    subnet: IpNet,
}

impl OriginVacancies {
    /// Returns the vacancies of an origin without requests.
    pub fn new(requests_max: usize) -> Self {
        Self { requests_max, taken: Mutex::default() }
    }

    /// Takes a vacancy for a client of a subnet, if there is one.
    pub fn try_take(self: &Arc<Self>, subnet: IpNet) -> Option<OriginPermit> {
        let mut taken = self.taken();
        let of_subnet = taken.of_subnets.get(&subnet).copied().unwrap_or_default();
        let of_subnet_max = self.requests_max.div_ceil(SUBNET_SHARE);
        if taken.requests >= self.requests_max || of_subnet >= of_subnet_max {
            return None;
        }
        taken.requests += 1;
        taken.of_subnets.insert(subnet, of_subnet + 1);
        Some(OriginPermit { vacancies: Arc::clone(self), subnet })
    }

    fn taken(&self) -> MutexGuard<'_, TakenVacancies> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OriginPermit {
    fn drop(&mut self) {
        let mut taken = self.vacancies.taken();
        taken.requests -= 1;
        if let Some(requests) = taken.of_subnets.get_mut(&self.subnet) {
            *requests -= 1;
            if *requests == 0 {
                taken.of_subnets.remove(&self.subnet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnet_takes_half_of_the_vacancies_at_most() {
        let [one, two, three] =
            ["192.0.2.0/24", "198.51.100.0/24", "2001:db8::/48"].map(|text| text.parse().unwrap());
        let vacancies = Arc::new(OriginVacancies::new(5));
        let mut permits = Vec::new();
        for (subnet, expected) in [
            (one, true),
            (one, true),
            (one, true),
            (one, false),
            (two, true),
            (three, true),
            (two, false),
        ] {
            let permit = vacancies.try_take(subnet);
            assert_eq!(permit.is_some(), expected, "{subnet}");
            permits.extend(permit);
        }
        drop(permits.swap_remove(0));
        assert!(vacancies.try_take(three).is_some());
        permits.clear();
        assert!(vacancies.taken().of_subnets.is_empty());
        assert_eq!(vacancies.taken().requests, 0);
    }
}
