//! Position in a configuration file, for messages.

use std::fmt;

/// Line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    line: usize,

    /// In characters.
    column: usize,
}

impl Default for Position {
    fn default() -> Self {
        Self { line: 1, column: 1 }
    }
}

impl Position {
    /// Returns the position of a byte in a text.
    pub fn of(text: &str, offset: usize) -> Self {
        let end = (0..=offset.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        let before = &text[..end.unwrap_or_default()];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: 1 + before.bytes().filter(|byte| *byte == b'\n').count(),
            column: 1 + before[line_start..].chars().count(),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_counts_lines_and_characters() {
        let text = "a\néb\n\nc";
        for (offset, expected) in [
            (0, "line 1, column 1"),
            (1, "line 1, column 2"),
            (2, "line 2, column 1"),
            (3, "line 2, column 1"),
            (4, "line 2, column 2"),
            (6, "line 3, column 1"),
            (7, "line 4, column 1"),
            (99, "line 4, column 2"),
        ] {
            assert_eq!(Position::of(text, offset).to_string(), expected, "{offset}");
        }
    }
}
