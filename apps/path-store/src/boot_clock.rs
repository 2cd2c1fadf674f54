//! Clock since boot, for leases and hold-offs of a store on disk.
//!
//! It goes on while the machine sleeps and cannot be set, so that all processes of a
//! machine agree on it. It restarts with each boot: the boot's ID is stored with each
//! time, and a time of another boot means nothing.

use std::io;
use std::time::Duration;

const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// ID of a boot.
pub type BootId = [u8; 16];

/// Time since boot. Tests have their own.
pub trait BootClock: Send + Sync {
    /// Returns the ID of this boot.
    fn boot_id(&self) -> BootId;

    /// Returns the time since this boot.
    fn since_boot(&self) -> Duration;
}

/// The kernel's CLOCK_BOOTTIME.
#[derive(Clone, Copy, Debug)]
pub struct SystemBootClock {
    boot_id: BootId,
}

impl SystemBootClock {
    /// Reads this boot's ID.
    ///
    /// # Errors
    ///
    /// /proc has no boot ID.
    pub fn new() -> io::Result<Self> {
        let text = std::fs::read_to_string(BOOT_ID_FILE)
            .map_err(|e| io::Error::new(e.kind(), format!("{BOOT_ID_FILE}: {e}")))?;
        let boot_id = parse_uuid(text.trim())
            .ok_or_else(|| io::Error::other(format!("{BOOT_ID_FILE}: not an id: {text:?}")))?;

        Ok(SystemBootClock { boot_id })
    }
}

impl BootClock for SystemBootClock {
    fn boot_id(&self) -> BootId {
        self.boot_id
    }

    fn since_boot(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::try_from(time).unwrap_or_default()
    }
}

fn parse_uuid(text: &str) -> Option<BootId> {
    let mut id = BootId::default();
    hex::decode_to_slice(text.replace('-', ""), &mut id).ok()?;
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_id_is_sixteen_hexadecimal_bytes() {
        let id = parse_uuid("00010203-0405-0607-0809-0a0b0c0d0eff");
        assert_eq!(id, Some([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]));

        for bad in ["", "0001", "00010203-0405-0607-0809-0a0b0c0d0efg"] {
            assert_eq!(parse_uuid(bad), None);
        }
    }

    #[test]
    fn boot_clock_goes_on() {
        let clock = SystemBootClock::new().unwrap();
        let before = clock.since_boot();

        assert_eq!(clock.boot_id(), SystemBootClock::new().unwrap().boot_id());
        assert!(clock.since_boot() >= before);
        assert!(before > Duration::ZERO);
    }
}
