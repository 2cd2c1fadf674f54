//! Reports on origins in metrics and logs.

use std::fs;

use serde_json::Value;

use super::over_all;
use super::scripted::Act;
use super::scripted::ScriptedOrigin;
use super::serve;
use super::wait_until;
use crate::support::metrics;

/// Returns the lines of the access log.
fn lines(dir: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("access.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn access_log_has_upstream_and_times_of_what_origins_have() {
    let origin = ScriptedOrigin::start(|target| match target {
        "/app/long" => vec![Act::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec())],
        "/app/chunks" => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            vec![Act::Send(format!("{head}2\r\nok\r\n0\r\n\r\n").into_bytes())]
        }
        _ => vec![Act::Close],
    });
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, metrics_at) = serve(dir.path(), origin.address, "");
    let upstream = Value::from(format!("http://{}", origin.address));
    for (path, status, is_of_origin) in [
        ("/app/long", 200, true),
        ("/app/chunks", 200, true),
        ("/app/closes", 502, true),
        ("/index.html", 200, false),
    ] {
        for reply in over_all(address, "GET", path, &[]) {
            assert_eq!(reply.unwrap().0, status, "{path}");
        }
        let of_path = || lines(dir.path()).into_iter().filter(|line| line["path"] == path);
        wait_until("all are logged", || of_path().count() == 3);
        for line in of_path() {
            let ms = |key: &str| line[key].as_f64();
            let (first_byte, whole) = (ms("origin_first_byte_ms"), ms("origin_ms"));
            match is_of_origin {
                false => assert!(line.get("upstream").is_none() && whole.is_none(), "{line}"),
                true => {
                    assert_eq!(line["upstream"], upstream, "{line}");
                    assert!(whole >= first_byte && whole <= ms("duration_ms"), "{line}");
                    assert_eq!(first_byte.is_some(), status == 200, "{line}");
                    assert!(whole.is_some(), "{line}");
                }
            }
        }
    }
    for protocol in ["HTTP/3", "HTTP/2", "HTTP/1.1"] {
        let name = "edge_server_response_first_byte_seconds_count";
        let count = metrics::read(metrics_at, &format!("{name}{{protocol=\"{protocol}\"}}"));
        assert_eq!(count, 4, "{protocol}");
    }
    assert!(server.stop().success());
}

#[test]
fn log_tells_now_and_then_why_clients_get_errors() {
    let origin = ScriptedOrigin::start(|target| match target {
        "/app/breaks" => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab";
            vec![Act::Send(head.to_vec()), Act::Close]
        }
        _ => vec![Act::Wait],
    });
    let [closing, silent] = ["/closing/", "/silent/"];
    let other = ScriptedOrigin::start(|_| vec![Act::Close]);
    let dir = tempfile::tempdir().unwrap();
    let rules = format!(
        "[[host.origin]]\npath = '{closing}**'\nurl = 'http://{}'\nfailures-max = 1000\n\
         [[host.origin]]\npath = '{silent}**'\nurl = 'http://{}'\nheader-timeout = 1\n\
         failures-max = 1000\n",
        other.address, origin.address
    );
    let (mut server, address, _) = serve(dir.path(), origin.address, &rules);
    for (path, status) in [(closing, 502), (closing, 502), (silent, 504), (silent, 504)] {
        for reply in over_all(address, "GET", path, &[]) {
            assert_eq!(reply.unwrap().0, status, "{path}");
        }
    }
    assert_eq!(over_all(address, "GET", "/app/breaks", &[]), [None, None, None]);
    server.ask_to_stop();
    let (status, said) = server.end();
    assert!(status.success());
    let told = |upstream: &ScriptedOrigin, what: &str| {
        let start = format!("origin http://{}: {what}", upstream.address);
        said.iter().filter(|line| line.contains(&start)).count()
    };
    assert_eq!(told(&other, "502 for a request, no valid response: "), 1, "{said:?}");
    assert_eq!(told(&origin, "504 for a request, no response in time"), 1, "{said:?}");
    // The upstream of another rule.
    assert_eq!(told(&origin, "a response breaks off: "), 1, "{said:?}");
}
