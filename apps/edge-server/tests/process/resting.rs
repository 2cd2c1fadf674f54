//! A connection on which nothing happens: what it keeps, and that it is there when it is
//! needed again.

use crate::support::client::Client;
use crate::support::process::serve;

#[test]
fn a_connection_rests_after_each_use_and_memory_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--workers", "1"]);
    let mut client = Client::connect(address);
    for before in 0..2 {
        assert_eq!(client.get("/bytes/3000000").body.len(), 3_000_000);
        client.settle();
        server.wait_for_another("at rest", before);
        server.wait_for_another("memory is tidied", before);
    }
    client.close();
    assert!(server.stop().success());
}
