//! Compression of responses that are kept, and that their origin has not compressed. What is passed on
//! alone, or kept for one client, is not: it may have secrets, which its length would tell.

use crate::content::cache::directives::CacheDirectives;
use crate::content::cache::entry::CachedResponse;
use crate::content::cache::freshness::value;
use crate::content::cache::freshness::values;
use crate::content::compression::policy::CompressionPolicy;
use crate::content::compression::CompressionSource;
use crate::content::compression::Compressor;
use crate::content::compression::Variant;
use crate::http::content_coding;
use crate::http::content_coding::Coding;
use crate::http::request::Request;

/// Fields of content that is to stay as it is.
const FIXED_BY: [&str; 6] =
    ["content-encoding", "content-range", "content-digest", "repr-digest", "content-md5", "digest"];

/// Fields of a request that tell who its client is.
const IDENTITIES: [&str; 2] = ["authorization", "cookie"];

/// Compressor of all hosts, and what of a host it is for.
#[derive(Clone, Copy)]
pub struct AnswerCompression<'a> {
    pub compressor: &'a Compressor,
    pub policy: &'a CompressionPolicy,
}

impl AnswerCompression<'_> {
    /// Returns whether `Accept-Encoding` selects among variants of a response.
    pub fn applies_to(&self, kept: &CachedResponse) -> bool {
        let length = kept.body.length().filter(|_| kept.status == 200 && kept.slices.is_none());
        let is_fixed = FIXED_BY.iter().any(|name| value(&kept.fields, name).is_some());
        let content_type = value(&kept.fields, "content-type").unwrap_or_default();
        // RFC 9110, 7.7.
        let targeted = CacheDirectives::parse_targeted(values(&kept.fields, "cdn-cache-control"));
        let may_be_transformed = !values(&kept.fields, "cache-control").any(has_no_transform)
            && !targeted.is_some_and(|directives| directives.has("no-transform"));
        !is_fixed
            && may_be_transformed
            && !is_for_one_client(kept)
            && length.is_some_and(|length| self.policy.applies_to(content_type, length))
    }

    /// Returns the variant that a request gets, if there is one. Has the response compressed otherwise, once
    /// it is whole.
    pub fn find(&self, kept: &CachedResponse, request: &Request<'_>) -> Option<(Coding, Variant)> {
        // Parts are of what the origin has sent: its entity tag is a strong one.
        let wants_it_as_it_is = request.values("cache-control").any(has_no_transform);
        if wants_it_as_it_is || request.raw_values("range").next().is_some() {
            return None;
        }
        let accepted = content_coding::accepted(request.values("accept-encoding"));
        let length = kept.body.whole_length().filter(|_| !accepted.is_empty())?;
        self.compressor.find(&CompressionSource::Body(&kept.body, length), &accepted)
    }
}

/// Returns whether others have other content, by who they are.
fn is_for_one_client(kept: &CachedResponse) -> bool {
    let names = values(&kept.fields, "vary").flat_map(|line| line.split(','));
    names.map(str::trim).any(|name| IDENTITIES.iter().any(|own| name.eq_ignore_ascii_case(own)))
}

fn has_no_transform(line: &str) -> bool {
    line.split(',').any(|directive| directive.trim().eq_ignore_ascii_case("no-transform"))
}
