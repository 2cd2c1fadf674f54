//! Fetch of a response that is not there: by one request for all that wait for it, or by each for itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http_body::Body as _;
use hyper::header::HeaderValue;
use hyper::header::CONTENT_LENGTH;
use hyper::header::RANGE;
use hyper::Method;
use hyper::Request;
use quiche::clock;

use crate::content::cache::answer::CacheAnswer;
use crate::content::cache::counts::CacheResult;
use crate::content::cache::directives::CacheDirectives;
use crate::content::cache::disk_fetch;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::entry::ReceivedHead;
use crate::content::cache::fetch_source::credentials_of;
use crate::content::cache::fetch_source::tells_its_end;
use crate::content::cache::fetch_source::FetchSource;
use crate::content::cache::fetch_source::Fetched;
use crate::content::cache::fill::Fill;
use crate::content::cache::flight::FlightLead;
use crate::content::cache::flight::FlightResult;
use crate::content::cache::flight::FlightSeat;
use crate::content::cache::invalidation_log::InvalidationMark;
use crate::content::cache::revalidation;
use crate::content::cache::rules::CacheSettings;
use crate::content::cache::slices::WantedSlice;
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
use crate::content::origin::reply::ForwardReply;
use crate::content::origin::reply::OriginResult;
use crate::content::origin::upload::OriginContent;
use crate::http::shared_body::SharedBody;

/// Statuses of an origin that fails (RFC 5861, 4).
const FAILURES: [u16; 4] = [500, 502, 503, 504];

/// Statuses with which an origin refuses a request for what else that has (RFC 9110, 15.5; RFC 6585).
const REFUSALS: [u16; 10] = [400, 406, 408, 413, 414, 416, 417, 421, 429, 431];

/// A fetch in a task of its own, which another one has begun.
type BoxedFetch = Pin<Box<dyn Future<Output = OriginResult> + Send>>;

/// Who gets the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchMode {
    /// All who wait for the same.
    Shared,

    /// The request alone: a moment ago, the response could not be kept, or it may be for one user.
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

    /// Whether it is for later requests, and counts as none.
    pub is_background: bool,
}

impl CacheFetch {
    /// Returns whether it is for one request alone, and ends with its client.
    pub fn is_own(&self) -> bool {
        self.mode != FetchMode::Shared
    }

    /// Returns one that does not wait for others.
    pub fn alone(self) -> Self {
        let mode = if self.mode == FetchMode::Shared { FetchMode::Own } else { self.mode };
        Self { mode, ..self }
    }

    /// Returns one for later requests, as a response is stale.
    pub fn in_background(&self) -> Self {
        Self { mode: FetchMode::Shared, is_background: true, ..self.clone() }
    }

    /// Returns whether the client wants what is kept or nothing (RFC 9111, 5.2.1.7).
    pub fn wants_kept(&self) -> bool {
        self.directives.has("only-if-cached")
    }

    /// Counts the request.
    pub fn count(&self, result: CacheResult) {
        if !self.is_background {
            result.count();
        }
    }

    /// Fetches the response to a request.
    ///
    /// # Errors
    ///
    /// There is none, not even a stale one.
    pub async fn run(
        mut self,
        source: FetchSource,
        mut request: Request<OriginContent>,
    ) -> OriginResult {
        vary::normalize(request.headers_mut());
        let is_background = self.is_background;
        let result = match self.answer_with_kept(&source, &request).await {
            Ok(Some(answer)) => Ok(ForwardReply::Cached(answer)),
            Ok(None) => self.fetch(source, request).await,
            Err(error) => Err(error),
        };
        if result.is_err() && !is_background {
            CacheResult::Failed.count();
        }
        result
    }

    /// Fetches the response, as what is kept may not be used.
    pub async fn fetch(
        mut self,
        source: FetchSource,
        mut request: Request<OriginContent>,
    ) -> OriginResult {
        if self.is_background {
            // Later requests are not for a part of it, nor for its head alone.
            *request.method_mut() = Method::GET;
            revalidation::remove_conditions(request.headers_mut());
        }
        if self.wants_kept() && !self.is_background {
            let found = self.find_on_disk(&source, &request).await?;
            return found.map(ForwardReply::Cached).ok_or(OriginError::NotKept);
        }
        if let Some(answer) = self.stale_at_once(&source, &request).await {
            return Ok(ForwardReply::Cached(answer));
        }
        if self.is_own() {
            if let Some(answer) = self.find_on_disk(&source, &request).await? {
                return Ok(ForwardReply::Cached(answer));
            }
            return self.fetch_own(&source, request).await;
        }
        let receiver = match self.cache.flights.join(&self.key, &self.cache.invalidations) {
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
                match self.answer(&source, &request, response, status).await? {
                    Some(answer) => {
                        self.count(CacheResult::Collapsed);
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
        if let Some(answer) = self.arrived_meanwhile(source, &request).await? {
            return Ok(land(Some(lead), answer));
        }
        if let Some(answer) = self.find_on_disk(source, &request).await? {
            return Ok(land(Some(lead), answer));
        }
        let wanted = self.wanted_slice(&request);
        let mut fetched = match self.fetch_shared(source, &request, wanted).await {
            Ok(fetched) => fetched,
            Err(error) => return self.on_failure(Some(lead), error, source, &request).await,
        };
        if fetched.head.status == 304 {
            let head = fetched.into_head();
            if let Some(answer) = self.freshen(head, source, &request, lead.mark()).await? {
                let is_shared = answer.status.is_stored;
                return Ok(self.land_if_fresh(lead, answer, is_shared));
            }
            // Its slices are those of another response.
            self.kept = None;
            fetched = self.fetch_shared(source, &request, wanted).await?;
        }
        if let Some(wanted) = wanted.filter(|_| [206, 416].contains(&fetched.head.status)) {
            if let Some(answer) = self.keep_sliced(fetched, wanted, &request, lead.mark(), source) {
                return Ok(self.land_if_fresh(lead, answer, true));
            }
            self.cache.note_unsliced(&self.key, clock::now());
            fetched = self.fetch_shared(source, &request, None).await?;
        }
        if FAILURES.contains(&fetched.head.status) {
            let status = Some(fetched.head.status);
            if let Some(answer) = self.stale(false, status, source, &request).await {
                return Ok(land(Some(lead), answer));
            }
        }
        let fetched = match self.keep(fetched, &request, lead.mark(), source) {
            // What was purged meanwhile is for those that asked before.
            Ok(answer) => return Ok(self.land_if_fresh(lead, answer, true)),
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
    async fn arrived_meanwhile(
        &self,
        source: &FetchSource,
        request: &Request<OriginContent>,
    ) -> Result<Option<CacheAnswer>, OriginError> {
        let (found, _) = self.cache.get(&self.key, request.headers());
        let Some(found) = found else { return Ok(None) };
        let is_known = self.kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, &found));
        let now = clock::wall_now();
        let is_fresh = found.freshness.staleness(now).is_none() && !found.freshness.is_unvalidated;
        let is_usable = !is_known && is_fresh && self.reason != ForwardReason::Request;
        if !is_usable {
            return Ok(None);
        }
        let answer = self.answer(source, request, found, CacheStatus::default()).await?;
        answer.iter().for_each(|_| self.count(CacheResult::Hit));
        Ok(answer)
    }

    /// Reads what is on disk, if nothing is in memory. Returns the answer with it, if it may be used as it is.
    async fn find_on_disk(
        &mut self,
        source: &FetchSource,
        request: &Request<OriginContent>,
    ) -> Result<Option<CacheAnswer>, OriginError> {
        if self.kept.is_some() {
            return Ok(None);
        }
        let headers = request.headers();
        self.kept = disk_fetch::read(&self.cache, &self.settings, &self.key, headers).await;
        let Some(kept) = self.kept.clone() else { return Ok(None) };
        self.reason = ForwardReason::Stale;
        if self.wants_kept() && kept.slices.is_some() {
            return Ok(None);
        }
        let usability = usability(&kept.freshness, &self.directives, clock::wall_now());
        if !matches!(usability, Usability::Usable | Usability::MaxStale) {
            return Ok(None);
        }
        let answer = self.answer(source, request, kept, CacheStatus::default()).await?;
        match answer {
            Some(_) => self.count(CacheResult::Hit),
            None => (self.kept, self.reason) = (None, ForwardReason::UriMiss),
        }
        Ok(answer)
    }

    /// Sends the request without the conditions of its client, and with those of what is kept. The origin may
    /// be asked for a slice.
    async fn fetch_shared(
        &self,
        source: &FetchSource,
        request: &Request<OriginContent>,
        wanted: Option<WantedSlice>,
    ) -> Result<Box<Fetched>, OriginError> {
        let mut shared = copy_of(request);
        revalidation::remove_conditions(shared.headers_mut());
        let whole = copy_of(&shared);
        let kept = self.kept.as_deref();
        let has_validators =
            kept.is_some_and(|kept| revalidation::add_validators(shared.headers_mut(), kept));
        let range = wanted.and_then(|wanted| HeaderValue::from_str(&wanted.range_field()).ok());
        shared.headers_mut().extend(range.map(|range| (RANGE, range)));
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
    fn land_if_fresh(
        &self,
        lead: FlightLead,
        answer: CacheAnswer,
        is_shared: bool,
    ) -> ForwardReply {
        if answer.response.freshness.is_for_all() && is_shared {
            return land(Some(lead), answer);
        }
        self.cache.note_unshared(&self.key, clock::now());
        drop(lead);
        ForwardReply::Cached(answer)
    }

    /// Has the response that a 304 is about kept on, and returns the answer with it. The 304 may say that it
    /// is no longer for everybody.
    async fn freshen(
        &self,
        head: ReceivedHead,
        source: &FetchSource,
        request: &Request<OriginContent>,
        mark: InvalidationMark,
    ) -> Result<Option<CacheAnswer>, OriginError> {
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
        let is_own =
            self.directives.has("no-store") || !is_storable(credentials_of(request.headers()));
        if selecting.as_ref() != Some(&kept.selecting) {
            cache.forget(key, kept);
        }
        let is_storable = selecting.is_some() && !is_own;
        freshened.selecting = selecting.unwrap_or_default();
        let freshened = Arc::new(freshened);
        let disk_mark = cache.disk().map(|disk| disk.mark(key));
        let is_stored = is_storable
            && cache.invalidations.is_current(mark, key, kept.tags())
            && cache.insert_if_current(key, &freshened, mark);
        if let Some(mark) = disk_mark.filter(|_| is_stored) {
            disk_fetch::rewrite(cache, key, &freshened, mark);
        }
        let forward_status = Some(304);
        let status =
            CacheStatus { forward_status, is_stored, ..CacheStatus::forwarded(self.reason) };
        let is_sliced = freshened.slices.is_some();
        let answer = self.answer(source, request, freshened, status).await?;
        if answer.is_none() && !is_sliced {
            return Err(gone());
        }
        answer.iter().for_each(|_| self.count(CacheResult::Revalidated));
        Ok(answer)
    }

    /// Fetches the response for one request alone, and keeps it if that has become possible.
    async fn fetch_own(
        &self,
        source: &FetchSource,
        request: Request<OriginContent>,
    ) -> OriginResult {
        let mark = self.cache.invalidations.mark(&self.key);
        let has_conditions = revalidation::has_conditions(request.headers());
        let validates = self.mode != FetchMode::Head && self.kept.is_some() && !has_conditions;
        let fetched = match validates {
            true => self.fetch_shared(source, &request, None).await,
            false => source.fetch(copy_of(&request)).await,
        };
        let mut fetched = match fetched {
            Ok(fetched) => fetched,
            Err(error) => return self.on_failure(None, error, source, &request).await,
        };
        if validates && fetched.head.status == 304 {
            let head = fetched.into_head();
            if let Some(answer) = self.freshen(head, source, &request, mark).await? {
                return Ok(ForwardReply::Cached(answer));
            }
            fetched = source.fetch(copy_of(&request)).await?;
        }
        if FAILURES.contains(&fetched.head.status) {
            let status = Some(fetched.head.status);
            if let Some(answer) = self.stale(false, status, source, &request).await {
                return Ok(ForwardReply::Cached(answer));
            }
        }
        match self.keep(fetched, &request, mark, source) {
            Ok(answer) => {
                if answer.response.freshness.is_for_all() && answer.status.is_stored {
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

    /// Keeps a response, if that is allowed and there is memory, and reads its body. One that was purged since
    /// the mark is read alone.
    pub fn keep(
        &self,
        fetched: Box<Fetched>,
        request: &Request<OriginContent>,
        mark: InvalidationMark,
        source: &FetchSource,
    ) -> Result<CacheAnswer, Box<Fetched>> {
        let Self { cache, settings, key, .. } = self;
        let head = &fetched.head;
        let credentials = credentials_of(request.headers());
        let is_storable = !self.directives.has("no-store")
            && !head.lacks_rules
            && tells_its_end(&fetched.response.response)
            && request.method() == Method::GET
            && storability::is_storable(head.status, &head.fields, credentials, settings);
        let selecting = SelectingFields::of(&head.fields, request.headers());
        let disk_mark = cache.disk().map(|disk| disk.mark(key));
        let Some(selecting) = selecting.filter(|_| is_storable) else {
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
        let is_stored = cache.insert_if_current(key, &kept, mark);
        let status = CacheStatus { is_stored, ..CacheStatus::forwarded(self.reason) };
        // The body is new.
        let Some(answer) = CacheAnswer::new(Arc::clone(&kept), status) else { return Err(fetched) };
        let (cache, key) = (Arc::clone(cache), Arc::clone(key));
        let disk_mark = disk_mark.filter(|_| is_stored);
        let is_replaced = |older: &&Arc<CachedResponse>| {
            is_stored && older.selecting == kept.selecting && older.body.is_usable()
        };
        let older = self.kept.as_ref().filter(is_replaced).map(|older| (Arc::clone(older), mark));
        let rest = None;
        let fill = Fill { cache, key, kept, older, writer, bytes_max, reserved, disk_mark, rest };
        let Fetched { response, permit, .. } = *fetched;
        tokio::spawn(fill.run(response, source.origin.body_time, permit));
        self.count(CacheResult::Miss);
        Ok(answer)
    }

    /// Returns a stale response in place of an error, or the error, also for all who wait.
    async fn on_failure(
        &self,
        lead: Option<FlightLead>,
        error: OriginError,
        source: &FetchSource,
        request: &Request<OriginContent>,
    ) -> OriginResult {
        if let Some(answer) = self.stale(true, None, source, request).await {
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
    async fn stale(
        &self,
        is_disconnected: bool,
        forward_status: Option<u16>,
        source: &FetchSource,
        request: &Request<OriginContent>,
    ) -> Option<CacheAnswer> {
        let kept = self.kept.as_ref().filter(|kept| !kept.freshness.must_revalidate)?;
        let staleness = kept.freshness.staleness(clock::wall_now()).unwrap_or_default();
        let time = kept.freshness.if_error;
        if staleness >= time.unwrap_or_else(|| self.settings.stale_time(is_disconnected)) {
            return None;
        }
        let detail = Some("stale-if-error");
        let status = CacheStatus { forward_status, detail, ..CacheStatus::forwarded(self.reason) };
        let answer = self.answer(source, request, Arc::clone(kept), status).await.ok()??;
        self.count(CacheResult::Stale);
        Some(answer)
    }

    /// Returns the answer with what is kept, if it may be used as no upstream is healthy. Whether one is again
    /// is found out without the client.
    async fn stale_at_once(
        &self,
        source: &FetchSource,
        request: &Request<OriginContent>,
    ) -> Option<CacheAnswer> {
        let is_wanted = !self.is_background && self.reason != ForwardReason::Request;
        if !is_wanted || source.origin.has_healthy_upstream() {
            return None;
        }
        let answer = self.stale(true, None, source, request).await?;
        self.refresh(source, request);
        Some(answer)
    }

    /// Fetches the response for later requests, unless that is under way.
    pub fn refresh(&self, source: &FetchSource, request: &Request<OriginContent>) {
        if self.cache.flights.has(&self.key) {
            return;
        }
        let again = self.in_background().fetch(source.unreported(), copy_of(request));
        let fetching: BoxedFetch = Box::pin(again);
        drop(source.origin.runtime.spawn(fetching));
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

    /// Forgets what is kept, as there is a newer response that is not, unless that is about the request of one
    /// client.
    fn forget_older(&self, status: u16) {
        let is_newer = status < 500 && ![206, 304].contains(&status);
        let kept = self.kept.as_ref().filter(|_| is_newer && !REFUSALS.contains(&status));
        kept.iter().for_each(|kept| self.cache.forget(&self.key, kept));
    }

    /// Passes a response on that is not kept.
    fn deliver(
        &self,
        fetched: Box<Fetched>,
        method: &Method,
        source: &FetchSource,
    ) -> ForwardReply {
        self.count(CacheResult::Uncacheable);
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

/// Has all who wait get an answer, too.
fn land(lead: Option<FlightLead>, answer: CacheAnswer) -> ForwardReply {
    if let Some(lead) = lead {
        lead.land(&FlightResult::Landed(Arc::clone(&answer.response), answer.status));
    }
    ForwardReply::Cached(answer)
}

/// Returns the request once more, also for who waits for its interim responses. It has no content.
pub fn copy_of(request: &Request<OriginContent>) -> Request<OriginContent> {
    let mut copy = Request::new(OriginContent::default());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy
}
