// Several packets, or a response with its body, in one call.
//
// quiche.h includes this file; including it alone does the same.

#ifndef QUICHE_BATCH_H
#define QUICHE_BATCH_H

#include "quiche.h"

#if defined(__cplusplus)
extern "C" {
#endif

// Writes at least one and at most |packets_max| packets to |out|, one behind
// the other, as segmentation offload (GSO) needs them: each has
// |out_packet_len| bytes, the last may have fewer, and all may leave at
// |out_info|->at.
//
// Returns the length of all packets, or a negative quiche_error, such as
// QUICHE_ERR_DONE.
ssize_t quiche_conn_send_batch(quiche_conn *conn, uint8_t *out, size_t out_len,
                               size_t packets_max, size_t *out_packet_len,
                               quiche_send_info *out_info);

// Sends a response with its whole body, which is copied, or nothing. The peer
// gets the same bytes as from quiche_h3_send_response_with_priority() and
// quiche_h3_send_body().
//
// Returns 0, or a negative quiche_h3_error. QUICHE_H3_ERR_STREAM_BLOCKED: the
// stream does not take all of it; use these two functions.
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
