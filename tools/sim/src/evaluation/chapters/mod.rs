//! Chapters of the evaluation: the findings of each.

mod bbr2;
mod buffers;
mod ceiling;
mod changed;
mod dual_queue;
mod dynamics;
mod ecn;
mod exits;
mod fairness;
mod gains;
mod grid;
mod groups;
mod live;
mod lossy;
mod neighbours;
mod node;
mod nothing_saved;
mod objects;
mod overshoot;
mod paths;
mod published;
mod random;
mod recovery;
mod subnet;
mod swinging;
mod visits;

use super::data::Chapter;
use super::findings::Findings;

/// Returns the findings of a chapter.
///
/// # Errors
///
/// A figure cannot be drawn.
pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    match chapter.file.stem.as_str() {
        "paths" => paths::findings(chapter),
        "live" => live::findings(chapter),
        "node" => node::findings(chapter),
        "nothing-saved" => nothing_saved::findings(chapter),
        "grid" => grid::findings(chapter),
        "objects" => objects::findings(chapter),
        "buffers" => buffers::findings(chapter),
        "overshoot" => overshoot::findings(chapter),
        "exits" => exits::findings(chapter),
        "swinging" => swinging::findings(chapter),
        "ceiling" => ceiling::findings(chapter),
        "random-steady" => random::findings(chapter, &random::STEADY),
        "random-jittery" => random::findings(chapter, &random::JITTERY),
        "changed" => changed::findings(chapter),
        "visits" => visits::findings(chapter),
        "subnet" => subnet::findings(chapter),
        "recovery" => recovery::findings(chapter),
        "fairness" => fairness::findings(chapter),
        "neighbours" | "bbr2-neighbours" | "ecn-neighbours" => neighbours::findings(chapter),
        "bbr2" => bbr2::findings(chapter),
        "ecn" => ecn::findings(chapter),
        "dual-queue" => dual_queue::findings(chapter),
        "dynamics" => dynamics::findings(chapter),
        "lossy" => lossy::findings(chapter),
        "published" => published::findings(chapter),
        other => anyhow::bail!("scenarios/{other}.toml has no chapter in the report"),
    }
}
