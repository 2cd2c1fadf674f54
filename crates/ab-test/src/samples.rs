//! Samples of both arms: the responses of access logs that are compared.

use std::collections::HashMap;

use serde::Serialize;

use crate::arm::Arm;
use crate::client_unit::ClientUnit;
use crate::log_line::LogLine;
use crate::log_line::Response;
use crate::size_class::SizeClass;

/// Time to the last byte of a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) ms: f64,

    /// Number of its client.
    pub(crate) client: u32,
}

/// Counts of one arm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArmTotals {
    /// Clients with any response.
    pub clients: u64,

    /// Clients with a response that is compared, complete or not.
    pub clients_compared: u64,

    /// Responses that are compared, complete or not.
    pub responses: u64,

    /// Those that the client did not receive as a whole.
    pub incomplete: u64,

    /// Those of connections that retreated.
    pub retreated: u64,
}

/// Arms in which a client was seen, and those in which it was compared, as bits.
#[derive(Clone, Copy, Default)]
struct Membership(u8);

impl Membership {
    fn seen(arm: Arm) -> u8 {
        1 << arm.index()
    }

    fn compared(arm: Arm) -> u8 {
        4 << arm.index()
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

/// Responses of access logs.
#[derive(Default)]
pub struct Samples {
    numbers: HashMap<ClientUnit, u32>,
    memberships: Vec<Membership>,
    totals: [ArmTotals; 2],
    lines: u64,

    /// By size class and arm, in no order.
    responses: [[Vec<Sample>; 2]; SizeClass::COUNT],
}

impl Samples {
    /// Adds a line of a log.
    pub fn add(&mut self, line: LogLine) {
        self.lines += 1;
        if let LogLine::Compared(response) = line {
            self.add_response(response);
        }
    }

    fn add_response(&mut self, response: Response) {
        let Response { client, arm, could_jump, complete, retreat, bytes, duration_ms } = response;
        let number = self.number(client);
        let membership = &mut self.memberships[number as usize].0;
        *membership |= Membership::seen(arm);
        if !could_jump {
            return;
        }
        *membership |= Membership::compared(arm);
        let totals = &mut self.totals[arm.index()];
        totals.responses += 1;
        totals.incomplete += u64::from(!complete);
        totals.retreated += u64::from(retreat);
        if complete {
            let class = &mut self.responses[SizeClass::of(bytes).index()];
            class[arm.index()].push(Sample { ms: duration_ms, client: number });
        }
    }

    fn number(&mut self, client: ClientUnit) -> u32 {
        let next = self.memberships.len() as u32;
        let number = *self.numbers.entry(client).or_insert(next);
        if number == next {
            self.memberships.push(Membership::default());
        }
        number
    }

    /// Returns the number of lines, those without an arm included.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> u64 {
        self.memberships.len() as u64
    }

    /// Returns the number of clients that were seen in both arms.
    pub fn clients_in_both_arms(&self) -> u64 {
        let is_both = |m: &&Membership| Arm::ALL.iter().all(|arm| m.has(Membership::seen(*arm)));
        self.memberships.iter().filter(is_both).count() as u64
    }

    /// Returns the counts of an arm.
    pub fn totals(&self, arm: Arm) -> ArmTotals {
        let count =
            |bit: u8| self.memberships.iter().filter(|member| member.has(bit)).count() as u64;
        ArmTotals {
            clients: count(Membership::seen(arm)),
            clients_compared: count(Membership::compared(arm)),
            ..self.totals[arm.index()]
        }
    }

    /// Returns the responses by size class and arm, each in ascending order of time.
    pub(crate) fn sorted(&self) -> [[Vec<Sample>; 2]; SizeClass::COUNT] {
        let mut sorted = self.responses.clone();
        for samples in sorted.iter_mut().flatten() {
            samples.sort_by(|one, other| one.ms.total_cmp(&other.ms));
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(host: u8, arm: Arm) -> Response {
        Response {
            client: ClientUnit::of([192, 0, 2, host].into()),
            arm,
            could_jump: true,
            complete: true,
            retreat: false,
            bytes: 5000,
            duration_ms: 1.0,
        }
    }

    #[test]
    fn totals_count_clients_once_and_compared_responses() {
        let mut samples = Samples::default();
        let one = response(1, Arm::Resume);
        for response in [
            Response { could_jump: false, ..one },
            Response { duration_ms: 3.0, ..one },
            Response { duration_ms: 2.0, retreat: true, ..one },
            Response { complete: false, ..one },
            Response { could_jump: false, ..response(2, Arm::Resume) },
            response(3, Arm::Control),
            response(1, Arm::Control),
        ] {
            samples.add(LogLine::Compared(response));
        }
        samples.add(LogLine::Other);

        assert_eq!((samples.lines(), samples.clients()), (8, 3));
        assert_eq!(samples.clients_in_both_arms(), 1);
        let resume = ArmTotals {
            clients: 2,
            clients_compared: 1,
            responses: 3,
            incomplete: 1,
            retreated: 1,
        };
        assert_eq!(samples.totals(Arm::Resume), resume);
        assert_eq!(samples.totals(Arm::Control).clients_compared, 2);
        let sorted = &samples.sorted()[0];
        let times: Vec<_> = sorted[0].iter().map(|sample| sample.ms).collect();
        assert_eq!((times, sorted[1].len()), (vec![2.0, 3.0], 2));
    }
}
