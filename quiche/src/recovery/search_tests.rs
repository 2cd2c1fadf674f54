//! SEARCH on made-up histories: rates of sending and of delivery, told a
//! millisecond at a time.

use super::*;
use crate::clock;
use crate::rand::rand_u64_uniform;
use rstest::rstest;

use SearchForm::*;

const MS: Duration = Duration::from_millis(1);

/// In ms: the first sample, and a round of all histories.
const RTT: f64 = 100.0;

/// Bytes in a millisecond when the first RTT is over.
const RATE: f64 = 10_000.0;

fn config(form: SearchForm) -> SearchConfig {
    match form {
        SentAgainstDelivered => SearchConfig::default(),
        DeliveredOnly => SearchConfig::delivered_only(),
    }
}

/// Feeds one history.
struct Feed {
    search: Search,
    start: Instant,
    /// In ms since the start.
    now: u64,
    evaluations: Vec<Evaluation>,
}

impl Feed {
    fn new(config: SearchConfig) -> Self {
        Feed {
            search: Search::new(config),
            start: clock::now() + Duration::from_secs(1),
            now: 0,
            evaluations: vec![],
        }
    }

    /// For `ms`, bytes are sent and delivered at rates that follow from the
    /// time in RTTs. Stops at an exit, whose time it returns, in RTTs.
    fn run(
        &mut self, ms: u64, sent: impl Fn(f64) -> f64,
        delivered: impl Fn(f64) -> f64,
    ) -> Option<f64> {
        let end = self.now + ms;

        while self.now < end {
            let time = self.now as f64 / RTT;
            self.search.on_sent((RATE * sent(time)) as usize);
            let evaluation = self.ack((RATE * delivered(time)) as usize, false);
            if evaluation.is_some_and(|e| e.is_exit) {
                return Some(time);
            }
        }
        None
    }

    fn ack(&mut self, bytes: usize, limited: bool) -> Option<Evaluation> {
        let evaluation = self.search.on_ack(&Ack {
            now: self.start + MS * self.now as u32,
            rtt: MS * RTT as u32,
            bytes,
            limited,
        });
        self.now += 1;
        self.evaluations.extend(evaluation);
        evaluation
    }
}

/// Bytes delivered and sent in slow start, doubled in each RTT.
fn doubled(time: f64) -> f64 {
    f64::powf(2.0, time.floor())
}

fn sent_doubled(time: f64) -> f64 {
    doubled(time + 1.0)
}

#[rstest]
fn search_on_an_empty_path_does_not_exit(
    #[values(SentAgainstDelivered, DeliveredOnly)] form: SearchForm,
) {
    let mut feed = Feed::new(config(form));
    assert_eq!(feed.run(1200, sent_doubled, doubled), None);

    // Evaluated once a bin, as soon as a window and an RTT are remembered.
    assert!(feed.evaluations.len() >= 18);
    for evaluation in feed.evaluations {
        assert!(evaluation.difference.abs() < 0.05, "{evaluation:?}");
    }
}

/// The queue is short enough that the RTT does not grow: by the arithmetic of
/// rates per RTT, 4.0 sees 0.275 an RTT after the path is full and 0.38 after
/// two; 3.x sees 0.27 and 0.38 as well.
#[rstest]
#[case(SentAgainstDelivered, 0.26, 0.7..1.2)]
#[case(SentAgainstDelivered, 0.35, 1.4..2.0)]
#[case(DeliveredOnly, 0.26, 0.7..1.2)]
#[case(DeliveredOnly, 0.35, 1.4..2.0)]
fn search_on_a_full_path_exits_within_two_rtts(
    #[case] form: SearchForm, #[case] threshold: f64,
    #[case] expected: std::ops::Range<f64>,
) {
    let full = 8.0;
    let mut feed = Feed::new(SearchConfig {
        threshold,
        ..config(form)
    });
    let delivered = |time: f64| doubled(time.min(full));
    // The bytes sent follow the bytes delivered.
    let sent = |time: f64| 2.0 * delivered(time);

    // It is full an RTT after it is sent as much as it carries.
    let exit = feed.run(2000, sent, delivered).unwrap() - full - 1.0;
    assert!(expected.contains(&exit), "{exit}");
}

/// A jump delivers 10, 20, 150, 150, 150 in successive RTTs, or 10, 20, 40, 44,
/// 88. Only what is compared with what was sent is not taken in.
#[rstest]
#[case([10.0, 20.0, 40.0, 44.0, 88.0], 0.20)]
#[case([10.0, 20.0, 150.0, 150.0, 150.0], 0.20)]
fn search_after_a_jump_on_an_idle_path(
    #[case] rates: [f64; 5], #[case] least: f64,
) {
    let largest = |form| {
        let mut feed = Feed::new(SearchConfig {
            form,
            window_rtts: 3.0,
            bins: 9,
            threshold: 0.99,
            log_evaluations: false,
        });
        let rate = |time: f64| rates[(time as usize).min(4)] / 10.0;
        feed.run(520, |time| rate(time + 1.0), rate);
        let differences = feed.evaluations.iter().map(|e| e.difference);
        differences.fold(f64::MIN, f64::max)
    };

    assert!(largest(SentAgainstDelivered) < 0.05);
    assert!(largest(DeliveredOnly) > least);
}

#[rstest]
fn search_forgets_a_pause_longer_than_a_window(
    #[values(SentAgainstDelivered, DeliveredOnly)] form: SearchForm,
) {
    let mut feed = Feed::new(config(form));
    feed.run(600, sent_doubled, doubled);
    let before = feed.evaluations.len();
    assert!(before > 0);

    // The last bin may have just begun: a window and a bin are too long.
    feed.now += 351 + 35;
    // A pause lets the queue of the sender grow, but nothing arrives.
    assert_eq!(feed.run(450, |_| 64.0, |_| 1.0), None);
    assert_eq!(feed.evaluations.len(), before);

    // It is evaluated again a window and an RTT later.
    feed.run(100, |_| 64.0, |_| 64.0);
    assert!(feed.evaluations.len() > before);
}

#[test]
fn search_keeps_totals_over_a_short_pause() {
    let mut feed = Feed::new(SearchConfig::default());
    feed.run(600, |_| 1.0, |_| 1.0);
    let before = feed.evaluations.len();

    // Half a window: nothing was sent, nothing arrived.
    feed.now += 175;
    feed.run(400, |_| 1.0, |_| 1.0);
    assert!(feed.evaluations.len() > before);
    for evaluation in feed.evaluations {
        assert!(evaluation.difference.abs() < 0.35, "{evaluation:?}");
    }
}

#[rstest]
fn search_forgets_a_bin_of_a_limited_sender(
    #[values(SentAgainstDelivered, DeliveredOnly)] form: SearchForm,
    #[values(false, true)] one_ack_is_not: bool,
) {
    let mut feed = Feed::new(config(form));
    feed.run(600, sent_doubled, doubled);
    let before = feed.evaluations.len();

    // Two bins are over, and at least one of them had no other ACKs.
    for i in 0..72 {
        feed.search.on_sent(10_000);
        feed.ack(10_000, !(one_ack_is_not && i % 20 == 0));
    }
    feed.run(350, |_| 1.0, |_| 1.0);
    assert_eq!(feed.evaluations.len() > before + 1, one_ack_is_not);
}

#[test]
fn search_skips_an_rtt_beyond_its_history() {
    for (rtt, is_looked_at) in [
        (100, true),
        (524, true),
        // 15 bins of 35 ms.
        (525, false),
        (60_000, false),
        (u32::MAX, false),
    ] {
        let mut feed = Feed::new(SearchConfig::default());
        feed.run(1500, |_| 1.0, |_| 1.0);
        feed.now += 40;
        let evaluation = feed.search.on_ack(&Ack {
            now: feed.start + MS * feed.now as u32,
            rtt: MS * rtt,
            bytes: 1,
            limited: false,
        });
        assert_eq!(evaluation.is_some(), is_looked_at, "{rtt}");
    }
}

/// A bin of 35 ms: an RTT of 87.5 ms reaches back two bins and a half, half
/// way to the window that is a bin older.
#[test]
fn search_interpolates_with_the_older_window() {
    let mut feed = Feed::new(SearchConfig {
        bins: 2,
        window_rtts: 1.0,
        ..Default::default()
    });
    // Bins of 50 ms, each with this number of bytes sent.
    let sent = [100, 200, 400, 800, 1600, 3200];
    let mut evaluation = None;

    for (bin, bytes) in sent.into_iter().enumerate() {
        feed.search.on_sent(bytes);
        let rtt = if bin == 0 { 100 } else { 75 };
        evaluation = feed.search.on_ack(&Ack {
            now: feed.start + MS * 51 * bin as u32,
            rtt: MS * rtt,
            bytes: 1,
            limited: false,
        });
    }

    // A bin and a half before boundary 5: between those that end at 4 and 3,
    // with what was sent before each.
    let expected = ((800 + 1600) + (400 + 800)) / 2;
    assert_eq!(evaluation.map(|e| e.expected), Some(expected));
}

#[test]
fn search_bin_ends_after_its_last_instant() {
    let (start, totals) = (clock::now(), Totals::default());
    let bins =
        Bins::start(&SearchConfig::default(), 100 * MS, totals, start).unwrap();
    let nanosecond = Duration::from_nanos(1);

    for (after, ended) in [
        (Duration::ZERO, 0),
        (nanosecond, 1),
        (bins.length, 1),
        (bins.length + nanosecond, 2),
    ] {
        assert_eq!(bins.ended(bins.end + after), ended, "{after:?}");
    }
}

/// Bins of a sender that delivers 10 bytes in each, `latest` of which have
/// ended.
fn bins_of_ten(latest: u64) -> Bins {
    let config = SearchConfig {
        bins: 2,
        ..Default::default()
    };
    let start = clock::now();
    let mut bins =
        Bins::start(&config, 100 * MS, Totals::default(), start).unwrap();

    for delivered in (1..=latest).map(|bin| 10 * bin) {
        bins.end_bins(
            1,
            Totals {
                delivered,
                ..Default::default()
            },
        );
    }
    bins
}

#[test]
fn delivered_bytes_count_over_the_whole_history() {
    for (latest, asked, delivered) in [
        (2, 1, 10),
        (2, 2, 20),
        (2, 3, 20),
        (20, 3, 30),
        (20, 6, 60),
        (20, 7, 60),
        (20, 100, 60),
    ] {
        let bins = bins_of_ten(latest);
        assert_eq!(bins.delivered_in(asked), delivered, "{latest}, {asked}");
    }
}

#[test]
fn search_bins_end_one_length_apart() {
    let mut bins = bins_of_ten(1);
    let (end, latest) = (bins.end, bins.latest);
    bins.end_bins(3, bins.at(latest));
    assert_eq!(bins.end, end + bins.length * 3);
    assert_eq!(bins.latest, latest + 3);
}

#[test]
fn gap_of_more_than_a_window_is_a_pause() {
    for (ended, is_pause) in [(10, false), (11, true)] {
        let mut search = Search::new(SearchConfig::default());
        let ack = |now| Ack {
            now,
            rtt: 100 * MS,
            bytes: 1000,
            limited: false,
        };
        search.on_ack(&ack(clock::now()));
        let bins = search.bins.as_ref().unwrap();
        let now = bins.end + bins.length * (ended - 1) + Duration::from_nanos(1);
        search.on_ack(&ack(now));
        assert_eq!(search.bins.is_none(), is_pause, "{ended}");
    }
}

#[test]
fn search_remembers_only_bins_it_uses() {
    for (bins, slots) in [(10, 27), (2, 7), (64, 162)] {
        let config = SearchConfig {
            bins,
            ..Default::default()
        };
        assert_eq!(config.slots(), slots);
    }
}

#[test]
fn search_without_bin_length_never_starts() {
    let mut search = Search::new(SearchConfig::default());
    let start = clock::now() + Duration::from_secs(1);

    for i in 0..1000 {
        search.on_sent(1000);
        let ack = Ack {
            now: start + Duration::from_nanos(i),
            rtt: Duration::from_nanos(i % 3),
            bytes: 900,
            limited: false,
        };
        assert_eq!(search.on_ack(&ack), None);
    }
}

/// Nothing is expected, and nothing divided by it.
#[test]
fn search_ignores_an_idle_sender() {
    let mut feed = Feed::new(SearchConfig::default());
    assert_eq!(feed.run(1000, |_| 0.0, |_| 0.0), None);
    assert_eq!(feed.evaluations, []);
}

/// 4.0: what arrived in one RTT, in whole bins: 3 of 35 ms. 3.x: the window
/// less what arrived in two: 6.
#[test]
fn window_after_an_exit_is_what_was_delivered() {
    const IW: usize = 13_500;
    let mut feed = Feed::new(SearchConfig::default());
    feed.run(1001, |_| 1.0, |_| 1.0);
    let exit = |form, window| {
        let search = Search {
            config: config(form),
            bins: None,
            ..Search::new(SearchConfig::default())
        };
        assert_eq!(
            search.exit(window, IW),
            match form {
                SentAgainstDelivered => Exit::Drain(IW),
                DeliveredOnly => Exit::Cut(window.max(IW)),
            }
        );
    };
    exit(SentAgainstDelivered, 5_000_000);
    exit(DeliveredOnly, 5_000_000);
    exit(DeliveredOnly, 5_000);

    for (window, target) in
        [(5_000_000, 1_050_000), (1_000_000, 1_000_000), (5_000, IW)]
    {
        assert_eq!(feed.search.exit(window, IW), Exit::Drain(target));
    }

    feed.search.config.form = DeliveredOnly;
    for (window, cut) in
        [(5_000_000, 2_900_000), (2_110_000, IW), (2_000_000, IW)]
    {
        assert_eq!(feed.search.exit(window, IW), Exit::Cut(cut));
    }
}

#[test]
fn invalid_search_settings_are_refused() {
    let with = |change: fn(&mut SearchConfig)| {
        let mut config = SearchConfig::default();
        change(&mut config);
        config.check().is_ok()
    };

    assert!(with(|_| ()));
    assert!(with(|c| (c.window_rtts, c.bins) = (1.0, 2)));
    assert!(with(|c| (c.window_rtts, c.bins) = (16.0, 64)));
    for change in [
        (|c| c.window_rtts = 0.99) as fn(&mut SearchConfig),
        |c| c.window_rtts = 16.1,
        |c| c.window_rtts = f64::NAN,
        |c| c.bins = 1,
        |c| c.bins = 65,
        |c| c.threshold = 0.0,
        |c| c.threshold = 1.0,
        |c| c.threshold = f64::NAN,
    ] {
        assert!(!with(change));
    }
}

/// Whatever comes, nothing is read that was not written, and no difference is
/// without sense.
#[cfg(feature = "internal")]
#[test]
fn random_histories_agree_with_a_plain_model() {
    for seed in 0..2000 {
        let _simulation = clock::Simulation::start(seed, Duration::ZERO);
        let any = |most| rand_u64_uniform(most + 1);
        let mut search = Search::new(SearchConfig {
            form: [SentAgainstDelivered, DeliveredOnly][any(1) as usize],
            window_rtts: 1.0 + any(15) as f64,
            bins: 2 + any(62) as u32,
            threshold: 0.3,
            log_evaluations: false,
        });
        let first_rtt = [1, 1000, 20_000_000, 600_000_000][any(3) as usize];
        let mut now = clock::now() + Duration::from_secs(1);

        for _ in 0..500 {
            search.on_sent(any(100_000) as usize);
            if any(100) == 0 {
                search.forget();
            }
            let step = [0, 1, first_rtt / 30, first_rtt, 30 * first_rtt];
            now += Duration::from_nanos(step[any(40) as usize % 5]);
            let evaluation = search.on_ack(&Ack {
                now,
                rtt: Duration::from_nanos(first_rtt + any(4 * first_rtt)),
                bytes: any(50_000) as usize,
                limited: any(10) == 0,
            });

            if let Some(evaluation) = evaluation {
                assert!(evaluation.difference <= 1.0, "seed {seed}");
            }
            let window = 12_000 + any(10_000_000) as usize;
            let (Exit::Cut(to) | Exit::Drain(to)) = search.exit(window, 12_000);
            assert!((12_000..=window).contains(&to), "seed {seed}");
        }
    }
}
