//! Record of an endpoint on Redis: the form of its keys, values and answers.

use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use redis::FromRedisValue;
use redis::ParsingError;
use redis::Value;
use ring::digest;

/// Digits of the checksum behind a record.
const SUM_BYTES: usize = 16;

/// Keys of one endpoint.
pub const KEYS: usize = 5;

/// What the script said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What was found, in the script's words.
    pub status: String,

    /// The saved parameters that are meant for the caller.
    pub state: Option<PathState>,

    /// A number, of requests that count.
    pub count: usize,

    /// Endpoints in excess of the capacity.
    pub excess: Vec<String>,
}

/// What was found in the place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    Record(PathState),
    Newer,
    Damaged,
}

impl FromRedisValue for Reply {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        let mut parts: Vec<Value> = Vec::from_redis_value(value)?;
        let excess = match parts.len() {
            3 => Vec::from_redis_value(parts.remove(2))?,
            _ => Vec::new(),
        };
        let [status, payload] = <[Value; 2]>::try_from(parts)
            .map_err(|parts| format!("{} parts where 2 were expected", parts.len()))?;
        let payload = Vec::<u8>::from_redis_value(payload)?;
        let count = std::str::from_utf8(&payload).ok().and_then(|text| text.parse().ok());

        Ok(Reply {
            status: String::from_redis_value(status)?,
            state: PathState::from_bytes(&payload).ok(),
            count: count.unwrap_or(0),
            excess,
        })
    }
}

/// Returns the bucket of an endpoint, of so many.
pub fn bucket(buckets: usize, endpoint: &str) -> usize {
    crc32fast::hash(endpoint.as_bytes()) as usize % buckets
}

/// Returns the key of the index of a bucket: a sorted set of endpoints by the time
/// when they end.
pub fn index_key(bucket: usize) -> String {
    format!("{{path-store-{bucket}}}:index")
}

/// Returns the keys of an endpoint, in the order in which the script takes them. The
/// braces let a cluster keep all keys of a bucket on one server, so that a script
/// can use them together.
pub fn keys(bucket: usize, endpoint: &str) -> [String; KEYS] {
    let name = format!("{{path-store-{bucket}}}");

    [
        format!("{name}:set:{endpoint}"),
        format!("{name}:claim:{endpoint}"),
        format!("{name}:hold-off:{endpoint}"),
        format!("{name}:retreats:{endpoint}"),
        index_key(bucket),
    ]
}

/// Returns a token as it is stored.
pub fn token(token: ClaimToken) -> Vec<u8> {
    format!("{:016x}", token.0).into_bytes()
}

/// Tells what a value is, without changing anything.
pub fn interpret(endpoint: &str, value: Option<&[u8]>, wall_now: SystemTime) -> Found {
    let Some(value) = value else { return Found::Nothing };
    let Some((record, sum)) = value.split_at_checked(value.len().wrapping_sub(SUM_BYTES)) else {
        return Found::Damaged;
    };
    if record.is_empty() || sum != checksum(endpoint, record).as_bytes() {
        return Found::Damaged;
    }

    match PathState::from_bytes(record) {
        Ok(state) if state.is_expired(wall_now) => Found::Nothing,
        Ok(state) => Found::Record(state),
        Err(quiche::path_state::DecodeError::UnknownVersion(_)) => Found::Newer,
        Err(quiche::path_state::DecodeError::Malformed) => Found::Damaged,
    }
}

fn checksum(endpoint: &str, record: &[u8]) -> String {
    let text = [endpoint.as_bytes(), b"\0", record].concat();
    let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text);
    let digits: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();

    digits[..SUM_BYTES].to_string()
}

/// Returns milliseconds since 1970.
pub fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
