//! Record of claims: JSON lines that `run` prints and `check` reads.

use std::collections::HashMap;
use std::io::BufRead;

use anyhow::Context;
use serde::Deserialize;
use serde::Serialize;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    Granted(Granted),
    Ended(Ended),
    Totals(Totals),
}

/// A claim that the store granted. Times are in nanoseconds of the monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    pub node: String,

    /// The connection, a number of this node.
    pub connection: u64,

    pub endpoint: String,

    /// When the node had the store's answer.
    pub at_ns: u64,

    /// When the claim times out.
    pub expires_ns: u64,
}

/// A claim that the node ends: its connection does nothing more with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub node: String,
    pub connection: u64,
    pub at_ns: u64,
}

/// Claims of a node that has ended, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub node: String,
    pub asked: u64,
    pub granted: u64,
    pub refused: u64,

    /// The store did not answer, or with an error.
    pub failed: u64,

    /// The store's queue was full.
    pub dropped: u64,
}

/// Claim with the time at which it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveClaim {
    pub node: String,
    pub endpoint: String,
    pub from_ns: u64,
    pub until_ns: u64,
}

/// Everything that the nodes recorded.
#[derive(Debug, Default)]
pub struct Record {
    pub claims: Vec<LiveClaim>,
    pub totals: Vec<Totals>,
}

impl Record {
    /// Adds the lines of one node. A claim without an end, as of a node that was killed, lasts until its
    /// time-out.
    ///
    /// # Errors
    ///
    /// A line is none of a record.
    pub fn read(&mut self, lines: impl BufRead) -> anyhow::Result<()> {
        let mut claims: HashMap<u64, usize> = HashMap::new();

        for (i, line) in lines.lines().enumerate() {
            let parsed = serde_json::from_str(&line?).with_context(|| format!("line {}", i + 1))?;
            match parsed {
                Line::Granted(granted) => {
                    claims.insert(granted.connection, self.claims.len());
                    self.claims.push(LiveClaim {
                        node: granted.node,
                        endpoint: granted.endpoint,
                        from_ns: granted.at_ns,
                        until_ns: granted.expires_ns,
                    });
                }
                Line::Ended(ended) => {
                    let claim = claims.get(&ended.connection).with_context(|| {
                        format!("line {}: the claim that ends was not granted", i + 1)
                    })?;
                    let claim = &mut self.claims[*claim];
                    claim.until_ns = claim.until_ns.min(ended.at_ns);
                }
                Line::Totals(totals) => self.totals.push(totals),
            }
        }

        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANTED: &str =
        r#"{"granted":{"node":"a","connection":7,"endpoint":"e","at_ns":100,"expires_ns":900}}"#;

    fn until_ns(lines: &[&str]) -> anyhow::Result<u64> {
        let mut record = Record::default();
        record.read(lines.join("\n").as_bytes())?;
        Ok(record.claims[0].until_ns)
    }

    #[test]
    fn claim_lasts_until_its_end_or_its_time_out() {
        let ended = |at| format!(r#"{{"ended":{{"node":"a","connection":7,"at_ns":{at}}}}}"#);
        assert_eq!(until_ns(&[GRANTED]).unwrap(), 900);
        assert_eq!(until_ns(&[GRANTED, &ended(300)]).unwrap(), 300);
        assert_eq!(until_ns(&[GRANTED, &ended(1000)]).unwrap(), 900);
        assert!(until_ns(&[&ended(300)]).is_err());
        assert!(until_ns(&[GRANTED, "{"]).is_err());
    }
}
