//! HTTP/3 application: the transfers of its load as requests and responses.

use super::super::quiche;
use super::urgency;
use super::Application;
use super::CHUNK;
use crate::scenario::Endpoint;
use crate::scenario::Priorities;
use crate::scenario::Requests;
use crate::trace;
use anyhow::Result;
use quiche::h3;
use quiche::h3::NameValue;
use std::io::Write;

impl Application {
    pub(super) fn step_http3(
        &mut self,
        conn: &mut quiche::Connection,
        elapsed: u64,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        if self.http3.is_none() {
            let config = h3::Config::new()?;
            match h3::Connection::with_transport(conn, &config) {
                Ok(http3) => self.http3 = Some(http3),
                Err(e) => return self.note(trace, format_args!("HTTP/3: {e:?}")),
            }
        }
        if self.endpoint == Endpoint::Client {
            self.send_requests(conn, elapsed, requests, trace)?;
        }
        if !self.is_paused {
            self.poll(conn, requests, trace)?;
        }
        self.send_responses(conn, requests, trace)?;
        self.write(conn, trace)
    }

    fn send_requests(
        &mut self,
        conn: &mut quiche::Connection,
        elapsed: u64,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        while self.is_due(elapsed, requests) && conn.peer_streams_left_bidi() > 0 {
            let path = format!("/file/{}", self.begun);
            let priority = format!("u={}, i", urgency(self.begun * 4));
            let mut headers = vec![
                h3::Header::new(b":method", if requests.up > 0 { b"POST" } else { b"GET" }),
                h3::Header::new(b":scheme", b"https"),
                h3::Header::new(b":authority", b"quic.tech"),
                h3::Header::new(b":path", path.as_bytes()),
                h3::Header::new(b"user-agent", b"same-packets"),
                h3::Header::new(b"cookie", &[b'x'; 200]),
            ];
            if requests.priorities != Priorities::Default {
                headers.push(h3::Header::new(b"priority", priority.as_bytes()));
            }
            let Some(http3) = &mut self.http3 else { return Ok(()) };
            match http3.send_request(conn, &headers, requests.up == 0) {
                Ok(stream) => {
                    if requests.up > 0 {
                        self.begin_write(stream, requests.up);
                    }
                    self.begun += 1;
                }
                Err(h3::Error::StreamBlocked | h3::Error::Done) => break,
                Err(e) => {
                    self.begun += 1;
                    self.note(trace, format_args!("request: {e:?}"))?;
                }
            }
        }
        Ok(())
    }

    fn poll(
        &mut self,
        conn: &mut quiche::Connection,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        loop {
            let Some(http3) = &mut self.http3 else { return Ok(()) };
            match http3.poll(conn) {
                Ok((stream, h3::Event::Data)) => self.read_body(conn, stream, trace)?,
                Ok((stream, h3::Event::Headers { list, more_frames })) => {
                    let names: Vec<u8> =
                        list.iter().flat_map(|h| [h.name(), h.value()].concat()).collect();
                    let hash = trace::hash(&names);
                    let text = format_args!("stream {stream} headers {hash:016x} {more_frames}");
                    self.note(trace, text)?;
                }
                Ok((stream, h3::Event::Finished)) => {
                    self.finish(stream, trace)?;
                    if self.endpoint == Endpoint::Server {
                        self.prioritize(conn, stream, requests.priorities, trace)?;
                        self.responses.push(stream);
                    }
                }
                Ok((stream, event)) => {
                    if matches!(event, h3::Event::Reset(_)) {
                        self.finished += 1;
                    }
                    self.note(trace, format_args!("stream {stream} {event:?}"))?;
                }
                Err(h3::Error::Done) => return Ok(()),
                Err(e) => return self.note(trace, format_args!("poll: {e:?}")),
            }
        }
    }

    fn read_body(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let mut buf = [0; CHUNK];
        loop {
            let Some(http3) = &mut self.http3 else { return Ok(()) };
            match http3.recv_body(conn, stream, &mut buf) {
                Ok(len) => self.take(stream, &buf[..len], trace)?,
                Err(h3::Error::Done) => return Ok(()),
                Err(e) => return self.note(trace, format_args!("body of {stream}: {e:?}")),
            }
        }
    }

    fn send_responses(
        &mut self,
        conn: &mut quiche::Connection,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let length = requests.down.to_string();
        let headers = [
            h3::Header::new(b":status", b"200"),
            h3::Header::new(b"server", b"same-packets"),
            h3::Header::new(b"content-type", b"application/octet-stream"),
            h3::Header::new(b"content-length", length.as_bytes()),
        ];
        let mut blocked = Vec::new();
        for stream in std::mem::take(&mut self.responses) {
            let Some(http3) = &mut self.http3 else { break };
            match http3.send_response(conn, stream, &headers, requests.down == 0) {
                Ok(()) if requests.down > 0 => {
                    self.begin_write(stream, requests.down);
                }
                Ok(()) => {}
                Err(h3::Error::StreamBlocked | h3::Error::Done) => blocked.push(stream),
                Err(e) => self.note(trace, format_args!("response on {stream}: {e:?}"))?,
            }
        }
        self.responses = blocked;
        Ok(())
    }
}
