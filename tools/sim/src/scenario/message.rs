//! Messages about a scenario's keys and values, from those of serde.

use anyhow::anyhow;

/// Keys that every file or its scenario needs, each with an example of its value.
const EXAMPLES: [(&str, &str); 5] = [
    ("title", "\"…\""),
    ("about", "\"…\""),
    ("rate_mbps", "50"),
    ("rtt_ms", "600"),
    ("at_ms", "1000"),
];

/// Keys that stand before every table of a file.
const TOP_LEVEL: [&str; 5] = ["title", "about", "runs", "deadline_s", "visit_pause_s"];

/// Returns the error if serde misses a field in the table `table`.
pub fn missing(table: &str, reason: &str) -> Option<anyhow::Error> {
    let field = reason.strip_prefix("missing field `")?.strip_suffix('`')?;
    let key = if table.is_empty() { field.to_owned() } else { format!("{table}.{field}") };
    let example = EXAMPLES.iter().find(|(key, _)| *key == field).map_or("…", |(_, value)| value);
    Some(anyhow!("{key} is missing: say {field} = {example}"))
}

/// Returns what a value must be, if serde's reason tells; the reason otherwise.
pub fn must(reason: &str) -> String {
    if let Some(known) = reason.strip_prefix("unknown variant ") {
        let expected = known.split_once(", expected ").map_or(known, |(_, expected)| expected);
        let names: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        return format!("must be one of {}", names.join(", "));
    }
    let invalid = ["invalid type: ", "invalid value: "].iter().any(|p| reason.starts_with(p));
    let expected = reason.rsplit_once(", expected ").filter(|_| invalid).map(|(_, e)| e);
    match expected {
        Some("f64") => "must be a number".into(),
        Some("u32" | "u64" | "usize") => "must be a whole number, not negative".into(),
        Some("a boolean") => "must be true or false".into(),
        Some("a string" | "string only") => "must be text in quotes".into(),
        _ => reason.to_owned(),
    }
}

/// Returns the end of a list of keys that serde knows of: that of the key which names a file.
pub fn named_file_key(part: &str, reason: &str) -> &'static str {
    match part {
        _ if !reason.starts_with("unknown field") => "",
        "" => "",
        "path" => ", `trace`",
        _ => ", `page`",
    }
}

/// Returns a hint if `key` stands before the tables, and not in the table `part`.
pub fn misplaced(part: &str, key: &str) -> String {
    match !part.is_empty() && TOP_LEVEL.contains(&key) {
        true => format!("; {key} stands before [path]"),
        false => String::new(),
    }
}
