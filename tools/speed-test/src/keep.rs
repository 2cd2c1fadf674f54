//! Choice of the qlogs to keep: each takes several megabytes.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::page::drawn_qlogs;
use crate::verdict::failures;
use report::record::Download;
use report::record::Mode;

/// Deletes the qlogs that nobody is going to look at: all but those that the
/// page draws, those of first connections, and those of downloads that broke a
/// rule. `results` is the folder that their names are relative to.
///
/// # Errors
///
/// A file cannot be removed.
pub fn prune_qlogs(results: &Path, downloads: &mut [Download]) -> anyhow::Result<()> {
    let drawn = drawn_qlogs(downloads);
    for download in downloads {
        let Some(qlog) = &download.qlog else { continue };
        let broken = !failures(std::slice::from_ref(download)).is_empty();
        if drawn.contains(qlog) || download.mode == Mode::First || broken {
            continue;
        }
        let file = results.join(qlog);
        fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        if let Some(folder) = file.parent() {
            // Each was alone in its folder; if not, the folder stays.
            let _ = fs::remove_dir(folder);
        }
        download.qlog = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::download;

    #[test]
    fn qlogs_to_draw_or_explain_are_kept() {
        let dir = tempfile::tempdir().expect("temporary folder");
        let mut all = vec![download(Mode::First, 1, 900.0)];
        for run in 1..=3 {
            all.push(download(Mode::SlowStart, run, 560.0 + f64::from(run)));
            all.push(download(Mode::CarefulResume, run, 290.0 + f64::from(run)));
        }
        all[2].jump_lost_packets = Some(1);
        for d in &mut all {
            let name = format!("qlog/{}-{}/a.sqlog", d.mode.name(), d.run);
            fs::create_dir_all(dir.path().join(&name).parent().expect("folder")).expect("made");
            fs::write(dir.path().join(&name), "x").expect("written");
            d.qlog = Some(name);
        }
        prune_qlogs(dir.path(), &mut all).expect("pruned");

        let mut left: Vec<String> = fs::read_dir(dir.path().join("qlog"))
            .expect("read")
            .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        assert_eq!(left, ["careful-resume-1", "careful-resume-2", "first-1", "slow-start-2"]);
        let told: Vec<bool> = all.iter().map(|d| d.qlog.is_some()).collect();
        assert_eq!(told, [true, false, true, true, true, false, false]);
    }
}
