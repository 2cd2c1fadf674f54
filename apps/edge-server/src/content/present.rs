//! Response with a representation: preconditions and ranges (RFC 9110, 13 and 14).

use std::borrow::Cow;
use std::time::SystemTime;

use crate::content::file_lookup::Representation;
use crate::http::body::Body;
use crate::http::body::BodySource;
use crate::http::conditional::Precondition;
use crate::http::range;
use crate::http::range::RangeRequest;
use crate::http::request::Method;
use crate::http::request::Request;
use crate::http::response::Response;

/// Returns the response with a representation, subject to the request's preconditions and range.
pub fn present(
    representation: Representation,
    request: &Request<'_>,
    wall_now: SystemTime,
) -> Response {
    let Representation { source, length, content_type, coding, validators, identity: _ } =
        representation;
    let precondition = validators.evaluate(request, wall_now);
    // RFC 9110, 14.2: ranges are for GET alone.
    let range = request.value("range").filter(|_| request.method == Method::Get);
    let range_request = match (precondition, range) {
        (Precondition::Proceed, Some(range)) => RangeRequest::parse(range, length),
        _ => RangeRequest::Whole,
    };
    let mut response = match (precondition, range_request) {
        (Precondition::Failed, _) => return Response::error(412),
        (Precondition::NotModified, _) => Response::new(304, Body::empty()),
        (_, RangeRequest::Unsatisfiable) => {
            return Response::error(416).with("content-range", format!("bytes */{length}"));
        }
        (_, RangeRequest::Ranges(ranges)) => {
            range::partial(source, ranges, length, content_type, &validators.etag)
        }
        (_, RangeRequest::Whole) => whole(source, length, content_type),
    };
    if response.status != 304 {
        response.add("accept-ranges", "bytes");
        if let Some(coding) = coding {
            response.add("content-encoding", coding.name());
        }
    }
    if let Some(modified) = validators.last_modified(wall_now) {
        response.add("last-modified", modified);
    }
    response.add("etag", validators.etag);
    response
}

fn whole(source: BodySource, length: u64, content_type: Cow<'static, str>) -> Response {
    Response::new(200, Body::of(source, 0..length)).with("content-type", content_type)
}
