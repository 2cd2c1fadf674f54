//! Packets of stream data alone: nearly all packets of a large response.
//!
//! One check replaces asking each other kind of frame whether it is due, and
//! the AEAD seals data that fills a packet from the application's buffer.
//! Otherwise the packets are those of `send_single()`.

use super::*;

/// Multiple to which the bytes before uncopied data are sealed: two blocks of
/// AES. To continue within a block would take twice as many calls of the
/// cipher.
const HEAD_MULTIPLE: usize = 32;

/// Packets of one size, one behind the other, that may leave at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmitBatch {
    /// Length of all packets together, in bytes.
    pub len: usize,

    /// Length of each packet, in bytes; the last one may be shorter.
    pub packet_len: usize,

    /// The addresses, and the release time.
    pub info: SendInfo,
}

impl<F: BufFactory> Connection<F> {
    /// Writes at least one and at most `packets_max` packets: those that
    /// [`send_on_path_at()`] would write one by one, as long as they have one
    /// size and one release time, as segmentation offload (GSO) needs them.
    ///
    /// All of them may leave at [`SendInfo::at`], which may be later than
    /// `now`.
    ///
    /// # Errors
    ///
    /// Those of [`send_on_path_at()`], such as [`Done`].
    ///
    /// [`send_on_path_at()`]: Connection::send_on_path_at
    /// [`Done`]: Error::Done
    pub fn send_batch(
        &mut self, out: &mut [u8], packets_max: usize, now: Instant,
    ) -> Result<TransmitBatch> {
        let (packet_len, info) = self.send_on_path_at(out, None, None, now)?;
        let mut batch = TransmitBatch {
            len: packet_len,
            packet_len,
            info,
        };
        let send_pid = self.get_send_path_id(None, None)?;
        let size = self.max_send_udp_payload_size();
        let pmtu = self.paths.get(send_pid)?.pmtu();
        let is_full = packet_len == size.min(pmtu.unwrap_or(usize::MAX));
        if !is_full || !self.is_data_alone_due(send_pid)? {
            return Ok(batch);
        }
        for _ in 1..packets_max {
            let Some(out) = out[batch.len..].get_mut(..packet_len) else {
                break;
            };
            let written = self.send_next_data_packet(out, send_pid, now)?;
            batch.len += written;
            if written < packet_len {
                break;
            }
        }
        Ok(batch)
    }

    /// Does as `send_data_packet()` right after another packet: checks only
    /// what that may have changed.
    fn send_next_data_packet(
        &mut self, out: &mut [u8], send_pid: usize, now: Instant,
    ) -> Result<usize> {
        let release = self.paths.get(send_pid)?.recovery.get_next_release_time();
        let skips_number = self
            .pkt_num_manager
            .should_skip_pn(self.handshake_completed);
        // A batch has one codepoint.
        let ecn = self.paths.get(send_pid)?.recovery.next_ecn();
        let is_another = ecn != self.codepoints.sent;
        if release.time(now).is_some() || skips_number || is_another {
            return Ok(0);
        }
        let written = self.write_data_packet(out, send_pid, now)?;
        Ok(written.unwrap_or(0))
    }

    /// Does as `send_single()` if stream data alone is due, and the window has
    /// room for a full packet of it. Returns None otherwise.
    pub(super) fn send_data_packet(
        &mut self, out: &mut [u8], send_pid: usize, now: Instant,
    ) -> Result<Option<usize>> {
        match self.is_data_alone_due(send_pid)? {
            true => self.write_data_packet(out, send_pid, now),
            false => Ok(None),
        }
    }

    /// Writes a packet, as stream data alone is due.
    fn write_data_packet(
        &mut self, out: &mut [u8], send_pid: usize, now: Instant,
    ) -> Result<Option<usize>> {
        let epoch = packet::Epoch::Application;
        let is_app_limited = self.delivery_rate_check_if_app_limited();
        let path = self.paths.get_mut(send_pid)?;
        let size = out.len().min(path.pmtu().unwrap_or(usize::MAX));
        if path.recovery.cwnd_available() < size {
            return Ok(None);
        }
        let Some(aead) = self.crypto_ctx[epoch].crypto_seal.as_mut() else {
            return Ok(None);
        };

        let pn = self.next_pkt_num;
        let largest_acked = path.recovery.get_largest_acked_on_epoch(epoch);
        let pn_len = packet::pkt_num_len(pn, largest_acked.unwrap_or(0));
        let dcid_seq = path.active_dcid_seq.ok_or(Error::OutOfIdentifiers)?;
        let dcid = self.ids.get_dcid(dcid_seq)?.cid.as_ref();
        let mut b = octets::OctetsMut::with_slice(&mut out[..size]);
        put_header(&mut b, (self.version, dcid), self.key_phase, (pn, pn_len))?;
        let payload_offset = b.off();

        let Some(room) = b.cap().checked_sub(aead.alg().tag_len()) else {
            return Ok(None);
        };
        let mut frames = SmallVec::new();
        let tail = put_data(
            &mut self.streams,
            self.coalesce_streams,
            &mut b,
            room,
            &mut frames,
        )?;
        if frames.is_empty() {
            return Ok(None);
        }
        let tail = tail.as_ref().map(stream::Tail::as_slice);
        let payload_len = b.off() - payload_offset - tail.map_or(0, <[u8]>::len);
        let written = packet::encrypt_pkt(
            &mut b,
            pn,
            pn_len,
            payload_len,
            payload_offset,
            tail,
            aead,
        )?;

        trace!("{} tx pkt pn={pn} len={written}", self.trace_id);
        for frame in &frames {
            trace!("{} tx frm {frame:?}", self.trace_id);
        }

        if is_app_limited {
            path.recovery.delivery_rate_update_app_limited(true);
        }
        path.sent_count += 1;
        path.sent_bytes += written as u64;
        self.next_pkt_num += 1;
        self.sent_count += 1;
        self.sent_bytes += written as u64;
        self.emit_dgram = true;

        let handshake_status = self.handshake_status();
        self.on_packet_sent(
            send_pid,
            sent(pn, frames, written, now),
            epoch,
            handshake_status,
            now,
        )?;

        let path = self.paths.get_mut(send_pid)?;
        if self.streams.has_flushable() && path.recovery.is_limited_by_pacing() {
            path.recovery.update_app_limited(false);
        }
        Ok(Some(written))
    }

    /// Whether nothing but stream data can be due, and no log wants each frame.
    fn is_data_alone_due(&self, send_pid: usize) -> Result<bool> {
        #[cfg(feature = "qlog")]
        if self.qlog.streamer.is_some() {
            return Ok(false);
        }

        let epoch = packet::Epoch::Application;
        let path = self.paths.get(send_pid)?;
        let recovery = &path.recovery;
        let crypto_ctx = &self.crypto_ctx[epoch];
        let streams = &self.streams;

        // The first packet after a received one restarts the idle timer.
        let is_steady = self.handshake_confirmed
            && !self.should_send_handshake_done()
            && self.local_error.is_none()
            && self.ack_eliciting_sent;
        let is_path_steady = self.paths.len() == 1
            && path.validated()
            && !path.needs_ack_eliciting
            && !path.probing_required()
            && !path.pmtud.as_ref().is_some_and(|p| p.should_probe());
        let is_packet_space_steady = !self.pkt_num_spaces[epoch].ready()
            && !self
                .pkt_num_manager
                .should_skip_pn(self.handshake_completed)
            && !crypto_ctx.data_available()
            && crypto_ctx.key_update.is_none()
            && !recovery.has_lost_frames(epoch)
            && !recovery.should_elicit_ack(epoch);
        let is_frame_due = self.new_token.is_due()
            || self.flow_control.should_update_max_data()
            || self.should_send_max_data
            || self.blocked_limit.is_some()
            || self
                .streams_blocked_bidi_state
                .has_pending_stream_blocked_frame()
            || self
                .streams_blocked_uni_state
                .has_pending_stream_blocked_frame()
            || self.should_send_max_streams_bidi
            || self.should_send_max_streams_uni
            || streams.should_update_max_streams_bidi()
            || streams.should_update_max_streams_uni()
            || streams.has_almost_full()
            || streams.has_blocked()
            || streams.has_reset()
            || streams.has_stopped()
            || self.dgram_send_queue.has_pending()
            || self.ids.has_new_scids()
            || self.ids.has_retire_dcids();

        Ok(is_steady
            && is_path_steady
            && is_packet_space_steady
            && !is_frame_due
            && streams.has_flushable())
    }
}

impl path::Path {
    /// Returns the longest packet that is known to pass, in bytes, if that is
    /// probed.
    fn pmtu(&self) -> Option<usize> {
        self.pmtud.as_ref().map(|pmtud| pmtud.get_current_mtu())
    }
}

fn put_header(
    b: &mut octets::OctetsMut<'_>, (version, dcid): (u32, &[u8]),
    key_phase: bool, (pn, pn_len): (u64, usize),
) -> Result<()> {
    let header = Header {
        ty: Type::Short,
        version,
        dcid: ConnectionId::from_ref(dcid),
        scid: ConnectionId::default(),
        pkt_num: 0,
        pkt_num_len: pn_len,
        token: None,
        versions: None,
        key_phase,
    };
    header.to_bytes(b)?;
    packet::encode_pkt_num(pn, pn_len, b)
}

/// Returns the record of a packet. The recovery fills in what it notes at
/// sending.
#[inline(always)] // made in place, not copied
fn sent(
    pkt_num: u64, frames: SmallVec<[frame::Frame; 1]>, size: usize, now: Instant,
) -> recovery::Sent {
    recovery::Sent {
        pkt_num,
        ack_eliciting: true,
        in_flight: true,
        has_data: true,
        is_pmtud_probe: false,
        frames,
        size,
        time_sent: now,
        first_sent_time: now,
        delivered_time: now,
        is_app_limited: false,
        delivered: 0,
        tx_in_flight: 0,
        lost: 0,
        time_acked: None,
        time_lost: None,
    }
}

/// Puts frames of the streams whose turn it is into `room` bytes, but not the
/// data that ends the packet.
fn put_data<F: BufFactory>(
    streams: &mut stream::StreamMap<F>, coalesce: bool,
    b: &mut octets::OctetsMut<'_>, mut room: usize,
    frames: &mut SmallVec<[frame::Frame; 1]>,
) -> Result<Option<stream::Tail<F::Buf>>> {
    let mut tail = None;
    let start = b.off();
    while let Some(stream_id) = streams.peek_flushable() {
        // `send_single()` handles what is not as expected.
        let stream = match streams.get_mut(stream_id) {
            Some(stream) if !stream.send.is_stopped() => stream,
            _ => break,
        };
        let offset = stream.send.off_front();
        let hdr_len = 1 + // frame type
            octets::varint_len(stream_id) +
            octets::varint_len(offset) +
            2; // length
        let Some(max_len) = room.checked_sub(hdr_len) else {
            break;
        };
        let (mut hdr, mut payload) = b.split_at(b.off() + hdr_len)?;
        let (length, fin) = match stream.send.emit_tail(max_len) {
            Some((mut data, fin)) => {
                let head = hdr.cap() - start;
                let missing = head.next_multiple_of(HEAD_MULTIPLE) - head;
                let missing = missing.min(max_len);
                data.copy_front(&mut payload.as_mut()[..missing]);
                tail = Some(data);
                (max_len, fin)
            },
            None => stream.send.emit(&mut payload.as_mut()[..max_len])?,
        };
        if length == 0 && !fin {
            break;
        }
        hdr.skip(hdr.cap() - hdr_len)?;
        frame::encode_stream_header(
            stream_id,
            offset,
            length as u64,
            fin,
            &mut hdr,
        )?;
        b.skip(hdr_len + length)?;
        room -= hdr_len + length;
        frames.push(frame::Frame::StreamHeader {
            stream_id,
            offset,
            length,
            fin,
        });

        if !stream.is_flushable() {
            streams.pop_flushable();
        } else if stream.incremental {
            streams.rotate_flushable();
        }
        streams.sub_tx_buffered(length);
        if !coalesce || room < COALESCED_ROOM_MIN {
            break;
        }
    }
    Ok(tail)
}

#[cfg(test)]
#[path = "data_packets_tests.rs"]
pub(crate) mod tests;
