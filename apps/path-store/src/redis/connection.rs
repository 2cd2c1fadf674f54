//! Connection to a server or cluster, which reconnects after an error.
//!
//! It connects when a request needs it, drops the connection at any error, and reconnects
//! after a backoff, so that requests to a dead store fail at once and not with a time-out each.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;

use redis::cluster::ClusterClient;
use redis::cluster::ClusterConnection;
use redis::cluster_routing::MultipleNodeRoutingInfo;
use redis::cluster_routing::ResponsePolicy;
use redis::cluster_routing::RoutingInfo;
use redis::Client;
use redis::Cmd;
use redis::Connection;
use redis::ErrorKind;
use redis::FromRedisValue;
use redis::RedisError;
use redis::Script;
use redis::ServerErrorKind;

use super::url::Clients;
use super::url::RedisUrl;
use crate::opening::OpenError;

/// The script with the rules of the store.
const RULES: &str = include_str!("rules.lua");

/// Time between two attempts to connect, doubled with each that fails.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// Returns the hash by which Redis calls the script once it is loaded.
pub fn rules_hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| Script::new(RULES).get_hash().to_string())
}

/// Sends requests, and connects when it has to.
pub struct ConnectionManager {
    name: String,
    clients: Clients,
    timeout: Duration,
    state: State,
    connects: u64,
}

enum State {
    Up(AnyConnection),
    Down { why: String, backoff: Duration, retry_at: Option<Instant> },
}

/// Connection to one server or to all of a cluster.
pub enum AnyConnection {
    Single(Box<Connection>),
    Cluster(Box<ClusterConnection>),
}

/// Error of a request.
#[derive(Debug)]
pub enum ConnectionError {
    /// An attempt to connect failed shortly before, so that there was none now.
    Down(String),

    /// An error of the server or of the network.
    Redis(RedisError),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Down(why) => why.clone(),
            Self::Redis(error) if error.is_timeout() => "no response in time".to_string(),
            Self::Redis(error) => error.to_string(),
        };
        f.write_str(&text.replace(['\n', '\r'], " "))
    }
}

impl ConnectionError {
    /// Returns whether the server refuses us: a later attempt will not help.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Down(_) => false,
            Self::Redis(error) => {
                let codes = ["NOAUTH", "WRONGPASS", "NOPERM", "DENIED"];
                let code = error.code().unwrap_or_default();
                error.kind() == ErrorKind::AuthenticationFailed || codes.contains(&code)
            }
        }
    }

    fn is_unknown_script(&self) -> bool {
        let no_script = ErrorKind::Server(ServerErrorKind::NoScript);
        matches!(self, Self::Redis(error) if error.kind() == no_script)
    }
}

impl From<RedisError> for ConnectionError {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl ConnectionManager {
    /// Creates a manager that is not connected yet.
    pub fn new(url: &RedisUrl, timeout: Duration) -> Result<Self, OpenError> {
        Ok(ConnectionManager {
            name: url.name(),
            clients: url.clients(timeout)?,
            timeout,
            state: State::Down { why: String::new(), backoff: BACKOFF_MIN, retry_at: None },
            connects: 0,
        })
    }

    /// Returns the name of the store for messages: its URL without secrets.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self.clients, Clients::Cluster(_))
    }

    /// Returns how often it connected.
    pub fn connects(&self) -> u64 {
        self.connects
    }

    /// Returns the connection. Connects if there is none and the backoff is over.
    pub fn connection(&mut self) -> Result<&mut AnyConnection, ConnectionError> {
        if let State::Down { why, backoff, retry_at } = &self.state {
            let now = quiche::clock::now();
            if retry_at.is_some_and(|at| now < at) {
                return Err(ConnectionError::Down(why.clone()));
            }
            let backoff = *backoff;
            match self.connect() {
                Ok(connection) => {
                    self.connects += 1;
                    self.state = State::Up(connection);
                }
                Err(error) => {
                    self.mark_down(&error, backoff);
                    return Err(error);
                }
            }
        }

        match &mut self.state {
            State::Up(connection) => Ok(connection),
            State::Down { why, .. } => Err(ConnectionError::Down(why.clone())),
        }
    }

    /// Sends all commands and reads all answers. After an error it is unknown which commands
    /// were executed, and the connection is dropped: its next answer could be that of another
    /// command.
    pub fn query<T: FromRedisValue>(
        &mut self,
        commands: &[Cmd],
    ) -> Result<Vec<T>, ConnectionError> {
        let mut result = self.query_once(commands);
        // Somebody flushed the scripts: connecting loads ours again.
        if result.as_ref().is_err_and(ConnectionError::is_unknown_script) {
            self.state = State::Down { why: String::new(), backoff: BACKOFF_MIN, retry_at: None };
            result = self.query_once(commands);
        }

        result
    }

    fn query_once<T: FromRedisValue>(
        &mut self,
        commands: &[Cmd],
    ) -> Result<Vec<T>, ConnectionError> {
        let answers = self.connection()?.query(commands);
        if let Err(error) = &answers {
            self.mark_down(error, BACKOFF_MIN);
        }

        answers
    }

    fn mark_down(&mut self, error: &ConnectionError, backoff: Duration) {
        self.state = State::Down {
            why: error.to_string(),
            backoff: (backoff * 2).min(BACKOFF_MAX),
            retry_at: Some(quiche::clock::now() + backoff),
        };
    }

    fn connect(&self) -> Result<AnyConnection, ConnectionError> {
        let mut connection = match &self.clients {
            Clients::Single(client) => self.connect_single(client)?,
            Clients::Cluster(client) => self.connect_cluster(client)?,
        };
        connection.load(RULES)?;

        Ok(connection)
    }

    fn connect_single(&self, client: &Client) -> Result<AnyConnection, RedisError> {
        let connection = client.get_connection_with_timeout(self.timeout)?;
        connection.set_read_timeout(Some(self.timeout))?;
        connection.set_write_timeout(Some(self.timeout))?;

        Ok(AnyConnection::Single(Box::new(connection)))
    }

    fn connect_cluster(&self, client: &ClusterClient) -> Result<AnyConnection, RedisError> {
        Ok(AnyConnection::Cluster(Box::new(client.get_connection()?)))
    }
}

impl AnyConnection {
    fn query<T: FromRedisValue>(&mut self, commands: &[Cmd]) -> Result<Vec<T>, ConnectionError> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }

        Ok(match self {
            Self::Single(connection) => {
                let mut pipe = redis::Pipeline::with_capacity(commands.len());
                for command in commands {
                    pipe.add_command(command.clone());
                }
                pipe.query(connection.as_mut())?
            }
            Self::Cluster(connection) => {
                let mut pipe = redis::cluster::ClusterPipeline::with_capacity(commands.len());
                for command in commands {
                    pipe.add_command(command.clone());
                }
                pipe.query(connection)?
            }
        })
    }

    fn load(&mut self, script: &str) -> Result<(), RedisError> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(script);

        match self {
            Self::Single(connection) => load.exec(connection.as_mut()),
            Self::Cluster(connection) => {
                let everywhere =
                    (MultipleNodeRoutingInfo::AllMasters, Some(ResponsePolicy::AllSucceeded));
                connection.route_command(&load, RoutingInfo::MultiNode(everywhere)).map(drop)
            }
        }
    }
}
