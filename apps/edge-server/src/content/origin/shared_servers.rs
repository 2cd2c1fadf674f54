//! Origin servers by rule: hosts whose rules are the same share one, before and after a reload, with its
//! connections and what is known of its health.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;

use path_store::small_file;
use quiche::path_state::PrefixLengths;

use crate::config::file::OriginRule;
use crate::config::position::Position;
use crate::content::origin::server::OriginServer;

static SERVERS: Mutex<Vec<SharedServer>> = Mutex::new(Vec::new());

struct SharedServer {
    key: ServerKey,
    server: Weak<OriginServer>,
}

/// What makes two servers the same.
#[derive(PartialEq, Eq)]
struct ServerKey {
    /// Without its place.
    rule: OriginRule,
    lengths: PrefixLengths,

    /// Authorities, which may change while the rule does not.
    ca: Option<Vec<u8>>,
}

/// Returns the origin server of a rule: the one that there is, or a new one.
///
/// # Errors
///
/// One line that names the invalid key.
pub fn find_or_create(
    rule: &OriginRule,
    lengths: PrefixLengths,
) -> anyhow::Result<Arc<OriginServer>> {
    let ca = rule.ca.as_ref().and_then(|path| small_file::read(path).ok());
    let rule = OriginRule { position: Position::default(), ..rule.clone() };
    let key = ServerKey { rule, lengths, ca };
    let mut servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    servers.retain(|shared| shared.server.strong_count() > 0);
    let found = servers.iter().find(|shared| shared.key == key);
    if let Some(server) = found.and_then(|shared| shared.server.upgrade()) {
        return Ok(server);
    }
    let server = Arc::new(OriginServer::new(&key.rule, lengths)?);
    servers.push(SharedServer { key, server: Arc::downgrade(&server) });
    Ok(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_rules_share_a_server() {
        let lengths = PrefixLengths { v4: 24, v6: 48 };
        let server = |toml: &str| find_or_create(&toml::from_str(toml).unwrap(), lengths).unwrap();
        let rule = "url = 'http://shared.example'\n";
        let first = server(rule);
        assert!(Arc::ptr_eq(&first, &server(rule)));
        assert!(!Arc::ptr_eq(&first, &server(&format!("{rule}body-timeout = 3"))));
    }
}
