//! Access rules: which address of a client counts.

use std::time::Duration;

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
