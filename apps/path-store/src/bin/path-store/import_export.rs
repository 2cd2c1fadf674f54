//! Import and export of saved parameters, and `put`.

use std::io;
use std::io::BufRead;
use std::io::Write;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use path_store::Admin;
use path_store::HashKeys;
use quiche::path_state::PathState;
use serde::Deserialize;

use crate::cli::Cli;
use crate::cli::Put;
use crate::failure::Failure;
use crate::show;

/// A line of an export: the fields that an import reads.
#[derive(Debug, Deserialize)]
struct RecordJson {
    endpoint: String,
    saved_cwnd: u64,
    saved_rtt_ms: f64,
    observed_ms: u64,
    expires_ms: u64,
    limited: bool,
    validated: bool,
}

impl RecordJson {
    fn state(&self) -> Result<PathState, String> {
        let at = |ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        let times = at(self.observed_ms).zip(at(self.expires_ms));
        let (observed, expires) = times.ok_or("a time is too far away")?;
        let saved_rtt = Duration::try_from_secs_f64(self.saved_rtt_ms / 1e3)
            .map_err(|_| "saved_rtt_ms is no time".to_string())?;
        if self.endpoint.is_empty() || self.endpoint.contains(['\n', '\0']) {
            return Err("endpoint is no key".to_string());
        }

        Ok(PathState {
            saved_cwnd: self.saved_cwnd,
            saved_rtt,
            observed,
            expires,
            limited: self.limited,
            validated: self.validated,
        })
    }
}

/// Saves one record.
pub fn put(
    cli: &Cli,
    admin: &dyn Admin,
    put: &Put,
    keys: Option<&HashKeys>,
    wall_now: SystemTime,
) -> Result<(), Failure> {
    let endpoint = put.prefix.endpoint(&put.sender, put.dscp);
    let endpoint = match keys {
        Some(keys) => keys.pseudonymize(endpoint, wall_now),
        None => endpoint,
    };
    let state = PathState {
        saved_cwnd: put.cwnd,
        saved_rtt: put.rtt,
        observed: wall_now,
        expires: wall_now + put.lifetime,
        limited: false,
        validated: false,
    };
    let key = endpoint.to_string();
    admin.put(&key, &state)?;
    if admin.read(&key)?.is_none_or(|kept| kept.saved_cwnd != put.cwnd) {
        let store = &cli.store_name();
        return Err(format!(
            "{store}: {key} is held off after a retreat, or of a newer version; delete it first"
        )
        .into());
    }

    match cli.json {
        true => writeln!(io::stdout(), "{}", serde_json::json!({ "put": key }))?,
        false => writeln!(io::stdout(), "{key} put")?,
    }
    Ok(())
}

/// Writes every record.
pub fn export(admin: &dyn Admin) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut result = Ok(());
    admin.entries(&mut |entry| {
        if entry.state.is_some() && result.is_ok() {
            result = show::json(&entry)
                .map_err(io::Error::from)
                .and_then(|line| writeln!(out, "{line}"));
        }
    })?;
    result?;

    Ok(out.flush()?)
}

/// Saves the records of an export. After a bad line, the records before it are saved.
pub fn import(
    cli: &Cli,
    admin: &dyn Admin,
    input: impl BufRead,
    wall_now: SystemTime,
) -> Result<(), Failure> {
    let (mut imported, mut skipped) = (0, 0);
    for (number, line) in (1..).zip(input.lines()) {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let parsed = serde_json::from_str::<RecordJson>(&line).map_err(|e| e.to_string());
        let record = parsed.and_then(|record| Ok((record.state()?, record.endpoint)));
        let (state, endpoint) = record.map_err(|why| {
            format!(
                "line {number} of the input is no record: {why}; the {imported} before it are kept"
            )
        })?;

        let held = admin.read(&endpoint)?;
        let known = held.is_some_and(|held| held.observed >= state.observed);
        if known || state.is_expired(wall_now) {
            skipped += 1;
            continue;
        }
        admin.put(&endpoint, &state)?;
        imported += 1;
    }

    let mut out = io::stdout().lock();
    match cli.json {
        true => {
            writeln!(out, "{}", serde_json::json!({ "imported": imported, "skipped": skipped }))?
        }
        false => writeln!(out, "{imported} imported, {skipped} skipped")?,
    }
    Ok(())
}
