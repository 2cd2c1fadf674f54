//! Activity of one TCP connection: whether it is idle, or stalls.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use tokio::sync::Notify;

use crate::admission::connection_limits::ClientGroup;
use crate::config::limits::Limits;
use crate::connection::progress::ProgressMeter;
use crate::connection::progress::IDLE_MIN;
use crate::connection::progress::STUCK_MIN;

/// A connection with a request under way stalls while it moves less, in bytes per second.
pub const STALLED_BYTES_PER_S: u64 = 256;

/// How long a client may take for its first request before another may have its place: several round trips of any path.
const FIRST_REQUEST_MIN: Duration = Duration::from_secs(3);

/// What the exchanges of a connection do.
#[derive(Debug)]
pub struct ConnectionActivity {
    under_way: AtomicU32,

    /// Whether there has been an exchange.
    has_begun: AtomicBool,

    /// Content of requests and responses.
    moved_bytes: AtomicU64,

    /// Responses that wait for an origin.
    origin_waits: AtomicU32,

    /// Until when a response waits, or has waited, because the server limits its rate. The client has
    /// taken what there was before.
    limited_until: Mutex<Instant>,

    /// When it became idle or busy.
    since: Mutex<Instant>,

    /// Of exchanges under way, as far as it is looked at.
    progress: Mutex<ProgressMeter>,

    /// Whose it is.
    groups: [ClientGroup; 2],

    /// Another connection has its place.
    eviction: Notify,
    is_evicted: AtomicBool,
}

/// Reason to end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// No request is under way, or the connection is old: the client may finish what is.
    Idle,
    Age,

    /// A request or response does not move.
    Stalled,
}

/// Watch of a connection's activity: a pure state machine.
#[derive(Debug)]
pub struct Watch {
    idle: Duration,
    stall: Duration,

    /// When the connection is old, until that is known.
    old_at: Option<Instant>,

    /// Beginning of the present period, and what had moved by then.
    period: (Instant, u64),
}

impl ConnectionActivity {
    /// Returns the activity of a connection that begins.
    pub fn new(groups: [ClientGroup; 2], now: Instant) -> Self {
        Self {
            under_way: AtomicU32::new(0),
            has_begun: AtomicBool::new(false),
            moved_bytes: AtomicU64::new(0),
            origin_waits: AtomicU32::new(0),
            limited_until: Mutex::new(now),
            since: Mutex::new(now),
            progress: Mutex::new(ProgressMeter::new(now)),
            groups,
            eviction: Notify::new(),
            is_evicted: AtomicBool::new(false),
        }
    }

    /// Returns the groups that the connection is one of.
    pub fn groups(&self) -> [ClientGroup; 2] {
        self.groups
    }

    /// Returns from when on another connection may have its place, if nothing moves.
    pub fn idle_from(&self, now: Instant) -> Instant {
        let idle_min = match self.has_begun() {
            true => IDLE_MIN,
            false => FIRST_REQUEST_MIN,
        };
        match self.idle_since() {
            Some(since) => since + idle_min,
            None => {
                let stuck_from = lock(&self.progress).on_turn(false, || self.moved_bytes(), now);
                stuck_from.max(*lock(&self.since) + STUCK_MIN)
            }
        }
    }

    /// Gives its place to another connection.
    pub fn evict(&self) {
        self.is_evicted.store(true, Ordering::Relaxed);
        self.eviction.notify_one();
    }

    /// Waits until another connection has its place.
    pub async fn evicted(&self) {
        while !self.is_evicted.load(Ordering::Relaxed) {
            self.eviction.notified().await;
        }
    }

    /// Notes that an exchange begins.
    pub fn on_begin(&self, now: Instant) {
        if self.under_way.fetch_add(1, Ordering::Relaxed) == 0 {
            *lock(&self.since) = now;
        }
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Returns whether there has been an exchange.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Returns how much content of requests and responses has moved, in bytes.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of exchanges under way.
    pub fn under_way(&self) -> u32 {
        self.under_way.load(Ordering::Relaxed)
    }

    /// Returns since when no exchange is under way, unless one is.
    pub fn idle_since(&self) -> Option<Instant> {
        (self.under_way() == 0).then(|| *lock(&self.since))
    }

    /// Notes that content has moved.
    pub fn on_moved(&self, bytes: u64) {
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that a response waits for its rate until then.
    pub fn on_wait(&self, until: Instant, now: Instant) {
        lock(&self.progress).on_wait(until, now);
        let mut limited_until = lock(&self.limited_until);
        *limited_until = until.max(*limited_until);
    }

    /// Notes that a response waits for an origin.
    pub fn on_origin_wait(&self) {
        self.origin_waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that it waits no longer. The client can take no more than there was.
    pub fn on_origin_wait_end(&self, now: Instant) {
        self.origin_waits.fetch_sub(1, Ordering::Relaxed);
        self.on_wait(now, now);
    }

    fn awaits_origin(&self) -> bool {
        self.origin_waits.load(Ordering::Relaxed) > 0
    }

    fn limited_until(&self) -> Instant {
        *lock(&self.limited_until)
    }

    /// Notes that an exchange has ended.
    pub fn on_end(&self, now: Instant) {
        if self.under_way.fetch_sub(1, Ordering::Relaxed) == 1 {
            *lock(&self.since) = now;
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
impl ConnectionActivity {
    /// Returns whether another connection has its place.
    pub fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::Relaxed)
    }
}

impl Watch {
    /// Returns the watch of a connection that begins.
    pub fn new(limits: &Limits, now: Instant) -> Self {
        let (idle, stall) = (limits.idle_time(), limits.stall_time());
        Self { idle, stall, old_at: Some(now + limits.connection_time()), period: (now, 0) }
    }

    /// Returns what has timed out, if anything.
    pub fn check(&mut self, activity: &ConnectionActivity, now: Instant) -> Option<Timeout> {
        if self.old_at.take_if(|old_at| *old_at <= now).is_some() {
            return Some(Timeout::Age);
        }
        let moved_bytes = activity.moved_bytes();
        let (began, moved_before) = self.period;
        if let Some(since) = activity.idle_since() {
            self.period = (now, moved_bytes);
            return (now >= since + self.idle).then_some(Timeout::Idle);
        }
        if now < began + self.stall {
            return None;
        }
        self.period = (now, moved_bytes);
        let least = STALLED_BYTES_PER_S * self.stall.as_secs();
        let has_waited = activity.limited_until() > began || activity.awaits_origin();
        let has_stalled = moved_bytes - moved_before < least && !has_waited;
        has_stalled.then_some(Timeout::Stalled)
    }

    /// Returns when to check next.
    pub fn next_check(&self, activity: &ConnectionActivity) -> Instant {
        let next = match activity.idle_since() {
            Some(since) => since + self.idle,
            None => self.period.0 + self.stall,
        };
        self.old_at.map_or(next, |old_at| next.min(old_at))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    use ab_test::ClientUnit;

    use crate::config::limits::tests::limits;

    const SECOND: Duration = Duration::from_secs(1);

    /// Groups of a client.
    pub fn groups() -> [ClientGroup; 2] {
        let subnet = "192.0.2.0/24".parse().unwrap();
        [
            ClientGroup::Subnet(subnet),
            ClientGroup::Client(subnet, ClientUnit::of([192, 0, 2, 1].into())),
        ]
    }

    /// A connection that times out after 10 s without a request, 20 s of a stall, or 100 s.
    fn connection() -> (ConnectionActivity, Watch, Instant) {
        let limits =
            limits(&["--idle-timeout=10", "--stall-timeout=20", "--connection-time-max=100"]);
        let now = quiche::clock::now();
        (ConnectionActivity::new(groups(), now), Watch::new(&limits, now), now)
    }

    #[test]
    fn connection_without_request_is_idle_after_the_last_one_ended() {
        let (activity, mut watch, start) = connection();
        assert_eq!(watch.next_check(&activity), start + 10 * SECOND);
        activity.on_begin(start);
        assert_eq!(watch.check(&activity, start + 10 * SECOND), None);
        activity.on_end(start + 12 * SECOND);
        assert_eq!(watch.next_check(&activity), start + 22 * SECOND);
        for (after, expected) in [(21, None), (22, Some(Timeout::Idle))] {
            assert_eq!(watch.check(&activity, start + after * SECOND), expected, "{after}");
        }
    }

    #[test]
    fn another_connection_may_have_the_place_of_one_that_is_idle_or_stuck() {
        let (activity, _, start) = connection();
        let at = |seconds| start + seconds * SECOND;
        assert_eq!(activity.idle_from(at(0)), at(3), "no request yet");
        activity.on_begin(at(1));
        assert_eq!(activity.idle_from(at(2)), at(11), "nothing has moved");
        activity.on_moved(2559);
        assert_eq!(activity.idle_from(at(4)), at(11), "too little");
        activity.on_moved(1);
        assert_eq!(activity.idle_from(at(6)), at(16), "since it was looked at");
        activity.on_end(at(7));
        assert_eq!(activity.idle_from(at(20)), at(8));
        activity.on_begin(at(30));
        assert_eq!(activity.idle_from(at(31)), at(40), "another request");
    }

    #[test]
    fn exchange_stalls_that_moves_too_little_in_a_period() {
        let (activity, mut watch, start) = connection();
        activity.on_begin(start);
        for (after, moved, expected) in [
            (20, 20 * 256, None),
            (39, 0, None),
            (40, 20 * 256, None),
            (60, 20 * 256 - 1, Some(Timeout::Stalled)),
        ] {
            activity.on_moved(moved);
            assert_eq!(watch.check(&activity, start + after * SECOND), expected, "{after}");
        }
    }

    #[test]
    fn exchange_that_waits_for_an_origin_does_not_stall() {
        let (activity, mut watch, start) = connection();
        activity.on_begin(start);
        activity.on_origin_wait();
        for (after, waits, expected) in
            [(20, true, None), (40, false, None), (60, false, Some(Timeout::Stalled))]
        {
            let at = start + after * SECOND;
            assert_eq!(watch.check(&activity, at), expected, "{after}");
            if waits {
                activity.on_origin_wait_end(at + SECOND);
            }
        }
    }

    #[test]
    fn exchange_that_waits_for_its_rate_neither_stalls_nor_is_stuck() {
        let (activity, mut watch, start) = connection();
        let at = |seconds| start + seconds * SECOND;
        activity.on_begin(start);
        activity.on_wait(at(10), at(0));
        assert_eq!(activity.idle_from(at(1)), at(20));
        activity.on_wait(at(9), at(1));
        activity.on_wait(at(15), at(2));
        assert_eq!(activity.idle_from(at(2)), at(20), "it waits for many others");
        for (after, expected) in [(20, None), (40, Some(Timeout::Stalled))] {
            assert_eq!(watch.check(&activity, at(after)), expected, "{after}");
        }
    }

    #[test]
    fn exchange_has_a_whole_period_from_its_beginning() {
        let (activity, mut watch, start) = connection();
        assert_eq!(watch.check(&activity, start + 9 * SECOND), None);
        activity.on_begin(start);
        assert_eq!(watch.next_check(&activity), start + 29 * SECOND);
        for (after, expected) in [(28, None), (29, Some(Timeout::Stalled))] {
            assert_eq!(watch.check(&activity, start + after * SECOND), expected, "{after}");
        }
    }

    #[test]
    fn connection_is_old_however_busy() {
        let (activity, mut watch, start) = connection();
        activity.on_begin(start);
        activity.on_moved(1 << 30);
        assert_eq!(watch.check(&activity, start + 99 * SECOND), None);
        assert_eq!(watch.next_check(&activity), start + 100 * SECOND);
        assert_eq!(watch.check(&activity, start + 100 * SECOND), Some(Timeout::Age));
        assert_eq!(watch.check(&activity, start + 101 * SECOND), None, "it is known");
    }
}
