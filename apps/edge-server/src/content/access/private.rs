//! Caching of responses that are for one user (RFC 9111, 5.2.2.7).

use crate::http::response::Response;

/// Directives that say who may keep a response.
const SHARED: [&str; 3] = ["private", "public", "s-maxage"];

/// Has no shared cache keep a response, whatever rules for all files say.
pub fn make_private(response: &mut Response) {
    let mut directives = vec!["private".to_owned()];
    response.fields.retain(|field| {
        let is_control = field.name == "cache-control";
        if is_control {
            let own =
                field.value.split(',').map(str::trim).filter(|directive| !is_shared(directive));
            directives.extend(own.map(str::to_owned));
        }
        !is_control
    });
    response.add("cache-control", directives.join(", "));
}

fn is_shared(directive: &str) -> bool {
    let name = directive.split('=').next().unwrap_or_default();
    SHARED.iter().any(|shared| name.eq_ignore_ascii_case(shared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::body::Body;

    #[test]
    fn private_response_keeps_other_directives() {
        for (fields, expected) in [
            (&[][..], "private"),
            (&["no-cache"], "private, no-cache"),
            (&["public, max-age=60, S-MaxAge=70"], "private, max-age=60"),
            (&["private", "immutable"], "private, immutable"),
        ] {
            let mut response = Response::new(200, Body::empty());
            fields.iter().for_each(|value| response.add("cache-control", *value));
            make_private(&mut response);
            assert_eq!(response.field("cache-control"), Some(expected));
            assert_eq!(response.fields.len(), 1);
        }
    }
}
