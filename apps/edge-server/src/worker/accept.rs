//! Packets that belong to no connection of a worker: who gets in, and what the others
//! are told.

use std::net::IpAddr;

use log::debug;
use log::warn;
use quiche::clock;
use quiche::hooks;
use quiche::ConnectionId;
use quiche::Header;
use quiche::QlogLevel;
use quiche::RecvInfo;
use quiche::Type;

use crate::admission;
use crate::admission::reason::Refusal;
use crate::admission::Entrance;
use crate::admission::Now;
use crate::admission::Verdict;
use crate::connection::lifetime::Stay;
use crate::connection::shutdown::Stage;
use crate::connection::Connection;
use crate::net::socket::Socket;
use crate::quic::connection_id::RoutingId;
use crate::quic::handle::ConnectionKey;
use crate::quic::Quic;
use crate::resume::summary::ResumeReport;
use crate::worker::Worker;
use crate::worker::INITIAL_BYTES_MIN;

impl Worker {
    /// A packet with an unknown connection ID: a new client's, that of a connection
    /// which is no more, or nothing.
    pub(super) fn on_stranger(
        &mut self,
        socket: &Socket,
        info: RecvInfo,
        header: &Header<'_>,
        datagram_bytes: usize,
    ) -> Option<usize> {
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
        if self.stage > Stage::Serving {
            // RFC 9000, 5.2.2: the client learns at once that it has to go elsewhere.
            self.refuse(socket, info, header, Refusal::Draining);
            return None;
        }
        let wall_now = clock::wall_now();
        let id = self.id_maker.connection_id()?;
        let admission = &mut self.admission;
        let now = Now { instant: clock::now(), wall: wall_now };
        match admission.judge(header, info.from, &self.limits, now) {
            Verdict::Admit(entrance) => return self.accept(info, id, &header.dcid, entrance),
            Verdict::Retry(doubt) => self.outbox.answer(info, socket, |room| {
                let length = admission.write_retry(header, info.from, &id, wall_now, room)?;
                self.metrics.admission.count_retry(doubt);
                Some(length)
            }),
            Verdict::Refuse(refusal) => self.refuse(socket, info, header, refusal),
        }
        None
    }

    fn refuse(&mut self, socket: &Socket, info: RecvInfo, header: &Header<'_>, why: Refusal) {
        self.metrics.admission.count_refusal(why);
        self.outbox.answer(info, socket, |room| {
            hooks::refuse(&header.scid, &header.dcid, header.version, why.code(), room).ok()
        });
    }

    fn accept(
        &mut self,
        info: RecvInfo,
        id: RoutingId,
        client_choice: &ConnectionId<'_>,
        entrance: Entrance,
    ) -> Option<usize> {
        let Entrance { proof, place } = entrance;
        let reset_token = self.resets.token(&id, info.to);
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
        self.start_qlog(&mut quic, id, info.from.ip());

        let endpoint = self.path_key.remote_endpoint(info.to.ip(), info.from);
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let key = ConnectionKey::new(slot, self.serial_next);
        self.serial_next += 1;
        let resumes = self.resumes && !self.resume_except.contains(info.from.ip());
        if resumes {
            self.saved.read(key, &endpoint);
        }
        self.admission.on_accepted(slot, info.from.ip());

        let ids = vec![id, RoutingId::new(client_choice)];
        ids.iter().for_each(|id| self.routes.insert(*id, slot));
        let now = clock::now();
        let stay = Stay::new(place, &self.limits, now);
        let report = resumes.then(|| ResumeReport::new(self.limits.max_jump));
        entry.insert(Connection::new(key, ids, quic, endpoint, report, stay, now).into());
        Some(slot)
    }

    fn start_qlog(&self, quic: &mut Quic, id: RoutingId, client: IpAddr) {
        let qlogs = self.qlogs.as_ref().filter(|_| self.qlog_sample.takes(&id, client));
        let log = qlogs.and_then(|logs| logs.create(&id.to_string()));
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
}
