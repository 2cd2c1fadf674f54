//! Paths that can be emulated.

use std::borrow::Cow;

use report::bound::bdp_bytes;

/// An emulated path and the object downloaded over it.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSpec {
    /// Name for `--paths` and of its folder.
    pub name: Cow<'static, str>,
    /// Name in tables and figures.
    pub title: Cow<'static, str>,
    pub rate_mbps: f64,
    pub rtt_ms: f64,
    /// The bottleneck's buffer; one bandwidth-delay product if absent.
    pub own_buffer_bytes: Option<u64>,
    pub object_bytes: u64,
    /// Options of link-emulator for all else.
    pub link_options: Vec<String>,
    /// Whether rate and RTT stay, and nothing is lost but by a full buffer: downloads are then judged.
    pub is_steady: bool,
    /// The scenario file that has it.
    pub scenario: Option<String>,
}

/// What `--path` takes.
const OWN_PATH: &str =
    "a path is RATE,RTT,BUFFER,SIZE: Mbit/s, ms, and bytes, kB, MB or bdp, as in \
                        50,600,1bdp,3.75MB";

const fn path(
    name: &'static str,
    title: &'static str,
    rate_mbps: f64,
    rtt_ms: f64,
    object_bytes: u64,
) -> PathSpec {
    let (name, title) = (Cow::Borrowed(name), Cow::Borrowed(title));
    PathSpec {
        name,
        title,
        rate_mbps,
        rtt_ms,
        own_buffer_bytes: None,
        object_bytes,
        link_options: Vec::new(),
        is_steady: true,
        scenario: None,
    }
}

/// Every path that `--paths` knows.
pub static PATHS: [PathSpec; 9] = [
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

    /// Returns the bottleneck's buffer, in bytes: one bandwidth-delay product unless it has its own.
    pub fn buffer_bytes(&self) -> u64 {
        self.own_buffer_bytes.unwrap_or(self.bdp_bytes())
    }

    /// Returns the option that measures it.
    pub fn option(&self) -> String {
        if let Some(file) = &self.scenario {
            return format!("--scenario {file}");
        }
        match self.own_buffer_bytes {
            None => format!("--paths {}", self.name),
            Some(buffer_bytes) => {
                let Self { rate_mbps, rtt_ms, object_bytes, .. } = self;
                format!("--path {rate_mbps},{rtt_ms},{buffer_bytes},{object_bytes}")
            }
        }
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
    found.cloned().ok_or_else(|| format!("no such path; known paths are {}", names()))
}

/// Reads a path of one's own: `RATE,RTT,BUFFER,SIZE`.
///
/// # Errors
///
/// A message with an example.
pub fn parse_own_path(text: &str) -> Result<PathSpec, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let &[rate, rtt, buffer, size] = parts.as_slice() else { return Err(OWN_PATH.into()) };
    let positive = |text: &str| text.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0);
    let (rate_mbps, rtt_ms) = (positive(rate).ok_or(OWN_PATH)?, positive(rtt).ok_or(OWN_PATH)?);
    let bytes = |text: &str| -> Option<u64> {
        let units = [("bdp", bdp_bytes(rate_mbps, rtt_ms)), ("kB", 1e3), ("MB", 1e6), ("", 1.0)];
        let (number, unit) =
            units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))?;
        let bytes = positive(number)? * unit;
        (1.0..=1e12).contains(&bytes).then_some(bytes.round() as u64)
    };
    let buffer_bytes = bytes(buffer).ok_or(OWN_PATH)?;
    Ok(PathSpec {
        name: format!("{rate}-{rtt}-{buffer}-{size}").into(),
        title: format!("{rate} Mbit/s, {rtt} ms, buffer {buffer}, object {size}").into(),
        rate_mbps,
        rtt_ms,
        own_buffer_bytes: Some(buffer_bytes),
        object_bytes: bytes(size).ok_or(OWN_PATH)?,
        link_options: Vec::new(),
        is_steady: true,
        scenario: None,
    })
}

/// Returns the known names, separated by commas.
pub fn names() -> String {
    PATHS.iter().map(|p| p.name.as_ref()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_ignore_case() {
        for path in &PATHS {
            assert_eq!(parse_path(&path.name.to_lowercase()).as_ref(), Ok(path));
        }
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let error = parse_path("moon").expect_err("unknown");
        assert!(error.contains("GEO-10MB"), "{error}");
    }

    #[test]
    fn first_connection_downloads_at_least_ten_bdp() {
        for path in &PATHS {
            assert!(path.first_bytes() >= 10 * path.bdp_bytes());
            assert!(path.first_bytes() >= path.object_bytes);
        }
    }

    #[test]
    fn own_path_has_its_units() {
        let path = parse_own_path("50, 600,2bdp,3.75MB").expect("a path");
        assert_eq!((path.rate_mbps, path.rtt_ms), (50.0, 600.0));
        assert_eq!((path.buffer_bytes(), path.object_bytes), (7_500_000, 3_750_000));
        assert_eq!(path.option(), "--path 50,600,7500000,3750000");
        assert_eq!(parse_own_path(&path.option()[7..]).expect("a path").buffer_bytes(), 7_500_000);
        let path = parse_own_path("0.5,20,60kB,30000").expect("a path");
        assert_eq!((path.buffer_bytes(), path.object_bytes), (60_000, 30_000));
        assert_eq!(PATHS[2].option(), "--paths GEO");
    }

    #[test]
    fn bad_own_path_is_told_an_example() {
        for text in ["", "50,600", "50,600,1,1,1", "0,1,1,1", "x,1,1,1", "1,1,1GB,1", "1,1,0bdp,1"]
        {
            let error = parse_own_path(text).expect_err(text);
            assert!(error.contains("50,600,1bdp,3.75MB"), "{text}: {error}");
        }
    }
}
