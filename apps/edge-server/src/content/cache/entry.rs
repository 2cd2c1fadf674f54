//! Cached response: its head, what selects it among others, and a body that may still come.

use std::sync::Arc;
use std::time::Duration;

use crate::content::cache::freshness::value;
use crate::content::cache::freshness::values;
use crate::content::cache::freshness::ExchangeTimes;
use crate::content::cache::freshness::Freshness;
use crate::content::cache::rules::CacheSettings;
use crate::content::cache::slices::SliceLayout;
use crate::content::cache::vary::SelectingFields;
use crate::http::response::Field;
use crate::http::shared_body::SharedBody;

/// What a response takes besides its texts and its body, in bytes.
const ENTRY_BYTES: u64 = 600;

/// What a field takes besides its texts, in bytes.
const FIELD_BYTES: usize = 64;

/// Age at which a date is a strong validator (RFC 9110, 8.8.2.2).
const STRONG_AFTER: Duration = Duration::from_secs(60);

/// Fields that a 304 does not change: they are of the body that is kept (RFC 9111, 3.2).
const BODY_FIELDS: [&str; 5] =
    ["content-length", "content-encoding", "content-type", "content-range", "content-md5"];

/// Response that is kept.
#[derive(Clone, Debug)]
pub struct CachedResponse {
    pub status: u16,
    pub fields: Vec<Field>,

    /// When the origin made it, as the field has it.
    pub date: Option<Box<str>>,
    pub freshness: Freshness,
    pub selecting: SelectingFields,
    pub body: Arc<SharedBody>,

    /// Slices that have its body, which it is without then.
    pub slices: Option<SliceLayout>,
}

/// Head of a response as it came.
#[derive(Clone, Debug)]
pub struct ReceivedHead {
    pub status: u16,
    pub fields: Vec<Field>,
    pub date: Option<Box<str>>,
    pub times: ExchangeTimes,

    /// Some of what says who may get it is not among the fields.
    pub lacks_rules: bool,
}

impl CachedResponse {
    /// Returns the response with a head, for requests with these fields.
    pub fn new(
        head: ReceivedHead,
        selecting: SelectingFields,
        body: Arc<SharedBody>,
        settings: &CacheSettings,
    ) -> Self {
        let ReceivedHead { status, fields, date, times, .. } = head;
        let freshness = Freshness::of(status, &fields, date.as_deref(), times, settings);
        Self { status, fields, date, freshness, selecting, body, slices: None }
    }

    /// Returns the response as a 304 with this head changes it (RFC 9111, 4.3.4).
    pub fn freshened(&self, head: ReceivedHead, settings: &CacheSettings) -> Self {
        let ReceivedHead { mut fields, date, times, lacks_rules, .. } = head;
        fields.retain(|field| !BODY_FIELDS.contains(&field.name.as_ref()));
        // An age that it had before is no longer true.
        let is_kept =
            |own: &&Field| own.name != "age" && fields.iter().all(|new| new.name != own.name);
        let mut kept: Vec<_> = self.fields.iter().filter(is_kept).cloned().collect();
        kept.append(&mut fields);
        let head = ReceivedHead { status: self.status, fields: kept, date, times, lacks_rules };
        let new = Self::new(head, self.selecting.clone(), Arc::clone(&self.body), settings);
        Self { slices: self.slices, ..new }
    }

    /// Returns its entity tag.
    pub fn etag(&self) -> Option<&str> {
        value(&self.fields, "etag").map(str::trim)
    }

    /// Returns when its content changed, as the field has it.
    pub fn last_modified(&self) -> Option<&str> {
        value(&self.fields, "last-modified").map(str::trim)
    }

    /// Returns what tells whether bytes are of this response (RFC 9110, 13.1.5): the entity tag, unless it is
    /// weak, and when its content changed, unless that may not have been the last time.
    pub fn strong_validators(&self) -> impl Iterator<Item = &str> {
        let etag = self.etag().filter(|etag| !etag.starts_with("W/"));
        let parse = |text: &str| httpdate::parse_http_date(text).ok();
        let date = self.date.as_deref().and_then(parse);
        let is_strong = |modified: &&str| {
            let apart = date.zip(parse(modified));
            let apart = apart.and_then(|(date, modified)| date.duration_since(modified).ok());
            apart.is_some_and(|apart| apart >= STRONG_AFTER)
        };
        etag.into_iter().chain(self.last_modified().filter(is_strong))
    }

    /// Returns whether a part with these fields is one of it.
    pub fn has_part(&self, fields: &[Field]) -> bool {
        ["etag", "last-modified", "content-encoding"].iter().all(|name| {
            value(fields, name).map(str::trim) == value(&self.fields, name).map(str::trim)
        })
    }

    /// Returns whether it may be used, by others at least that wait for it, or be confirmed.
    pub fn is_useful(&self) -> bool {
        let Freshness { while_revalidate, if_error, .. } = &self.freshness;
        self.freshness.is_for_all()
            || self.etag().is_some()
            || self.last_modified().is_some()
            || !while_revalidate.is_zero()
            || if_error.is_some()
    }

    /// Returns the tags that it can be purged by.
    pub fn tags(&self) -> impl Iterator<Item = &str> + Clone {
        tags(&self.fields)
    }

    /// Returns about how many bytes it takes.
    pub fn bytes(&self) -> u64 {
        let fields = self.fields.iter();
        let fields: usize =
            fields.map(|field| field.name.len() + field.value.len() + FIELD_BYTES).sum();
        let body = self.body.length().unwrap_or_else(|| self.body.filled_bytes());
        ENTRY_BYTES + (fields + self.selecting.bytes()) as u64 + body
    }
}

/// Returns the tags that a response with these fields has.
pub fn tags(fields: &[Field]) -> impl Iterator<Item = &str> + Clone {
    let keys = values(fields, "surrogate-key").flat_map(|keys| keys.split(' '));
    let tags = values(fields, "cache-tag").flat_map(|tags| tags.split(','));
    keys.chain(tags).map(str::trim).filter(|tag| !tag.is_empty())
}
