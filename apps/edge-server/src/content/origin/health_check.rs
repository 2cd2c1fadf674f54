//! Health checks of upstreams: a path that each is asked for now and then.

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;
use std::sync::Arc;
use std::sync::Weak;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use hyper::body::Body as _;
use hyper::header::HeaderValue;
use hyper::header::HOST;
use hyper::header::USER_AGENT;
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::Request;
use hyper::Uri;
use tokio::runtime::Runtime;
use tokio::time::sleep;
use tokio::time::timeout;

use crate::config::file::OriginRule;
use crate::content::origin::attempt::attempt;
use crate::content::origin::pool::IDLE_TIME;
use crate::content::origin::upload::OriginContent;
use crate::content::origin::upstream::Upstream;

/// Seconds between two checks by default, and at most.
const INTERVAL_SECONDS: u32 = 5;
const INTERVAL_SECONDS_MAX: u32 = 3600;

/// The longest time that a check may take.
const CHECK_TIME_MAX: Duration = Duration::from_secs(5);

/// Health check of an origin's upstreams.
#[derive(Clone, Debug)]
pub struct HealthCheck {
    path: PathAndQuery,
    interval: Duration,
}

impl HealthCheck {
    /// Returns the check that a rule asks for.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(rule: &OriginRule) -> anyhow::Result<Option<Self>> {
        let Some(text) = &rule.health_path else {
            let is_alone = rule.health_interval.is_some();
            ensure!(!is_alone, "origin: health-interval is for health-path; set that, too");
            return Ok(None);
        };
        let path = Some(text).filter(|path| path.starts_with('/'));
        let path = path.and_then(|path| path.parse().ok());
        let path = path.with_context(|| format!("origin: health-path = '{text}': write a path"))?;
        let seconds = rule.health_interval.unwrap_or(INTERVAL_SECONDS);
        ensure!(
            (1..=INTERVAL_SECONDS_MAX).contains(&seconds),
            "origin: health-interval = {seconds}: write 1 to {INTERVAL_SECONDS_MAX} seconds"
        );
        Ok(Some(Self { path, interval: Duration::from_secs(seconds.into()) }))
    }
}

/// Looks after an upstream as long as an origin has it: ends idle connections, and checks its health if
/// that is to be.
pub fn look_after(upstream: &Arc<Upstream>, check: Option<HealthCheck>, runtime: &Runtime) {
    let interval = check.as_ref().map_or(IDLE_TIME / 2, |check| check.interval);
    let upstream = Arc::downgrade(upstream);
    runtime.spawn(async move {
        // Servers that start together do not check together, and edge-server --check not at all.
        let part = RandomState::new().build_hasher().finish() as u32;
        sleep(interval.mul_f64(0.5 + 0.5 * f64::from(part) / f64::from(u32::MAX))).await;
        while look_at(&upstream, check.as_ref()).await {
            sleep(interval).await;
        }
    });
}

/// Returns whether an origin still has the upstream.
async fn look_at(upstream: &Weak<Upstream>, check: Option<&HealthCheck>) -> bool {
    let Some(upstream) = upstream.upgrade() else { return false };
    upstream.pool.prune();
    upstream.log_rest();
    if let Some(check) = check {
        let time = check.interval.min(CHECK_TIME_MAX);
        let result = timeout(time, ask(&upstream, &check.path)).await;
        upstream.on_check(result.unwrap_or_else(|_| Err("no response in time".to_owned())));
    }
    true
}

/// Asks for the path.
async fn ask(upstream: &Upstream, path: &PathAndQuery) -> Result<(), String> {
    let head = head(upstream, path).ok_or("it cannot be asked for that path")?;
    let asked = attempt(upstream, head, OriginContent::default(), true).await;
    let (response, lease) = asked.map_err(|e| e.error.to_string())?;
    let status = response.status();
    if response.body().is_end_stream() {
        drop(response);
        lease.release();
    }
    match status.is_success() {
        true => Ok(()),
        false => Err(format!("status {}", status.as_u16())),
    }
}

fn head(upstream: &Upstream, path: &PathAndQuery) -> Option<Parts> {
    let mut parts = upstream.uri.clone().into_parts();
    let host = HeaderValue::from_str(parts.authority.as_ref()?.as_str()).ok()?;
    parts.path_and_query = Some(path.clone());
    let (mut head, ()) = Request::new(()).into_parts();
    head.uri = Uri::from_parts(parts).ok()?;
    head.headers.insert(HOST, host);
    head.headers.insert(USER_AGENT, HeaderValue::from_static("edge-server"));
    Some(head)
}
