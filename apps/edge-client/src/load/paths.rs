//! Paths that a load requests in turn.

use std::fs;
use std::sync::Arc;

/// At least one path.
#[derive(Clone, Debug)]
pub struct Paths(Arc<[String]>);

impl Paths {
    /// Reads the paths of a file, one a line.
    ///
    /// # Errors
    ///
    /// One line that says why the file is of no use.
    pub fn read(file: &str) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|e| format!("cannot be read: {e}"))?;
        let is_path =
            |line: &str| line.starts_with('/') && line.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some((index, line)) = text.lines().enumerate().find(|(_, line)| !is_path(line)) {
            let line: String = line.chars().take(50).collect();
            return Err(format!(
                "line {}: {line:?} is no path; write /path, percent-encoded",
                index + 1
            ));
        }
        let paths: Arc<[String]> = text.lines().map(str::to_owned).collect();
        match paths.is_empty() {
            true => Err("the file is empty; write one /path a line".to_owned()),
            false => Ok(Self(paths)),
        }
    }

    /// Returns the path of a request, by how many went before it.
    pub fn of_request(&self, number: usize) -> &str {
        &self.0[number % self.0.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_one_path_a_line() {
        let file = std::env::temp_dir().join(format!("edge-client-paths-{}", std::process::id()));
        for (text, expected) in [
            ("/a\n/b?c=d\n", Ok(["/a", "/b?c=d", "/a"])),
            ("/a", Ok(["/a", "/a", "/a"])),
            ("/a\nb\n", Err("line 2: \"b\" is no path; write /path, percent-encoded")),
            ("/a\n\n/b", Err("line 2: \"\" is no path; write /path, percent-encoded")),
            ("/a b\n", Err("line 1: \"/a b\" is no path; write /path, percent-encoded")),
            ("", Err("the file is empty; write one /path a line")),
        ] {
            fs::write(&file, text).unwrap();
            match (Paths::read(file.to_str().unwrap()), expected) {
                (Ok(paths), Ok(expected)) => {
                    assert_eq!([0, 1, 2].map(|number| paths.of_request(number)), expected);
                }
                (Err(reason), Err(expected)) => assert_eq!(reason, expected),
                (read, _) => panic!("{text:?}: {read:?}"),
            }
        }
        fs::remove_file(&file).unwrap();
        assert!(Paths::read(file.to_str().unwrap()).unwrap_err().starts_with("cannot be read"));
    }
}
