//! Scheduler of the responses under way on a connection, by their priorities (RFC 9218, 10).
//!
//! The most urgent go first. Among responses of one urgency, those that are not incremental
//! go first, in the order of their requests; the others take turns.

use std::collections::VecDeque;
use std::time::Instant;

use crate::h3::priority::Priority;
use crate::h3::response_writer::ResponseWriter;

/// Rank of a response: the lowest goes first.
type Rank = (Priority, u64);

/// Unfinished responses. Bounded by the number of requests that a client may have
/// under way: few enough to search for a stream's response.
#[derive(Default)]
pub struct Scheduler {
    /// By rank.
    responses: VecDeque<(Rank, Box<ResponseWriter>)>,

    /// Turns that incremental responses have had or wait for.
    turns: u64,
}

impl Scheduler {
    /// Inserts a response, behind others that share with it.
    pub fn insert(&mut self, response: Box<ResponseWriter>) {
        let rank = self.rank(&response);
        let index = self.responses.partition_point(|(other, _)| *other < rank);
        self.responses.insert(index, (rank, response));
    }

    /// Returns the response with so many others before it.
    pub fn at(&mut self, index: usize) -> Option<&mut ResponseWriter> {
        self.responses.get_mut(index).map(|(_, response)| response.as_mut())
    }

    /// Ends a response's turn.
    pub fn end_turn(&mut self, index: usize) {
        if let Some(response) = self.remove_at(index) {
            self.insert(response);
        }
    }

    /// Removes a response.
    pub fn remove_at(&mut self, index: usize) -> Option<Box<ResponseWriter>> {
        self.responses.remove(index).map(|(_, response)| response)
    }

    /// Returns whether another response shares with it.
    pub fn is_shared(&self, index: usize) -> bool {
        let priority = |index| self.responses.get(index).map(|((priority, _), _)| *priority);
        let Some(own) = priority(index).filter(|own| own.incremental) else { return false };
        let before = index.checked_sub(1).and_then(priority);
        [before, priority(index + 1)].contains(&Some(own))
    }

    /// Returns whether a response waits behind one of these, whose rate is its own.
    pub fn waits_behind(&mut self, limited: &[usize], index: usize) -> bool {
        let at = |index: usize| self.responses.get(index).map(|(_, response)| response.as_ref());
        let is_same = |other: &usize| {
            at(index).zip(at(*other)).is_some_and(|(own, other)| own.has_rate_of(other))
        };
        let waits = limited.iter().any(is_same);
        if waits {
            self.at(index).into_iter().for_each(ResponseWriter::note_wait);
        }
        waits
    }

    /// Returns a stream's response.
    pub fn get(&self, stream: u64) -> Option<&ResponseWriter> {
        self.iter().find(|response| response.stream == stream)
    }

    /// Returns a stream's response, to be changed.
    pub fn get_mut(&mut self, stream: u64) -> Option<&mut ResponseWriter> {
        self.at(self.index_of(stream)?)
    }

    /// Removes a stream's response.
    pub fn remove(&mut self, stream: u64) -> Option<Box<ResponseWriter>> {
        self.remove_at(self.index_of(stream)?)
    }

    /// Changes the priority of a stream's response, if there is one.
    pub fn prioritize(&mut self, stream: u64, priority: Priority) {
        if let Some(mut response) = self.remove(stream) {
            response.priority = priority;
            self.insert(response);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &ResponseWriter> {
        self.responses.iter().map(|(_, response)| response.as_ref())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut ResponseWriter> {
        self.responses.iter_mut().map(|(_, response)| response.as_mut())
    }

    pub fn contains(&self, stream: u64) -> bool {
        self.index_of(stream).is_some()
    }

    pub fn unsent_bytes(&self) -> u64 {
        self.iter().map(ResponseWriter::unsent_bytes).sum()
    }

    /// Returns the bytes that could be written now if the transport took them.
    pub fn sendable_bytes(&self, now: Instant) -> u64 {
        self.iter().map(|response| response.sendable_bytes(now)).sum()
    }

    /// Frees unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.responses.shrink_to_fit();
    }

    fn index_of(&self, stream: u64) -> Option<usize> {
        self.iter().position(|response| response.stream == stream)
    }

    fn rank(&mut self, response: &ResponseWriter) -> Rank {
        if response.priority.incremental {
            self.turns += 1;
            return (response.priority, self.turns);
        }
        (response.priority, response.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::response::Response;
    use std::time::SystemTime;

    fn scheduler_of(responses: &[(u64, u8, bool)]) -> Scheduler {
        let mut scheduler = Scheduler::default();
        for (stream, urgency, incremental) in responses {
            let priority = Priority { urgency: *urgency, incremental: *incremental };
            let response = Response::error(404);
            let writer =
                ResponseWriter::new(*stream, response, true, priority, SystemTime::UNIX_EPOCH);
            scheduler.insert(writer.into());
        }
        scheduler
    }

    /// Returns the streams of so many turns, each of which sends something.
    fn turns(scheduler: &mut Scheduler, count: usize) -> Vec<u64> {
        let mut streams = Vec::new();
        for _ in 0..count {
            streams.push(scheduler.at(0).unwrap().stream);
            scheduler.end_turn(0);
        }
        streams
    }

    #[test]
    fn urgent_responses_go_first_then_non_incremental_ones() {
        let mut scheduler = scheduler_of(&[
            (0, 3, true),
            (4, 3, false),
            (8, 1, true),
            (12, 3, false),
            (16, 7, false),
        ]);
        let mut order = Vec::new();
        while let Some(response) = scheduler.remove_at(0) {
            order.push(response.stream);
        }
        assert_eq!(order, [8, 4, 12, 0, 16]);
        assert!(!scheduler.contains(8));
    }

    #[test]
    fn incremental_responses_take_turns_and_others_do_not() {
        let shared = [(0, 3, true), (4, 3, true), (8, 3, true)];
        assert_eq!(turns(&mut scheduler_of(&shared), 7), [0, 4, 8, 0, 4, 8, 0]);
        assert_eq!(turns(&mut scheduler_of(&[(4, 3, false), (0, 3, false)]), 3), [0, 0, 0]);
    }

    #[test]
    fn blocked_response_keeps_its_turn_and_lets_others_go() {
        let mut scheduler = scheduler_of(&[(0, 3, true), (4, 3, true)]);
        for _ in 0..2 {
            // The first is blocked.
            assert_eq!(scheduler.at(1).unwrap().stream, 4);
            scheduler.end_turn(1);
        }
        assert!(scheduler.at(2).is_none());
        assert_eq!(turns(&mut scheduler, 2), [0, 4]);
    }

    #[test]
    fn priority_can_change() {
        let mut scheduler = scheduler_of(&[(0, 3, true), (4, 3, true)]);
        scheduler.prioritize(4, Priority { urgency: 0, incremental: false });
        scheduler.prioritize(8, Priority::DEFAULT);
        assert!(scheduler.contains(4) && !scheduler.contains(8));
        assert_eq!(scheduler.at(0).unwrap().stream, 4);
        assert_eq!(scheduler.remove(0).unwrap().stream, 0);
    }

    #[test]
    fn incremental_responses_of_one_urgency_share() {
        let urgent_alone = [(0, 1, true), (4, 3, true), (8, 3, true), (12, 3, true)];
        let whole = [(0, 3, false), (4, 3, false), (8, 3, true), (12, 7, true)];
        for (responses, expected) in
            [(urgent_alone, [false, true, true, true]), (whole, [false; 4])]
        {
            let scheduler = scheduler_of(&responses);
            let shared: Vec<_> = (0..5).map(|index| scheduler.is_shared(index)).collect();
            assert_eq!(shared, [&expected[..], &[false]].concat());
        }
    }
}
