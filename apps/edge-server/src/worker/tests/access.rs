//! Access rules: which address of a client counts, and how often it may ask.

use std::time::Duration;

use super::client::Client;
use super::harness::Lab;

const ALLOWED: [u8; 4] = [192, 0, 2, 1];
const OTHER_ALLOWED: [u8; 4] = [192, 0, 2, 9];
const DENIED: [u8; 4] = [203, 0, 113, 1];

// RFC 9000, 9.3.1: the address of the first packet may be forged, and the response then goes to the
// old one.
#[test]
fn client_that_moves_needs_access_at_both_addresses() {
    let lab = Lab::new();
    lab.write("edge.toml", "[[host]]\naccess = [{ allow = ['192.0.2.0/24'] }]\n");
    let server = lab.serve(&["--config", "DIR/edge.toml"]);
    for (from, to, at_once, later) in [
        (ALLOWED, OTHER_ALLOWED, "404", "404"),
        (ALLOWED, DENIED, "403", "403"),
        (DENIED, ALLOWED, "403", "404"),
    ] {
        let mut client = server.client().from(from).connect();
        let before = if from == DENIED { "403" } else { "404" };
        assert_eq!(client.get("/none").status(), before, "{from:?}");
        client.rebind(to);
        assert_eq!(client.get("/none").status(), at_once, "{from:?} {to:?}");
        lab.advance(Duration::from_secs(1));
        assert_eq!(client.get("/none").status(), later, "{from:?} {to:?}");
    }
}

#[test]
fn subnet_has_a_rate_of_requests() {
    let lab = Lab::new();
    let rule = "path = '/none', requests-per-second = 2, burst = 4";
    lab.write("edge.toml", format!("[[host]]\naccess = [{{ {rule} }}]\n"));
    let server = lab.serve(&["--config", "DIR/edge.toml"]);
    let mut one = server.client().from(ALLOWED).connect();
    let mut neighbour = server.client().from(OTHER_ALLOWED).connect();
    let mut other = server.client().from(DENIED).connect();
    let statuses = |client: &mut Client, path: &str| -> Vec<String> {
        let streams: Vec<_> = (0..3).map(|_| client.request("GET", path)).collect();
        streams.into_iter().map(|stream| client.response(stream).status().to_owned()).collect()
    };
    assert_eq!(statuses(&mut one, "/none"), ["404", "404", "404"]);
    assert_eq!(statuses(&mut neighbour, "/none"), ["404", "429", "429"]);
    assert_eq!(statuses(&mut neighbour, "/other"), ["404", "404", "404"]);
    assert_eq!(statuses(&mut other, "/none"), ["404", "404", "404"]);
    let refused = one.get("/none");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.headers["cache-control"], "no-store");
    lab.advance(Duration::from_secs(1));
    assert_eq!(statuses(&mut one, "/none"), ["404", "404", "429"]);
}
