// Options beside Careful Resume and slow-start exits: congestion control, ECN,
// path MTU, an initial RTT, tokens for address validation, streams, and memory
// of idle connections.
//
// quiche.h includes this file; including it alone does the same.
//
// Unless a comment says otherwise:
//
// - A function returns 0, or a negative quiche_error.
// - Pointers must not be NULL, except to a buffer of no bytes, and what they
//   refer to must not overlap.
// - A function copies what it needs of its arguments: they remain the caller's,
//   and nothing that it returns has to be freed.
// - It writes to its |out| parameters only if it succeeds.
// - Sizes are in bytes; the name of a time ends with its unit.

#ifndef QUICHE_OPTIONS_H
#define QUICHE_OPTIONS_H

#include "quiche.h"

#if defined(__cplusplus)
extern "C" {
#endif

// ---- congestion control; each is disabled by default ----

// Configures whether Reno and CUBIC let the last bytes of the congestion window
// wait until a full packet fits.
void quiche_config_set_sws_avoidance(quiche_config *config, bool v);

// Configures whether CUBIC undoes a congestion event only if every packet that
// was declared lost in it is acknowledged after all (RFC 9438, 4.9).
void quiche_config_set_spurious_loss_evidence(quiche_config *config, bool v);

// Configures whether HyStart++ counts one RTT sample for each ACK.
void quiche_config_set_hystart_samples_per_ack(quiche_config *config, bool v);

// ---- ECN (RFC 9000, 13.4) ----

// Configures whether datagrams are marked ECT(0), on every path that carries
// marks, and CE marks are answered as congestion. With |alternative_backoff|,
// Reno and CUBIC keep more of the window, 0.8 and 0.85, after a mark in
// congestion avoidance (RFC 8511). Disabled by default.
//
// The application has to send each datagram with the codepoint of
// quiche_conn_sent_ecn(), and to receive with quiche_conn_recv_ecn(). Marks that
// arrive are counted and reported to the peer regardless of this setting.
void quiche_config_set_ecn(quiche_config *config, bool v,
                           bool alternative_backoff);

// Does as quiche_conn_recv(), for a datagram that arrived with |ecn|: the two
// low bits of the IPv4 TOS field or the IPv6 traffic class. Other bits are
// ignored.
ssize_t quiche_conn_recv_ecn(quiche_conn *conn, uint8_t *buf, size_t buf_len,
                             const quiche_recv_info *info, uint8_t ecn);

// Returns the codepoint with which the datagram that was written last must
// leave, or each datagram of the batch: 0 (not ECN-capable) or 2 (ECT(0)).
uint8_t quiche_conn_sent_ecn(const quiche_conn *conn);

enum quiche_ecn_state {
    // The connection does not mark.
    QUICHE_ECN_OFF = 0,

    // The first packets of the path are marked.
    QUICHE_ECN_TESTING = 1,

    // Packets are not marked, as none of the marked ones is acknowledged yet.
    QUICHE_ECN_UNKNOWN = 2,

    // The path does not carry marks.
    QUICHE_ECN_FAILED = 3,

    // All packets are marked.
    QUICHE_ECN_CAPABLE = 4,
};

// Numbers of packets by codepoint.
typedef struct {
    uint64_t ect0;
    uint64_t ect1;
    uint64_t ce;
} quiche_ecn_marks;

typedef struct {
    // An enum quiche_ecn_state: that of the active path.
    int state;

    // Packets sent with ECT(0).
    uint64_t sent;

    // Marks of received packets.
    quiche_ecn_marks received;

    // Marks of sent packets that the peer reports.
    quiche_ecn_marks reported;
} quiche_ecn_stats;

// Writes the marks that the connection has seen.
void quiche_conn_ecn_stats(const quiche_conn *conn, quiche_ecn_stats *out);

// ---- path MTU ----

// Starts discovery of a path's MTU (quiche_config_discover_pmtu()) after
// |bytes| have been sent on the path; 0, the default, at once. A probe is a
// packet of padding, which a short connection does not earn back.
void quiche_config_set_pmtud_start_after(quiche_config *config, uint64_t bytes);

// ---- the initial RTT ----

// Raises the RTT of the active path until its first sample (RFC 9002, 6.2.2),
// to |rtt_us|, at most three seconds: pass that of an earlier connection, so
// that the handshake is not sent again before the peer can have answered. Only
// probe timeouts depend on it.
//
// Returns false, and changes nothing, after the first sample, and for an RTT
// that is not longer than the initial one, 333 ms.
bool quiche_conn_raise_initial_rtt(quiche_conn *conn, uint64_t rtt_us);

// ---- address validation by tokens (RFC 9000, 8.1) ----

// The application makes and validates tokens, as with quiche_retry().

// Sends the client a token for its next connection, in a NEW_TOKEN frame, once
// the handshake is complete. It replaces a token that the client has not
// acknowledged.
//
// QUICHE_ERR_INVALID_STATE: the connection is a client's, or the token is empty
// or longer than 1000 bytes.
int quiche_conn_send_new_token(quiche_conn *conn, const uint8_t *token,
                               size_t token_len);

// Writes to |out| the latest token from the server, and its length to
// |out_len|; NULL and 0 if there is none. The token remains the connection's,
// and is valid until the next call with this connection.
void quiche_conn_new_token(const quiche_conn *conn, const uint8_t **out,
                           size_t *out_len);

// Offers the server a token of an earlier connection. Use a token once.
//
// QUICHE_ERR_INVALID_STATE: the connection is a server's, or has sent a packet,
// or the token is longer than 1000 bytes.
int quiche_conn_set_token(quiche_conn *conn, const uint8_t *token,
                          size_t token_len);

// Marks the client's address as validated, as a token in its first packet
// proves: the limit of three times the received bytes is lifted.
//
// QUICHE_ERR_INVALID_STATE: the connection is a client's.
int quiche_conn_set_peer_address_validated(quiche_conn *conn);

// Writes an Initial packet that refuses a connection, for example with
// INVALID_TOKEN (0xb), without keeping state. |scid|, |dcid| and |version| are
// those of the client's Initial packet, as quiche_header_info() reads them.
//
// Returns the length of the packet, or a negative quiche_error.
//
// QUICHE_ERR_UNKNOWN_VERSION: the library does not have |version|.
//
// QUICHE_ERR_BUFFER_TOO_SHORT: the packet is longer than |out_len|.
//
// QUICHE_ERR_INVALID_STATE: an ID is longer than QUICHE_MAX_CONN_ID_LEN, or
// |error_code| is no QUIC variable-length integer.
ssize_t quiche_refuse(const uint8_t *scid, size_t scid_len,
                      const uint8_t *dcid, size_t dcid_len,
                      uint32_t version, uint64_t error_code,
                      uint8_t *out, size_t out_len);

// ---- streams ----

// Configures whether a packet may carry data of several streams; disabled by
// default.
void quiche_config_set_coalesce_streams(quiche_config *config, bool v);

// Returns the bytes of a stream that the sender keeps: from the first one that
// the peer has not acknowledged to the last one that was written. 0 for a
// stream that is over.
uint64_t quiche_conn_stream_unacknowledged(const quiche_conn *conn,
                                           uint64_t stream_id);

// Returns the bytes of a stream that were written and that the peer has not
// acknowledged: what the sender keeps, without what was acknowledged behind a
// gap. 0 for a stream that is over.
uint64_t quiche_conn_stream_missing(const quiche_conn *conn, uint64_t stream_id);

// Returns the bytes of all streams that wait to be sent: written and not sent,
// or lost.
size_t quiche_conn_stream_bytes_unsent(const quiche_conn *conn);

// ---- memory ----

// Returns the bytes of all streams that the application has not read, including
// those before them that have not arrived.
uint64_t quiche_conn_stream_bytes_unread(const quiche_conn *conn);

// Returns the number of chunks in which data of all streams waits to be read.
// Each takes about 200 bytes besides its data, for a single byte behind a gap,
// too.
size_t quiche_conn_stream_chunks_unread(const quiche_conn *conn);

// Returns the bytes that HTTP/3 keeps for frames whose end has not arrived, as a
// rule HEADERS. Flow control does not limit them: they have been read.
size_t quiche_h3_conn_unfinished_frame_bytes(const quiche_h3_conn *conn);

// Returns the number of packets whose records are kept: they were sent, and
// neither acknowledged nor lost, or only a short time ago. A record takes about
// 400 bytes, whatever the size of its packet.
size_t quiche_conn_packets_kept(const quiche_conn *conn);

// Releases unused memory of a connection that has been idle for a while; later
// packets allocate some of it again.
void quiche_conn_shrink_to_fit(quiche_conn *conn);

// Releases unused memory of HTTP/3, in the same way.
void quiche_h3_conn_shrink_to_fit(quiche_h3_conn *conn);

#if defined(__cplusplus)
}  // extern C
#endif

#endif // QUICHE_OPTIONS_H
