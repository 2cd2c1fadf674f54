//! Size class of a response.

/// Class of a response body by its length, about half a power of ten wide.
///
/// What a jump gains depends on the length: the slow start of a short response fits in the round
/// trips that a jump saves, and most of a long one is sent at the path's rate in any case. So no
/// figure is over several classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(usize);

/// Lower bounds in bytes, and names.
const CLASSES: [(u64, &str); SizeClass::COUNT] = [
    (0, "0-100kB"),
    (100_000, "100-300kB"),
    (300_000, "300kB-1MB"),
    (1_000_000, "1-3MB"),
    (3_000_000, "3-10MB"),
    (10_000_000, "10-30MB"),
    (30_000_000, "30-100MB"),
    (100_000_000, "100MB-"),
];

impl SizeClass {
    /// Number of classes.
    pub const COUNT: usize = 8;

    /// Returns the class of a body of so many bytes.
    pub fn of(bytes: u64) -> Self {
        Self(CLASSES.partition_point(|(least, _)| *least <= bytes) - 1)
    }

    /// Returns all classes, from the smallest on.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// Returns the name in metrics and tables.
    pub fn name(self) -> &'static str {
        CLASSES[self.0].1
    }

    /// Returns its place among [`all()`](Self::all).
    pub fn index(self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_begins_at_its_lower_bound() {
        for (bytes, name) in [
            (0, "0-100kB"),
            (99_999, "0-100kB"),
            (100_000, "100-300kB"),
            (2_999_999, "1-3MB"),
            (3_000_000, "3-10MB"),
            (u64::MAX, "100MB-"),
        ] {
            assert_eq!(SizeClass::of(bytes).name(), name, "{bytes}");
        }
        let places: Vec<_> = SizeClass::all().map(SizeClass::index).collect();
        assert_eq!(places, (0..SizeClass::COUNT).collect::<Vec<_>>());
    }
}
