//! Responses that are kept in slices: how they begin to be kept, and answers with them.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use http_body::Body as _;
use hyper::header::IF_MODIFIED_SINCE;
use hyper::header::IF_NONE_MATCH;
use hyper::header::RANGE;
use hyper::HeaderMap;
use hyper::Method;
use hyper::Request;
use quiche::clock;

use crate::content::cache::answer::CacheAnswer;
use crate::content::cache::counts::CacheResult;
use crate::content::cache::counts::SliceResult;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::fetch::CacheFetch;
use crate::content::cache::fetch::FetchMode;
use crate::content::cache::fetch_source::credentials_of;
use crate::content::cache::fetch_source::FetchSource;
use crate::content::cache::fetch_source::Fetched;
use crate::content::cache::freshness::value;
use crate::content::cache::invalidation_log::InvalidationMark;
use crate::content::cache::revalidation;
use crate::content::cache::slice_fetch::ResponseSlices;
use crate::content::cache::slice_fetch::SliceError;
use crate::content::cache::slices::first_needed;
use crate::content::cache::slices::ContentRange;
use crate::content::cache::slices::SliceLayout;
use crate::content::cache::slices::WantedSlice;
use crate::content::cache::status::CacheStatus;
use crate::content::cache::status::ForwardReason;
use crate::content::cache::storability;
use crate::content::cache::usability::usability;
use crate::content::cache::usability::Usability;
use crate::content::cache::vary::SelectingFields;
use crate::content::origin::error::OriginError;
use crate::content::origin::upload::OriginContent;
use crate::http::body::BodySource;
use crate::http::range::RangeRequest;
use crate::http::shared_body::SharedBody;
use crate::http::shared_body::SharedBodyReader;
use crate::http::sliced_body::SlicedReader;

impl CacheFetch {
    /// Returns the slice that the origin is asked for in place of a whole response, if it is.
    pub fn wanted_slice(&self, request: &Request<OriginContent>) -> Option<WantedSlice> {
        let slice_bytes = self.settings.slice_bytes?;
        let is_sliced = self.mode == FetchMode::Shared
            && request.method() == Method::GET
            && slice_bytes <= self.cache.object_bytes_max()
            && !self.cache.is_unsliced(&self.key, clock::now());
        let index = first_needed(range_of(request.headers()), slice_bytes);
        is_sliced.then_some(WantedSlice { index, slice_bytes })
    }

    /// Returns the answer with what was found in memory, if that is in slices and may be used.
    ///
    /// # Errors
    ///
    /// The origin does not send a slice that is not there.
    pub async fn answer_with_kept(
        &mut self,
        source: &FetchSource,
        request: &Request<OriginContent>,
    ) -> Result<Option<CacheAnswer>, OriginError> {
        let kept = self.kept.clone().filter(|kept| kept.slices.is_some());
        let Some(kept) = kept else { return Ok(None) };
        let (result, detail) = match usability(&kept.freshness, &self.directives, clock::wall_now())
        {
            Usability::Usable | Usability::MaxStale => (CacheResult::Hit, None),
            Usability::WhileRevalidate => (CacheResult::Stale, Some("stale-while-revalidate")),
            Usability::Stale | Usability::Unwanted => return Ok(None),
        };
        let status = CacheStatus { detail, ..CacheStatus::default() };
        let Some(answer) = self.answer(source, request, kept, status).await? else {
            (self.kept, self.reason) = (None, ForwardReason::UriMiss);
            return Ok(None);
        };
        match answer.status.forward {
            Some(_) => self.count(CacheResult::Miss),
            None => self.count(result),
        }
        if detail.is_some() {
            self.refresh(source, request);
        }
        Ok(Some(answer))
    }

    /// Returns the answer with a response. One in slices has the slice that the request needs first; none is
    /// returned if the origin has another response by now.
    ///
    /// # Errors
    ///
    /// The origin does not send the slice.
    pub async fn answer(
        &self,
        source: &FetchSource,
        request: &Request<OriginContent>,
        response: Arc<CachedResponse>,
        mut status: CacheStatus,
    ) -> Result<Option<CacheAnswer>, OriginError> {
        let Some(layout) = response.slices else { return Ok(CacheAnswer::new(response, status)) };
        let slices = self.slices_of(source, request, &response, layout);
        let first = match first_wanted(request, layout) {
            None => None,
            Some(index) => match slices.get(index, source).await {
                Ok((reader, is_there)) => {
                    SliceResult::of_needed(is_there).count();
                    if !is_there && status.forward.is_none() {
                        status.forward = Some(ForwardReason::Partial);
                        status.is_stored = true;
                    }
                    Some((index, reader))
                }
                Err(SliceError::Changed) => return Ok(None),
                Err(SliceError::Failed(error)) => return Err(error),
            },
        };
        Ok(Some(sliced_answer(slices, first, status)))
    }

    fn slices_of(
        &self,
        source: &FetchSource,
        request: &Request<OriginContent>,
        head: &Arc<CachedResponse>,
        layout: SliceLayout,
    ) -> Arc<ResponseSlices> {
        let mut headers = request.headers().clone();
        revalidation::remove_conditions(&mut headers);
        Arc::new(ResponseSlices {
            cache: Arc::clone(&self.cache),
            settings: Arc::clone(&self.settings),
            key: Arc::clone(&self.key),
            head: Arc::clone(head),
            layout,
            source: source.unreported(),
            uri: request.uri().clone(),
            headers,
            keeps_none: AtomicBool::default(),
        })
    }

    /// Keeps a response of which a slice has come, and that slice. One that is a single slice is kept as a
    /// whole.
    pub fn keep_sliced(
        &self,
        mut fetched: Box<Fetched>,
        wanted: WantedSlice,
        request: &Request<OriginContent>,
        mark: InvalidationMark,
        source: &FetchSource,
    ) -> Option<CacheAnswer> {
        let WantedSlice { index, slice_bytes } = wanted;
        let content_range = value(&fetched.head.fields, "content-range");
        let ContentRange { range, length } = content_range.and_then(ContentRange::parse)?;
        let own_length = fetched.response.response.body().size_hint().exact();
        let is_slice = fetched.head.status == 206
            && range == SliceLayout::new(length, slice_bytes).range(index)
            && own_length.is_none_or(|own| own == range.end - range.start);
        if !is_slice {
            return None;
        }
        fetched.head.status = 200;
        fetched.head.fields.retain(|field| field.name != "content-range");
        if range == (0..length) {
            return self.keep(fetched, request, mark, source).ok();
        }
        let head = self.head_of_slices(&fetched, length, slice_bytes, request)?;
        let layout = head.slices?;
        let Self { cache, key, .. } = self;
        let disk_mark = cache.disk().map(|disk| disk.mark(key));
        let is_stored = cache.insert_if_current(key, &head, mark);
        if let Some((disk, mark)) = cache.disk().zip(disk_mark).filter(|_| is_stored) {
            disk.write(key, &head, mark);
        }
        let slices = self.slices_of(source, request, &head, layout);
        let (_, reader) = slices.keep(index, fetched, is_stored)?;
        self.count(CacheResult::Miss);
        SliceResult::Miss.count();
        let status = CacheStatus { is_stored, ..CacheStatus::forwarded(self.reason) };
        Some(sliced_answer(slices, Some((index, reader)), status))
    }

    /// Returns the head of a response that may be kept in slices, as a validator tells whether they belong
    /// together.
    fn head_of_slices(
        &self,
        fetched: &Fetched,
        length: u64,
        slice_bytes: u64,
        request: &Request<OriginContent>,
    ) -> Option<Arc<CachedResponse>> {
        let Self { cache, settings, .. } = self;
        let head = &fetched.head;
        let credentials = credentials_of(request.headers());
        let is_storable = !head.lacks_rules
            && storability::is_storable(head.status, &head.fields, credentials, settings);
        let selecting = SelectingFields::of(&head.fields, request.headers());
        let selecting = selecting.filter(|_| is_storable)?;
        let (body, writer) = SharedBody::new(Some(0), cache.held());
        writer.finish();
        let mut kept = CachedResponse::new(head.clone(), selecting, body, settings);
        kept.strong_validators().next()?;
        // An origin may ignore conditions: then it is the response that is kept.
        let before = self.kept.as_ref().filter(|before| before.has_part(&kept.fields));
        let before = before
            .and_then(|before| before.slices)
            .filter(|before| (before.length, before.slice_bytes) == (length, slice_bytes));
        kept.slices = Some(before.unwrap_or_else(|| SliceLayout::new(length, slice_bytes)));
        Some(Arc::new(kept))
    }
}

fn sliced_answer(
    slices: Arc<ResponseSlices>,
    first: Option<(u64, SharedBodyReader)>,
    status: CacheStatus,
) -> CacheAnswer {
    let (response, layout) = (Arc::clone(&slices.head), slices.layout);
    let reader = SlicedReader::new(slices, layout.length, layout.slice_bytes, first);
    CacheAnswer { response, body: BodySource::Sliced(reader), status }
}

/// Returns the slice that a request needs first, unless it may need none.
fn first_wanted(request: &Request<OriginContent>, layout: SliceLayout) -> Option<u64> {
    let headers = request.headers();
    let is_conditional =
        headers.contains_key(IF_NONE_MATCH) || headers.contains_key(IF_MODIFIED_SINCE);
    if request.method() != Method::GET || is_conditional {
        return None;
    }
    let range = range_of(headers).map(|range| RangeRequest::parse(range, layout.length));
    let first = match range {
        Some(RangeRequest::Ranges(ranges)) => ranges.first().map_or(0, |first| first.start),
        Some(RangeRequest::Unsatisfiable) => return None,
        Some(RangeRequest::Whole) | None => 0,
    };
    Some(first / layout.slice_bytes)
}

fn range_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(RANGE).and_then(|range| range.to_str().ok())
}
