//! Link to a server or cluster: a connection that is made again when it fails.
//!
//! It is made when it is needed, dropped when anything is wrong with it, and made
//! again after a pause, so that a dead store costs its callers a moment and not a
//! time-out each.

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

/// The rules.
const RULES: &str = include_str!("rules.lua");

/// Between two attempts to connect: doubled with each that fails.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Returns what Redis calls the rules, once they are loaded.
pub fn rules_hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| Script::new(RULES).get_hash().to_string())
}

/// Where requests go.
pub struct Link {
    name: String,
    clients: Clients,
    patience: Duration,
    state: State,
    connects: u64,
}

enum State {
    Up(AnyConnection),
    Down { why: String, pause: Duration, retry_at: Option<Instant> },
}

/// A connection, to one server or to all of a cluster.
pub enum AnyConnection {
    Single(Box<Connection>),
    Cluster(Box<ClusterConnection>),
}

/// Why a request was not answered.
#[derive(Debug)]
pub enum LinkError {
    /// An attempt failed shortly before; there was none now.
    Down(String),

    /// The server or the network.
    Redis(RedisError),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Down(why) => why.clone(),
            Self::Redis(error) if error.is_timeout() => "no answer in time".to_string(),
            Self::Redis(error) => error.to_string(),
        };
        f.write_str(&text.replace(['\n', '\r'], " "))
    }
}

impl LinkError {
    /// Tells whether the server answered that it does not want us: waiting will not help.
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

impl From<RedisError> for LinkError {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl Link {
    /// Returns one without a connection yet.
    pub fn new(url: &RedisUrl, patience: Duration) -> Result<Self, OpenError> {
        Ok(Link {
            name: url.name(),
            clients: url.clients(patience)?,
            patience,
            state: State::Down { why: String::new(), pause: PAUSE_MIN, retry_at: None },
            connects: 0,
        })
    }

    /// Returns how messages call the store: its URL without secrets.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self.clients, Clients::Cluster(_))
    }

    /// Returns how often a connection was made.
    pub fn connects(&self) -> u64 {
        self.connects
    }

    /// Returns the connection, made now if there is none and the pause is over.
    pub fn connection(&mut self) -> Result<&mut AnyConnection, LinkError> {
        if let State::Down { why, pause, retry_at } = &self.state {
            let now = quiche::clock::now();
            if retry_at.is_some_and(|at| now < at) {
                return Err(LinkError::Down(why.clone()));
            }
            let pause = *pause;
            match self.connect() {
                Ok(connection) => {
                    self.connects += 1;
                    self.state = State::Up(connection);
                }
                Err(error) => {
                    self.fall(&error, pause);
                    return Err(error);
                }
            }
        }

        match &mut self.state {
            State::Up(connection) => Ok(connection),
            State::Down { why, .. } => Err(LinkError::Down(why.clone())),
        }
    }

    /// Sends all commands and reads all answers. After an error it is unknown
    /// what was done, and the connection is gone: its next answer could be
    /// another question's.
    pub fn query<T: FromRedisValue>(&mut self, commands: &[Cmd]) -> Result<Vec<T>, LinkError> {
        let mut result = self.query_once(commands);
        // Somebody flushed the scripts: connecting brings ours back.
        if result.as_ref().is_err_and(LinkError::is_unknown_script) {
            self.state = State::Down { why: String::new(), pause: PAUSE_MIN, retry_at: None };
            result = self.query_once(commands);
        }

        result
    }

    fn query_once<T: FromRedisValue>(&mut self, commands: &[Cmd]) -> Result<Vec<T>, LinkError> {
        let answers = self.connection()?.query(commands);
        if let Err(error) = &answers {
            self.fall(error, PAUSE_MIN);
        }

        answers
    }

    fn fall(&mut self, error: &LinkError, pause: Duration) {
        self.state = State::Down {
            why: error.to_string(),
            pause: (pause * 2).min(PAUSE_MAX),
            retry_at: Some(quiche::clock::now() + pause),
        };
    }

    fn connect(&self) -> Result<AnyConnection, LinkError> {
        let mut connection = match &self.clients {
            Clients::Single(client) => self.connect_single(client)?,
            Clients::Cluster(client) => self.connect_cluster(client)?,
        };
        connection.load(RULES)?;

        Ok(connection)
    }

    fn connect_single(&self, client: &Client) -> Result<AnyConnection, RedisError> {
        let connection = client.get_connection_with_timeout(self.patience)?;
        connection.set_read_timeout(Some(self.patience))?;
        connection.set_write_timeout(Some(self.patience))?;

        Ok(AnyConnection::Single(Box::new(connection)))
    }

    fn connect_cluster(&self, client: &ClusterClient) -> Result<AnyConnection, RedisError> {
        Ok(AnyConnection::Cluster(Box::new(client.get_connection()?)))
    }
}

impl AnyConnection {
    fn query<T: FromRedisValue>(&mut self, commands: &[Cmd]) -> Result<Vec<T>, LinkError> {
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
