//! Memory and settings that the runs of a thread share.

use super::client::Scratch;
use super::packets::Packets;
use super::settings::Settings;

/// What the runs of a thread share. Nothing of one run is seen in another.
pub struct Kept {
    pub settings: Settings,
    pub scratch: Scratch,
    pub packets: Packets,
}

impl Kept {
    /// # Errors
    ///
    /// None is expected.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            settings: Settings::new()?,
            scratch: Scratch::default(),
            packets: Packets::default(),
        })
    }
}
