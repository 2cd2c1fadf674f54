//! Tests of the scalable response: factors of the window, and classic queues.

use super::*;
use rstest::rstest;

const MS: Duration = Duration::from_millis(1);

/// A response, and time that moves with each ACK.
struct Path {
    scalable: Scalable,
    now: Instant,
    rtt: Duration,
    queue: Duration,
}

impl Path {
    fn new(rtt: Duration) -> Self {
        Path {
            scalable: Scalable::default(),
            now: crate::clock::now(),
            rtt,
            queue: Duration::ZERO,
        }
    }

    /// Takes an ACK of so many packets, `gap` after the one before.
    fn ack(&mut self, gap: Duration, ect1: u64, ce: u64) -> Option<f64> {
        self.now += gap;
        self.scalable.on_acked(&AckedMarks {
            marks: Marks { ect0: 0, ect1, ce },
            now: self.now,
            rtt: self.rtt + self.queue,
            latest_rtt: self.rtt + self.queue,
            min_rtt: self.rtt,
        })
    }

    /// Takes ten ACKs of a round trip. Returns the factors.
    fn round(&mut self, ect1: u64, ce: u64) -> Vec<f64> {
        let gap = (self.rtt + self.queue).max(25 * MS) / 10;
        (0..10).filter_map(|_| self.ack(gap, ect1, ce)).collect()
    }
}

fn is_close(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 0.01
}

#[test]
fn no_mark_reduces_nothing() {
    let mut path = Path::new(40 * MS);
    assert!((0..100).all(|_| path.round(10, 0).is_empty()));
}

/// RFC 9331, 4.3: the answer to the first mark is that of a classic flow.
#[test]
fn first_mark_halves_the_window() {
    let mut path = Path::new(40 * MS);
    path.round(10, 0);
    assert_eq!(path.round(9, 1), [0.5]);
}

#[rstest]
#[case::one_in_ten(9, 1, 0.95)]
#[case::half(5, 5, 0.75)]
#[case::all(0, 10, 0.5)]
fn steady_share_reduces_by_half_of_it_each_round(
    #[case] ect1: u64, #[case] ce: u64, #[case] factor: f64,
) {
    let mut path = Path::new(40 * MS);
    for _ in 0..100 {
        path.round(ect1, ce);
    }
    for _ in 0..20 {
        let factors = path.round(ect1, ce);
        assert!(factors.iter().all(|f| is_close(*f, factor)), "{factors:?}");
        assert_eq!(factors.len(), 1);
    }
}

/// A mark after a long time without any has little effect.
#[test]
fn share_is_forgotten_by_a_sixteenth_a_round() {
    let mut path = Path::new(40 * MS);
    path.round(9, 1);
    let mut alpha: f64 = 1.0;
    path.round(10, 0);
    for _ in 0..30 {
        path.round(10, 0);
    }
    alpha *= (1.0_f64 - GAIN).powi(32);
    let factor = path.ack(40 * MS, 10, 1).unwrap();
    assert!((factor - (1.0 - alpha / 2.0)).abs() < 0.02, "{factor}");
}

#[test]
fn short_round_trips_answer_every_25_ms() {
    let mut path = Path::new(5 * MS);
    let factors = (0..500).filter_map(|_| path.ack(MS, 1, 1)).count();
    assert_eq!(factors, 20);
}

#[rstest]
#[case(5, 0.04)]
#[case(25, 1.0)]
#[case(100, 1.0)]
fn rates_grow_as_if_the_round_trip_took_25_ms(
    #[case] rtt_ms: u32, #[case] packets: f64,
) {
    assert!(is_close(growth(rtt_ms * MS), packets));
}

/// Beside CUBIC's window, that of the same marks on a coupled queue.
#[rstest]
#[case::reno_is_faster(20, 20.0, 0.64)]
#[case::cubic_is_faster(100, 1000.0, 3.29)]
fn growth_beside_cubic_is_that_of_its_window(
    #[case] rtt_ms: u32, #[case] window: f64, #[case] packets: f64,
) {
    let found = growth_beside_cubic(rtt_ms * MS, window);
    assert!(is_close(found, packets), "{found}");

    let rtt = f64::from(rtt_ms) / 1e3;
    let marks_of_cubic = (1.054 * rtt.powf(0.75) / window).powf(4.0 / 3.0);
    let scalable = 2.0 * found / (2.0 * marks_of_cubic.sqrt());
    assert!(found <= 1.0 || (scalable / window - 1.0).abs() < 0.02);
}

/// RFC 9331, A.1: a classic queue stays well above what L4S allows.
#[rstest]
#[case::l4s(1, 1, false)]
#[case::classic(5, 1, true)]
#[case::classic_without_marks(5, 0, false)]
fn marks_of_a_long_queue_end_the_response(
    #[case] queue_ms: u32, #[case] ce: u64, #[case] is_over: bool,
) {
    let mut path = Path::new(40 * MS);
    path.queue = queue_ms * MS;
    for _ in 0..6 {
        path.round(9, ce);
    }
    assert_eq!(path.scalable.is_over(), is_over);
    // For good.
    path.queue = Duration::ZERO;
    for _ in 0..20 {
        path.round(9, ce);
    }
    assert_eq!(path.scalable.is_over(), is_over);
}

/// A window is never reduced by more than half, and once a round at most.
#[rstest]
fn reductions_are_bounded(
    #[values(1, 20, 40, 200)] rtt_ms: u32, #[values(1, 2, 3, 4, 5)] seed: u64,
) {
    let mut random = seed;
    let mut draw = |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
        (random >> 33) % below
    };
    let mut path = Path::new(rtt_ms * MS);
    let round = (rtt_ms * MS).max(25 * MS);
    let mut reduced_at: Option<Instant> = None;

    for _ in 0..2000 {
        let gap = Duration::from_micros(draw(50_000));
        let (ect1, ce) = (draw(20), draw(4).saturating_sub(2) * draw(20));
        path.queue = Duration::from_micros(draw(4000));
        let Some(factor) = path.ack(gap, ect1, ce) else {
            continue;
        };
        assert!(ce > 0 && (0.5..1.0).contains(&factor), "{factor}");
        let since = reduced_at.map(|at| path.now - at);
        assert!(since.is_none_or(|since| since >= round), "{since:?}");
        reduced_at = Some(path.now);
    }
    assert!(reduced_at.is_some());
}
