//! Administration of a store on Redis.

use std::time::Duration;

use quiche::path_state::PathState;
use quiche::path_state::StoreError;
use redis::Cmd;
use redis::Value;

use super::record;
use super::record::ScriptReply;
use super::record::StoredRecord;
use super::RedisStore;
use crate::backend::Admin;
use crate::backend::Entry;
use crate::backend::RecordStatus;
use crate::backend::Size;
use crate::backend::RETREATS_KEPT;
use crate::service_metrics::ServiceMetrics;

/// Endpoints per round trip.
const PAGE: usize = 500;

/// How many entries the estimate of the size samples.
const SAMPLE: usize = 50;

/// The hash of the totals.
const TOTALS_KEY: &str = "{path-store-0}:totals";

impl Admin for RedisStore {
    fn entries(&self, visit: &mut dyn FnMut(Entry)) -> Result<(), StoreError> {
        let mut endpoints = self.endpoints()?;
        endpoints.sort_unstable();

        for page in endpoints.chunks(PAGE) {
            for entry in self.read_entries(page)?.into_iter().flatten() {
                visit(entry);
            }
        }

        Ok(())
    }

    fn read(&self, endpoint: &str) -> Result<Option<PathState>, StoreError> {
        let replies: Vec<ScriptReply> = self.query(&[self.call(endpoint, "get", &[])])?;
        Ok(replies.first().and_then(|reply| reply.state))
    }

    fn put(&self, endpoint: &str, state: &PathState) -> Result<(), StoreError> {
        let replies: Vec<ScriptReply> = self.query(&[self.record_call(endpoint, state)])?;
        let excess: Vec<String> = replies.into_iter().flat_map(|reply| reply.excess).collect();
        self.evict(&excess)
    }

    fn delete(&self, endpoint: &str) -> Result<bool, StoreError> {
        let replies: Vec<ScriptReply> = self.query(&[self.call(endpoint, "delete", &known())])?;
        Ok(replies.iter().any(|reply| reply.status == "sound"))
    }

    fn size(&self) -> Result<Size, StoreError> {
        let endpoints = self.endpoints()?;
        let usage = |key: &str| {
            let mut command = redis::cmd("MEMORY");
            command.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
            command
        };
        // The index orders endpoints by their end, so that every n-th is a random sample.
        let step = endpoints.len().div_ceil(SAMPLE).max(1);
        let sampled: Vec<Cmd> =
            endpoints.iter().step_by(step).map(|endpoint| usage(&self.keys(endpoint)[0])).collect();
        let indices: Vec<Cmd> =
            (0..self.buckets).map(|bucket| usage(&record::index_key(bucket))).collect();

        let records: Vec<Option<u64>> = self.query(&sampled)?;
        let indices: Vec<Option<u64>> = self.query(&indices)?;
        let count = sampled.len().max(1) as u64;
        let record_bytes =
            records.into_iter().flatten().sum::<u64>() * endpoints.len() as u64 / count;
        let index_bytes: u64 = indices.into_iter().flatten().sum();

        Ok(Size { bytes: record_bytes + index_bytes, capacity: self.options.capacity })
    }

    fn totals(&self) -> Result<ServiceMetrics, StoreError> {
        let mut all = redis::cmd("HGETALL");
        all.arg(TOTALS_KEY);
        let answers: Vec<Vec<(String, u64)>> = self.query(&[all])?;
        let mut totals = ServiceMetrics::default();
        for (name, count) in answers.into_iter().flatten() {
            totals.add(&name, count);
        }

        Ok(totals)
    }
}

impl RedisStore {
    fn keys(&self, endpoint: &str) -> [String; record::KEYS] {
        record::keys(record::bucket(self.buckets, endpoint), endpoint)
    }

    /// Returns all endpoints, those of a bucket by the time when they end.
    fn endpoints(&self) -> Result<Vec<String>, StoreError> {
        let mut endpoints = Vec::new();
        for bucket in 0..self.buckets {
            let mut range = redis::cmd("ZRANGE");
            range.arg(record::index_key(bucket)).arg(0).arg(-1);
            let answers: Vec<Vec<String>> = self.query(&[range])?;
            endpoints.extend(answers.into_iter().flatten());
        }

        Ok(endpoints)
    }

    fn read_entries(&self, endpoints: &[String]) -> Result<Vec<Option<Entry>>, StoreError> {
        let wall_now = quiche::clock::wall_now();
        let commands: Vec<Cmd> = endpoints
            .iter()
            .flat_map(|endpoint| {
                let [record, claim, hold_off, retreats, ..] = self.keys(endpoint);
                [("GET", record), ("PTTL", claim), ("PTTL", hold_off), ("GET", retreats)]
            })
            .map(|(name, key)| {
                let mut command = redis::cmd(name);
                command.arg(key);
                command
            })
            .collect();

        let answers: Vec<Value> = self.query(&commands)?;
        let entries = endpoints.iter().zip(answers.chunks_exact(4));
        entries
            .map(|(endpoint, answers)| {
                let value: Option<Vec<u8>> = redis::from_redis_value_ref(&answers[0])?;
                let found = record::interpret(endpoint, value.as_deref(), wall_now);
                let lease = timer(redis::from_redis_value_ref(&answers[1])?);
                let hold_off = timer(redis::from_redis_value_ref(&answers[2])?);
                let retreats: Option<u32> = redis::from_redis_value_ref(&answers[3])?;
                Ok(entry(endpoint, found, lease, hold_off, retreats.unwrap_or(0)))
            })
            .collect()
    }

    /// Deletes every entry. Returns how many records there were.
    pub(super) fn delete_all(&self) -> Result<usize, StoreError> {
        let void = |bucket| self.call_in(bucket, "", "void_all", &known());
        let _: Vec<ScriptReply> = self.query(&(0..self.buckets).map(void).collect::<Vec<_>>())?;
        let mut deleted = 0;
        loop {
            let endpoints = self.endpoints()?;
            if endpoints.is_empty() {
                return Ok(deleted);
            }
            for page in endpoints.chunks(PAGE) {
                let delete = |endpoint: &String| self.call(endpoint, "delete", &known());
                let commands: Vec<Cmd> = page.iter().map(delete).collect();
                let replies: Vec<ScriptReply> = self.query(&commands)?;
                deleted += replies.iter().map(|reply| reply.count).sum::<usize>();
            }
        }
    }

    /// Removes from the indices what Redis has deleted.
    pub(super) fn sweep_index(&self) -> Result<usize, StoreError> {
        let sweep = |bucket| self.call_in(bucket, "", "sweep", &[]);
        let commands: Vec<Cmd> = (0..self.buckets).map(sweep).collect();
        let replies: Vec<ScriptReply> = self.query(&commands)?;

        Ok(replies.iter().map(|reply| reply.count).sum())
    }

    pub(super) fn count_totals(&self, since: &ServiceMetrics) -> Result<(), StoreError> {
        let add = |(name, count): (&str, u64)| {
            let mut command = redis::cmd("HINCRBY");
            command.arg(TOTALS_KEY).arg(name).arg(count);
            command
        };
        let commands: Vec<Cmd> =
            since.counts().into_iter().filter(|(_, n)| *n > 0).map(add).collect();
        let _: Vec<u64> = self.query(&commands)?;

        Ok(())
    }
}

/// Returns the argument of `requests.delete`: how long it is known that own states are void.
fn known() -> [Vec<u8>; 1] {
    [super::ms(RETREATS_KEPT)]
}

/// Returns the rest of a key's life from PTTL's answer, which is negative without a key.
fn timer(left_ms: i64) -> Option<Duration> {
    u64::try_from(left_ms).ok().map(Duration::from_millis)
}

fn entry(
    endpoint: &str,
    found: StoredRecord,
    lease: Option<Duration>,
    hold_off: Option<Duration>,
    retreats: u32,
) -> Option<Entry> {
    let (state, status) = match found {
        StoredRecord::Record(state) => (Some(state), RecordStatus::Sound),
        StoredRecord::Missing => (None, RecordStatus::Sound),
        StoredRecord::Newer => (None, RecordStatus::Newer),
        StoredRecord::Damaged => (None, RecordStatus::Damaged),
    };
    let is_empty = found == StoredRecord::Missing && lease.is_none() && hold_off.is_none();
    if is_empty && retreats == 0 {
        return None;
    }

    Some(Entry { endpoint: endpoint.to_string(), state, lease, retreats, hold_off, status })
}
