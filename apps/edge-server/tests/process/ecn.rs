//! ECN over real sockets: the marks that server and client put on their datagrams, as an emulated
//! path sees them. What they do with marks is tested in memory: `worker/tests/ecn.rs`.

use std::fs;
use std::io::Read;
use std::io::Seek;
use std::net::SocketAddr;
use std::process::Command;
use std::process::Stdio;

use serde_json::Value;

use crate::support::lab::emulate;
use crate::support::metrics;
use crate::support::process::build_library;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::sibling;
use crate::support::process::Running;
use crate::takeover::Line;
use crate::takeover::LONG;
use crate::takeover::LONG_BYTES;

/// A path with room for every packet.
const PATH: &str = "--rate 20 --rtt 40 --buffer 10000000";

const MARKED: &str = "edge_server_packets_marked_ce_total{direction=\"sent\"}";

/// A client, for `path`, whose report is in a file.
fn fetch(address: SocketAddr, path: &str, report: &fs::File) -> Running {
    let url = format!("https://{address}{path}");
    let mut command = Command::new(sibling("edge-client"));
    command.args([&url, "--insecure", "--json"]);
    Running::start_to(&mut command, Stdio::from(report.try_clone().unwrap()))
}

fn read_json(mut file: &fs::File) -> Value {
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Packets of one direction in a trace that did not get lost: the codepoint before the path and behind.
fn delivered<'a>(trace: &'a str, direction: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let rows = trace.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    rows.filter(move |row| row[1] == direction).map(|row| {
        assert_eq!(row[5], "delivered", "{row:?}");
        (row[6], row[7])
    })
}

#[test]
fn marks_of_a_path_reach_both_ends() {
    for queue in ["codel", "step:5"] {
        let dir = tempfile::tempdir().unwrap();
        let more = ["--speedtest", "--metrics", "127.0.0.1:0", "--slow-start-exit", "none"];
        let (mut server, address) = serve(dir.path(), &more);
        let metrics = server.metrics_address();
        let trace = dir.path().join("trace.csv");
        let path = format!("{PATH} --queue {queue} --trace {}", trace.display());
        let mut emulator = emulate(address, &path);
        let report = tempfile::tempfile().unwrap();
        let (status, said) = fetch(emulator.address(), "/bytes/3000000", &report).end();
        assert!(status.success(), "{said:?}");
        metrics::wait_until(metrics, "edge_server_connections_open", |open| open == 0);
        let marked = metrics::read(metrics, MARKED);
        assert!(server.stop().success());
        assert!(emulator.stop().success());

        let trace = fs::read_to_string(trace).unwrap();
        for direction in ["up", "down"] {
            assert!(
                delivered(&trace, direction).all(|(ecn_in, _)| ecn_in == "ect0"),
                "{direction}"
            );
        }
        let marks =
            delivered(&trace, "down").filter(|(_, ecn_out)| *ecn_out == "ce").count() as u64;
        let ecn = &read_json(&report)["ecn"];
        assert!(marks > 0, "{queue}");
        assert_eq!(ecn["state"], "capable", "{ecn}");
        assert_eq!(
            (ecn["received"]["ce"].as_u64(), marked),
            (Some(marks), marks),
            "{queue}: {ecn}"
        );
    }
}

#[test]
fn ecn_off_marks_nothing_on_the_wire() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--ecn", "off"]);
    let trace = dir.path().join("trace.csv");
    let mut emulator = emulate(address, &format!("{PATH} --trace {}", trace.display()));
    let url = format!("https://{}/bytes/100000", emulator.address());
    let mut client = Command::new(sibling("edge-client"));
    let client = client.args([&url, "--insecure", "--ecn", "off"]);
    assert!(Running::start(client).end().0.success());
    assert!(server.stop().success());
    assert!(emulator.stop().success());
    let trace = fs::read_to_string(trace).unwrap();
    for direction in ["up", "down"] {
        let mut packets = delivered(&trace, direction);
        assert!(packets.all(|packet| packet == ("not_ect", "not_ect")), "{direction}");
    }
}

/// A library that, loaded before all others, has the kernel refuse marks, as old ones do.
const REFUSE_MARKS: &str = "\
    #define _GNU_SOURCE\n\
    #include <errno.h>\n\
    #include <netinet/in.h>\n\
    #include <sys/socket.h>\n\
    #include <sys/syscall.h>\n\
    #include <unistd.h>\n\
    ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {\n\
        struct cmsghdr *at = CMSG_FIRSTHDR(message);\n\
        for (; at; at = CMSG_NXTHDR((struct msghdr *)message, at)) {\n\
            if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS) {\n\
                errno = EINVAL;\n\
                return -1;\n\
            }\n\
        }\n\
        return syscall(SYS_sendmsg, fd, message, flags);\n\
    }\n";

#[test]
fn system_that_refuses_marks_sends_without() {
    let dir = tempfile::tempdir().unwrap();
    let library = build_library(dir.path(), REFUSE_MARKS);
    let listen = ["--listen", "127.0.0.1:0", "--root", ".", "--speedtest"];
    let options = ["--metrics", "127.0.0.1:0", "--workers", "1"];
    let mut server = server_command(&[&listen[..], &options].concat());
    let mut server = Running::start(server.env("LD_PRELOAD", library));
    let (address, metrics) = (server.address(), server.metrics_address());
    let trace = dir.path().join("trace.csv");
    let mut emulator = emulate(address, &format!("{PATH} --trace {}", trace.display()));
    let report = tempfile::tempfile().unwrap();
    assert!(fetch(emulator.address(), "/bytes/1000000", &report).end().0.success());
    let failed = "edge_server_ecn_connections_total{state=\"failed\"}";
    metrics::wait_until(metrics, failed, |failed| failed == 1);
    let segments = metrics::read(metrics, "edge_server_datagrams_per_send_max");
    assert!(segments > 1, "segmentation is on");
    assert!(server.stop().success());
    assert!(emulator.stop().success());
    let trace = fs::read_to_string(trace).unwrap();
    assert!(delivered(&trace, "down").all(|packet| packet == ("not_ect", "not_ect")));
    assert_eq!(read_json(&report)["ecn"]["state"], "capable", "the server reports marks");
}

/// The new process reads the socket: what the old one reports of its client's marks came over the
/// link between them.
#[test]
fn marks_survive_a_takeover() {
    let (line, mut old) = Line::begin();
    let mut emulator = emulate(line.address, "--rate 100 --rtt 20 --buffer 10000000");
    let report = tempfile::tempfile().unwrap();
    let mut client = fetch(emulator.address(), LONG, &report);
    metrics::wait_until(line.metrics, "edge_server_bytes_total{direction=\"sent\"}", |sent| {
        sent > 0
    });
    let mut new = line.succeed();
    assert!(client.end().0.success());
    assert!(old.end().0.success());
    assert!(new.stop().success());
    assert!(emulator.stop().success());
    let json = read_json(&report);
    assert_eq!(json["bytes"], LONG_BYTES);
    let ecn = &json["ecn"];
    assert_eq!(ecn["state"], "capable", "{ecn}");
    // The server did not report the last ones.
    let reported = ecn["reported"]["ect0"].as_u64().unwrap();
    assert!(reported > 100 && reported <= ecn["sent"].as_u64().unwrap(), "{ecn}");
}
