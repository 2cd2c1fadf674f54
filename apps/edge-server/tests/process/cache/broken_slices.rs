//! Slices that break off, or are not what was asked for.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::body_of;
use super::get;
use super::serve;
use super::slices::part;
use super::slices::HEAD;
use super::slices::LENGTH;
use super::slices::SETTINGS;
use crate::origin::over_all;
use crate::origin::scripted::target_of;
use crate::origin::scripted::Act;
use crate::origin::scripted::ScriptedOrigin;
use crate::support::metrics;

/// Bytes that come of a slice that breaks off.
const BYTES: usize = 1000;

/// Returns the acts of a response cut off after some bytes of its body.
fn cut(acts: Vec<Act>) -> Vec<Act> {
    let [Act::Send(head), Act::Send(body)] = &acts[..] else { panic!("{acts:?}") };
    vec![Act::Send(head.clone()), Act::Send(body[..BYTES].to_vec()), Act::Close]
}

/// Returns the acts of a part as a chunk, which lacks the last bytes.
fn short_chunk(acts: Vec<Act>) -> Vec<Act> {
    let [Act::Send(head), Act::Send(body)] = &acts[..] else { panic!("{acts:?}") };
    let head = String::from_utf8(head.clone()).unwrap();
    let lines = head.trim_end().lines().filter(|line| !line.starts_with("content-length"));
    let head = lines.collect::<Vec<_>>().join("\r\n");
    let head = format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n");
    let kept = &body[..body.len().saturating_sub(9)];
    let size = format!("{:x}\r\n", kept.len());
    let chunk = [size.as_bytes(), kept, b"\r\n0\r\n\r\n"].concat();
    vec![Act::Send(head.into_bytes()), Act::Send(chunk)]
}

fn asks_for(head: &str, range: &str) -> bool {
    head.contains(&format!("\r\nrange: bytes={range}\r\n"))
}

#[test]
fn rest_of_a_slice_that_breaks_off_is_asked_for_once() {
    let path = format!("/app/film-{LENGTH}");
    let body = body_of(&path);
    // A slice that is fetched ahead may break off, with its rest, before the client needs it, and is then asked for
    // anew: so it breaks off until the client has its answer.
    for (breaks, is_whole) in [(1, true), (usize::MAX, false)] {
        let [cuts, cuts_max] = [0, breaks].map(|count| Arc::new(AtomicUsize::new(count)));
        let (own, own_cuts, own_max) = (body.clone(), Arc::clone(&cuts), Arc::clone(&cuts_max));
        let origin = ScriptedOrigin::start_by_head(move |head| {
            let acts = part(head, HEAD, &own);
            let is_second = asks_for(head, "65536-131071") || asks_for(head, "66536-131071");
            let max = own_max.load(Ordering::SeqCst);
            match is_second && own_cuts.load(Ordering::SeqCst) < max {
                true => {
                    own_cuts.fetch_add(1, Ordering::SeqCst);
                    cut(acts)
                }
                false => acts,
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let (mut server, address, metrics_at) = serve(dir.path(), origin.address, SETTINGS);
        let got = get(address, &path, &[]);
        cuts_max.store(0, Ordering::SeqCst);
        assert_eq!(
            got.is_some_and(|(status, _, got)| (status, got) == (200, body.clone())),
            is_whole
        );
        let heads = origin.requests(&path);
        let asked = |range| heads.iter().filter(move |head| asks_for(head, range));
        let rest: Vec<_> = asked("66536-131071").collect();
        assert!((1..=asked("65536-131071").count()).contains(&rest.len()), "{heads:?}");
        assert!(rest.iter().all(|head| head.contains("\r\nif-range: \"1\"\r\n")), "{rest:?}");
        let broken = "edge_server_origin_requests_total{outcome=\"broken\"}";
        metrics::wait_until(metrics_at, broken, |broken| {
            broken == cuts.load(Ordering::SeqCst) as u64
        });
        // What broke off is not kept, and the origin is well again.
        for reply in over_all(address, "GET", &path, &[]) {
            assert!(reply.is_some_and(|(status, _, got)| status == 200 && got == body));
        }
        assert!(server.stop().success());
    }
}

#[test]
fn rest_of_another_response_is_not_mixed_with_the_slice() {
    let path = format!("/app/film-{LENGTH}");
    let body = body_of(&path);
    let own = body.clone();
    let origin = ScriptedOrigin::start_by_head(move |head| {
        let changed = HEAD.replace("\"1\"", "\"2\"");
        match head {
            _ if asks_for(head, "65536-131071") => cut(part(head, HEAD, &own)),
            _ if asks_for(head, "66536-131071") => part(head, &changed, &own),
            _ => part(head, HEAD, &own),
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
    assert!(get(address, &path, &[]).is_none(), "it breaks off");
    assert!(server.stop().success());
}

#[test]
fn slices_that_are_too_short_are_given_up() {
    let body = body_of(&format!("/app/film-{LENGTH}"));
    for later in [false, true] {
        let own = body.clone();
        let path = format!("/app/{later}");
        let origin = ScriptedOrigin::start_by_head(move |head| {
            let acts = part(head, HEAD, &own);
            // Also the rest of it.
            let is_first = asks_for(head, "0-65535") || asks_for(head, "65527-65535");
            match head.contains("\r\nrange: ") && is_first != later {
                true => short_chunk(acts),
                false => acts,
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let (mut server, address, _) = serve(dir.path(), origin.address, SETTINGS);
        assert!(get(address, &path, &[]).is_none(), "it breaks off");
        for reply in over_all(address, "GET", &path, &[]) {
            assert!(reply.is_some_and(|(status, _, got)| status == 200 && got == body), "{later}");
        }
        let whole = origin.requests(&path);
        assert_eq!(whole.iter().filter(|head| !head.contains("\r\nrange: ")).count(), 1);
        assert_eq!(target_of(&whole[0]), path);
        assert!(server.stop().success());
    }
}
