// Several packets, or a response with its body, in one call.
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

#ifndef QUICHE_BATCH_H
#define QUICHE_BATCH_H

#include "quiche.h"

#if defined(__cplusplus)
extern "C" {
#endif

// Writes at least one and at most |packets_max| packets to |out|, one behind
// the other, as segmentation offload (GSO) needs them: each has
// |*out_packet_len| bytes, the last may have fewer, and all may leave at
// |out_info->at|. |out| has room for at least one packet of the largest size.
//
// Returns the length of all packets, or a negative quiche_error.
//
// QUICHE_ERR_DONE: there is nothing to send.
//
// QUICHE_ERR_BUFFER_TOO_SHORT: the next packet does not fit.
ssize_t quiche_conn_send_batch(quiche_conn *conn, uint8_t *out, size_t out_len,
                               size_t packets_max, size_t *out_packet_len,
                               quiche_send_info *out_info);

// Configures whether the packets of BBR2 are released in batches of
// half a millisecond, instead of one at a time (off by default).
void quiche_config_set_bbr2_batches(quiche_config *config, bool v);

// Sends a response with its whole body, which is copied, or nothing. The peer
// gets the same bytes as from quiche_h3_send_response_with_priority() and
// quiche_h3_send_body().
//
// Returns 0, or a negative quiche_h3_error.
//
// QUICHE_H3_ERR_STREAM_BLOCKED: the stream does not take all of it; use these
// two functions.
//
// QUICHE_H3_ERR_FRAME_UNEXPECTED: the stream is no request's, or has a
// response.
int quiche_h3_send_response_with_body(quiche_h3_conn *conn,
                                      quiche_conn *quic_conn,
                                      uint64_t stream_id,
                                      const quiche_h3_header *headers,
                                      size_t headers_len,
                                      const quiche_h3_priority *priority,
                                      const uint8_t *body, size_t body_len);

#if defined(__cplusplus)
}  // extern C
#endif

#endif // QUICHE_BATCH_H
