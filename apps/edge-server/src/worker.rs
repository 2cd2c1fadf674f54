//! The connections of one event loop: packets are routed to them, new ones are
//! accepted, and each is served when something has happened to it.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::time::Instant;

use log::debug;
use log::warn;
use path_store::Answer;
use quiche::clock;
use quiche::hooks;
use quiche::path_state::PrefixLengths;
use quiche::ConnectionId;
use quiche::Header;
use quiche::QlogLevel;
use quiche::RecvInfo;
use quiche::Type;
use slab::Slab;

use crate::admission;
use crate::admission::Admission;
use crate::admission::Verdict;
use crate::config::Cli;
use crate::connection::Connection;
use crate::connection::Pause;
use crate::connection::Turn;
use crate::connection_ids;
use crate::connection_ids::IdMaker;
use crate::connection_ids::RoutingId;
use crate::deadlines::Deadlines;
use crate::disk::Disk;
use crate::metrics::WorkerMetrics;
use crate::outbox::Outbox;
use crate::path_key::PathKey;
use crate::qlog_file::QlogDir;
use crate::saved_paths::ConnectionKey;
use crate::saved_paths::SavedPaths;
use crate::site::sites::Sites;
use crate::socket::Socket;
use crate::stateless_reset::StatelessResets;
use crate::tokens::Proof;
use crate::tokens::Tokens;
use crate::transport::Quic;
use crate::transport::Transport;

/// Memory for what clients upload: a piece is counted and dropped.
const SCRATCH_BYTES: usize = 64 << 10;

/// Shortest datagram with an Initial packet, in bytes (RFC 9000, 14.1), and shortest one
/// that may open a connection.
const INITIAL_BYTES_MIN: usize = 1200;

/// Everything that one event loop serves with.
pub struct Worker {
    sites: Sites,
    disk: Disk,
    transport: Transport,
    path_key: PathKey,
    id_maker: IdMaker,
    admission: Admission,
    resets: StatelessResets,
    saved: SavedPaths,
    metrics: WorkerMetrics,
    paced: bool,
    qlogs: Option<QlogDir>,

    connections: Slab<Connection>,
    routes: HashMap<RoutingId, usize>,
    serial_next: u64,
    deadlines: Deadlines,

    /// Slots to be served, each once, and memory for those being served.
    touched: Vec<usize>,
    serving: Vec<usize>,

    /// Slots that wait for room in the socket.
    stalled: BTreeSet<usize>,

    outbox: Outbox,
    scratch: Vec<u8>,

    /// The server stops: nobody new is let in.
    stopping: bool,
}

impl Worker {
    /// The worker that connection IDs name `name`.
    pub fn new(
        name: u8,
        cli: &Cli,
        sites: Sites,
        disk: Disk,
        transport: Transport,
        saved: SavedPaths,
        metrics: WorkerMetrics,
    ) -> Self {
        let secrets = transport.secrets.clone();
        let tokens = Tokens::new(secrets.clone());
        let retry_above = cli.retry_above as usize;
        let lengths = PrefixLengths { v4: cli.prefix_v4, v6: cli.prefix_v6 };
        Self {
            sites,
            disk,
            transport,
            path_key: PathKey::new(cli.path_group.clone(), lengths, cli.path_dscp),
            id_maker: IdMaker::new(name, secrets.clone()),
            admission: Admission::new(tokens, retry_above, metrics.admission.clone()),
            resets: StatelessResets::new(secrets),
            saved,
            metrics,
            // Careful Resume turns pacing on.
            paced: cli.resumes(),
            qlogs: cli.qlog_dir.clone().map(QlogDir::new),
            connections: Slab::new(),
            routes: HashMap::new(),
            serial_next: 0,
            deadlines: Deadlines::default(),
            touched: Vec::new(),
            serving: Vec::new(),
            stalled: BTreeSet::new(),
            outbox: Outbox::new(),
            scratch: vec![0; SCRATCH_BYTES],
            stopping: false,
        }
    }

    /// The earliest deadline of a connection.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first()
    }

    /// Connections wait for their turn.
    pub fn has_work(&self) -> bool {
        !self.touched.is_empty() || self.saved.has_answers()
    }

    /// A datagram has come.
    pub fn on_datagram(&mut self, socket: &Socket, info: RecvInfo, datagram: &mut [u8]) {
        let Ok(header) = Header::from_slice(datagram, connection_ids::LEN) else {
            return;
        };
        // RFC 9000, 14.1: also where it belongs to a connection.
        if header.ty == Type::Initial && datagram.len() < INITIAL_BYTES_MIN {
            return;
        }
        let slot = match self.routes.get(header.dcid.as_ref()) {
            Some(slot) => *slot,
            None => match self.on_stranger(socket, info, &header, datagram.len()) {
                Some(slot) => slot,
                None => return,
            },
        };
        self.connections[slot].on_datagram(info, datagram, &self.path_key);
        self.touch(slot);
    }

    /// Answers of the store have come.
    pub fn on_store(&mut self) {
        while let Some((key, answer)) = self.saved.next_answer() {
            self.on_answer(key, answer);
        }
    }

    /// Pieces of files have been read.
    pub fn on_disk(&mut self) {
        while let Some(fetched) = self.disk.next() {
            let slot = fetched.connection.slot();
            let connection = self.connections.get_mut(slot);
            if let Some(connection) = connection.filter(|c| c.key == fetched.connection) {
                connection.on_fetched(fetched.stream, fetched.bytes);
                self.touch(slot);
            }
        }
    }

    /// The socket takes packets again.
    pub fn on_writable(&mut self, socket: &Socket) {
        if self.outbox.flush(socket).is_ok() {
            for slot in std::mem::take(&mut self.stalled) {
                self.touch(slot);
            }
        }
    }

    /// Serves the connections whose deadlines have passed and those that
    /// something happened to.
    pub fn serve(&mut self, socket: &Socket) {
        let now = clock::now();
        if self.saved.has_answers() {
            self.on_store();
        }
        while let Some(slot) = self.deadlines.pop_due(now) {
            self.connections[slot].on_timeout(now);
            self.touch(slot);
        }
        let mut serving = std::mem::take(&mut self.serving);
        std::mem::swap(&mut serving, &mut self.touched);
        for slot in serving.drain(..) {
            self.serve_one(socket, slot);
        }
        self.serving = serving;
    }

    /// Begins to close every connection, and keeps what they learnt.
    pub fn stop(&mut self) {
        self.stopping = true;
        let now = clock::now();
        for (_, connection) in &mut self.connections {
            connection.stop(&self.saved, now);
        }
        let slots: Vec<_> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.touch(slot);
        }
    }

    /// No client is left that does not know of the end.
    pub fn is_stopped(&self) -> bool {
        self.outbox.is_empty() && self.connections.iter().all(|(_, c)| c.is_ended())
    }

    /// Drops every connection. Claims that are answered only now go back.
    pub fn end(mut self) {
        self.connections.clear();
        self.routes.clear();
        self.on_store();
    }

    fn touch(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot) {
            if !std::mem::replace(&mut connection.touched, true) {
                self.touched.push(slot);
            }
        }
    }

    fn serve_one(&mut self, socket: &Socket, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else {
            return;
        };
        connection.touched = false;
        if connection.quic().is_established() {
            // It is sent before the response: the client may leave with that.
            if let Some(token) = self.admission.on_established(slot, clock::wall_now()) {
                let _ = hooks::send_new_token(connection.quic(), token);
            }
        }
        let mut turn = Turn {
            socket,
            outbox: &mut self.outbox,
            sites: &self.sites,
            disk: &self.disk,
            http: &self.transport.http,
            saved: &self.saved,
            metrics: &self.metrics,
            paced: self.paced,
            scratch: &mut self.scratch,
        };
        let pause = connection.progress(&mut turn);
        if connection.is_closed() {
            return self.remove(slot);
        }
        self.deadlines.set(slot, connection.deadline(pause));
        match pause {
            Pause::SocketFull => {
                self.stalled.insert(slot);
            }
            Pause::Turn => self.touch(slot),
            Pause::Idle | Pause::Paced(_) => (),
        }
        self.renew_ids(slot);
    }

    /// Gives the client spare connection IDs, and drops those it is done with.
    fn renew_ids(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        while let Some(retired) = connection.quic().retired_scid_next() {
            let retired = RoutingId::new(&retired);
            connection.ids.retain(|id| *id != retired);
            self.routes.remove(&retired);
        }
        if !connection.quic().is_established() || connection.quic().scids_left() == 0 {
            return;
        }
        let Some(local) = connection.local_address() else { return };
        let mut fresh = false;
        while connection.quic().scids_left() > 0 {
            let Some(id) = self.id_maker.connection_id() else { break };
            let Some(reset_token) = self.id_maker.reset_token(&id, local) else { break };
            if connection.quic().new_scid(&id.as_quic(), reset_token, false).is_err() {
                break;
            }
            connection.ids.push(id);
            self.routes.insert(id, slot);
            fresh = true;
        }
        if fresh {
            self.touch(slot);
        }
    }

    fn remove(&mut self, slot: usize) {
        let connection = self.connections.remove(slot);
        for id in &connection.ids {
            self.routes.remove(id);
        }
        debug!("{}: connection is over", connection.trace_id());
        self.metrics.count_end();
        self.admission.on_end(slot);
        self.deadlines.set(slot, None);
        self.stalled.remove(&slot);
    }

    /// A packet with an unknown connection ID: a new client's, that of a connection
    /// which is no more, or nothing.
    fn on_stranger(
        &mut self,
        socket: &Socket,
        info: RecvInfo,
        header: &Header<'_>,
        datagram_bytes: usize,
    ) -> Option<usize> {
        if self.stopping {
            return None;
        }
        if header.ty == Type::Short {
            self.reset(socket, info, &header.dcid, datagram_bytes);
            return None;
        }
        if datagram_bytes < INITIAL_BYTES_MIN {
            return None;
        }
        if !quiche::version_is_supported(header.version) {
            self.negotiate_version(socket, info, header);
            return None;
        }
        if header.ty != Type::Initial || self.connections.len() >= ConnectionKey::SLOTS_MAX {
            return None;
        }
        let wall_now = clock::wall_now();
        let id = self.id_maker.connection_id()?;
        let admission = &mut self.admission;
        match admission.judge(header, info.from, wall_now) {
            Verdict::Admit(proof) => return self.accept(info, id, &header.dcid, proof),
            Verdict::Retry => self.outbox.answer(info, socket, |room| {
                admission.write_retry(header, info.from, &id, wall_now, room)
            }),
            Verdict::Refuse => {
                self.outbox.answer(info, socket, |room| admission.write_refusal(header, room));
            }
        }
        None
    }

    fn accept(
        &mut self,
        info: RecvInfo,
        id: RoutingId,
        client_choice: &ConnectionId<'_>,
        proof: Option<Proof>,
    ) -> Option<usize> {
        let reset_token = self.id_maker.reset_token(&id, info.to);
        let config = &mut self.transport.quic;
        config.set_stateless_reset_token(reset_token);
        let mut quic = match admission::accept(&id, client_choice, proof, info, config) {
            Ok(quic) => quic,
            Err(e) => {
                warn!("cannot accept a connection from {}: {e}", info.from);
                return None;
            }
        };
        debug!("{}: connection from {}", quic.trace_id(), info.from);
        self.metrics.count_connection();
        self.start_qlog(&mut quic, id);

        let endpoint = self.path_key.remote_endpoint(info.to.ip(), info.from);
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let key = ConnectionKey::new(slot, self.serial_next);
        self.serial_next += 1;
        self.saved.read(key, &endpoint);
        self.admission.on_accepted(slot, info.from.ip());

        let ids = vec![id, RoutingId::new(client_choice)];
        self.routes.extend(ids.iter().map(|id| (*id, slot)));
        entry.insert(Connection::new(key, ids, quic, endpoint, clock::now()));
        Some(slot)
    }

    fn start_qlog(&self, quic: &mut Quic, id: RoutingId) {
        let log = self.qlogs.as_ref().and_then(|logs| logs.create(&id.to_string()));
        if let Some(log) = log {
            quic.set_qlog_with_level(
                Box::new(log),
                "edge-server".to_owned(),
                format!("connection {id}"),
                QlogLevel::Extra,
            );
        }
    }

    fn negotiate_version(&mut self, socket: &Socket, info: RecvInfo, header: &Header<'_>) {
        if header.ty == Type::VersionNegotiation {
            return;
        }
        self.outbox.answer(info, socket, |room| {
            quiche::negotiate_version(&header.scid, &header.dcid, room).ok()
        });
    }

    /// Tells a client that its connection is no more.
    fn reset(&mut self, socket: &Socket, info: RecvInfo, id: &ConnectionId<'_>, bytes: usize) {
        let (resets, metrics) = (&mut self.resets, &self.metrics.admission);
        self.outbox.answer(info, socket, |room| {
            let length = resets.write(id, info.to, bytes, clock::now(), room)?;
            metrics.count_reset();
            Some(length)
        });
    }

    fn on_answer(&mut self, key: ConnectionKey, answer: Answer) {
        let connection = self.connections.get_mut(key.slot()).filter(|c| c.key == key);
        match (connection, answer) {
            (Some(connection), Answer::Read { state, .. }) => connection.on_read(state),
            (Some(connection), Answer::Claimed { claim, .. }) => {
                connection.on_claim(claim, &self.saved);
            }
            // The client was gone before the claim came.
            (None, Answer::Claimed { endpoint, claim: Some(claim), .. }) => {
                return self.saved.release(&endpoint, claim.token);
            }
            (None, _) => return,
        }
        self.touch(key.slot());
    }
}
