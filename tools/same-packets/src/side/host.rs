//! Host: an endpoint's connection and its application.

use super::addresses::connection_id;
use super::addresses::server_address;
use super::load::Application;
use super::quiche;
use crate::determinism;
use crate::determinism::Generator;
use crate::scenario::Endpoint;
use crate::scenario::Scenario;
use crate::trace;
pub use crate::trace::Datagram;
use anyhow::Result;
use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Instant;

/// Most datagrams that a host sends at once; a connection that sends more never stops.
const BURST_MAX: usize = 5000;

/// An endpoint's connection, once there is one, and its application.
pub struct Host {
    pub conn: Option<quiche::Connection>,
    endpoint: Endpoint,
    application: Application,
    is_established: bool,
    migrates_to: Option<SocketAddr>,

    /// The same instant on all hosts, and the elapsed time of the clock there.
    base: (Instant, u64),
}

impl Host {
    pub fn new(endpoint: Endpoint, scenario: &Scenario) -> Self {
        Self {
            conn: None,
            endpoint,
            application: Application::new(endpoint, scenario),
            is_established: false,
            migrates_to: None,
            base: (now(), determinism::elapsed()),
        }
    }

    pub fn is_closed(&self) -> bool {
        match &self.conn {
            Some(conn) => conn.is_closed(),
            None => false,
        }
    }

    /// Returns whether the application has nothing more to do, `elapsed` ns after the start.
    pub fn is_done(&self, elapsed: u64) -> bool {
        self.is_established && self.application.is_done(elapsed)
    }

    /// Returns when the application begins the next transfer, in ns after the start.
    pub fn next_start(&self, elapsed: u64) -> Option<u64> {
        self.application.next_start(elapsed).filter(|_| self.is_established)
    }

    /// Returns when the connection's timer expires.
    pub fn timeout_at(&self) -> Option<u64> {
        let at = self.conn.as_ref()?.timeout_instant()?;
        Some(self.elapsed_at(at).max(determinism::elapsed()))
    }

    fn elapsed_at(&self, at: Instant) -> u64 {
        self.base.1 + at.saturating_duration_since(self.base.0).as_nanos() as u64
    }

    pub fn on_timeout(&mut self) {
        if let Some(conn) = &mut self.conn {
            conn.on_timeout();
        }
    }

    pub fn receive(&mut self, mut datagram: Datagram, trace: &mut dyn Write) -> Result<()> {
        let Some(conn) = &mut self.conn else {
            return Ok(());
        };
        let info = quiche::RecvInfo { from: datagram.from, to: datagram.to };
        match conn.recv(&mut datagram.bytes, info) {
            Ok(len) if len == datagram.bytes.len() => Ok(()),
            done => self.note(trace, format_args!("recv: {done:?}")),
        }
    }

    /// Takes what the connection sends now.
    pub fn send(&mut self, trace: &mut dyn Write) -> Result<Vec<Datagram>> {
        let mut datagrams = Vec::new();
        let Some(conn) = &mut self.conn else {
            return Ok(datagrams);
        };
        let mut buf = [0; 1500];
        while datagrams.len() < BURST_MAX {
            match conn.send(&mut buf) {
                Ok((len, info)) => datagrams.push(Datagram {
                    from: info.from,
                    to: info.to,
                    departs_at: self.base.1
                        + info.at.saturating_duration_since(self.base.0).as_nanos() as u64,
                    bytes: buf[..len].to_vec(),
                }),
                Err(quiche::Error::Done) => return Ok(datagrams),
                Err(e) => {
                    self.note(trace, format_args!("send: {e:?}"))?;
                    return Ok(datagrams);
                }
            }
        }
        self.note(trace, "sends without end")?;
        self.conn = None;
        Ok(datagrams)
    }

    /// Lets the application read and write.
    pub fn step(
        &mut self,
        elapsed: u64,
        random: &mut Generator,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let Some(conn) = &mut self.conn else {
            return Ok(());
        };
        if conn.is_closed() || conn.is_draining() {
            return Ok(());
        }
        if !self.is_established && conn.is_established() {
            self.is_established = true;
            let text = format!("{:?} established, resumed {}", self.endpoint, conn.is_resumed());
            trace::note(trace, &text)?;
        }
        if self.is_established {
            while conn.scids_left() > 0 {
                let token = u128::from(random.next()) << 64 | u128::from(random.next());
                conn.new_scid(&connection_id(random), token, false)?;
            }
            while conn.retired_scid_next().is_some() {}
        }
        while let Some(event) = conn.path_event_next() {
            trace::note(trace, &format!("{:?} path: {event:?}", self.endpoint))?;
            if let quiche::PathEvent::Validated(local, peer) = event {
                if self.migrates_to == Some(local) {
                    self.migrates_to = None;
                    let done = conn.migrate(local, peer);
                    trace::note(trace, &format!("{:?} migrate: {done:?}", self.endpoint))?;
                }
            }
        }
        self.application.step(conn, elapsed, trace)
    }

    /// Moves the client to another address, after a probe or at once.
    pub fn migrate(
        &mut self,
        local: SocketAddr,
        after_probe: bool,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let Some(conn) = &mut self.conn else {
            return Ok(());
        };
        let done = if after_probe {
            self.migrates_to = Some(local);
            conn.probe_path(local, server_address())
        } else {
            conn.migrate(local, server_address())
        };
        self.note(trace, format_args!("leaves its address: {done:?}"))
    }

    pub fn shut_down(
        &mut self,
        stream: u64,
        direction: quiche::Shutdown,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let Some(conn) = &mut self.conn else {
            return Ok(());
        };
        let is_reading = direction == quiche::Shutdown::Read;
        let done = conn.stream_shutdown(stream, direction, 77);
        if done.is_ok() {
            self.application.forget(stream, is_reading);
        }
        self.note(trace, format_args!("shutdown of {stream}: {done:?}"))
    }

    pub fn pause_reading(&mut self, on: bool) {
        self.application.is_paused = on;
    }

    pub fn ping(&mut self, trace: &mut dyn Write) -> Result<()> {
        let Some(conn) = &mut self.conn else {
            return Ok(());
        };
        let done = conn.send_ack_eliciting();
        self.note(trace, format_args!("ping: {done:?}"))
    }

    pub fn close(&mut self, trace: &mut dyn Write) -> Result<()> {
        let Some(conn) = &mut self.conn else {
            return Ok(());
        };
        let done = conn.close(true, 7, b"the end");
        self.note(trace, format_args!("close: {done:?}"))
    }

    pub fn retire_connection_id(&mut self, trace: &mut dyn Write) -> Result<()> {
        let Some(conn) = &mut self.conn else {
            return Ok(());
        };
        let done = conn.retire_dcid(0);
        self.note(trace, format_args!("retires a connection ID: {done:?}"))
    }

    fn note(&self, trace: &mut dyn Write, text: impl Display) -> Result<()> {
        trace::note(trace, &format!("{:?} {text}", self.endpoint))
    }

    /// Returns the result of the connection, as its application sees it.
    pub fn summary(&self) -> String {
        let end = self.conn.as_ref().map_or("no connection".to_string(), |conn| {
            format!(
                "closed {}, timed out {}, peer {:?}, local {:?}",
                conn.is_closed(),
                conn.is_timed_out(),
                conn.peer_error(),
                conn.local_error()
            )
        });
        format!("{:?} at the end: {}; {end}", self.endpoint, self.application.summary())
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock is virtual")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::super::addresses::client_address;
    use super::*;
    use quiche::test_utils::Pipe;

    #[test]
    fn datagram_that_cannot_be_read_is_in_the_trace() {
        let scenario = Scenario::new("test");
        let mut config = super::super::config(&scenario, Endpoint::Server).unwrap();
        let mut host = Host::new(Endpoint::Client, &scenario);
        host.conn = Some(Pipe::with_config(&mut config).unwrap().client);
        let (from, to) = (server_address(), client_address(1));
        let mut trace = Vec::new();
        let bytes = Vec::new();
        host.receive(Datagram { from, to, departs_at: 0, bytes }, &mut trace).unwrap();
        let trace = String::from_utf8(trace).unwrap();
        assert!(trace.contains("Client recv: Err(BufferTooShort)"), "{trace}");
    }
}
