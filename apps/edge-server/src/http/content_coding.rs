//! Content-coding negotiation (RFC 9110, 12.5.3) for a file's precompressed siblings.

/// Content coding of a precompressed sibling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    Brotli,
    Zstd,
    Gzip,
}

impl Coding {
    /// All codings in order of preference: usually the smallest first.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Returns the name in `accept-encoding` and `content-encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the suffix of a sibling's file name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }
}

/// Returns the codings that the lines of an `accept-encoding` field prefer to the identity, by
/// descending weight; ties are in the order of [`Coding::ALL`].
pub fn accepted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Coding> {
    let mut weights = [None; 3];
    let (mut identity, mut any) = (None, None);
    for member in lines.flat_map(|line| line.split(',')) {
        let mut parameters = member.split(';').map(str::trim);
        let name = parameters.next().unwrap_or_default();
        let Some(weight) = parameters.next().map_or(Some(1000), weight) else { continue };
        let index = Coding::ALL.iter().position(|coding| coding.name().eq_ignore_ascii_case(name));
        match (index, name) {
            (Some(index), _) => weights[index] = Some(weight),
            (None, "*") => any = Some(weight),
            (None, name) if name.eq_ignore_ascii_case("x-gzip") => weights[2] = Some(weight),
            (None, name) if name.eq_ignore_ascii_case("identity") => identity = Some(weight),
            (None, _) => (),
        }
    }
    let weight_of = |index: usize| weights[index].or(any).unwrap_or(0);
    let least = identity.unwrap_or(0).max(1);
    let mut wanted: Vec<_> = (0..3).filter(|index| weight_of(*index) >= least).collect();
    wanted.sort_by_key(|index| std::cmp::Reverse(weight_of(*index)));
    wanted.into_iter().map(|index| Coding::ALL[index]).collect()
}

/// Returns a weight in thousandths (RFC 9110, 12.4.2), or `None` if it is malformed.
fn weight(parameter: &str) -> Option<u32> {
    let (name, value) = parameter.split_once('=')?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let digits = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !name.eq_ignore_ascii_case("q") || !digits {
        return None;
    }
    let thousandths = format!("{fraction:0<3}").parse().ok()?;
    match (whole, thousandths) {
        ("0", thousandths) => Some(thousandths),
        ("1", 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codings_are_ordered_by_weight() {
        use Coding::*;
        let table: &[(&[&str], &[Coding])] = &[
            (&[], &[]),
            (&[""], &[]),
            (&["gzip"], &[Gzip]),
            (&["x-gzip"], &[Gzip]),
            (&["gzip, deflate, br, zstd"], &[Brotli, Zstd, Gzip]),
            (&["GZIP;Q=1.0"], &[Gzip]),
            (&["gzip;q=1.0, br;q=0.5"], &[Gzip, Brotli]),
            (&["gzip ; q=0.8", "zstd;q=0.801"], &[Zstd, Gzip]),
            (&["br;q=0, gzip"], &[Gzip]),
            (&["br;q=0.000, *"], &[Zstd, Gzip]),
            (&["*;q=0.1, gzip"], &[Gzip, Brotli, Zstd]),
            (&["*;q=0"], &[]),
            (&["identity, gzip;q=0.5"], &[]),
            (&["identity;q=0.5, gzip;q=0.5"], &[Gzip]),
            (&["identity;q=0, br"], &[Brotli]),
            (&["br;q=2, gzip;q=x, zstd;q=0.0001"], &[]),
            (&["br;v=1, gzip"], &[Gzip]),
            (&["deflate, compress"], &[]),
        ];
        for (lines, expected) in table {
            assert_eq!(accepted(lines.iter().copied()), *expected, "{lines:?}");
        }
    }
}
