//! Shipped scenario files: the evaluation, as part of the program.

use super::file;
use super::file::File;

macro_rules! shipped {
    ($($stem:literal),+ $(,)?) => {
        /// Name and text of each file of `scenarios/`, in the order of the report.
        pub const SHIPPED: &[(&str, &str)] =
            &[$(($stem, include_str!(concat!("../../scenarios/", $stem, ".toml")))),+];
    };
}

shipped!(
    "paths",
    "live",
    "node",
    "nothing-saved",
    "grid",
    "objects",
    "buffers",
    "overshoot",
    "exits",
    "swinging",
    "ceiling",
    "random-steady",
    "random-jittery",
    "changed",
    "visits",
    "subnet",
    "recovery",
    "fairness",
    "neighbours",
    "bbr2",
    "bbr2-neighbours",
    "ecn",
    "ecn-neighbours",
    "dual-queue",
    "dynamics",
    "lossy",
    "published",
);

/// Returns every file of the evaluation.
///
/// # Errors
///
/// Names what is wrong in one of them.
pub fn all() -> anyhow::Result<Vec<File>> {
    SHIPPED.iter().map(|(stem, text)| file::parse(stem, text)).collect()
}

/// Returns the file called `name`, with or without `.toml` and a folder; or else the
/// file at the path `name`.
///
/// # Errors
///
/// As [`file::read`].
pub fn find(name: &str) -> anyhow::Result<File> {
    match SHIPPED.iter().find(|(stem, _)| *stem == name) {
        Some((stem, text)) => file::parse(stem, text),
        None => file::read(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_shipped_and_valid() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        let mut shipped: Vec<String> =
            SHIPPED.iter().map(|(stem, _)| format!("{stem}.toml")).collect();
        files.sort();
        shipped.sort();
        assert_eq!(files, shipped, "SHIPPED names the files of {folder}");
        for file in all().expect("files that make sense") {
            assert!(!file.about.is_empty() && !file.scenarios.is_empty(), "{}", file.stem);
        }
    }
}
