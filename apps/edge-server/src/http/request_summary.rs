//! Summary of a request for the access log: a few texts, kept in one piece.

use crate::http::request::FieldLine;

/// The most that is kept of a request's path, and of any other field, in bytes.
pub const PATH_BYTES_MAX: usize = 8 << 10;
const TEXT_BYTES_MAX: usize = 1 << 10;

/// The most of each text that is shortened, in bytes.
const SHORT_BYTES_MAX: usize = 128;

/// Places of the texts.
const METHOD: usize = 0;
const HOST: usize = 1;
const PATH: usize = 2;
const USER_AGENT: usize = 3;
const REFERER: usize = 4;
const TEXTS: usize = 5;

/// First line of each field that the log shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSummary {
    /// All of them, one behind the other.
    whole: String,

    /// Start and end of each in that.
    places: [Option<(usize, usize)>; TEXTS],
}

impl RequestSummary {
    /// Returns the summary of a header section: of each field the first line.
    pub fn read<'a>(lines: impl IntoIterator<Item = impl Into<FieldLine<'a>>>) -> Self {
        let (mut texts, mut host) = ([None; TEXTS], None);
        for line in lines {
            let FieldLine { name, value } = line.into();
            let (first, bytes_max) = match name {
                b":method" => (&mut texts[METHOD], TEXT_BYTES_MAX),
                b":path" => (&mut texts[PATH], PATH_BYTES_MAX),
                b":authority" => (&mut texts[HOST], TEXT_BYTES_MAX),
                b"host" => (&mut host, TEXT_BYTES_MAX),
                b"user-agent" => (&mut texts[USER_AGENT], TEXT_BYTES_MAX),
                b"referer" => (&mut texts[REFERER], TEXT_BYTES_MAX),
                _ => continue,
            };
            first.get_or_insert(&value[..value.len().min(bytes_max)]);
        }
        texts[HOST] = texts[HOST].or(host);
        let (whole, places) = joined(texts);
        // The usual case. Others are not looked at as a whole: a text may end within a character.
        match whole.is_ascii().then(|| String::from_utf8(whole)) {
            Some(Ok(whole)) => Self { whole, places },
            _ => Self::of(texts.map(|text| text.map(String::from_utf8_lossy))),
        }
    }

    pub fn method(&self) -> &str {
        self.text(METHOD).unwrap_or_default()
    }

    pub fn host(&self) -> &str {
        self.text(HOST).unwrap_or_default()
    }

    pub fn path(&self) -> &str {
        self.text(PATH).unwrap_or_default()
    }

    pub fn user_agent(&self) -> Option<&str> {
        self.text(USER_AGENT)
    }

    pub fn referer(&self) -> Option<&str> {
        self.text(REFERER)
    }

    /// Returns all texts, one behind the other.
    pub fn whole(&self) -> &str {
        &self.whole
    }

    /// Keeps little of each text.
    pub fn shorten(&mut self) {
        let short = |text: &str| {
            let ends = (0..=text.len().min(SHORT_BYTES_MAX)).rev();
            let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(0)].to_owned()
        };
        let texts =
            [METHOD, HOST, PATH, USER_AGENT, REFERER].map(|text| self.text(text).map(short));
        *self = Self::of(texts);
    }

    fn of(texts: [Option<impl AsRef<str>>; TEXTS]) -> Self {
        let bytes = texts.each_ref().map(|text| text.as_ref().map(|text| text.as_ref().as_bytes()));
        let (whole, places) = joined(bytes);
        // They were UTF-8 each.
        Self { whole: String::from_utf8(whole).unwrap_or_default(), places }
    }

    fn text(&self, text: usize) -> Option<&str> {
        let (start, end) = self.places[text]?;
        self.whole.get(start..end)
    }
}

/// Joins texts. Returns all, and the start and end of each.
fn joined(texts: [Option<&[u8]>; TEXTS]) -> (Vec<u8>, [Option<(usize, usize)>; TEXTS]) {
    let mut whole = Vec::with_capacity(texts.iter().flatten().map(|text| text.len()).sum());
    let places = texts.map(|text| {
        let start = whole.len();
        whole.extend_from_slice(text?);
        Some((start, whole.len()))
    });
    (whole, places)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns the summary of a request for a path.
    pub fn of_path(path: &str) -> RequestSummary {
        RequestSummary::read([line(":path", path.as_bytes())])
    }

    fn line<'a>(name: &'a str, value: &'a [u8]) -> FieldLine<'a> {
        FieldLine { name: name.as_bytes(), value }
    }

    fn texts(summary: &RequestSummary) -> [Option<&str>; 5] {
        let [method, host, path] = [summary.method(), summary.host(), summary.path()].map(Some);
        [method, host, path, summary.user_agent(), summary.referer()]
    }

    #[test]
    fn summary_has_the_first_line_of_each_field() {
        let lines = [
            ("host", "b.example"),
            (":method", "GET"),
            ("accept", "*/*"),
            (":path", "/1"),
            (":path", "/2"),
            (":authority", "a.example"),
            ("referer", ""),
        ];
        let read = |count: usize| {
            let lines = lines[..count].iter().map(|(name, value)| line(name, value.as_bytes()));
            RequestSummary::read(lines)
        };
        assert_eq!(texts(&read(0)), [Some(""), Some(""), Some(""), None, None]);
        let host = [Some("GET"), Some("b.example"), Some("/1"), None, None];
        assert_eq!(texts(&read(5)), host);
        let all = [Some("GET"), Some("a.example"), Some("/1"), None, Some("")];
        assert_eq!(texts(&read(7)), all);
        assert_eq!(read(7).whole(), "GETa.example/1");
    }

    // Neighbours must not complete each other's characters.
    #[test]
    fn invalid_text_is_replaced_within_its_bounds() {
        let [first, second] = ["é".as_bytes()[0], "é".as_bytes()[1]];
        let (method, host) = ([b'a', first], [second, b'b']);
        let summary = RequestSummary::read([line(":method", &method), line(":authority", &host)]);
        assert_eq!((summary.method(), summary.host()), ("a\u{fffd}", "\u{fffd}b"));
        let long = "é".repeat(PATH_BYTES_MAX);
        let cut = of_path(&format!("/{long}"));
        assert!(cut.path().starts_with("/éé") && cut.path().ends_with("é\u{fffd}"));
    }

    #[test]
    fn shortened_summary_has_the_beginning_of_each_text() {
        let long = "é".repeat(300);
        let lines = [
            line(":method", b"GET"),
            line(":path", long.as_bytes()),
            line("user-agent", long.as_bytes()),
            line("user-agent", b"second"),
        ];
        let mut summary = RequestSummary::read(lines);
        assert_eq!(summary.whole().len(), 3 + 2 * long.len());
        summary.shorten();
        let short = Some("é".repeat(SHORT_BYTES_MAX / 2));
        let short = short.as_deref();
        assert_eq!(texts(&summary), [Some("GET"), Some(""), short, short, None]);
    }
}
