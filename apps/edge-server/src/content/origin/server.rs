//! Origin server: its upstreams, its time-outs, and how a request is answered by one of them.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use hyper::body::Body as _;
use hyper::body::Incoming;
use hyper::Request;
use hyper::Response;
use log::debug;
use quiche::clock;
use quiche::path_state::PrefixLengths;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::admission::connection_limits::subnet_of;
use crate::config::file::OriginBalance;
use crate::config::file::OriginRule;
use crate::content::origin::attempt::attempt;
use crate::content::origin::attempt::AttemptError;
use crate::content::origin::attempt::SentExtent;
use crate::content::origin::balance::choose;
use crate::content::origin::error::OriginError;
use crate::content::origin::error::OriginOutcome;
use crate::content::origin::health_check::look_after;
use crate::content::origin::health_check::HealthCheck;
use crate::content::origin::pool::OriginLease;
use crate::content::origin::runtime::runtime;
use crate::content::origin::servers_behind::ServersBehind;
use crate::content::origin::upload::ContentMonitor;
use crate::content::origin::upload::OriginContent;
use crate::content::origin::upstream::Upstream;
use crate::content::origin::upstream::UpstreamRequest;
use crate::content::origin::vacancies::OriginPermit;
use crate::content::origin::vacancies::OriginVacancies;
use crate::http::origin_report::OriginReport;
use crate::http::request;

/// Time-outs of a rule that names none, in seconds: less than the idle time-out of a QUIC connection, so that
/// clients get the error.
const CONNECT_SECONDS: u32 = 5;
pub const HEADER_SECONDS: u32 = 20;
pub const BODY_SECONDS: u32 = 20;

/// The longest time-out that a rule may name, in seconds.
const SECONDS_MAX: u32 = 3600;

/// Requests that an origin may have at a time by default, and at most.
const REQUESTS: u32 = 512;
const REQUESTS_MAX: u32 = 65_536;

/// The most bytes of a request's content by default.
const CONTENT_BYTES_MAX: u64 = 1 << 30;

/// Upstreams of an origin at most.
const UPSTREAMS_MAX: usize = 64;

/// Failures that put an upstream out by default, and at most.
const FAILURES: u32 = 5;
const FAILURES_MAX: u32 = 1000;

/// How often a request is sent to one upstream, and to several, at most.
const ATTEMPTS_OF_ONE: usize = 2;
const ATTEMPTS_OF_SEVERAL: usize = 3;

/// Client of one origin.
#[derive(Debug)]
pub struct OriginServer {
    pub upstreams: Vec<Arc<Upstream>>,
    balance: OriginBalance,

    /// Number of the next request.
    turn: AtomicUsize,
    pub runtime: &'static Runtime,

    vacancies: Arc<OriginVacancies>,
    servers_behind: ServersBehind,

    /// Those of subnets whose requests are counted together.
    prefix_lengths: PrefixLengths,
    header_time: Duration,
    pub body_time: Duration,
    pub content_bytes_max: u64,
}

/// Response of an upstream that has begun.
#[derive(Debug)]
pub struct OriginResponse {
    pub response: Response<Incoming>,
    pub exchange: UpstreamExchange,
}

/// What a response keeps busy until it ends. It is cancelled when this is dropped.
#[derive(Debug)]
pub struct UpstreamExchange {
    lease: OriginLease,
    request: UpstreamRequest,
}

impl UpstreamExchange {
    /// Notes what has come of the body, before its client can have the end.
    pub fn on_received(&self, body: &Incoming) {
        if body.is_end_stream() {
            self.on_end();
        }
    }

    /// Notes that all of the body has come.
    pub fn on_end(&self) {
        self.request.on_whole_response();
    }

    /// Ends it after the whole of the response.
    pub fn complete(self) {
        self.lease.release();
        self.request.end(OriginOutcome::Complete);
    }

    /// Ends it, as the response breaks off.
    pub fn break_off(self, why: &str) {
        self.request.break_off(why);
    }
}

impl OriginServer {
    /// Returns the client of the origin that a rule names.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(rule: &OriginRule, prefix_lengths: PrefixLengths) -> anyhow::Result<Self> {
        let is_https = |url: &String| url.starts_with("https:");
        let has_tls = rule.ca.is_none() || rule.url.iter().all(is_https);
        ensure!(has_tls, "origin: ca is for https; leave it out");
        let connect_time = time("connect-timeout", rule.connect_timeout, CONNECT_SECONDS)?;
        let failures_max = rule.failures_max.unwrap_or(FAILURES);
        within("failures-max", failures_max, FAILURES_MAX)?;
        let requests_max = rule.requests_max.unwrap_or(REQUESTS);
        within("requests-max", requests_max, REQUESTS_MAX)?;
        let count = rule.url.len();
        ensure!(count <= UPSTREAMS_MAX, "origin: url has {count}: write at most {UPSTREAMS_MAX}");
        let twice = rule.url.iter().enumerate().find(|(at, url)| rule.url[..*at].contains(url));
        ensure!(twice.is_none(), "origin: url names '{}' twice", twice.map_or("", |(_, url)| url));
        let upstream = |url: &String| Upstream::new(url, rule, connect_time, failures_max);
        let upstreams = rule.url.iter().map(|url| Ok(Arc::new(upstream(url)?)));
        let upstreams: Vec<_> = upstreams.collect::<anyhow::Result<_>>()?;
        let check = HealthCheck::new(rule)?;
        let runtime = runtime().context("cannot start threads for origins")?;
        upstreams.iter().for_each(|upstream| look_after(upstream, check.clone(), runtime));
        Ok(Self {
            upstreams,
            balance: rule.balance,
            turn: AtomicUsize::new(0),
            runtime,
            vacancies: Arc::new(OriginVacancies::new(requests_max as usize)),
            servers_behind: ServersBehind::default(),
            prefix_lengths,
            header_time: time("header-timeout", rule.header_timeout, HEADER_SECONDS)?,
            body_time: time("body-timeout", rule.body_timeout, BODY_SECONDS)?,
            content_bytes_max: rule.content_bytes_max.unwrap_or(CONTENT_BYTES_MAX),
        })
    }

    /// Returns whether a request comes from a server behind this origin. It must not wait for another request
    /// there, which may wait for this one.
    pub fn is_behind(&self, request: &request::Request<'_>) -> bool {
        self.servers_behind.have_sent(request)
    }

    /// Returns whether an upstream is not out.
    pub fn has_healthy_upstream(&self) -> bool {
        self.upstreams.iter().any(|upstream| upstream.is_healthy())
    }

    /// Takes a vacancy for a client, if there is one.
    pub fn take_vacancy(&self, client: IpAddr) -> Option<OriginPermit> {
        self.vacancies.try_take(subnet_of(client, self.prefix_lengths))
    }

    /// Sends a request, of which the report tells, and returns the response once it has begun. After a failure another upstream
    /// gets the request, if that may be (RFC 9110, 9.2.2).
    ///
    /// # Errors
    ///
    /// There is no response.
    pub async fn fetch(
        &self,
        request: Request<OriginContent>,
        report: &Arc<OriginReport>,
    ) -> Result<OriginResponse, OriginError> {
        report.on_begin(clock::now());
        let current = Mutex::new(None);
        let monitor = request.body().monitor();
        let fetching = self.fetch_anywhere(request, &current, report);
        let fetched = self.in_time(fetching, &monitor).await;
        let current = current.into_inner().unwrap_or_else(PoisonError::into_inner);
        let fetched = fetched.unwrap_or(Err(OriginError::Timeout));
        match (fetched, current) {
            (Ok((response, lease)), Some(request)) => {
                request.on_response();
                self.servers_behind.on_response(response.headers());
                Ok(OriginResponse { response, exchange: UpstreamExchange { lease, request } })
            }
            (Err(error), Some(request)) => {
                request.upstream.log_error(&error);
                request.fail(error.outcome(), &error.to_string());
                Err(error)
            }
            (Err(error), None) => Err(error),
            (Ok(_), None) => Err(OriginError::Malformed("a request is lost".to_owned())),
        }
    }

    /// Tries upstreams until there is a response. The request that one has is the current one.
    async fn fetch_anywhere(
        &self,
        request: Request<OriginContent>,
        current: &Mutex<Option<UpstreamRequest>>,
        report: &Arc<OriginReport>,
    ) -> Result<(Response<Incoming>, OriginLease), OriginError> {
        let (head, mut content) = request.into_parts();
        let monitor = content.monitor();
        let mut tried = Vec::new();
        loop {
            let index = self.choose(&tried, head.uri.path());
            let upstream = &self.upstreams[index];
            let set = |request| {
                let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *current, request)
            };
            set(Some(upstream.begin(report)));
            let is_fresh = !tried.is_empty();
            tried.push(index);
            let failed = match attempt(upstream, head.clone(), content, is_fresh).await {
                Ok(fetched) => return Ok(fetched),
                Err(failed) => failed,
            };
            let method = &head.method;
            debug!("{method} {}: {}: {}", head.uri, upstream.url, failed.error);
            let request = set(None);
            let may_follow =
                failed.extent.allows_another(method) && self.has_another(&failed, &tried);
            note_failure(request, &failed);
            match monitor.again().filter(|_| may_follow) {
                Some(again) => content = again,
                None => {
                    upstream.log_error(&failed.error);
                    return Err(failed.error);
                }
            }
        }
    }

    fn choose(&self, tried: &[usize], path: &str) -> usize {
        let candidates = self.upstreams.iter().enumerate();
        let candidates = candidates.map(|(at, upstream)| upstream.candidate(tried.contains(&at)));
        let candidates: Vec<_> = candidates.collect();
        choose(&candidates, self.balance, path, self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns whether there is another upstream to try, or another connection.
    fn has_another(&self, failed: &AttemptError, tried: &[usize]) -> bool {
        match self.upstreams.len() {
            1 => failed.extent != SentExtent::Unconnected && tried.len() < ATTEMPTS_OF_ONE,
            _ => tried.len() < ATTEMPTS_OF_SEVERAL,
        }
    }

    /// Waits for a response, as long as content moves, or its client has to send more of it. The
    /// header's time begins then.
    async fn in_time<T>(
        &self,
        fetching: impl Future<Output = T>,
        monitor: &ContentMonitor,
    ) -> Option<T> {
        let mut fetching = pin!(fetching);
        let mut before = monitor.progress();
        loop {
            if let Ok(fetched) = timeout(self.header_time, &mut fetching).await {
                return Some(fetched);
            }
            let now = monitor.progress()?;
            let awaits_client = now.is_empty && !now.is_ended;
            if !awaits_client && before == Some(now) {
                return None;
            }
            before = Some(now);
        }
    }
}

/// Notes that an upstream has not responded. An idle connection may end at any time.
fn note_failure(request: Option<UpstreamRequest>, failed: &AttemptError) {
    let Some(request) = request else { return };
    let is_content = matches!(failed.error, OriginError::Content { .. });
    let is_stale = failed.is_reused && failed.extent != SentExtent::Final;
    let is_refused = failed.extent == SentExtent::Unhandled;
    match is_content || is_stale || is_refused {
        true => request.end(failed.error.outcome()),
        false => request.fail(failed.error.outcome(), &failed.error.to_string()),
    }
}

fn time(key: &str, seconds: Option<u32>, default: u32) -> anyhow::Result<Duration> {
    let seconds = seconds.unwrap_or(default);
    let is_valid = (1..=SECONDS_MAX).contains(&seconds);
    ensure!(is_valid, "origin: {key} = {seconds}: write 1 to {SECONDS_MAX} seconds");
    Ok(Duration::from_secs(seconds.into()))
}

fn within(key: &str, value: u32, most: u32) -> anyhow::Result<()> {
    ensure!((1..=most).contains(&value), "origin: {key} = {value}: write 1 to {most}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: PrefixLengths = PrefixLengths { v4: 24, v6: 48 };

    #[test]
    fn error_names_invalid_key() {
        for (toml, named) in [
            ("url = 'http://127.0.0.1:8080'", None),
            ("url = 'http://[::1]:8080/'", None),
            ("url = 'http://app.internal'\nheader-timeout = 3600", None),
            ("url = 'https://a'", None),
            ("url = 'http://a'\nca = '/x'", Some("origin: ca is for https; leave it out")),
            (
                "url = 'https://a'\nca = '/nonexistent'",
                Some("origin: cannot use ca = '/nonexistent'; na"),
            ),
            ("url = 'a:80'", Some("origin: url = 'a:80': write http://host")),
            ("url = 'http://a:0'", Some("origin: url = 'http://a:0': write http://host:port")),
            ("url = 'http://a:99999'", Some("write http://host:port")),
            ("url = 'http://[::1]'", None),
            (
                "url = ['http://a', 'http://b', 'http://a']",
                Some("origin: url names 'http://a' twice"),
            ),
            ("url = 'http://a'\nhttp-version = 2", None),
            ("url = 'http://a'\nhttp-version = 1.1", None),
            ("url = ['http://a', 'https://b:1']", None),
            ("url = ['http://a', 'b']", Some("origin: url = 'b': write http://host")),
            ("url = ['http://a']\nca = '/x'", Some("origin: ca is for https; leave it out")),
            ("url = 'http://a'\nfailures-max = 0", Some("origin: failures-max = 0: write 1 to")),
            ("url = 'http://a'\nhealth-path = '/x?y'\nhealth-interval = 1", None),
            ("url = 'http://a'\nhealth-path = 'x'", Some("origin: health-path = 'x': write a")),
            ("url = 'http://a'\nhealth-interval = 1", Some("health-interval is for health-path")),
            ("url = 'http://a'\nhealth-path = '/'\nhealth-interval = 0", Some("write 1 to 3600 s")),
            ("url = ''", Some("origin: url = '': write http://host")),
            ("url = 'http://a/b'", Some("write http://host")),
            ("url = 'http://a/?b'", Some("write http://host")),
            ("url = 'http://a#b'", Some("write http://host")),
            ("url = 'http://u:p@a'", Some("write http://host")),
            ("url = 'ftp://a'", Some("write http://host")),
            ("url = 'http://a'\nconnect-timeout = 0", Some("origin: connect-timeout = 0: write 1")),
            ("url = 'http://a'\nheader-timeout = 3601", Some("origin: header-timeout = 3601")),
            ("url = 'http://a'\nbody-timeout = 0", Some("origin: body-timeout = 0: write 1 to")),
            ("url = 'http://a'\nrequests-max = 0", Some("origin: requests-max = 0: write 1 to")),
        ] {
            let rule: OriginRule = toml::from_str(toml).unwrap();
            let error = OriginServer::new(&rule, LENGTHS).err().map(|e| format!("{e:#}"));
            match (&error, named) {
                (None, None) => (),
                (Some(error), Some(named)) => {
                    assert!(error.contains(named) && !error.contains('\n'), "{toml}: {error}");
                }
                _ => panic!("{toml}: {error:?}"),
            }
        }
    }
}
