//! Access-log line of edge-server, in either format, as far as the comparison needs it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::Deserialize;

use crate::arm::Arm;
use crate::client_unit::ClientUnit;

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LogLine {
    /// A response of a connection that belongs to an arm.
    Compared(Response),

    /// Another response: Careful Resume is off for the client, or all clients may jump.
    Other,
}

/// A response of a connection that belongs to an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Response {
    pub client: ClientUnit,
    pub arm: Arm,

    /// Whether the connection jumped, or could have, while the response was under way, and this is
    /// one with content: status 200 or 206.
    pub could_jump: bool,

    /// Whether the client received all of that.
    pub complete: bool,

    /// Whether the connection retreated after its jump; unknown in the format `common`.
    pub retreat: bool,
    pub bytes: u64,

    /// Time from the request to the last acknowledgement.
    pub duration_ms: f64,
}

/// Error: no line of edge-server's access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLine;

impl fmt::Display for UnknownLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no line of edge-server's access log")
    }
}

impl std::error::Error for UnknownLine {}

#[derive(Deserialize)]
struct JsonLine {
    client: IpAddr,
    status: u16,
    bytes: u64,
    duration_ms: f64,
    complete: bool,
    resume: Option<JsonResume>,
}

#[derive(Deserialize)]
struct JsonResume {
    #[serde(default)]
    arm: Option<String>,
    #[serde(default)]
    could_jump: bool,
    #[serde(default)]
    retreat: bool,
}

impl FromStr for LogLine {
    type Err = UnknownLine;

    fn from_str(line: &str) -> Result<Self, UnknownLine> {
        let line = line.trim();
        match line.starts_with('{') {
            true => parse_json(line),
            false => parse_common(line).ok_or(UnknownLine),
        }
    }
}

fn parse_json(line: &str) -> Result<LogLine, UnknownLine> {
    let line: JsonLine = serde_json::from_str(line).map_err(|_| UnknownLine)?;
    let resume = line.resume.and_then(|resume| Some((Arm::named(resume.arm.as_deref()?)?, resume)));
    let Some((arm, JsonResume { could_jump, retreat, .. })) = resume else {
        return Ok(LogLine::Other);
    };
    if !is_duration(line.duration_ms) {
        return Err(UnknownLine);
    }
    Ok(LogLine::Compared(Response {
        client: ClientUnit::of(line.client),
        arm,
        could_jump: could_jump && has_content(line.status),
        complete: line.complete,
        retreat,
        bytes: line.bytes,
        duration_ms: line.duration_ms,
    }))
}

/// Parses the combined log format with the fields that edge-server appends.
fn parse_common(line: &str) -> Option<LogLine> {
    let client: IpAddr = line.split(' ').next()?.parse().ok()?;
    // Backslashes escape quotes in what a client wrote.
    let (_, request) = line.split_once("] \"")?;
    let mut characters = request.char_indices();
    let end = loop {
        match characters.next()? {
            (_, '\\') => drop(characters.next()),
            (end, '"') => break end,
            _ => (),
        }
    };
    let mut counts = request[end + 1..].split_whitespace();
    let status: u16 = counts.next()?.parse().ok()?;
    let bytes: u64 = counts.next()?.parse().ok()?;

    let (_, appended) = line.rsplit_once("\" ")?;
    let mut appended = appended.split(' ');
    let duration_s: f64 = appended.next()?.parse().ok().filter(|s| is_duration(*s))?;
    let Some(arm) = appended.next().and_then(Arm::named) else { return Some(LogLine::Other) };
    let could_jump = appended.next()? == "could-jump" && has_content(status);
    let complete = appended.next()? == "complete";
    Some(LogLine::Compared(Response {
        client: ClientUnit::of(client),
        arm,
        could_jump,
        complete,
        retreat: false,
        bytes,
        // It has three digits.
        duration_ms: (duration_s * 1e3).round(),
    }))
}

fn is_duration(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

fn has_content(status: u16) -> bool {
    matches!(status, 200 | 206)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"time":"2026-01-01T00:00:00.000Z","client":"192.0.2.7","port":1,"connection":"00","method":"GET","host":"h","path":"/","status":200,"bytes":5000,"duration_ms":1234.5,"complete":true,"user_agent":null,"referer":null,"resume":{"phase":"normal","trigger":"dry_run","jump_bytes":null,"retreat":false,"arm":"control","could_jump":true}}"#;

    const COMMON: &str = r#"192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] "GET /\"] \" 9 \\ HTTP/3" 200 5000 "-" "x \"y\" 1.0 resume" "a.example" 1.235 control could-jump complete"#;

    fn compared(line: &str) -> Response {
        match line.parse() {
            Ok(LogLine::Compared(response)) => response,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn both_formats_tell_the_same() {
        let json = compared(JSON);
        let expected = Response {
            client: ClientUnit::of([192, 0, 2, 7].into()),
            arm: Arm::Control,
            could_jump: true,
            complete: true,
            retreat: false,
            bytes: 5000,
            duration_ms: 1234.5,
        };
        assert_eq!(json, expected);
        assert_eq!(compared(COMMON), Response { duration_ms: 1235.0, ..expected });
    }

    #[test]
    fn response_without_content_is_neither_compared_nor_incomplete() {
        for line in
            [JSON.replace(r#""status":200"#, r#""status":404"#), COMMON.replace("\" 200", "\" 304")]
        {
            let response = compared(&line);
            assert!(response.complete && !response.could_jump, "{line}");
        }
        for line in
            [JSON.replace("te\":true", "te\":false"), COMMON.replace(" complete", " incomplete")]
        {
            let response = compared(&line);
            assert!(!response.complete && response.could_jump, "{line}");
        }
    }

    #[test]
    fn line_without_an_arm_is_another_response() {
        let arm = r#","arm":"control","could_jump":true"#;
        for line in [
            JSON.replace(r#""arm":"control""#, r#""arm":null"#),
            // As before there were arms.
            JSON.replace(arm, ""),
            JSON.split_once("\"resume\"").unwrap().0.to_owned() + "\"resume\":null}",
            COMMON.replace("control could-jump", "- -"),
            COMMON.replace(" control could-jump complete", ""),
        ] {
            assert_eq!(line.parse(), Ok(LogLine::Other), "{line}");
        }
    }

    #[test]
    fn other_text_is_unknown() {
        let negative = [JSON.replace("1234.5", "-1"), COMMON.replace("1.235", "-1.235")];
        let [json, common] = negative.each_ref().map(String::as_str);
        for line in ["", "{}", "hello", &JSON[..200], &COMMON[..60], "{\"client\":1}", json, common]
        {
            assert_eq!(line.parse::<LogLine>(), Err(UnknownLine), "{line}");
        }
    }
}
