//! Origin server: its address and time-outs, and the connections to it, which requests share.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use anyhow::Context;
use hyper::body::Incoming;
use hyper::http::uri::PathAndQuery;
use hyper::http::uri::Scheme;
use hyper::Request;
use hyper::Response;
use hyper::StatusCode;
use hyper::Uri;
use hyper_util::client::legacy;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioTimer;
use quiche::path_state::PrefixLengths;
use tokio::runtime;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::admission::connection_limits::subnet_of;
use crate::admission::thread_priority;
use crate::config::file::OriginRule;
use crate::content::origin::connector::OriginConnector;
use crate::content::origin::error::OriginError;
use crate::content::origin::upload::OriginContent;
use crate::content::origin::vacancies::OriginPermit;
use crate::content::origin::vacancies::OriginVacancies;
use crate::http::body_stream::StreamMonitor;
use crate::http::request;
use crate::http::request::FieldLine;

/// Time-outs of a rule that names none, in seconds: less than the idle time-out of a QUIC connection, so that
/// clients get the error.
const CONNECT_SECONDS: u32 = 5;
const HEADER_SECONDS: u32 = 20;
const BODY_SECONDS: u32 = 20;

/// The longest time-out that a rule may name, in seconds.
const SECONDS_MAX: u32 = 3600;

/// Requests that an origin may have at a time by default, and at most.
const REQUESTS: u32 = 512;
const REQUESTS_MAX: u32 = 65_536;

/// The most bytes of a request's content by default.
const CONTENT_BYTES_MAX: u64 = 1 << 30;

/// How long a connection without a request is kept, and how many are.
const IDLE_TIME: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS_MAX: usize = 64;

/// Largest header section of a response, in bytes (RFC 9114, 4.2.2): with fields that are added, clients of
/// later versions take it.
const FIELDS_BYTES_MAX: usize = 12 << 10;

/// Largest read from an origin, in bytes.
const READ_BYTES_MAX: usize = 64 << 10;

/// The process has one thread for so many processors, and at most so many threads.
const PROCESSORS_PER_THREAD: usize = 2;
const THREADS_MAX: usize = 8;

/// Threads of all origins, which a reload keeps.
static RUNTIME: Mutex<Option<&'static Runtime>> = Mutex::new(None);

/// Client of one origin.
#[derive(Debug)]
pub struct OriginServer {
    scheme: Scheme,
    authority: String,
    client: Client<OriginConnector, OriginContent>,
    pub runtime: &'static Runtime,

    vacancies: Arc<OriginVacancies>,

    /// Those of subnets whose requests are counted together.
    prefix_lengths: PrefixLengths,
    header_time: Duration,
    pub body_time: Duration,
    pub content_bytes_max: u64,
}

impl OriginServer {
    /// Returns the client of the origin that a rule names.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(rule: &OriginRule, prefix_lengths: PrefixLengths) -> anyhow::Result<Self> {
        let OriginRule { url, connect_timeout, header_timeout, body_timeout, .. } = rule;
        let (scheme, authority) = place_of(url)?;
        let has_tls = scheme == Scheme::HTTPS;
        ensure!(has_tls || rule.ca.is_none(), "origin: ca is for https; leave it out");
        let connect_time = time("connect-timeout", *connect_timeout, CONNECT_SECONDS)?;
        let header_time = time("header-timeout", *header_timeout, HEADER_SECONDS)?;
        let body_time = time("body-timeout", *body_timeout, BODY_SECONDS)?;
        let content_bytes_max = rule.content_bytes_max.unwrap_or(CONTENT_BYTES_MAX);
        let requests_max = rule.requests_max.unwrap_or(REQUESTS);
        ensure!(
            (1..=REQUESTS_MAX).contains(&requests_max),
            "origin: requests-max = {requests_max}: write 1 to {REQUESTS_MAX}"
        );
        let runtime = runtime().context("cannot start threads for origins")?;
        let connector = OriginConnector::new(&scheme, rule.ca.as_deref(), connect_time)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(READ_BYTES_MAX)
            .build(connector);
        let vacancies = Arc::new(OriginVacancies::new(requests_max as usize));
        Ok(Self {
            scheme,
            authority,
            client,
            runtime,
            vacancies,
            prefix_lengths,
            header_time,
            body_time,
            content_bytes_max,
        })
    }

    /// Takes a vacancy for a client, if there is one.
    pub fn take_vacancy(&self, client: IpAddr) -> Option<OriginPermit> {
        self.vacancies.try_take(subnet_of(client, self.prefix_lengths))
    }

    /// Returns where the origin has a target: an encoded path and a query.
    ///
    /// # Errors
    ///
    /// It is no target of HTTP/1.1.
    pub fn uri(&self, target: &str) -> Result<Uri, hyper::http::Error> {
        let target: PathAndQuery = target.parse()?;
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.as_str());
        uri.path_and_query(target).build()
    }

    /// Sends a request, and returns the response once it has begun. A request on a connection that
    /// ends before is sent once more if it changes nothing (RFC 9110, 9.2.2).
    ///
    /// # Errors
    ///
    /// There is no response.
    pub async fn fetch(
        &self,
        request: Request<OriginContent>,
    ) -> Result<Response<Incoming>, OriginError> {
        let (again, monitor) = (repetition(&request), request.body().monitor());
        let fetching = async {
            match (self.client.request(request).await, again) {
                (Err(e), Some(again)) if has_ended(&e) => self.client.request(again).await,
                (result, _) => result,
            }
        };
        let fetched = self.in_time(fetching, monitor).await.ok_or(OriginError::Timeout)?;
        let response = fetched.map_err(|e| error(&e))?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                Err(OriginError::Malformed("101, which was not asked for".to_owned()))
            }
            _ if section_bytes(&response) > FIELDS_BYTES_MAX => Err(OriginError::Malformed(
                format!("a header of more than {FIELDS_BYTES_MAX} bytes"),
            )),
            _ => Ok(response),
        }
    }

    /// Waits for a response, as long as content moves, or its client has to send more of it. The
    /// header's time begins then.
    async fn in_time<T>(
        &self,
        fetching: impl Future<Output = T>,
        monitor: Option<StreamMonitor>,
    ) -> Option<T> {
        let mut fetching = pin!(fetching);
        let look = || monitor.as_ref().map(StreamMonitor::progress);
        let mut before = look();
        loop {
            if let Ok(fetched) = timeout(self.header_time, &mut fetching).await {
                return Some(fetched);
            }
            let now = look()?;
            let awaits_client = now.is_empty && !now.is_ended;
            if !awaits_client && before == Some(now) {
                return None;
            }
            before = Some(now);
        }
    }
}

/// Returns a request to be sent once more, if it is safe and without content.
fn repetition(request: &Request<OriginContent>) -> Option<Request<OriginContent>> {
    if !request.body().is_none() || !request.method().is_safe() {
        return None;
    }
    let mut again = Request::new(OriginContent::default());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

/// Returns the size of a header section, in bytes.
fn section_bytes(response: &Response<Incoming>) -> usize {
    let lines = response.headers().iter();
    let lines = lines
        .map(|(name, value)| FieldLine { name: name.as_str().as_bytes(), value: value.as_bytes() });
    request::section_bytes(lines)
}

/// Returns the threads of all origins.
fn runtime() -> io::Result<&'static Runtime> {
    let mut shared = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = *shared {
        return Ok(runtime);
    }
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads((processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX))
        .thread_name("origin")
        .on_thread_start(|| thread_priority::lower(thread_priority::BELOW_EVENT_LOOPS))
        .enable_all()
        .build()?;
    Ok(*shared.insert(Box::leak(Box::new(runtime))))
}

/// Returns scheme, and host and port, of a URL.
fn place_of(url: &str) -> anyhow::Result<(Scheme, String)> {
    let uri: Option<Uri> = url.parse().ok();
    let parts = uri.map(Uri::into_parts).unwrap_or_default();
    let scheme = parts.scheme.filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
    let is_root = parts.path_and_query.as_ref().is_none_or(|path| path == "/");
    let authority = parts.authority.filter(|authority| !authority.as_str().contains('@'));
    let authority = authority.filter(|authority| !authority.host().is_empty());
    let authority = authority.filter(|_| is_root && !url.contains('#'));
    let place = scheme.zip(authority.map(|authority| authority.to_string()));
    place.with_context(|| format!("origin: url = '{url}': write http://host:port or https://host"))
}

fn time(key: &str, seconds: Option<u32>, default: u32) -> anyhow::Result<Duration> {
    let seconds = seconds.unwrap_or(default);
    let is_valid = (1..=SECONDS_MAX).contains(&seconds);
    ensure!(is_valid, "origin: {key} = {seconds}: write 1 to {SECONDS_MAX} seconds");
    Ok(Duration::from_secs(seconds.into()))
}

/// Returns whether the connection has ended before a response: an origin may end one that it has not
/// needed for a while just when it is needed.
fn has_ended(error: &legacy::Error) -> bool {
    let is_reset = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
    };
    !error.is_connect()
        && causes(error).any(|cause| {
            cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
                || cause.downcast_ref().is_some_and(is_reset)
        })
}

fn error(error: &legacy::Error) -> OriginError {
    let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
    let why = causes(error).last().map_or_else(|| error.to_string(), ToString::to_string);
    let of_kind = |kind| move |error: &io::Error| error.kind() == kind;
    let is_of = |kind| causes(error).any(|cause| cause.downcast_ref().is_some_and(of_kind(kind)));
    let is_too_long = is_of(io::ErrorKind::FileTooLarge);
    let is_user = |error: &hyper::Error| error.is_user();
    if causes(error).any(|cause| cause.downcast_ref().is_some_and(is_user)) {
        return OriginError::Content { is_too_long };
    }
    match error.is_connect() {
        true if causes(error).any(|cause| cause.downcast_ref().is_some_and(is_late)) => {
            OriginError::Timeout
        }
        true => OriginError::Unreachable(why),
        false => OriginError::Malformed(why),
    }
}

fn causes<'a>(error: &'a legacy::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| (*cause).source())
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

    #[test]
    fn target_is_put_behind_the_address() {
        let rule: OriginRule = toml::from_str("url = 'http://[::1]:8080/'").unwrap();
        let origin = OriginServer::new(&rule, LENGTHS).unwrap();
        assert_eq!(origin.uri("/a%20b?c=d").unwrap(), "http://[::1]:8080/a%20b?c=d");
    }
}
