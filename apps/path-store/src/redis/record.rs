//! Record of an endpoint on Redis: format of its keys, values and replies.

use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use redis::FromRedisValue;
use redis::ParsingError;
use redis::Value;
use ring::digest;

/// Length of the checksum behind a record, in hexadecimal digits.
const SUM_BYTES: usize = 16;

/// How many keys an endpoint has.
pub const KEYS: usize = 7;

/// Reply of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptReply {
    /// State of the stored record, in the script's words.
    pub status: String,

    /// The saved parameters for the caller.
    pub state: Option<PathState>,

    /// How many records a request deleted.
    pub count: usize,

    /// Endpoints beyond the capacity.
    pub excess: Vec<String>,
}

/// State of a stored record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredRecord {
    Missing,
    Record(PathState),
    Newer,
    Damaged,
}

impl FromRedisValue for ScriptReply {
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

        Ok(ScriptReply {
            status: String::from_redis_value(status)?,
            state: PathState::from_bytes(&payload).ok(),
            count: count.unwrap_or(0),
            excess,
        })
    }
}

/// Returns the bucket of an endpoint.
pub fn bucket(buckets: usize, endpoint: &str) -> usize {
    crc32fast::hash(endpoint.as_bytes()) as usize % buckets
}

/// Returns the key of a bucket's index: a sorted set of endpoints by the time when they end.
pub fn index_key(bucket: usize) -> String {
    format!("{{path-store-{bucket}}}:index")
}

/// Returns the keys of an endpoint, in the order of the script's arguments. The braces are a
/// hash tag: a cluster keeps all keys of a bucket on one server, where a script can use them.
pub fn keys(bucket: usize, endpoint: &str) -> [String; KEYS] {
    let name = format!("{{path-store-{bucket}}}");

    [
        format!("{name}:set:{endpoint}"),
        format!("{name}:claim:{endpoint}"),
        format!("{name}:hold-off:{endpoint}"),
        format!("{name}:retreats:{endpoint}"),
        index_key(bucket),
        format!("{name}:void:{endpoint}"),
        format!("{name}:void-all"),
    ]
}

/// Returns the stored form of a token.
pub fn token(token: ClaimToken) -> Vec<u8> {
    format!("{:016x}", token.0).into_bytes()
}

/// Parses a stored value, without changing anything.
pub fn interpret(endpoint: &str, value: Option<&[u8]>, wall_now: SystemTime) -> StoredRecord {
    let Some(value) = value else { return StoredRecord::Missing };
    let Some((record, sum)) = value.split_at_checked(value.len().wrapping_sub(SUM_BYTES)) else {
        return StoredRecord::Damaged;
    };
    if record.is_empty() || sum != checksum(endpoint, record).as_bytes() {
        return StoredRecord::Damaged;
    }

    match PathState::from_bytes(record) {
        Ok(state) if state.is_expired(wall_now) => StoredRecord::Missing,
        Ok(state) => StoredRecord::Record(state),
        Err(quiche::path_state::DecodeError::UnknownVersion(_)) => StoredRecord::Newer,
        Err(quiche::path_state::DecodeError::Malformed) => StoredRecord::Damaged,
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
