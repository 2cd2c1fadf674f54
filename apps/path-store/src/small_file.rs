//! Small files, such as those of keys and certificates, read as a whole.
//!
//! A device without an end, or a FIFO to which nobody writes, is an error at once.

use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::io::Read;
use std::path::Path;

/// Size up to which a file is read, in bytes.
const BYTES_MAX: usize = 16 << 20;

/// Reads a regular file.
///
/// # Errors
///
/// It is none, cannot be read, or is too large.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let kind = path.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder"));
    }
    if !kind.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        let why = format!("it has more than {} MiB", BYTES_MAX >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Reads a regular file of text.
///
/// # Errors
///
/// The same, or it is no UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let not_text = |_| io::Error::new(ErrorKind::InvalidData, "it is no text (UTF-8)");
    String::from_utf8(read(path)?).map_err(not_text)
}

/// Returns what to do about a file that cannot be read, of which `make` tells how to make one.
pub fn remedy(error: ErrorKind, make: &str) -> &str {
    match error {
        ErrorKind::NotFound => make,
        ErrorKind::PermissionDenied => "let the server's user read it, with chown or chmod",
        _ => "name a readable file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use rustix::fs::mknodat;
    use rustix::fs::FileType;
    use rustix::fs::Mode;
    use rustix::fs::CWD;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("empty"), "").unwrap();
        fs::write(path("text"), "ab\n").unwrap();
        fs::write(path("bytes"), [0xff]).unwrap();
        for (name, length) in [("largest", BYTES_MAX as u64), ("larger", BYTES_MAX as u64 + 1)] {
            File::create(path(name)).unwrap().set_len(length).unwrap();
        }
        File::create(path("huge")).unwrap().set_len(1 << 40).unwrap();
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for (name, expected) in [
            ("empty", Ok(0)),
            ("text", Ok(3)),
            ("bytes", Err("it is no text (UTF-8)")),
            ("largest", Ok(BYTES_MAX)),
            ("larger", Err("it has more than 16 MiB")),
            ("huge", Err("it has more than 16 MiB")),
            (".", Err("it is a folder")),
            ("fifo", Err("it is no regular file")),
            ("/dev/zero", Err("it is no regular file")),
            ("none", Err("No such file or directory (os error 2)")),
        ] {
            let read = read_text(&path(name)).map(|text| text.len()).map_err(|e| e.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{name}");
        }
        assert_eq!(read(&path("bytes")).unwrap(), [0xff]);
    }

    #[test]
    fn unreadable_file_has_its_way_out() {
        for (error, expected) in [
            (ErrorKind::NotFound, "make one with"),
            (ErrorKind::PermissionDenied, "let the server's user read it"),
            (ErrorKind::IsADirectory, "name a readable file"),
        ] {
            assert!(remedy(error, "make one with").starts_with(expected), "{error}");
        }
    }
}
