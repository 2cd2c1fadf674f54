//! Acceptance of new connections, and replies to other packets of no connection: Retry,
//! refusal, Version Negotiation, stateless reset.

use std::net::IpAddr;
use std::time::Instant;

use ab_test::Arm;
use log::debug;
use log::warn;
use path_store::OwnState;
use path_store::StateKept;
use quiche::clock;
use quiche::path_state::RemoteEndpoint;
use quiche::ConnectionId;
use quiche::Header;
use quiche::QlogLevel;
use quiche::RecvInfo;
use quiche::Type;

use crate::admission;
use crate::admission::connection_limits::Limit;
use crate::admission::reason::Refusal;
use crate::admission::room_requests::RoomRequest;
use crate::admission::Acceptance;
use crate::admission::Decision;
use crate::admission::Now;
use crate::connection::issued_ids::IssuedIds;
use crate::connection::lifecycle::CloseReason;
use crate::connection::lifetime::Lifetime;
use crate::connection::shutdown::Stage;
use crate::connection::Connection;
use crate::net::route::PacketSink;
use crate::quic::connection_id;
use crate::quic::connection_id::Cid;
use crate::quic::connection_id::GeneratedId;
use crate::quic::handle::ConnectionHandle;
use crate::quic::header;
use crate::quic::session_ticket;
use crate::quic::token::AddressValidation;
use crate::quic::Quic;
use crate::resume::carried_state::CarriedState;
use crate::resume::own_state;
use crate::resume::own_state::Issuer;
use crate::resume::summary::ResumeSummary;
use crate::telemetry::metrics::NodeDrop;
use crate::worker::Worker;
use crate::worker::INITIAL_BYTES_MIN;

impl Worker {
    /// Handles a datagram with an unknown connection ID: of a new client, of a connection that
    /// has ended, or of neither. Returns the slot of a new connection.
    pub(super) fn handle_first_packet(
        &mut self,
        sink: &dyn PacketSink,
        info: RecvInfo,
        datagram: &mut [u8],
    ) -> Option<usize> {
        let datagram_bytes = datagram.len();
        if !header::is_long(datagram) {
            self.reset(sink, info, header::destination_id(datagram)?, datagram_bytes);
            return None;
        }
        let header = &Header::from_slice(datagram, connection_id::LEN).ok()?;
        if datagram_bytes < INITIAL_BYTES_MIN {
            return None;
        }
        if !quiche::version_is_supported(header.version) {
            self.negotiate_version(sink, info, header);
            return None;
        }
        if header.ty != Type::Initial || self.connections.len() >= ConnectionHandle::SLOTS_MAX {
            return None;
        }
        if self.drain.rolls_back() {
            // The client sends the packet again, to the older process.
            return None;
        }
        if self.drain.stage() > Stage::Serving {
            // RFC 9000, 5.2.2: the client learns at once that it has to connect elsewhere.
            self.refuse(sink, info, header, Refusal::Draining);
            return None;
        }
        let wall_now = clock::wall_now();
        let id = self.id_generator.generate()?;
        let now = Now { instant: clock::now(), wall: wall_now };
        let (list, connections) = (&mut self.replaceable, &self.connections);
        let from = |slot| connections.get(slot)?.replaceable_from();
        let replaceable = |groups: &[_]| list.longest_of(groups, now.instant, from);
        let admission = &mut self.admission;
        let may_be_given = self.room_requests.may_be_given(now.instant);
        match admission.decide(header, info.from, replaceable, may_be_given, &self.limits, now) {
            Decision::Accept(acceptance) => {
                if let Some(replaced) = acceptance.replaced {
                    self.replace(sink, replaced, now.instant);
                }
                return self.accept(info, id, &header.dcid, acceptance);
            }
            Decision::Retry(reason) => self.send_queue.reply(info, sink, |room| {
                let length = admission.write_retry(header, info.from, &id.cid, wall_now, room)?;
                self.metrics.admission.count_retry(reason);
                Some(length)
            }),
            Decision::Refuse(Refusal::Limit(limit))
                if self.may_get_room(info, limit, now.instant) =>
            {
                // It sends the packet again.
            }
            Decision::Refuse(refusal) => self.refuse(sink, info, header, refusal),
        }
        None
    }

    /// Returns whether a client may get room from another worker, so that it is not refused yet.
    fn may_get_room(&mut self, info: RecvInfo, limit: Limit, now: Instant) -> bool {
        let request = RoomRequest { client: info.from.ip(), limit };
        let may_hope = limit != Limit::Rate && self.room_requests.ask(request, now);
        if may_hope {
            self.admission.release_token();
        }
        may_hope
    }

    /// Makes room for clients of other workers, as far as they still need it.
    pub(super) fn make_room(&mut self, sink: &dyn PacketSink, now: Instant) {
        for RoomRequest { client, .. } in self.room_requests.take() {
            let Some(limit) = self.admission.reached(client, &self.limits) else { continue };
            match self.replaceable(client, limit, now) {
                Some(slot) => self.replace(sink, slot, now),
                None => self.room_requests.on_empty(now),
            }
        }
    }

    /// Returns the slot of a connection that a client may replace where a limit is reached.
    pub(super) fn replaceable(
        &mut self,
        client: IpAddr,
        limit: Limit,
        now: Instant,
    ) -> Option<usize> {
        let groups = self.admission.fuller_groups(client, limit);
        let from = |slot: usize| self.connections.get(slot)?.replaceable_from();
        self.replaceable.longest_of(&groups, now, from)
    }

    /// Closes a connection for a new client.
    pub(super) fn replace(&mut self, sink: &dyn PacketSink, slot: usize, now: Instant) {
        self.connections[slot].close(CloseReason::Replaced, &self.store, now);
        self.budgets.count_replacement();
        self.serve_one(sink, slot);
    }

    fn refuse(&mut self, sink: &dyn PacketSink, info: RecvInfo, header: &Header<'_>, why: Refusal) {
        self.metrics.admission.count_refusal(why);
        self.send_queue.reply(info, sink, |room| {
            quiche::refuse(&header.scid, &header.dcid, header.version, why.code(), room).ok()
        });
    }

    fn accept(
        &mut self,
        info: RecvInfo,
        generated: GeneratedId,
        client_choice: &ConnectionId<'_>,
        acceptance: Acceptance,
    ) -> Option<usize> {
        let Acceptance { validation, permit, handshake, .. } = acceptance;
        let (id, reset_token) = (generated.cid, self.resets.token(&generated, info.to));
        let config = &mut self.transport.quic;
        config.set_stateless_reset_token(reset_token);
        let mut quic = match admission::accept(&id, client_choice, validation, info, config) {
            Ok(quic) => quic,
            Err(e) => {
                warn!("cannot accept a connection from {}: {e}", info.from);
                return None;
            }
        };
        let context = &self.transport.early_data_context;
        session_ticket::set_early_data_context((*quic).as_mut(), context);
        debug!("{}: connection from {}", quic.trace_id(), info.from);
        self.metrics.count_connection();
        self.shutdown_log.on_connection();
        let resumes = self.resumes && !self.resume_except.contains(info.from.ip());
        let arm = self.arms.draw(info.from.ip()).filter(|_| resumes);
        if let Some(arm) = arm {
            self.metrics.arms.count_connection(arm);
        }
        self.start_qlog(&mut quic, id, info.from.ip(), arm);

        let endpoint = self.path_key.remote_endpoint(info.to.ip(), info.from);
        let own = if resumes { self.own_state(validation, &endpoint) } else { OwnState::Unknown };
        let carried_state = CarriedState::new(self.state_kept, own, clock::now());
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let handle = ConnectionHandle::new(slot, self.serial_next);
        self.serial_next += 1;
        permit.set_owner(handle, &self.notices);
        if resumes && carried_state.path().uses_store() {
            self.store.read(handle, &endpoint);
        }

        let ids = IssuedIds::new(id, Cid::new(client_choice), self.id_epoch);
        ids.iter().for_each(|id| self.cid_table.insert(*id, slot));
        let now = clock::now();
        let files = self
            .files
            .account(permit.subnet(), permit.client())
            .of_connection(handle, &self.notices);
        let lifetime = Lifetime::new(permit, handshake, files, &self.limits, now);
        let resume_summary = resumes.then(|| ResumeSummary::new(self.limits.max_jump, arm));
        entry.insert(
            Connection::new(handle, ids, quic, endpoint, resume_summary, lifetime, now)
                .with_carried_state(carried_state)
                .into(),
        );
        Some(slot)
    }

    /// Returns what is known of the client's path to this server: by the connection that issued its
    /// token, when it ended, or what the token tells.
    fn own_state(
        &self,
        validation: Option<AddressValidation>,
        endpoint: &RemoteEndpoint,
    ) -> OwnState {
        let Some(AddressValidation::NewToken { payload: Some(payload) }) = validation else {
            return OwnState::Unknown;
        };
        if self.state_kept == StateKept::Store {
            return OwnState::Unknown;
        }
        let (scope, wall_now) = (self.store.scope(endpoint), clock::wall_now());
        let issuer = Issuer::of(&payload, &scope);
        let last = issuer.and_then(|issuer| self.store.last_states.of(issuer, wall_now));
        let own = last.map_or_else(|| own_state::from_payload(&payload, &scope, wall_now), Ok);
        self.metrics.client_states.on_received(own);
        own.unwrap_or_default()
    }

    fn start_qlog(&self, quic: &mut Quic, id: Cid, client: IpAddr, arm: Option<Arm>) {
        let qlogs = self.qlogs.as_ref().filter(|_| self.qlog_sample.selects(&id, client));
        let log = qlogs.and_then(|logs| logs.create(&id.to_string()));
        if let Some(log) = log {
            quic.set_qlog_with_level(
                Box::new(log),
                "edge-server".to_owned(),
                arm.map_or_else(
                    || format!("connection {id}"),
                    |arm| format!("connection {id}, arm {}", arm.name()),
                ),
                QlogLevel::Extra,
            );
        }
    }

    fn negotiate_version(&mut self, sink: &dyn PacketSink, info: RecvInfo, header: &Header<'_>) {
        if header.ty == Type::VersionNegotiation {
            return;
        }
        self.send_queue.reply(info, sink, |room| {
            quiche::negotiate_version(&header.scid, &header.dcid, room).ok()
        });
    }

    /// Sends a stateless reset: the client's connection has ended.
    fn reset(&mut self, sink: &dyn PacketSink, info: RecvInfo, id: &[u8], bytes: usize) {
        let reader = self.id_generator.reader();
        if reader.is_of_unknown_config(id) {
            return self.metrics.nodes.count_dropped(NodeDrop::UnknownConfig);
        }
        let (resets, metrics) = (&mut self.resets, &self.metrics.admission);
        for secret in reader.secrets_of(id) {
            self.send_queue.reply(info, sink, |room| {
                let length = resets.write((id, secret), info, bytes, clock::now(), room)?;
                metrics.count_reset();
                Some(length)
            });
        }
    }
}
