//! Bytes that pass in each window of a given length.

use anyhow::ensure;

/// A packet of the unvalidated phase.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When it reached the emulator's socket, since the emulator started.
    pub time_ns: u64,
    /// UDP payload, which is what congestion windows count.
    pub bytes: u64,
}

/// All windows of one length between the first and the last packet.
pub struct Windows {
    pub expected_bytes: u64,

    /// Sorted.
    bytes: Vec<u64>,
    bursts: Bursts,
}

/// Packets that arrived at the same time: they explain a window that is off.
struct Bursts {
    largest_bytes: u64,
    longest_gap_ns: u64,
}

impl Windows {
    /// Slides a window of `length_ns` over the packets, which are in order of
    /// time. Half-open, it changes only where a packet comes in or goes out, so
    /// that these places, and those one nanosecond after, show every value.
    ///
    /// # Errors
    ///
    /// When the packets do not fill one window.
    pub fn new(packets: &[Packet], length_ns: u64, expected_bytes: u64) -> anyhow::Result<Self> {
        ensure!(packets.len() > 1, "nothing was sent in the unvalidated phase");
        let times_ns: Vec<u64> = packets.iter().map(|packet| packet.time_ns).collect();
        let (first_ns, last_ns) = (times_ns[0], times_ns[times_ns.len() - 1]);
        let mut bytes_before = vec![0];
        for packet in packets {
            bytes_before.push(bytes_before[bytes_before.len() - 1] + packet.bytes);
        }
        let before = |time_ns| bytes_before[times_ns.partition_point(|t| *t < time_ns)];

        let places = times_ns.iter().flat_map(|t| [Some(*t), t.checked_sub(length_ns)]).flatten();
        let starts = places.flat_map(|at| [at, at + 1]);
        let inside = starts.filter(|s| *s >= first_ns && s + length_ns <= last_ns);
        let mut bytes: Vec<u64> = inside.map(|s| before(s + length_ns) - before(s)).collect();
        ensure!(!bytes.is_empty(), "the unvalidated phase is shorter than a window");
        bytes.sort_unstable();
        Ok(Self { expected_bytes, bytes, bursts: Bursts::new(packets) })
    }

    /// Bytes of the emptiest, the median and the fullest window, as shares of
    /// what is expected.
    pub fn shares(&self) -> [f64; 3] {
        let last = self.bytes.len() - 1;
        [0, last / 2, last].map(|at| self.bytes[at] as f64 / self.expected_bytes as f64)
    }

    /// The largest burst and the longest gap.
    pub fn bursts(&self) -> String {
        let Bursts { largest_bytes, longest_gap_ns } = self.bursts;
        format!(
            "largest burst {largest_bytes} bytes, longest gap {:.2} ms",
            longest_gap_ns as f64 / 1e6
        )
    }
}

impl Bursts {
    fn new(packets: &[Packet]) -> Self {
        let groups = packets.chunk_by(|one, other| one.time_ns == other.time_ns);
        let bytes = groups.map(|group| group.iter().map(|packet| packet.bytes).sum());
        let gaps_ns = packets.windows(2).map(|pair| pair[1].time_ns - pair[0].time_ns);
        Self {
            largest_bytes: bytes.max().unwrap_or_default(),
            longest_gap_ns: gaps_ns.max().unwrap_or_default(),
        }
    }
}

/// The middle one, the upper of two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
