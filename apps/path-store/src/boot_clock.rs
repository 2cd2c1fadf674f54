//! Clock since boot, for leases and hold-offs of a store on disk.
//!
//! It goes on while the machine sleeps and cannot be set, so that all processes of a
//! machine agree on it. It restarts with each boot: the boot's ID is stored with each
//! time, and a time of another boot means nothing.

use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// Folder of a service's credentials (systemd.exec(5)), and that which has the ID of a service whose
/// /proc does not: `LoadCredential=boot-id:/proc/sys/kernel/random/boot_id`.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";
const CREDENTIAL: &str = "boot-id";

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
    /// Neither /proc nor a credential has a boot ID.
    pub fn new() -> io::Result<Self> {
        let credential = || Path::new(&std::env::var_os(CREDENTIALS)?).join(CREDENTIAL).into();
        Self::from_files(Path::new(BOOT_ID_FILE), credential())
    }

    fn from_files(file: &Path, credential: Option<PathBuf>) -> io::Result<Self> {
        let text = std::fs::read_to_string(file);
        let text = text.or_else(|e| credential.map_or(Err(e), std::fs::read_to_string));
        let shown = file.display();
        let text = text.map_err(|e| {
            let remedy = format!("with ProcSubset=pid, set LoadCredential={CREDENTIAL}:{shown}");
            io::Error::new(e.kind(), format!("{shown}: {e}; {remedy}"))
        })?;
        let boot_id = parse_uuid(text.trim())
            .ok_or_else(|| io::Error::other(format!("{shown}: not an id: {text:?}")))?;

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

    // As /proc of a service may show processes alone.
    #[test]
    fn boot_id_comes_from_a_credential_if_proc_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let [missing, credential] = ["none", CREDENTIAL].map(|name| dir.path().join(name));
        let error = SystemBootClock::from_files(&missing, None).unwrap_err().to_string();
        assert!(error.contains("; with ProcSubset=pid, set LoadCredential=boot-id:"), "{error}");
        assert!(SystemBootClock::from_files(&missing, Some(credential.clone())).is_err());
        std::fs::write(&credential, "000102030405060708090a0b0c0d0eff\n").unwrap();
        let clock = SystemBootClock::from_files(&missing, Some(credential)).unwrap();
        assert_eq!((clock.boot_id()[0], clock.boot_id()[15]), (0, 255));
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
