// Testbed: a download from a server to a client in one process, over a
// bottleneck with a drop-tail buffer, in virtual time.

#ifndef TESTBED_H
#define TESTBED_H

#include <stdio.h>
#include <stdlib.h>

#include "quiche.h"

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__,        \
                    #condition);                                              \
            abort();                                                          \
        }                                                                     \
    } while (0)

#define RTT_NS UINT64_C(100000000)
#define BYTES_PER_SECOND UINT64_C(1500000)
#define BDP 150000

// The least payload of a full packet.
#define MIN_PACKET_PAYLOAD 1100

#define MAX_EVENTS 8

// Provided by the caller of the program. |advance_to_ns| sets the clock that
// quiche reads to |ns| after its start.
struct environment {
    const char *cert_pem;
    const char *key_pem;
    const void *clock;
    void (*advance_to_ns)(const void *clock, uint64_t ns);
    uint64_t elapsed_ns;

    // Calls |call|, and returns the bytes that it allocated and did not free;
    // less than 0 if it freed more.
    int64_t (*kept_bytes)(void (*call)(void *), void *argument);
};

// A download and its events at the server.
struct download {
    size_t object_bytes;

    // Passed to quiche when the request arrives, unless it is NULL.
    const quiche_path_state *saved;
    uint64_t jump_within_us;

    quiche_careful_resume_event events[MAX_EVENTS];
    size_t events_len;

    bool has_observed;
    quiche_path_state observed;

    uint64_t duration_ns;
    size_t release_waits;

    // By quiche_send_info.at, in the unvalidated phase.
    uint64_t unvalidated_span_ns;
    size_t unvalidated_batch_packets_max;
};

// Returns a configuration for both endpoints, without Careful Resume.
quiche_config *new_config(const struct environment *env,
                          enum quiche_cc_algorithm cc);

// Runs the download until the last ACK has arrived.
void run_download(struct download *download, struct environment *env,
                  quiche_config *config);

// Returns a server connection that has received nothing.
quiche_conn *new_server(quiche_config *config);

// Returns its client connection.
quiche_conn *new_client(quiche_config *config);

#endif // TESTBED_H
