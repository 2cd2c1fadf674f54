//! Paths that other users may write, and so choose what the server does there.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::config::paths::OptionValues;
use crate::config::preflight::resolved;

/// Write permission of other users, and the bit that leaves files of a folder to their owners.
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Option whose path is concerned, and what others could do.
struct Concern {
    option: &'static str,

    /// Whether the folder that the path is in is concerned, not the path itself.
    is_folder_around: bool,
    danger: &'static str,
}

const CONCERNS: [Concern; 5] = [
    Concern { option: "config", is_folder_around: false, danger: "and so configure the server" },
    Concern { option: "admin", is_folder_around: true, danger: "and put a socket there" },
    Concern { option: "takeover", is_folder_around: true, danger: "and put a socket there" },
    Concern { option: "acme-dir", is_folder_around: false, danger: "and put certificates there" },
    Concern { option: "cache-dir", is_folder_around: false, danger: "and put responses there" },
];

/// Returns a line for each of those paths that users other than the server's and its group may write.
pub fn find(options: &OptionValues) -> Vec<String> {
    let lines = CONCERNS.iter().flat_map(|concern| {
        let values = options.get(concern.option).into_iter().flatten();
        values.filter_map(|value| concern.line(value))
    });
    lines.collect()
}

impl Concern {
    fn line(&self, value: &OsString) -> Option<String> {
        let Self { option, is_folder_around, danger } = self;
        let path = resolved(Path::new(value));
        let (name, path) = match is_folder_around {
            true => (format!("the folder of --{option},"), path.parent()?),
            false => (format!("--{option}"), path.as_path()),
        };
        let found = path.metadata().ok()?;
        let mode = found.permissions().mode() & 0o7777;
        let is_sticky = found.is_dir() && mode & STICKY != 0;
        let is_open = mode & OTHERS_WRITE != 0 && !is_sticky;
        let path = path.display();
        is_open.then(|| {
            format!(
                "{name} {path}: other users may write it (mode {mode:04o}), {danger}; run chmod o-w {path}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_that_others_may_write_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let (folder, file) = (dir.join("folder"), dir.join("file"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "").unwrap();
        let socket = folder.join("socket");
        for (option, value, changed, mode, is_found) in [
            ("admin", &socket, &folder, 0o777, true),
            ("admin", &socket, &folder, 0o1777, false),
            ("admin", &socket, &folder, 0o775, false),
            ("takeover", &socket, &folder, 0o777, true),
            ("acme-dir", &folder, &folder, 0o777, true),
            ("acme-dir", &folder, &folder, 0o1777, false),
            ("acme-dir", &socket, &folder, 0o777, false),
            ("cache-dir", &folder, &folder, 0o777, true),
            ("config", &file, &file, 0o666, true),
            ("config", &file, &file, 0o1666, true),
            ("config", &file, &file, 0o664, false),
            ("access-log", &file, &file, 0o666, false),
        ] {
            std::fs::set_permissions(changed, PermissionsExt::from_mode(mode)).unwrap();
            let options = OptionValues::from([(option.to_owned(), vec![value.into()])]);
            let lines = find(&options);
            assert_eq!(lines.len(), usize::from(is_found), "{option} {mode:o}: {lines:?}");
            let remedy = format!("run chmod o-w {}", changed.display());
            assert!(lines.iter().all(|line| line.ends_with(&remedy)), "{lines:?}");
        }
    }
}
