//! Reference to a URL of the same origin, such as `Location` has, resolved (RFC 3986, 5.2).

use crate::content::origin::fields::normalized;

/// Returns the path and query of a reference in a response for a target at a host, if it leads to the same
/// origin.
pub fn own_target(authority: &str, base: &str, reference: &str) -> Option<String> {
    let reference = reference.trim().split('#').next().unwrap_or_default();
    let rest = without_scheme(reference)?;
    if let Some(rest) = rest.strip_prefix("//") {
        let (host, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (path, query) = split(rest);
        let is_own = normalized(host) == normalized(authority);
        return is_own.then(|| without_dots(path) + query);
    }
    let (base_path, base_query) = split(base);
    let (path, query) = split(rest);
    Some(match path {
        "" if query.is_empty() => format!("{base_path}{base_query}"),
        "" => format!("{base_path}{query}"),
        _ if path.starts_with('/') => without_dots(path) + query,
        _ => {
            let folder = base_path.rfind('/').map_or("/", |end| &base_path[..=end]);
            without_dots(&format!("{folder}{path}")) + query
        }
    })
}

/// Returns a reference without `https:`, unless it has another scheme.
fn without_scheme(reference: &str) -> Option<&str> {
    let start = &reference[..reference.find(['/', '?']).unwrap_or(reference.len())];
    match start.split_once(':') {
        None => Some(reference),
        Some((scheme, _)) => {
            let rest = &reference[scheme.len() + 1..];
            let is_https = scheme.eq_ignore_ascii_case("https") && rest.starts_with("//");
            is_https.then_some(rest)
        }
    }
}

/// Splits a target into its path and its query with the question mark.
fn split(target: &str) -> (&str, &str) {
    target.split_at(target.find('?').unwrap_or(target.len()))
}

/// Returns an absolute path without the segments `.` and `..` (RFC 3986, 5.2.4).
fn without_dots(path: &str) -> String {
    let mut segments = Vec::new();
    let mut ends_in_folder = false;
    for segment in path.split('/').skip(usize::from(path.starts_with('/'))) {
        let plain = segment.replace("%2e", ".").replace("%2E", ".");
        ends_in_folder = plain == "." || plain == "..";
        match plain.as_str() {
            "." => (),
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    if ends_in_folder {
        segments.push("");
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_resolved_within_its_origin() {
        for (reference, expected) in [
            ("/x", Some("/x")),
            ("/x?y#z", Some("/x?y")),
            ("/", Some("/")),
            ("d", Some("/a/b/d")),
            ("d?e", Some("/a/b/d?e")),
            ("./d", Some("/a/b/d")),
            ("../d", Some("/a/d")),
            ("../../../d", Some("/d")),
            ("..", Some("/a/")),
            (".", Some("/a/b/")),
            ("/x/../y/./z/..", Some("/y/")),
            ("/x/%2e%2E/y", Some("/y")),
            ("?e", Some("/a/b/c?e")),
            ("", Some("/a/b/c?q")),
            ("#f", Some("/a/b/c?q")),
            ("//h/x", Some("/x")),
            ("//H:443/x", Some("/x")),
            ("https://h", Some("/")),
            ("https://h?e", Some("/?e")),
            ("HTTPS://h:443/x/../y?e#f", Some("/y?e")),
            ("/x?e=//h/y", Some("/x?e=//h/y")),
            ("d//e", Some("/a/b/d//e")),
            ("d?e://f", Some("/a/b/d?e://f")),
            ("https://h:8443/x", None),
            ("https://u@h/x", None),
            ("https://h.evil/x", None),
            ("//evil/x", None),
            ("http://h/x", None),
            ("https:x", None),
            ("mailto:x", None),
        ] {
            let found = own_target("h", "/a/b/c?q", reference);
            assert_eq!(found.as_deref(), expected, "{reference}");
        }
        assert_eq!(own_target("h:443", "/", "https://h/x").as_deref(), Some("/x"));
        assert_eq!(own_target("h:8443", "/", "//h:8443/x").as_deref(), Some("/x"));
        assert_eq!(own_target("h:8443", "/", "//h/x"), None);
    }
}
