//! Memory and settings that the runs of a thread share.

use super::client::Scratch;
use super::packets::Packets;
use super::settings::Settings;

/// Memory and settings that the runs of a thread share. No run depends on an earlier one.
pub struct ThreadState {
    pub settings: Settings,
    pub scratch: Scratch,
    pub packets: Packets,
}

impl ThreadState {
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
