//! Resumption data of a client, in memory or in a file: token and TLS session for the next connection.

use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Deserialize;
use serde::Serialize;

quiche::stand_ins!();

/// Token and TLS session that a server issued for the next connection, in hexadecimal digits.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResumptionData {
    /// Validates the client's address once (RFC 9000, 8.1.3).
    token: Option<String>,

    /// Resumes the TLS session.
    session: Option<String>,
}

impl ResumptionData {
    /// Returns what the server issued on a connection.
    pub fn of(transport: &quiche::Connection) -> Self {
        let (token, session) = (transport.new_token(), transport.session());
        Self { token: token.map(hex::encode), session: session.map(hex::encode) }
    }

    /// Returns whether there is anything.
    pub fn is_some(&self) -> bool {
        self.token.is_some() || self.session.is_some()
    }

    /// Offers token and session on a new connection. If that fails, the handshake takes one more
    /// round trip.
    pub fn offer(self, transport: &mut quiche::Connection) {
        let bytes = |digits: Option<String>| digits.and_then(|digits| hex::decode(digits).ok());
        let session = bytes(self.session).map(|session| transport.set_session(&session));
        let token = bytes(self.token).map(|token| transport.set_token(&token));
        for refused in [session, token].into_iter().flatten().filter_map(Result::err) {
            log::debug!("cannot reuse a token or session: {refused}");
        }
    }

    /// Reads the file that [`Self::write()`] wrote. Without one, there is nothing.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = match std::fs::read_to_string(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(format!("cannot read --session {}: {e}", path.display())),
            Ok(text) => text,
        };
        serde_json::from_str(&text).map_err(|e| {
            format!(
                "--session {}: edge-client has not written this file ({e}); name another",
                path.display()
            )
        })
    }

    /// Writes it to a file that only this user may read: whoever has the session can resume it.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        let text = serde_json::to_string(self).expect("plain data serialises");
        let written = options.open(path).and_then(|mut file| writeln!(file, "{text}"));
        written.map_err(|e| {
            format!(
                "cannot write --session {}: {e}; name a file in a writable folder",
                path.display()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn resumption_data_lasts_in_a_private_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session");
        assert!(!ResumptionData::read(&path).unwrap().is_some());
        let data = ResumptionData { token: Some("5e".into()), session: None };
        data.write(&path).unwrap();
        assert_eq!(ResumptionData::read(&path).unwrap(), data);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn error_names_the_session_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("session");
        std::fs::write(&path, "-----BEGIN").unwrap();
        let unread = ResumptionData::read(&path).unwrap_err();
        let unwritten = ResumptionData::default().write(&dir.path().join("none/session"));
        for line in [unread, unwritten.unwrap_err()] {
            assert!(line.contains("session") && line.contains("name a"), "{line}");
        }
    }
}
