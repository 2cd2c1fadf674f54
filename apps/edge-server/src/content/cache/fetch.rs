//! Fetch of a response that is not there: by one request for all that wait for it, or by each for itself.

use std::net::IpAddr;
use std::sync::Arc;

use http_body::Body as _;
use hyper::body::Incoming;
use hyper::header::HeaderName;
use hyper::header::AGE;
use hyper::header::AUTHORIZATION;
use hyper::header::CACHE_CONTROL;
use hyper::header::CONTENT_LENGTH;
use hyper::header::COOKIE;
use hyper::header::EXPIRES;
use hyper::header::SET_COOKIE;
use hyper::header::TRANSFER_ENCODING;
use hyper::header::VARY;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper::Version;
use log::debug;
use quiche::clock;

use crate::content::cache::answer::CacheAnswer;
use crate::content::cache::counts::CacheResult;
use crate::content::cache::directives::CacheDirectives;
use crate::content::cache::disk_fetch;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::entry::ReceivedHead;
use crate::content::cache::fill::Fill;
use crate::content::cache::flight::FlightLead;
use crate::content::cache::flight::FlightResult;
use crate::content::cache::flight::FlightSeat;
use crate::content::cache::freshness::ExchangeTimes;
use crate::content::cache::revalidation;
use crate::content::cache::rules::CacheSettings;
use crate::content::cache::status::CacheStatus;
use crate::content::cache::status::ForwardReason;
use crate::content::cache::storability;
use crate::content::cache::storability::Credentials;
use crate::content::cache::store::ResponseCache;
use crate::content::cache::usability::usability;
use crate::content::cache::usability::Usability;
use crate::content::cache::vary;
use crate::content::cache::vary::SelectingFields;
use crate::content::origin::delivery::deliver;
use crate::content::origin::error::OriginError;
use crate::content::origin::error::OriginOutcome;
use crate::content::origin::fields::from_origin;
use crate::content::origin::fields::leaves_out;
use crate::content::origin::reply::ForwardReply;
use crate::content::origin::reply::OriginResult;
use crate::content::origin::server::OriginResponse;
use crate::content::origin::server::OriginServer;
use crate::content::origin::upload::OriginContent;
use crate::content::origin::vacancies::OriginPermit;
use crate::http::shared_body::SharedBody;

/// Statuses of an origin that fails (RFC 5861, 4).
const FAILURES: [u16; 4] = [500, 502, 503, 504];

/// Fields that say who may get a response, and for how long.
const RULES: [HeaderName; 6] =
    [CACHE_CONTROL, HeaderName::from_static("cdn-cache-control"), EXPIRES, SET_COOKIE, VARY, AGE];

/// Who gets the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchMode {
    /// All who wait for the same.
    Shared,

    /// The request alone: a moment ago, the response could not be kept.
    Own,

    /// The request alone, as it has no content.
    Head,
}

/// A response to be fetched, and kept if that is allowed.
#[derive(Clone, Debug)]
pub struct CacheFetch {
    pub cache: Arc<ResponseCache>,
    pub settings: Arc<CacheSettings>,
    pub key: Arc<str>,
    pub mode: FetchMode,
    pub reason: ForwardReason,

    /// What is kept, and is to be validated.
    pub kept: Option<Arc<CachedResponse>>,

    /// What the client says of caching.
    pub directives: CacheDirectives,
}

/// Response of an origin that has begun.
struct Fetched {
    head: ReceivedHead,
    response: OriginResponse,
    permit: OriginPermit,
}

impl Fetched {
    /// Ends a response without content.
    fn into_head(self: Box<Self>) -> ReceivedHead {
        self.response.exchange.complete();
        OriginOutcome::Complete.count();
        self.head
    }
}

/// Where and for whom a response is fetched.
#[derive(Clone)]
pub struct FetchSource {
    pub origin: Arc<OriginServer>,
    pub client: IpAddr,
}

impl CacheFetch {
    /// Returns whether it is for one request alone, and ends with its client.
    pub fn is_own(&self) -> bool {
        self.mode != FetchMode::Shared
    }

    /// Fetches the response to a request.
    ///
    /// # Errors
    ///
    /// There is none, not even a stale one.
    pub async fn run(
        self,
        source: FetchSource,
        mut request: Request<OriginContent>,
    ) -> OriginResult {
        vary::normalize(request.headers_mut());
        if self.is_own() {
            return self.fetch_own(&source, request).await;
        }
        let receiver = match self.cache.flights.join(&self.key) {
            FlightSeat::Leader(lead) => return self.lead(lead, &source, request).await,
            FlightSeat::Follower(receiver) => receiver,
        };
        match receiver.await {
            Ok(FlightResult::Failed(error)) => Err(error),
            Ok(FlightResult::Landed(response, status))
                if response.selecting.match_request(request.headers()) =>
            {
                let status =
                    CacheStatus { forward: Some(self.reason), is_collapsed: true, ..status };
                match CacheAnswer::new(response, status) {
                    Some(answer) => {
                        CacheResult::Collapsed.count();
                        Ok(ForwardReply::Cached(answer))
                    }
                    None => self.fetch_own(&source, request).await,
                }
            }
            _ => self.fetch_own(&source, request).await,
        }
    }

    /// Fetches the response for all who wait for it.
    async fn lead(
        mut self,
        lead: FlightLead,
        source: &FetchSource,
        request: Request<OriginContent>,
    ) -> OriginResult {
        // Another flight may have landed since the request was looked up.
        let (found, _) = self.cache.get(&self.key, request.headers());
        if let Some(answer) = found.and_then(|found| self.arrived_meanwhile(found)) {
            return Ok(land(Some(lead), answer));
        }
        if self.kept.is_none() {
            self.kept =
                disk_fetch::read(&self.cache, &self.settings, &self.key, request.headers()).await;
            if self.kept.is_some() {
                self.reason = ForwardReason::Stale;
            }
            if let Some(answer) = self.fresh_from_disk() {
                return Ok(land(Some(lead), answer));
            }
            if self.kept.is_some() && self.reason == ForwardReason::UriMiss {
                self.reason = ForwardReason::Stale;
            }
        }
        let fetched = match self.fetch_shared(source, &request).await {
            Ok(fetched) => fetched,
            Err(error) => return self.on_failure(Some(lead), error),
        };
        if fetched.head.status == 304 {
            let answer = self.freshen(fetched.into_head(), &request, || !lead.is_outdated())?;
            return Ok(self.land_if_fresh(lead, answer));
        }
        if FAILURES.contains(&fetched.head.status) {
            if let Some(answer) = self.stale(false, Some(fetched.head.status)) {
                return Ok(land(Some(lead), answer));
            }
        }
        let fetched = match self.keep(fetched, &request, || !lead.is_outdated(), source) {
            Ok(answer) => return Ok(self.land_if_fresh(lead, answer)),
            Err(fetched) => fetched,
        };
        // An origin that fails needs no rush.
        if !FAILURES.contains(&fetched.head.status) {
            self.cache.note_unshared(&self.key, clock::now());
        }
        drop(lead);
        self.forget_older(fetched.head.status);
        match revalidation::has_conditions(request.headers()) {
            // Its client wants a part, or has it.
            true => {
                drop(fetched);
                self.fetch_own(source, request).await
            }
            false => Ok(self.deliver(fetched, request.method(), source)),
        }
    }

    /// Returns the answer with a response that has come since the request was looked up.
    fn arrived_meanwhile(&self, found: Arc<CachedResponse>) -> Option<CacheAnswer> {
        let is_known = self.kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, &found));
        let now = clock::wall_now();
        let is_fresh = found.freshness.staleness(now).is_none() && !found.freshness.is_unvalidated;
        let is_usable = !is_known && is_fresh && self.reason != ForwardReason::Request;
        let answer = CacheAnswer::new(found, CacheStatus::default()).filter(|_| is_usable)?;
        CacheResult::Hit.count();
        Some(answer)
    }

    /// Returns the answer with what is kept, if that may be used as it is.
    fn fresh_from_disk(&self) -> Option<CacheAnswer> {
        let kept = self.kept.as_ref()?;
        let usability = usability(&kept.freshness, &self.directives, clock::wall_now());
        let is_fresh = matches!(usability, Usability::Usable | Usability::MaxStale);
        let answer = CacheAnswer::new(Arc::clone(kept), CacheStatus::default());
        let answer = answer.filter(|_| is_fresh)?;
        CacheResult::Hit.count();
        Some(answer)
    }

    /// Sends the request without the conditions of its client, and with those of what is kept.
    async fn fetch_shared(
        &self,
        source: &FetchSource,
        request: &Request<OriginContent>,
    ) -> Result<Box<Fetched>, OriginError> {
        let mut shared = copy_of(request);
        revalidation::remove_conditions(shared.headers_mut());
        let whole = copy_of(&shared);
        let kept = self.kept.as_deref();
        let has_validators =
            kept.is_some_and(|kept| revalidation::add_validators(shared.headers_mut(), kept));
        let fetched = source.fetch(shared).await?;
        let is_about = |kept| revalidation::is_about(&fetched.head.fields, kept);
        if fetched.head.status != 304 || has_validators && kept.is_some_and(is_about) {
            return Ok(fetched);
        }
        // It is about something else.
        drop(fetched);
        let fetched = source.fetch(whole).await?;
        match fetched.head.status {
            304 => Err(OriginError::Malformed("a 304 that nobody has asked for".to_owned())),
            _ => Ok(fetched),
        }
    }

    /// Has others get a response that they could get a moment later, too. One that is to be validated for
    /// each may be for one client.
    fn land_if_fresh(&self, lead: FlightLead, answer: CacheAnswer) -> ForwardReply {
        if answer.response.freshness.is_for_all() && answer.status.is_stored {
            return land(Some(lead), answer);
        }
        self.cache.note_unshared(&self.key, clock::now());
        drop(lead);
        ForwardReply::Cached(answer)
    }

    /// Has the response that a 304 is about kept on, and returns the answer with it. The 304 may say that it
    /// is no longer for everybody.
    fn freshen(
        &self,
        head: ReceivedHead,
        request: &Request<OriginContent>,
        is_current: impl Fn() -> bool,
    ) -> Result<CacheAnswer, OriginError> {
        let gone = || OriginError::Malformed("a 304 about nothing that is kept".to_owned());
        let Self { cache, settings, key, .. } = self;
        let kept = self.kept.as_ref().ok_or_else(gone)?;
        let lacks_rules = head.lacks_rules;
        let mut freshened = kept.freshened(head, settings);
        let is_storable = |credentials| {
            !lacks_rules
                && storability::is_storable(
                    freshened.status,
                    &freshened.fields,
                    credentials,
                    settings,
                )
        };
        let selecting = SelectingFields::of(&freshened.fields, request.headers())
            .filter(|_| is_storable(Credentials::default()));
        let is_own = self.directives.has("no-store") || !is_storable(credentials_of(request));
        if selecting.as_ref() != Some(&kept.selecting) {
            cache.forget(key, kept);
        }
        let mut is_stored = selecting.is_some() && !is_own;
        freshened.selecting = selecting.unwrap_or_default();
        let freshened = Arc::new(freshened);
        if is_stored {
            cache.insert(key, &freshened);
            is_stored = is_current();
            if !is_stored {
                cache.remove(key, &freshened);
            }
        }
        let forward_status = Some(304);
        let status =
            CacheStatus { forward_status, is_stored, ..CacheStatus::forwarded(self.reason) };
        let answer = CacheAnswer::new(freshened, status).ok_or_else(gone)?;
        CacheResult::Revalidated.count();
        Ok(answer)
    }

    /// Fetches the response for one request alone, and keeps it if that has become possible.
    async fn fetch_own(
        &self,
        source: &FetchSource,
        request: Request<OriginContent>,
    ) -> OriginResult {
        let generation = self.cache.generation();
        let is_current = || self.cache.generation() == generation;
        let has_conditions = revalidation::has_conditions(request.headers());
        let validates = self.mode != FetchMode::Head && self.kept.is_some() && !has_conditions;
        let fetched = match validates {
            true => self.fetch_shared(source, &request).await,
            false => source.fetch(copy_of(&request)).await,
        };
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(error) => return self.on_failure(None, error),
        };
        if validates && fetched.head.status == 304 {
            return Ok(ForwardReply::Cached(self.freshen(
                fetched.into_head(),
                &request,
                is_current,
            )?));
        }
        if FAILURES.contains(&fetched.head.status) {
            if let Some(answer) = self.stale(false, Some(fetched.head.status)) {
                return Ok(ForwardReply::Cached(answer));
            }
        }
        match self.keep(fetched, &request, is_current, source) {
            Ok(answer) => {
                if answer.response.freshness.is_for_all() {
                    self.cache.note_shared(&self.key);
                }
                Ok(ForwardReply::Cached(answer))
            }
            Err(fetched) => {
                if self.mode != FetchMode::Head || !self.is_kept_current(&fetched) {
                    self.forget_older(fetched.head.status);
                }
                Ok(self.deliver(fetched, request.method(), source))
            }
        }
    }

    /// Keeps a response, if that is allowed and there is memory, and reads its body.
    fn keep(
        &self,
        fetched: Box<Fetched>,
        request: &Request<OriginContent>,
        is_current: impl Fn() -> bool,
        source: &FetchSource,
    ) -> Result<CacheAnswer, Box<Fetched>> {
        let Self { cache, settings, key, .. } = self;
        let head = &fetched.head;
        let credentials = credentials_of(request);
        let is_storable = !self.directives.has("no-store")
            && !head.lacks_rules
            && tells_its_end(&fetched.response.response)
            && request.method() == Method::GET
            && storability::is_storable(head.status, &head.fields, credentials, settings);
        let selecting = SelectingFields::of(&head.fields, request.headers());
        let purges = cache.disk().map_or(0, |disk| disk.purges());
        let Some(selecting) = selecting.filter(|_| is_storable && is_current()) else {
            return Err(fetched);
        };
        let length = fetched.response.response.body().size_hint().exact();
        let bytes_max = settings.object_bytes_max.min(cache.object_bytes_max());
        let Some(reserved) = cache.reserve(length.unwrap_or(0)) else { return Err(fetched) };
        if length.is_some_and(|length| length > bytes_max) {
            return Err(fetched);
        }
        let (body, writer) = SharedBody::new(length, cache.held());
        let kept = CachedResponse::new(head.clone(), selecting, body, settings);
        if !kept.is_useful() {
            return Err(fetched);
        }
        let kept = Arc::new(kept);
        let status = CacheStatus { is_stored: true, ..CacheStatus::forwarded(self.reason) };
        // The body is new.
        let Some(answer) = CacheAnswer::new(Arc::clone(&kept), status) else { return Err(fetched) };
        cache.insert(key, &kept);
        if !is_current() {
            cache.remove(key, &kept);
        }
        let (cache, key) = (Arc::clone(cache), Arc::clone(key));
        let fill = Fill { cache, key, kept, writer, bytes_max, reserved, purges };
        let Fetched { response, permit, .. } = *fetched;
        tokio::spawn(fill.run(response, source.origin.body_time, permit));
        CacheResult::Miss.count();
        Ok(answer)
    }

    /// Returns a stale response in place of an error, or the error, also for all who wait.
    fn on_failure(&self, lead: Option<FlightLead>, error: OriginError) -> OriginResult {
        if let Some(answer) = self.stale(true, None) {
            return Ok(land(lead, answer));
        }
        // There may be vacancies for the clients of others.
        if let Some(lead) = lead.filter(|_| !matches!(error, OriginError::Busy)) {
            lead.land(&FlightResult::Failed(error.clone()));
        }
        Err(error)
    }

    /// Returns the answer with what is kept, if it may be used as the origin fails (RFC 5861, 4), or
    /// cannot be reached (RFC 9111, 4.2.4).
    fn stale(&self, is_disconnected: bool, forward_status: Option<u16>) -> Option<CacheAnswer> {
        let kept = self.kept.as_ref().filter(|kept| !kept.freshness.must_revalidate)?;
        let staleness = kept.freshness.staleness(clock::wall_now()).unwrap_or_default();
        let time = kept.freshness.if_error;
        if staleness >= time.unwrap_or_else(|| self.settings.stale_time(is_disconnected)) {
            return None;
        }
        let detail = Some("stale-if-error");
        let status = CacheStatus { forward_status, detail, ..CacheStatus::forwarded(self.reason) };
        let answer = CacheAnswer::new(Arc::clone(kept), status)?;
        CacheResult::Stale.count();
        Some(answer)
    }

    /// Returns whether a response to a HEAD may be about what is kept (RFC 9111, 4.3.5).
    fn is_kept_current(&self, fetched: &Fetched) -> bool {
        let Some(kept) = &self.kept else { return false };
        let length = fetched.response.response.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let is_as_long = length.zip(kept.body.length()).is_none_or(|(own, kept)| own == kept);
        is_as_long
            && fetched.head.status == kept.status
            && revalidation::is_about(&fetched.head.fields, kept)
    }

    /// Forgets what is kept, as there is a newer response that is not.
    fn forget_older(&self, status: u16) {
        if let Some(kept) =
            self.kept.as_ref().filter(|_| status < 500 && status != 304 && status != 206)
        {
            self.cache.forget(&self.key, kept);
        }
    }

    /// Passes a response on that is not kept.
    fn deliver(
        &self,
        fetched: Box<Fetched>,
        method: &Method,
        source: &FetchSource,
    ) -> ForwardReply {
        CacheResult::Uncacheable.count();
        let Fetched { response, permit, .. } = *fetched;
        let (mut response, rest) = deliver(method, response);
        let status = CacheStatus::forwarded(self.reason).value(None);
        response.add("cache-status", status);
        response.cache = Some("uncacheable");
        let origin = Arc::clone(&source.origin);
        tokio::spawn(async move {
            let _permit = permit;
            rest.copy(&origin).await.count();
        });
        ForwardReply::Passed(response)
    }
}

impl FetchSource {
    /// Fetches a response, if the origin has a vacancy.
    async fn fetch(&self, request: Request<OriginContent>) -> Result<Box<Fetched>, OriginError> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let sent = clock::wall_now();
        let fetched = match self.origin.take_vacancy(self.client) {
            Some(permit) => self.origin.fetch(request).await.map(|response| (response, permit)),
            None => Err(OriginError::Busy),
        };
        let (response, permit) = fetched.inspect_err(|error| {
            debug!("{method} {uri}: {error}");
            error.outcome().count();
        })?;
        let OriginResponse { response: received, .. } = &response;
        let (fields, date) = from_origin(received.headers(), received.version());
        let head = ReceivedHead {
            status: received.status().as_u16(),
            fields,
            date,
            times: ExchangeTimes { sent, received: clock::wall_now() },
            lacks_rules: leaves_out(received.headers(), &RULES),
        };
        Ok(Box::new(Fetched { head, response, permit }))
    }
}

/// Returns whether a body that is cut off can be told from a whole one: over HTTP/1.1, the end of the
/// connection may be either (RFC 9112, 6.3).
fn tells_its_end(response: &Response<Incoming>) -> bool {
    response.version() == Version::HTTP_2
        || response.body().size_hint().exact().is_some()
        || response.headers().contains_key(TRANSFER_ENCODING)
}

fn credentials_of(request: &Request<OriginContent>) -> Credentials {
    let has = |name| request.headers().contains_key(name);
    Credentials { has_authorization: has(AUTHORIZATION), has_cookie: has(COOKIE) }
}

/// Has all who wait get an answer, too.
fn land(lead: Option<FlightLead>, answer: CacheAnswer) -> ForwardReply {
    if let Some(lead) = lead {
        lead.land(&FlightResult::Landed(Arc::clone(&answer.response), answer.status));
    }
    ForwardReply::Cached(answer)
}

/// Returns the request once more. It has no content.
fn copy_of(request: &Request<OriginContent>) -> Request<OriginContent> {
    let mut copy = Request::new(OriginContent::default());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}
