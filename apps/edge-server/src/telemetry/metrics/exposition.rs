//! Exposition formats of the metrics page: OpenMetrics, and Prometheus' text format for scrapers
//! that do not ask for it.

/// Format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// Returns the format for an `Accept` field: OpenMetrics if it accepts that by name.
    pub fn accepted(accept: &str) -> Self {
        match accept.split(',').any(is_open_metrics) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Returns the content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Converts a page in the OpenMetrics format.
    pub fn write(self, page: String) -> String {
        match self {
            Self::OpenMetrics => page,
            Self::Text => in_text_format(&page),
        }
    }
}

/// Returns whether a media range is OpenMetrics, and its weight is not 0 (RFC 9110, 12.4.2).
fn is_open_metrics(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let is_refused = |part: &str| {
        let weight = part.split_once('=').filter(|(name, _)| name.eq_ignore_ascii_case("q"));
        weight.and_then(|(_, weight)| weight.parse().ok()) == Some(0.0)
    };
    name.eq_ignore_ascii_case("application/openmetrics-text") && !parts.any(is_refused)
}

/// Converts a page to the text format, in which a counter's metadata has the name of its sample.
fn in_text_format(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut lines = page.lines().filter(|line| *line != "# EOF").peekable();
    while let Some(line) = lines.next() {
        let Some(help) = line.strip_prefix("# HELP ") else {
            text.extend([line, "\n"]);
            continue;
        };
        let (name, help) = help.split_once(' ').unwrap_or((help, ""));
        let kind = lines.next_if(|line| line.starts_with("# TYPE "));
        let kind = kind.and_then(|line| line.rsplit(' ').next()).unwrap_or("untyped");
        let end = if kind == "counter" { "_total" } else { "" };
        text.push_str(&format!("# HELP {name}{end} {help}\n# TYPE {name}{end} {kind}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_follows_accept_field() {
        for (accept, format) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format::Text),
            ("application/OpenMetrics-text;version=1.0.0,text/plain;q=0.5", Format::OpenMetrics),
            ("text/plain;q=0.5, application/openmetrics-text; q=0.1", Format::OpenMetrics),
            ("application/openmetrics-text;q=0,text/plain", Format::Text),
            ("application/openmetrics-text; version=1.0.0; Q=0.000", Format::Text),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

    #[test]
    fn text_format_names_counters_by_their_samples() {
        let page = "# HELP a A thing.\n# TYPE a counter\na_total{b=\"# HELP c\"} 1\n\
                    # HELP d D.\n# TYPE d gauge\nd 2\n# EOF\n";
        let text = "# HELP a_total A thing.\n# TYPE a_total counter\na_total{b=\"# HELP c\"} 1\n\
                    # HELP d D.\n# TYPE d gauge\nd 2\n";
        assert_eq!(Format::Text.write(page.to_owned()), text);
        assert_eq!(Format::OpenMetrics.write(page.to_owned()), page);
    }
}
