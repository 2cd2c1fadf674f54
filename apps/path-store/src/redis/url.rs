//! URL of a store on Redis: server or cluster, login, database and files.
//!
//! `redis://[user:password@]host[:port][/database][?ca=FILE&password-file=FILE]`,
//! `rediss` for TLS, `+cluster` behind either for a cluster, which may have several
//! hosts, separated by commas. `valkey` and `valkeys` mean the same.

use std::time::Duration;

use std::path::Path;

use redis::cluster::ClusterClient;
use redis::Client;
use redis::ConnectionInfo;
use redis::IntoConnectionInfo;
use redis::TlsCertificates;

use crate::opening::OpenError;
use crate::small_file;

/// How often the client of a cluster retries a command when slots move.
const CLUSTER_RETRIES: u32 = 3;

/// URL of a store. Its name for messages has no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl {
    scheme: String,
    cluster: bool,
    hosts: Vec<String>,
    user: Option<String>,
    password: Option<String>,
    password_file: Option<String>,
    database: String,
    ca_file: Option<String>,
}

/// Client that makes connections.
pub enum Clients {
    Single(Client),
    Cluster(ClusterClient),
}

impl RedisUrl {
    /// Parses a location. Returns None if the scheme is not one of Redis.
    pub fn parse(location: &str) -> Option<Result<Self, OpenError>> {
        let (scheme, rest) = location.split_once("://")?;
        let (base, cluster) = match scheme.strip_suffix("+cluster") {
            Some(base) => (base, true),
            None => (scheme, false),
        };
        if !["redis", "rediss", "valkey", "valkeys"].contains(&base) {
            return None;
        }

        Some(Self::parse_rest(scheme, base, cluster, rest))
    }

    fn parse_rest(scheme: &str, base: &str, cluster: bool, rest: &str) -> Result<Self, OpenError> {
        let bad =
            |why: &str| OpenError::RedisUrl { scheme: scheme.to_string(), why: why.to_string() };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let given = |text: &str| (!text.is_empty()).then(|| text.to_string());

        let mut url = RedisUrl {
            scheme: base.to_string(),
            cluster,
            hosts: hosts.split(',').map(str::to_string).collect(),
            user: given(user),
            password: given(password),
            password_file: None,
            database: database.to_string(),
            ca_file: None,
        };
        if url.hosts.iter().any(String::is_empty) {
            return Err(bad("a host is missing"));
        }
        if !cluster && url.hosts.len() > 1 {
            return Err(bad("several hosts are a cluster: write +cluster behind the scheme"));
        }
        if !database.is_empty() && database.parse::<u32>().is_err() {
            return Err(bad("behind the host there may be the number of a database, such as /0"));
        }
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("ca", file)) => url.ca_file = given(file),
                Some(("password-file", file)) => url.password_file = given(file),
                _ => return Err(bad("behind ? there may be ca=FILE and password-file=FILE")),
            }
        }

        Ok(url)
    }

    /// Returns the name for messages: without user, password and files.
    pub fn name(&self) -> String {
        let cluster = if self.cluster { "+cluster" } else { "" };
        format!("{}{cluster}://{}", self.scheme, self.hosts.join(","))
    }

    /// Reads the files, and creates the client.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or has no valid content.
    pub fn clients(&self, timeout: Duration) -> Result<Clients, OpenError> {
        let password = match &self.password_file {
            Some(file) => Some(self.read(file)?.trim_end_matches(['\n', '\r']).to_string()),
            None => self.password.as_deref().map(percent_decode),
        };
        let certificates = match &self.ca_file {
            Some(file) => Some(self.read(file)?.into_bytes()),
            None => None,
        }
        .map(|root| TlsCertificates { client_tls: None, root_cert: Some(root) });

        let hosts = self.hosts.iter();
        let infos: Vec<ConnectionInfo> =
            hosts.map(|host| self.info(host, password.as_deref())).collect::<Result<_, _>>()?;

        if self.cluster {
            let mut builder = ClusterClient::builder(infos)
                .connection_timeout(timeout)
                .response_timeout(timeout)
                .retries(CLUSTER_RETRIES);
            if let Some(certificates) = certificates {
                builder = builder.certs(certificates);
            }
            return builder.build().map(Clients::Cluster).map_err(|e| self.bad(&e));
        }

        let info = infos.into_iter().next().ok_or_else(|| self.bad(&"a host is missing"))?;
        let client = match certificates {
            Some(certificates) => Client::build_with_tls(info, certificates),
            None => Client::open(info),
        };
        client.map(Clients::Single).map_err(|e| self.bad(&e))
    }

    fn info(&self, host: &str, password: Option<&str>) -> Result<ConnectionInfo, OpenError> {
        let text = format!("{}://{host}/{}", self.scheme, self.database);
        let info = text.as_str().into_connection_info().map_err(|e| self.bad(&e))?;
        let mut settings = info.redis_settings().clone();
        if let Some(user) = &self.user {
            settings = settings.set_username(percent_decode(user));
        }
        if let Some(password) = password {
            settings = settings.set_password(password);
        }

        Ok(info.set_redis_settings(settings))
    }

    fn read(&self, file: &str) -> Result<String, OpenError> {
        small_file::read_text(Path::new(file)).map_err(|e| OpenError::Redis {
            name: self.name(),
            why: format!("cannot read {file}: {e}"),
        })
    }

    fn bad(&self, why: &dyn std::fmt::Display) -> OpenError {
        let scheme =
            if self.cluster { format!("{}+cluster", self.scheme) } else { self.scheme.clone() };
        OpenError::RedisUrl { scheme, why: why.to_string().replace('\n', " ") }
    }
}

/// Decodes percent-encoding: a password may have any character.
fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}
