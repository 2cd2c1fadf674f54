//! Objects of a load: popularity, cache policies, versions by time, and bytes.

use std::time::Duration;

use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

/// Exponent of Zipf's law. Breslau et al., INFOCOM 1999: 0.64 to 0.83 for web requests.
const EXPONENT: f64 = 0.8;

/// Percentages of objects that change, and of requests for files.
const CHANGING_PERCENT: u64 = 30;
const FILES_PERCENT: u64 = 10;

/// Lengths of bodies, and how many of a thousand objects have one up to that.
const LENGTHS: [(u64, u64); 4] = [(800, 8_000), (980, 60_000), (999, 400_000), (1000, 2_000_000)];

/// Shortest time that a version is current, and the span above it, in milliseconds.
const PERIOD_MS: (u64, u64) = (2_000, 20_000);

/// A later version is longer by so many bytes, up to so many times.
const LENGTH_STEP: usize = 13;
const LENGTH_STEPS: u64 = 7;

const MICROSECONDS: u64 = 1000;

/// What the origin says of keeping an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CachePolicy {
    /// Never changes, and fresh for an hour, or for a moment.
    Long,
    Renewed,

    /// May change, and says nothing of being stale.
    Brief,

    /// May be stale while it is fetched again, or if the origin fails.
    WhileRevalidate,
    IfError,

    /// Must not be stale.
    Strict,

    /// Has to be confirmed for each request.
    Confirmed,

    /// A file of the server.
    File,
}

/// An object, which has versions.
#[derive(Clone, Debug)]
pub struct LoadObject {
    pub path: String,
    pub policy: CachePolicy,

    /// Whether the origin does not tell the length.
    pub is_chunked: bool,

    /// Time that a version is current, in microseconds, and the time of version 0. Absent if the object does not
    /// change.
    period: Option<u64>,
    offset: u64,
    length: usize,
    seed: u64,
}

/// All objects: those of the origin, the most popular first, and files.
pub struct Catalogue {
    pub objects: Vec<LoadObject>,

    /// Sums of the weights of the origin's objects.
    weights: Vec<f64>,
}

impl CachePolicy {
    /// Returns the value of `Cache-Control`.
    pub fn cache_control(self) -> &'static str {
        match self {
            Self::Long | Self::File => "max-age=3600",
            Self::Renewed => "max-age=5",
            Self::Brief => "max-age=2",
            Self::WhileRevalidate => "max-age=1, stale-while-revalidate=4, stale-if-error=60",
            Self::IfError => "max-age=1, stale-if-error=10",
            Self::Strict => "max-age=1, must-revalidate",
            Self::Confirmed => "no-cache",
        }
    }

    /// Returns how long a response is fresh, used while it is revalidated, and used if the origin fails.
    pub fn times(self) -> [Duration; 3] {
        let seconds = match self {
            Self::Long | Self::File => [3600, 0, 3600],
            Self::Renewed => [5, 0, 3600],
            Self::Brief => [2, 0, 3600],
            Self::WhileRevalidate => [1, 4, 60],
            Self::IfError => [1, 0, 10],
            Self::Strict => [1, 0, 0],
            Self::Confirmed => [0; 3],
        };
        seconds.map(Duration::from_secs)
    }

    /// Returns whether a response may be used if the origin responds with an error, too.
    pub fn covers_errors(self) -> bool {
        matches!(self, Self::WhileRevalidate | Self::IfError)
    }

    /// Returns whether the policy has each request confirmed, so that requests do not wait for each other.
    pub fn is_confirmed(self) -> bool {
        self == Self::Confirmed
    }
}

impl LoadObject {
    fn new(name: &str, policy: CachePolicy, random: &mut Pcg64) -> Self {
        let changes =
            !matches!(policy, CachePolicy::Long | CachePolicy::Renewed | CachePolicy::File);
        let mut below = |max: u64| random.next_u64() % max;
        let share = below(1000);
        let (_, length_max) = LENGTHS.into_iter().find(|(up_to, _)| share < *up_to).unwrap();
        let period = PERIOD_MS.0 + below(PERIOD_MS.1);
        Self {
            path: name.to_owned(),
            policy,
            is_chunked: below(2) == 0,
            period: changes.then_some(period * MICROSECONDS),
            offset: below(period) * MICROSECONDS,
            length: (100 + below(length_max)) as usize,
            seed: below(u64::MAX),
        }
    }

    /// Returns the version that is current at a time, in microseconds since 1970.
    pub fn version(&self, at: u64) -> u64 {
        self.period.map_or(0, |period| (at + self.offset) / period)
    }

    /// Returns when a version becomes current, and when it is no longer, in microseconds since 1970.
    pub fn current(&self, version: u64) -> (u64, u64) {
        let Some(period) = self.period else { return (0, u64::MAX) };
        let start = |version: u64| (version * period).saturating_sub(self.offset);
        (start(version), start(version + 1))
    }

    pub fn length(&self, version: u64) -> usize {
        self.length + (version % LENGTH_STEPS) as usize * LENGTH_STEP
    }

    /// Returns the bytes of a version, which no other version has.
    pub fn body(&self, version: u64) -> Vec<u8> {
        let mut words = SplitMix(self.seed ^ version.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let length = self.length(version);
        let mut body = Vec::with_capacity(length + 8);
        while body.len() < length {
            body.extend(words.next().to_le_bytes());
        }
        body.truncate(length);
        body
    }
}

/// Generator of the bytes of bodies: a state of eight bytes, and any state is a good one.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

impl Catalogue {
    /// Returns a catalogue of so many objects of the origin and files.
    pub fn new(seed: u64, objects: usize, files: usize) -> Self {
        use CachePolicy::*;
        let mut random = Pcg64::seed_from_u64(seed);
        let policies = |random: &mut Pcg64| {
            let all: &[CachePolicy] = match random.next_u64() % 100 < CHANGING_PERCENT {
                true => &[Brief, WhileRevalidate, IfError, Strict, Confirmed],
                false => &[Long, Renewed],
            };
            all[random.next_u64() as usize % all.len()]
        };
        let of_origin = (0..objects).map(|number| (format!("/app/{number}"), None));
        let of_server = (0..files).map(|number| (format!("/{number}.bin"), Some(File)));
        let objects_and_files = of_origin.chain(of_server).map(|(name, policy)| {
            let policy = policy.unwrap_or_else(|| policies(&mut random));
            LoadObject::new(&name, policy, &mut random)
        });
        let weights = (0..objects).scan(0.0, |sum, rank| {
            *sum += ((rank + 1) as f64).powf(-EXPONENT);
            Some(*sum)
        });
        Self { objects: objects_and_files.collect(), weights: weights.collect() }
    }

    /// Returns the number of the object that the next request is for.
    pub fn choose(&self, random: &mut Pcg64) -> usize {
        let (origin, all) = (self.weights.len(), self.objects.len());
        if random.next_u64() % 100 < FILES_PERCENT && all > origin {
            return origin + random.next_u64() as usize % (all - origin);
        }
        let share = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let wanted = share * self.weights[origin - 1];
        self.weights.partition_point(|sum| *sum <= wanted).min(origin - 1)
    }

    /// Returns the number of an object of the origin with a path.
    pub fn find(&self, path: &str) -> Option<usize> {
        let number = path.strip_prefix("/app/")?.parse().ok()?;
        (number < self.weights.len()).then_some(number)
    }

    pub fn files(&self) -> &[LoadObject] {
        &self.objects[self.weights.len()..]
    }
}
