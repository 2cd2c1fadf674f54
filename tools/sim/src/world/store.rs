//! Store of saved parameters: quiche's `MemoryStore`, and the simulator's own record of
//! claims, which checks it.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::time::Duration;
use std::time::SystemTime;

use quiche::careful_resume::CarefulResumeConfig;
use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::PrefixLengths;
use quiche::path_state::RemoteEndpoint;

use super::carried::OwnStates;
use super::plan::FlowPlan;
use super::plan::SavedPlan;
use crate::invariants::Claims;
use crate::invariants::Violation;
use crate::scenario::Mode;

/// The sender in the keys of the store.
const SENDER: &str = "sim";

/// The store, who holds which claim, and what clients carry.
pub struct SimulatedStore {
    store: MemoryStore,
    claims: Claims,
    pub carried: OwnStates,
}

impl SimulatedStore {
    /// Creates a store that has the record of each subnet, as given by the first of its
    /// flows that resumes.
    pub fn new(flows: &[FlowPlan]) -> Self {
        let simulated = Self {
            store: MemoryStore::new(flows.len()),
            claims: Claims::default(),
            carried: OwnStates::default(),
        };
        let mut seen = vec![];
        for plan in flows.iter().filter(|plan| plan.mode == Mode::CarefulResume) {
            if !seen.contains(&plan.subnet) {
                seen.push(plan.subnet);
                if let Some(saved) = &plan.saved {
                    simulated.record(plan.subnet, &saved_state(saved));
                }
            }
        }
        simulated
    }

    /// Reads a record. The store in memory answers at once, and never fails.
    pub fn read(&self, subnet: u16) -> Option<PathState> {
        self.store.get(&endpoint(subnet)).unwrap_or_default()
    }

    /// Claims the record for a flow whose current RTT is `rtt`.
    ///
    /// # Errors
    ///
    /// Another flow holds the claim, or has retreated with these parameters.
    pub fn claim(
        &mut self,
        subnet: u16,
        flow: usize,
        rtt: Duration,
        now: Duration,
    ) -> Result<Option<Claim>, Violation> {
        let claim = self.store.claim(&endpoint(subnet), rtt).unwrap_or_default();
        self.granted(claim, subnet, flow, now)
    }

    /// Claims the record for a flow whose client brings saved parameters of its own.
    ///
    /// # Errors
    ///
    /// As [`Self::claim`].
    pub fn claim_own(
        &mut self,
        subnet: u16,
        flow: usize,
        own: &PathState,
        rtt: Duration,
        now: Duration,
    ) -> Result<Option<Claim>, Violation> {
        let claim = self.store.claim_own(&endpoint(subnet), own, rtt).unwrap_or_default();
        self.granted(claim, subnet, flow, now)
    }

    fn granted(
        &mut self,
        claim: Option<Claim>,
        subnet: u16,
        flow: usize,
        now: Duration,
    ) -> Result<Option<Claim>, Violation> {
        if let Some(claim) = &claim {
            self.claims.granted(subnet, flow, now, claim.lease)?;
            self.claims.used(subnet, claim.state.observed)?;
        }
        Ok(claim)
    }

    /// Pretends that another flow holds the claim, without the store's knowledge.
    #[cfg(test)]
    pub fn pretend_claimed(&mut self, subnet: u16, flow: usize, lease: Duration) {
        self.claims.granted(subnet, flow, Duration::ZERO, lease).expect("the first claim");
    }

    pub fn record(&self, subnet: u16, observed: &PathState) {
        let _ = self.store.record(&endpoint(subnet), observed);
    }

    pub fn release(&mut self, subnet: u16, flow: usize, token: ClaimToken) {
        self.claims.ended(subnet, flow);
        let _ = self.store.release(&endpoint(subnet), token);
    }

    pub fn forget(&mut self, subnet: u16, flow: usize, token: ClaimToken, used: SystemTime) {
        self.claims.ended(subnet, flow);
        self.claims.failed(subnet, used);
        let _ = self.store.forget(&endpoint(subnet), token, used);
    }

    /// # Errors
    ///
    /// The flow that jumped held no claim.
    pub fn jumped(&self, subnet: u16, flow: usize, now: Duration) -> Result<(), Violation> {
        self.claims.jumped(subnet, flow, now)
    }
}

/// Returns an address of the subnet; flows in it differ by their ports.
pub fn client_ip(subnet: u16) -> Ipv4Addr {
    let [high, low] = subnet.to_be_bytes();
    Ipv4Addr::new(10, high, low, 1)
}

fn endpoint(subnet: u16) -> RemoteEndpoint {
    RemoteEndpoint::new(SENDER, IpAddr::V4(client_ip(subnet)), PrefixLengths::default())
}

fn saved_state(saved: &SavedPlan) -> PathState {
    let observed = quiche::clock::wall_now() - saved.age;
    PathState {
        saved_cwnd: saved.cwnd_bytes,
        saved_rtt: saved.rtt,
        observed,
        expires: observed + CarefulResumeConfig::default().lifetime,
        limited: false,
        validated: false,
    }
}
