//! Access-log line and its formats: JSON and combined.

use std::fmt::Write as _;
use std::time::Duration;
use std::time::UNIX_EPOCH;

use ab_test::Arm;

use super::connection_columns::ConnectionColumns;
use super::connection_columns::LoggedConnection;
use super::json::is_plain;
use super::json::key;
use super::json::ObjectWriter;
use super::timestamp;
use crate::config::AccessLogFormat;
use crate::http::exchange::FinishedRequest;
use crate::http::origin_report::OriginTimes;

/// Entry of one response.
#[derive(Clone, Debug)]
pub struct LogLine<'a> {
    pub connection: LoggedConnection<'a>,
    pub request: &'a FinishedRequest,
}

impl LogLine<'_> {
    /// Appends the line, with a line break at its end. Those of one connection that follow each other share
    /// `columns`.
    pub fn write_to(
        &self,
        format: AccessLogFormat,
        columns: &mut ConnectionColumns,
        text: &mut Vec<u8>,
    ) {
        match format {
            AccessLogFormat::Json => self.write_json(columns, text),
            AccessLogFormat::Common => text.extend_from_slice(self.common().as_bytes()),
        }
        text.push(b'\n');
    }

    fn write_json(&self, columns: &mut ConnectionColumns, text: &mut Vec<u8>) {
        let FinishedRequest {
            protocol,
            summary,
            client,
            is_early,
            user,
            cache,
            origin,
            started,
            duration,
            status,
            bytes,
            complete,
            ..
        } = &self.request;
        match client {
            Some(client) => columns.update(&self.connection.of_client(*client)),
            None => columns.update(&self.connection),
        }
        let mut line = ObjectWriter::begin(text);
        line.plain(key!("time"), |text| timestamp::append(*started, text));
        line.members(&columns.client);
        if client.is_some() {
            let proxy = self.connection.client.ip().to_canonical();
            line.string(key!("proxy"), &proxy.to_string());
        }
        user.iter().for_each(|name| line.string(key!("user"), name));
        line.name(key!("protocol"), Some(protocol.name()));
        if *is_early {
            line.value(key!("early_data"), true);
        }
        let is_plain = is_plain(summary.whole());
        line.text(key!("method"), Some(summary.method()), is_plain);
        line.text(key!("host"), Some(summary.host()), is_plain);
        line.text(key!("path"), Some(summary.path()), is_plain);
        line.value(key!("status"), *status);
        line.value(key!("bytes"), *bytes);
        line.number(key!("duration_ms"), |text| append_ms(*duration, text));
        line.value(key!("complete"), *complete);
        line.text(key!("user_agent"), summary.user_agent(), is_plain);
        line.text(key!("referer"), summary.referer(), is_plain);
        if cache.is_some() {
            line.name(key!("cache"), *cache);
        }
        origin.iter().for_each(|times| append_origin(times, &mut line));
        line.members(&columns.path);
        if let Some(report) = &self.connection.resume {
            let mut resume = line.reopened();
            resume.value(key!("could_jump"), report.could_jump_since(*started));
            resume.end();
        }
        line.end();
    }

    /// Returns the combined format, followed by the host, the duration in seconds, the arm, whether
    /// the connection could jump, whether the response is complete, and the client's certificate.
    fn common(&self) -> String {
        let FinishedRequest {
            protocol,
            summary,
            user,
            started,
            duration,
            status,
            bytes,
            complete,
            ..
        } = &self.request;
        // Sun, 06 Nov 1994 08:49:37 GMT
        let date = httpdate::fmt_http_date((*started).max(UNIX_EPOCH));
        let (day, month, year, time) = (&date[5..7], &date[8..11], &date[12..16], &date[17..25]);
        let client = self.request.client.unwrap_or(self.connection.client.ip()).to_canonical();
        let mut text = format!("{client} - ");
        append_word(user.as_deref().unwrap_or_default(), &mut text);
        let _ = write!(text, " [{day}/{month}/{year}:{time} +0000] \"");
        append_escaped(summary.method(), &mut text);
        text.push(' ');
        append_escaped(summary.path(), &mut text);
        let _ = write!(text, " {}\" {status} {bytes} \"", protocol.name());
        append_escaped(summary.referer().unwrap_or_default(), &mut text);
        text.push_str("\" \"");
        append_escaped(summary.user_agent().unwrap_or_default(), &mut text);
        text.push_str("\" \"");
        append_escaped(summary.host(), &mut text);
        let _ = write!(text, "\" {:.3}", duration.as_secs_f64());
        let arm = self.connection.resume.and_then(|report| report.arm).map_or("-", Arm::name);
        let could_jump =
            self.connection.resume.is_some_and(|report| report.could_jump_since(*started));
        let could_jump = if could_jump { "could-jump" } else { "-" };
        let complete = if *complete { "complete" } else { "incomplete" };
        let _ = write!(text, " {arm} {could_jump} {complete}");
        if let Some(certificate) = self.connection.client_certificate {
            text.push(' ');
            append_word(certificate, &mut text);
        }
        text
    }
}

/// Writes what the origin of a response has done.
fn append_origin(times: &OriginTimes, line: &mut ObjectWriter<'_>) {
    line.string(key!("upstream"), &times.upstream);
    match times.first_byte {
        Some(time) => line.number(key!("origin_first_byte_ms"), |text| append_ms(time, text)),
        None => line.name(key!("origin_first_byte_ms"), None),
    }
    match times.whole {
        Some(time) => line.number(key!("origin_ms"), |text| append_ms(time, text)),
        None => line.name(key!("origin_ms"), None),
    }
}

/// Appends a duration in milliseconds, to the microsecond.
fn append_ms(duration: Duration, text: &mut Vec<u8>) {
    let us = duration.as_micros();
    // Numbers always serialize.
    let _ = serde_json::to_writer(&mut *text, &(us / 1000));
    text.push(b'.');
    timestamp::append_three_digits((us % 1000) as u32, text);
}

/// Appends `value` with quotes and control characters escaped, so that a client cannot forge
/// fields or lines.
fn append_escaped(value: &str, text: &mut String) {
    if value.is_empty() {
        text.push('-');
    }
    value.bytes().for_each(|byte| append_escaped_byte(byte, text));
}

/// Appends `value` in the same way as one word, without spaces.
fn append_word(value: &str, text: &mut String) {
    if value.is_empty() {
        text.push('-');
    }
    for byte in value.bytes() {
        match byte {
            b' ' => text.push_str("\\x20"),
            byte => append_escaped_byte(byte, text),
        }
    }
}

fn append_escaped_byte(byte: u8, text: &mut String) {
    match byte {
        b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
        b' '..=b'~' => text.push(char::from(byte)),
        byte => {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::exchange::Protocol;
    use crate::http::request::FieldLine;
    use crate::http::request_summary::tests::of_path;
    use crate::http::request_summary::RequestSummary;
    use crate::resume::own_state::Source;
    use crate::resume::summary::ResumeSummary;
    use quiche::careful_resume::Phase;
    use quiche::careful_resume::Trigger;
    use quiche::ecn::EcnState;

    fn request() -> FinishedRequest {
        let lines = [
            (":method", "GET"),
            (":authority", "a.example"),
            (":path", "/é\"\\\n"),
            ("user-agent", "x/1 \"y\""),
        ];
        let line = |(name, value): (&'static str, &'static str)| FieldLine {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        let summary = RequestSummary::read(lines.map(line));
        FinishedRequest {
            protocol: Protocol::Http3,
            summary,
            client: None,
            is_early: false,
            user: None,
            cache: None,
            origin: None,
            started: UNIX_EPOCH + Duration::from_millis(784_111_777_250),
            duration: Duration::from_micros(1_234_567),
            first_byte: None,
            status: 206,
            bytes: 2326,
            complete: true,
        }
    }

    fn line(request: &FinishedRequest) -> LogLine<'_> {
        let resume = ResumeSummary {
            phase: Phase::Normal,
            saved: None,
            source: Some(Source::Token),
            declined: false,
            trigger: Some(Trigger::ExitRecovery),
            jump_bytes: Some(123_456),
            validated_bytes: None,
            retreated: true,
            max_jump: 8 << 20,
            arm: Some(Arm::Resume),
            could_jump_at: Some(UNIX_EPOCH + Duration::from_millis(784_111_777_300)),
        };
        let connection = LoggedConnection {
            client: "[::ffff:192.0.2.7]:4433".parse().unwrap(),
            name: "00ab",
            client_certificate: None,
            cc: Some("bbr2"),
            ecn: Some(EcnState::Capable),
            resume: Some(resume),
        };
        LogLine { connection, request }
    }

    fn written(line: &LogLine<'_>, format: AccessLogFormat) -> String {
        let mut text = Vec::new();
        line.write_to(format, &mut ConnectionColumns::default(), &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn json_line_has_all_keys() {
        let text = written(&line(&request()), AccessLogFormat::Json);
        assert_eq!(text.matches('\n').count(), 1);
        let expected = serde_json::json!({
            "time": "1994-11-06T08:49:37.250Z", "client": "192.0.2.7", "port": 4433,
            "connection": "00ab", "protocol": "HTTP/3", "method": "GET", "host": "a.example", "path": "/é\"\\\n",
            "status": 206, "bytes": 2326, "duration_ms": 1234.567, "complete": true,
            "user_agent": "x/1 \"y\"", "referer": null, "cc": "bbr2", "ecn": "capable",
            "resume": {
                "phase": "normal", "trigger": "exit_recovery", "source": "token", "jump_bytes": 123_456,
                "retreat": true, "arm": "resume", "could_jump": true,
            },
        });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), expected);
    }

    #[test]
    fn json_line_is_printable_ascii() {
        let path = "/\u{202e}\u{2028}\u{9b}\u{7f}\u{1f6f0}";
        let mut request = request();
        request.summary = of_path(path);
        let text = written(&line(&request), AccessLogFormat::Json);
        assert!(text.trim_end().bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["path"], path);
    }

    #[test]
    fn common_line_escapes_client_input() {
        let expected = concat!(
            r#"192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "GET /\xc3\xa9\"\\\x0a HTTP/3" 206 2326 "#,
            r#""-" "x/1 \"y\"" "a.example" 1.235 resume could-jump complete"#,
            "\n"
        );
        assert_eq!(written(&line(&request()), AccessLogFormat::Common), expected);

        let request = FinishedRequest { complete: false, ..request() };
        let mut other = line(&request);
        other.connection.resume = None;
        let text = written(&other, AccessLogFormat::Common);
        assert!(text.ends_with(" 1.235 - - incomplete\n"), "{text}");
    }

    #[test]
    fn line_names_the_client_of_a_trusted_proxy() {
        let client = Some("203.0.113.9".parse().unwrap());
        let (own, told) = (request(), FinishedRequest { client, ..request() });
        let mut columns = ConnectionColumns::default();
        for (request, client, proxy) in [
            (&own, "192.0.2.7", None),
            (&told, "203.0.113.9", Some("192.0.2.7")),
            (&own, "192.0.2.7", None),
        ] {
            let mut text = Vec::new();
            line(request).write_to(AccessLogFormat::Json, &mut columns, &mut text);
            let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
            let found = (read["client"].as_str(), read.get("proxy").and_then(|own| own.as_str()));
            assert_eq!(found, (Some(client), proxy));
            let text = written(&line(request), AccessLogFormat::Common);
            assert!(text.starts_with(&format!("{client} - ")), "{text}");
        }
    }

    #[test]
    fn line_names_the_origin_that_was_asked() {
        let times = |first_byte, whole| OriginTimes {
            upstream: "http://a.internal:8080".into(),
            first_byte,
            whole,
        };
        let us = |us| Some(Duration::from_micros(us));
        for (times, expected) in [
            (times(us(1_500), us(2_000_001)), serde_json::json!([1.5, 2000.001])),
            (times(None, us(7)), serde_json::json!([null, 0.007])),
            (times(us(0), None), serde_json::json!([0.0, null])),
        ] {
            let request = FinishedRequest { origin: Some(Box::new(times)), ..request() };
            let text = written(&line(&request), AccessLogFormat::Json);
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read["upstream"], "http://a.internal:8080");
            let found = [&read["origin_first_byte_ms"], &read["origin_ms"]];
            assert_eq!(serde_json::json!(found), expected);
        }
    }

    #[test]
    fn line_names_user_certificate_and_cache() {
        let user = Some("a \"b\"] é".into());
        let request = FinishedRequest { user, cache: Some("hit"), ..request() };
        let mut line = line(&request);
        line.connection.client_certificate = Some("CN=x\n y,O=z");
        let text = written(&line, AccessLogFormat::Json);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["user"], "a \"b\"] é");
        assert_eq!(read["cache"], "hit");
        assert_eq!(read["client_certificate"], "CN=x\n y,O=z");

        let text = written(&line, AccessLogFormat::Common);
        let start = r#"192.0.2.7 - a\x20\"b\"]\x20\xc3\xa9 [06/Nov/1994:08:49:37 +0000] "GET "#;
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with(" complete CN=x\\x0a\\x20y,O=z\n"), "{text}");
        assert!(matches!(text.parse(), Ok(ab_test::LogLine::Compared(_))), "{text}");
    }

    #[test]
    fn columns_are_those_of_the_lines_connection() {
        let request = request();
        let before = line(&request).connection;
        let resume = before.resume.unwrap();
        let retreat = ResumeSummary { retreated: false, ..resume };
        let others = [
            LoggedConnection { client: "[2001:db8::1]:4433".parse().unwrap(), ..before },
            LoggedConnection { name: "00ac", ..before },
            LoggedConnection { client_certificate: Some("CN=x"), ..before },
            LoggedConnection { cc: None, ..before },
            LoggedConnection { ecn: None, ..before },
            LoggedConnection { resume: Some(retreat), ..before },
            LoggedConnection { resume: None, ..before },
        ];
        let mut columns = ConnectionColumns::default();
        for other in others {
            for connection in [before, other, other] {
                let line = LogLine { connection, request: &request };
                let mut text = Vec::new();
                line.write_to(AccessLogFormat::Json, &mut columns, &mut text);
                let alone = written(&line, AccessLogFormat::Json);
                assert_eq!(String::from_utf8(text).unwrap(), alone);
            }
            let texts = [before, other].map(|connection| {
                written(&LogLine { connection, request: &request }, AccessLogFormat::Json)
            });
            assert_ne!(texts[0], texts[1]);
        }
    }

    // A response is compared if it was under way when the arms parted.
    #[test]
    fn request_after_the_jump_could_not_jump() {
        let mut request = request();
        request.started += Duration::from_millis(51);
        let line = line(&request);
        let text = written(&line, AccessLogFormat::Json);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["resume"]["could_jump"], false);
        assert!(written(&line, AccessLogFormat::Common).ends_with(" resume - complete\n"));
    }
}
