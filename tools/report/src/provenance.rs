//! Provenance of a result: what is needed to make it again.

use serde::Deserialize;
use serde::Serialize;

/// Version of the JSON lines of all programs: of their keys and what these mean.
pub const SCHEMA: u32 = 3;

/// What every line says besides its figures and its seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// Version of the line: [`SCHEMA`]; 0 for lines from before there were versions.
    pub schema: u32,
    /// The program's name, its version, and the commit that it was built from.
    pub program: String,
    /// The command that repeats it.
    pub command: String,
    /// Every setting, those included that were left out.
    pub settings: serde_json::Value,
}

impl Provenance {
    /// Describes a result of the program of this name.
    pub fn new(program: &str, command: String, settings: serde_json::Value) -> Self {
        Self { schema: SCHEMA, program: built(program), command, settings }
    }
}

/// Returns which programs made some results, and the version of their lines: one line for each
/// that differs.
pub fn makers<'a>(all: impl Iterator<Item = &'a Provenance>) -> Vec<String> {
    let mut makers: Vec<String> = Vec::new();
    for Provenance { schema, program, .. } in all {
        let program = if program.is_empty() { "an unknown program" } else { program };
        let maker = format!("{program}, lines of schema {schema}");
        if !makers.contains(&maker) {
            makers.push(maker);
        }
    }
    makers
}

/// Returns a program's name with its version and the commit that it was built from.
pub fn built(program: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match env!("BUILT_FROM") {
        "" => format!("{program} {version}"),
        commit => format!("{program} {version} ({commit})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_names_program_version_and_schema() {
        let made = Provenance::new("sim", "sim run a".into(), serde_json::json!({"a": 1}));
        assert!(made.program.starts_with("sim 0."), "{made:?}");
        let line = serde_json::to_value(&made).expect("JSON");
        assert_eq!((line["schema"].as_u64(), line["settings"]["a"].as_u64()), (Some(3), Some(1)));
        let old: Provenance = serde_json::from_str("{}").expect("a line without");
        assert_eq!(old.schema, 0);
        let makers = makers([&made, &old, &made].into_iter());
        assert_eq!(makers[1..], ["an unknown program, lines of schema 0"]);
        assert!(makers[0].ends_with(", lines of schema 3"), "{makers:?}");
    }
}
