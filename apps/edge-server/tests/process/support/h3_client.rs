//! HTTP/3 client's settings, resumption data and responses, without a socket or a clock.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;

use quiche::h3;
use quiche::h3::NameValue;

quiche::stand_ins!();

/// What a client grants the server.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Data of responses that it may send before the client has read them.
    pub window_bytes: u64,

    /// How long the connection lives without packets.
    pub idle_timeout: Duration,

    /// Connection IDs that it may have of the server at a time.
    pub connection_ids: u64,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self { window_bytes: 100 << 20, idle_timeout: Duration::from_secs(20), connection_ids: 2 }
    }
}

/// What a connection leaves for the next one.
#[derive(Clone, Debug, Default)]
pub struct ResumptionData {
    /// Proves the client's address.
    pub token: Option<Vec<u8>>,

    /// The TLS session.
    pub session: Option<Vec<u8>>,
}

impl ResumptionData {
    pub fn of(quic: &quiche::Connection) -> Self {
        Self {
            token: quic.new_token().map(<[u8]>::to_vec),
            session: quic.session().map(<[u8]>::to_vec),
        }
    }

    pub fn is_complete(&self) -> bool {
        self.token.is_some() && self.session.is_some()
    }

    /// Offers it on a connection that has not sent anything yet.
    pub fn offer(&self, quic: &mut quiche::Connection) {
        if let Some(session) = &self.session {
            quic.set_session(session).unwrap();
        }
        if let Some(token) = &self.token {
            quic.set_token(token).unwrap();
        }
    }
}

/// The part of a response that has arrived.
#[derive(Clone, Debug, Default)]
pub struct ClientResponse {
    /// Those of interim responses and the final one.
    pub headers: HashMap<String, String>,

    /// One, or several if there are interim responses.
    pub statuses: Vec<String>,

    /// Fields that follow the body.
    pub trailers: HashMap<String, String>,
    pub body: Vec<u8>,
    pub finished: bool,
    pub reset: Option<u64>,
}

impl ClientResponse {
    pub fn status(&self) -> &str {
        &self.headers[":status"]
    }
}

/// Responses by stream, and GOAWAY frames.
#[derive(Clone, Debug, Default)]
pub struct ReceivedResponses {
    pub responses: BTreeMap<u64, ClientResponse>,

    /// Streams from which on requests are not answered.
    pub goaways: Vec<u64>,
}

impl ReceivedResponses {
    /// Reads what has arrived.
    pub fn poll(&mut self, http: &mut h3::Connection, quic: &mut quiche::Connection) {
        let mut chunk = vec![0; 64 << 10];
        while let Ok((stream, event)) = http.poll(quic) {
            if event == h3::Event::GoAway {
                self.goaways.push(stream);
                continue;
            }
            let response = self.responses.entry(stream).or_default();
            match event {
                h3::Event::Headers { list, .. } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let lines = list.iter().map(|h| (text(h.name()), text(h.value())));
                    let lines: HashMap<_, _> = lines.collect();
                    match lines.get(":status").cloned() {
                        Some(status) => {
                            response.statuses.push(status);
                            response.headers.extend(lines);
                        }
                        None => response.trailers.extend(lines),
                    }
                }
                h3::Event::Data => {
                    while let Ok(count) = http.recv_body(quic, stream, &mut chunk) {
                        response.body.extend_from_slice(&chunk[..count]);
                    }
                }
                h3::Event::Finished => response.finished = true,
                h3::Event::Reset(code) => response.reset = Some(code),
                h3::Event::PriorityUpdate | h3::Event::GoAway => (),
            }
        }
    }

    /// Returns whether a response has ended one way or the other.
    pub fn has_ended(&self, stream: u64) -> bool {
        let response = self.responses.get(&stream);
        response.is_some_and(|r| r.finished || r.reset.is_some())
    }

    /// Returns how much of a body has arrived.
    pub fn body_bytes(&self, stream: u64) -> usize {
        self.responses.get(&stream).map_or(0, |response| response.body.len())
    }
}

/// Returns the settings of a client without limits of its own.
pub fn client_config() -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(h3::APPLICATION_PROTOCOL).unwrap();
    config.verify_peer(false);
    config
}

/// Returns the settings of a client with these limits, which may send early data.
pub fn client_config_with(limits: ClientLimits) -> quiche::Config {
    let mut config = client_config();
    config.set_max_idle_timeout(limits.idle_timeout.as_millis() as u64);
    config.set_initial_max_data(limits.window_bytes);
    config.set_max_connection_window(limits.window_bytes);
    config.set_initial_max_stream_data_bidi_local(limits.window_bytes);
    config.set_max_stream_window(limits.window_bytes);
    config.set_initial_max_stream_data_uni(limits.window_bytes);
    config.set_initial_max_streams_uni(3);
    config.set_active_connection_id_limit(limits.connection_ids);
    config.enable_early_data();
    config
}
