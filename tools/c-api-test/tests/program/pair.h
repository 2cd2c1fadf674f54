// Pair: a client and a server whose packets the test hands over, in virtual time.

#ifndef PAIR_H
#define PAIR_H

#include "testbed.h"

#define FLIGHT_PACKETS_MAX 128

struct pair {
    quiche_config *config;
    quiche_conn *client;
    quiche_conn *server;
};

// Packets that were sent and have not arrived.
struct flight {
    size_t len;
    size_t packet_lens[FLIGHT_PACKETS_MAX];
    uint8_t packets[FLIGHT_PACKETS_MAX][1500];
    quiche_send_info infos[FLIGHT_PACKETS_MAX];
};

// Hands a packet of one endpoint to the other.
void hand_over(quiche_conn *to, uint8_t *bytes, size_t len,
               const quiche_send_info *sent);

// The same, with an ECN codepoint.
void hand_over_marked(quiche_conn *to, uint8_t *bytes, size_t len,
                      const quiche_send_info *sent, uint8_t ecn);

// Sends what |from| has to send, and returns the number of packets.
size_t send_all(quiche_conn *from, quiche_conn *to);

// Sends in both directions until neither has anything to send.
void exchange(struct pair *pair);

// Returns a pair that has completed its handshake, and owns |config|.
struct pair connected(quiche_config *config);

void free_pair(struct pair *pair);

// Writes |len| bytes, at most 16384.
void write_stream(quiche_conn *conn, uint64_t stream_id, size_t len);

// Writes to stream 0 what the window takes.
void fill_window(quiche_conn *conn);

// Takes what |from| has to send.
void take_flight(quiche_conn *from, struct flight *flight);

// Lets packet |i| of the flight arrive.
void arrive(struct flight *flight, size_t i, quiche_conn *to);

// Returns what quiche knows of the active path.
quiche_path_stats path_stats(const quiche_conn *conn);

// Lets time pass.
void pass(struct environment *env, uint64_t ns);

#endif // PAIR_H
