//! Metrics of whole connections: times and paths.

use super::harness::Server;
use super::path::Path;

#[test]
fn times_and_path_of_a_download_are_observed() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.client().over(&Path::new(20.0, 100, 250_000)).connect();
    assert_eq!(client.get("/bytes/1000000").body.len(), 1_000_000);
    client.close();
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    for (sample, count) in [
        // The server answers at once; the rest is the path.
        ("response_first_byte_seconds_bucket{le=\"0.0001\",protocol=\"HTTP/3\"}", 1),
        ("response_duration_seconds_bucket{le=\"0.25\"}", 0),
        ("response_duration_seconds_bucket{le=\"5.0\"}", 1),
        ("response_goodput_bytes_per_second_count{jumped=\"false\"}", 1),
        ("response_goodput_bytes_per_second_bucket{le=\"2500000.0\",jumped=\"false\"}", 1),
        ("connection_rtt_seconds_bucket{le=\"0.05\",jumped=\"false\"}", 0),
        ("connection_rtt_seconds_bucket{le=\"0.2\",jumped=\"false\"}", 1),
        ("connection_window_bytes_bucket{le=\"32768.0\",jumped=\"false\"}", 0),
        ("connection_window_bytes_count{jumped=\"false\"}", 1),
        ("connection_rtt_seconds_count{jumped=\"true\"}", 0),
        ("handshake_failures_total", 0),
    ] {
        assert_eq!(server.metric(&format!("edge_server_{sample}")), count, "{sample}");
    }
}
