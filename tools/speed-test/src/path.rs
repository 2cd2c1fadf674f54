//! Paths that can be emulated.

use report::bound::bdp_bytes;

/// An emulated path and the object downloaded over it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathSpec {
    /// Name for `--paths` and of its folder.
    pub name: &'static str,
    /// Name in tables and figures.
    pub title: &'static str,
    pub rate_mbps: f64,
    pub rtt_ms: f64,
    pub object_bytes: u64,
}

const fn path(
    name: &'static str,
    title: &'static str,
    rate_mbps: f64,
    rtt_ms: f64,
    object_bytes: u64,
) -> PathSpec {
    PathSpec { name, title, rate_mbps, rtt_ms, object_bytes }
}

/// Every path that `--paths` knows.
pub const PATHS: [PathSpec; 9] = [
    path("500M", "500 Mbit/s, 50 ms, 6.25 MB", 500.0, 50.0, 6_250_000),
    path("LEO", "LEO 100 Mbit/s, 60 ms, 5 MB", 100.0, 60.0, 5_000_000),
    path("GEO", "GEO 50 Mbit/s, 600 ms, 3.75 MB", 50.0, 600.0, 3_750_000),
    path("GEO-1MB", "GEO 50 Mbit/s, 600 ms, 1 MB", 50.0, 600.0, 1_000_000),
    path("GEO-10MB", "GEO 50 Mbit/s, 600 ms, 10 MB", 50.0, 600.0, 10_000_000),
    path("LEO-150M", "LEO 150 Mbit/s, 50 ms, 10 MB", 150.0, 50.0, 10_000_000),
    path("fibre", "fibre 375 Mbit/s, 20 ms, 0.9375 MB", 375.0, 20.0, 937_500),
    path("5G", "5G 300 Mbit/s, 30 ms, 1.125 MB", 300.0, 30.0, 1_125_000),
    path("terrestrial", "terrestrial 100 Mbit/s, 20 ms, 5 MB", 100.0, 20.0, 5_000_000),
];

/// How many of [`PATHS`], from the first, are measured when none is named.
pub const DEFAULT_PATHS: usize = 3;

impl PathSpec {
    /// Returns the bandwidth-delay product, in bytes.
    pub fn bdp_bytes(&self) -> u64 {
        bdp_bytes(self.rate_mbps, self.rtt_ms) as u64
    }

    /// Returns the bottleneck's buffer, in bytes: one bandwidth-delay product.
    pub fn buffer_bytes(&self) -> u64 {
        self.bdp_bytes()
    }

    /// Returns what the first connection downloads to learn the path, in bytes.
    pub fn first_bytes(&self) -> u64 {
        (10 * self.bdp_bytes()).max(self.object_bytes)
    }
}

/// Finds a path by name, whatever the case.
///
/// # Errors
///
/// A message that lists the known names.
pub fn parse_path(name: &str) -> Result<PathSpec, String> {
    let found = PATHS.iter().find(|p| p.name.eq_ignore_ascii_case(name.trim()));
    found.copied().ok_or_else(|| format!("no such path; known paths are {}", names()))
}

/// Returns the known names, separated by commas.
pub fn names() -> String {
    PATHS.map(|p| p.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_ignore_case() {
        for path in PATHS {
            assert_eq!(parse_path(&path.name.to_lowercase()), Ok(path));
        }
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let error = parse_path("moon").expect_err("unknown");
        assert!(error.contains("GEO-10MB"), "{error}");
    }

    #[test]
    fn first_connection_downloads_at_least_ten_bdp() {
        for path in PATHS {
            assert!(path.first_bytes() >= 10 * path.bdp_bytes());
            assert!(path.first_bytes() >= path.object_bytes);
        }
    }
}
