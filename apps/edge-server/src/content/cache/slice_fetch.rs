//! Fetch of slices of a response that is kept: one request at the origin for all who need a slice.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body as _;
use hyper::header::HeaderValue;
use hyper::header::IF_RANGE;
use hyper::header::RANGE;
use hyper::HeaderMap;
use hyper::Method;
use hyper::Request;
use hyper::Uri;
use log::debug;
use quiche::clock;
use tokio::time::sleep;

use crate::content::cache::body_rest::BodyRest;
use crate::content::cache::body_rest::FetchedRest;
use crate::content::cache::counts::SliceResult;
use crate::content::cache::disk_fetch;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::entry::ReceivedHead;
use crate::content::cache::fetch_source::credentials_of;
use crate::content::cache::fetch_source::FetchSource;
use crate::content::cache::fetch_source::Fetched;
use crate::content::cache::fill::Fill;
use crate::content::cache::flight::FlightLead;
use crate::content::cache::flight::FlightResult;
use crate::content::cache::flight::FlightSeat;
use crate::content::cache::freshness::value;
use crate::content::cache::rules::CacheSettings;
use crate::content::cache::slices;
use crate::content::cache::slices::ContentRange;
use crate::content::cache::slices::SliceLayout;
use crate::content::cache::status::CacheStatus;
use crate::content::cache::storability;
use crate::content::cache::store::ResponseCache;
use crate::content::cache::vary::SelectingFields;
use crate::content::origin::error::OriginError;
use crate::content::origin::upload::OriginContent;
use crate::http::shared_body::SharedBody;
use crate::http::shared_body::SharedBodyReader;
use crate::http::sliced_body::AwaitedSlice;
use crate::http::sliced_body::SliceSource;

/// How often a slice is asked for that others fetch, and do not get.
const TURNS_MAX: usize = 3;

/// Pause of a slice for which the origin has no vacancy.
const BUSY_NAP: Duration = Duration::from_millis(100);

/// Slices of a response, as one request gets them.
pub struct ResponseSlices {
    pub cache: Arc<ResponseCache>,
    pub settings: Arc<CacheSettings>,
    pub key: Arc<str>,
    pub head: Arc<CachedResponse>,
    pub layout: SliceLayout,

    /// For slices after the one that a request needs first.
    pub source: FetchSource,

    /// Of the request, without conditions of its client.
    pub uri: Uri,
    pub headers: HeaderMap,

    /// A slice could not be kept. What is fetched ahead would be fetched again.
    pub keeps_none: AtomicBool,
}

/// Slice that comes, of which the rest can be fetched: once.
struct SliceRest {
    slices: Arc<ResponseSlices>,
    range: Range<u64>,
}

/// Reason why there is no slice.
#[derive(Debug)]
pub enum SliceError {
    /// The origin has another response by now.
    Changed,
    Failed(OriginError),
}

impl ResponseSlices {
    /// Returns a slice, and whether it was there or is fetched from the source. It may still come.
    ///
    /// # Errors
    ///
    /// The origin does not send it. The response is forgotten if there is another one.
    pub async fn get(
        self: &Arc<Self>,
        index: u64,
        source: &FetchSource,
    ) -> Result<(SharedBodyReader, bool), SliceError> {
        let key = self.layout.key(&self.key, index);
        for _ in 0..TURNS_MAX {
            if let Some(reader) = self.in_memory(&key) {
                return Ok((reader, true));
            }
            let receiver = match self.cache.flights.join(&key, &self.cache.invalidations) {
                FlightSeat::Leader(lead) => return self.lead(lead, index, &key, source).await,
                FlightSeat::Follower(receiver) => receiver,
            };
            match receiver.await {
                Ok(FlightResult::Landed(slice, _)) => {
                    if let Some(reader) = slice.body.reader() {
                        return Ok((reader, true));
                    }
                }
                Ok(FlightResult::Failed(error)) => return Err(SliceError::Failed(error)),
                Ok(FlightResult::Unshared) | Err(_) => (),
            }
        }
        self.fetch(index, source).await.map(|(_, reader)| (reader, false))
    }

    /// Returns a slice in the same way, at the second attempt if the first fails: some of the response has been
    /// sent.
    async fn get_again(
        self: &Arc<Self>,
        index: u64,
    ) -> Result<(SharedBodyReader, bool), SliceError> {
        match self.get(index, &self.source).await {
            Err(SliceError::Failed(e)) => {
                debug!("{}: slice {index}: {e}; it is asked for again", self.key);
                self.get(index, &self.source).await
            }
            got => got,
        }
    }

    /// Gets a slice for all who wait for it.
    async fn lead(
        self: &Arc<Self>,
        lead: FlightLead,
        index: u64,
        key: &Arc<str>,
        source: &FetchSource,
    ) -> Result<(SharedBodyReader, bool), SliceError> {
        let kept = disk_fetch::read(&self.cache, &self.settings, key, &HeaderMap::new()).await;
        if let Some((slice, reader)) =
            kept.and_then(|kept| Some((kept.clone(), kept.body.reader()?)))
        {
            lead.land(&FlightResult::Landed(slice, CacheStatus::default()));
            return Ok((reader, true));
        }
        match self.fetch(index, source).await {
            Ok((slice, reader)) => {
                lead.land(&FlightResult::Landed(slice, CacheStatus::default()));
                Ok((reader, false))
            }
            Err(SliceError::Failed(error)) if !matches!(error, OriginError::Busy) => {
                lead.land(&FlightResult::Failed(error.clone()));
                Err(SliceError::Failed(error))
            }
            Err(error) => Err(error),
        }
    }

    fn in_memory(&self, key: &Arc<str>) -> Option<SharedBodyReader> {
        self.cache.get(key, &HeaderMap::new()).0?.body.reader()
    }

    /// Fetches a slice, and keeps it if it is one of the response.
    async fn fetch(
        self: &Arc<Self>,
        index: u64,
        source: &FetchSource,
    ) -> Result<(Arc<CachedResponse>, SharedBodyReader), SliceError> {
        let range = self.layout.range(index);
        let fetched = self.send(&slices::range_field(&range), source).await;
        let fetched = fetched.map_err(SliceError::Failed)?;
        let head = &fetched.head;
        if !self.is_part(&fetched, &range) {
            if head.status == 206 && self.head.has_part(&head.fields) {
                self.cache.note_unsliced(&self.key, clock::now());
            }
            if matches!(head.status, 200..=299 | 404 | 410 | 412 | 416) {
                debug!("{}: there is another response, whose slices are others", self.key);
                self.cache.forget(&self.key, &self.head);
                return Err(SliceError::Changed);
            }
            let why = format!("status {} for a slice", head.status);
            return Err(SliceError::Failed(OriginError::Malformed(why)));
        }
        let credentials = credentials_of(&self.headers);
        let is_kept = !head.lacks_rules
            && storability::is_storable(200, &head.fields, credentials, &self.settings);
        self.keeps_none.store(!is_kept, Ordering::Relaxed);
        self.keep(index, fetched, is_kept).ok_or(SliceError::Changed)
    }

    /// Returns whether a response is this range of the response that is kept.
    fn is_part(&self, fetched: &Fetched, range: &Range<u64>) -> bool {
        let head = &fetched.head;
        let expected = Some(ContentRange { range: range.clone(), length: self.layout.length });
        let content_range = value(&head.fields, "content-range").and_then(ContentRange::parse);
        let length = fetched.response.response.body().size_hint().exact();
        head.status == 206
            && content_range == expected
            && length.is_none_or(|length| length == range.end - range.start)
            && self.head.has_part(&head.fields)
    }

    /// Keeps what comes as a slice, if it may be kept and there is memory, and returns a reader of it.
    pub fn keep(
        self: &Arc<Self>,
        index: u64,
        fetched: Box<Fetched>,
        is_kept: bool,
    ) -> Option<(Arc<CachedResponse>, SharedBodyReader)> {
        let cache = Arc::clone(&self.cache);
        let (key, range) = (self.layout.key(&self.key, index), self.layout.range(index));
        let length = range.end - range.start;
        let mark = cache.invalidations.mark(&key);
        let disk_mark = cache.disk().map(|disk| disk.mark(&key));
        let reserved = cache.reserve(length).filter(|_| is_kept);
        let (body, writer) = SharedBody::new(Some(length), cache.held());
        // The body is new.
        let reader = body.reader()?;
        let Fetched { head, response, permit } = *fetched;
        let head = ReceivedHead { status: 206, fields: Vec::new(), date: None, ..head };
        let kept =
            CachedResponse::new(head, SelectingFields::default(), body, &CacheSettings::default());
        let kept = Arc::new(kept);
        match reserved.is_some() {
            true => drop(cache.insert_if_current(&key, &kept, mark)),
            false => writer.stop_keeping(),
        }
        let reserved = reserved.unwrap_or_else(|| cache.reserve_nothing());
        let (own, bytes_max) = (Arc::clone(&kept), u64::MAX);
        let rest = SliceRest { slices: Arc::clone(self), range };
        let rest = Some(Box::new(rest) as Box<dyn BodyRest>);
        let fill = Fill {
            cache,
            key,
            kept: own,
            older: None,
            writer,
            bytes_max,
            reserved,
            disk_mark,
            rest,
        };
        tokio::spawn(fill.run(response, self.source.origin.body_time, permit));
        Some((kept, reader))
    }

    /// Asks the origin for a range. Waits for a vacancy: who has begun to read goes on.
    async fn send(&self, range: &str, source: &FetchSource) -> Result<Box<Fetched>, OriginError> {
        let until = clock::now() + source.origin.body_time;
        loop {
            let mut request = Request::new(OriginContent::default());
            *request.method_mut() = Method::GET;
            *request.uri_mut() = self.uri.clone();
            *request.headers_mut() = self.headers.clone();
            let validator = self.head.strong_validators().next().unwrap_or_default();
            for (name, text) in [(RANGE, range), (IF_RANGE, validator)] {
                if let Ok(value) = HeaderValue::from_str(text) {
                    request.headers_mut().insert(name, value);
                }
            }
            match source.fetch(request).await {
                Err(OriginError::Busy) if clock::now() < until => {
                    sleep(BUSY_NAP).await;
                }
                fetched => return fetched,
            }
        }
    }
}

impl BodyRest for SliceRest {
    fn fetch(&self, filled: u64) -> FetchedRest<'_> {
        let Self { slices, range } = self;
        let rest = range.start.saturating_add(filled)..range.end;
        Box::pin(async move {
            if rest.is_empty() {
                return None;
            }
            let field = slices::range_field(&rest);
            debug!("{}: asks for the rest of a slice, {field}", slices.key);
            let fetched = slices.send(&field, &slices.source).await;
            let fetched = fetched.inspect_err(|e| debug!("{}: {e}", slices.key)).ok()?;
            slices.is_part(&fetched, &rest).then_some(fetched)
        })
    }

    /// Has the response fetched as a whole from now on.
    fn give_up(&self) {
        let ResponseSlices { cache, key, head, .. } = &*self.slices;
        cache.forget(key, head);
        cache.note_unsliced(key, clock::now());
    }
}

impl SliceSource for ResponseSlices {
    fn request(self: Arc<Self>, index: u64, awaited: AwaitedSlice) {
        if let Some(reader) = self.in_memory(&self.layout.key(&self.key, index)) {
            SliceResult::Hit.count();
            return awaited.give(reader);
        }
        let runtime = self.source.origin.runtime;
        drop(runtime.spawn(async move {
            match self.get_again(index).await {
                Ok((reader, is_there)) => {
                    SliceResult::of_needed(is_there).count();
                    awaited.give(reader);
                }
                Err(e) => debug!("{}: slice {index}: {e:?}", self.key),
            }
        }));
    }

    fn prefetch(self: Arc<Self>, index: u64) {
        let key = self.layout.key(&self.key, index);
        let is_of_use = !self.keeps_none.load(Ordering::Relaxed);
        if !is_of_use || self.cache.flights.has(&key) || self.in_memory(&key).is_some() {
            return;
        }
        let runtime = self.source.origin.runtime;
        drop(runtime.spawn(async move {
            // Who reads on finds it, or asks again.
            match self.get(index, &self.source).await {
                Ok((_, true)) => (),
                Ok((_, false)) => SliceResult::Ahead.count(),
                Err(e) => debug!("{}: slice {index}: {e:?}", self.key),
            }
        }));
    }
}
