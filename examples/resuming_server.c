// HTTP/3 server that resumes: sends 4 MB to each client, one client at a time,
// and starts a later download to the same subnet at half of what an earlier one
// reached (RFC 9959).
//
//     cargo build
//     cd examples
//     LIB="../target/debug/libquiche.a -lstdc++ -lm"
//     cc -D_GNU_SOURCE -I../quiche/include resuming_server.c $LIB -o server
//     ./server 4433 ../quiche/examples/cert.crt ../quiche/examples/cert.key
//
// An application has four duties, which FORK.md explains: claim (resume), merge
// (record), keep writing (write_body), and pace (send_due).

#include <quiche.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

static const uint8_t body[4000000]; // zeros

static int udp;
static struct sockaddr_in6 local;

struct client {
    quiche_conn *quic;
    quiche_h3_conn *http; // NULL during the handshake
    struct in6_addr subnet;
    uint64_t stream; // of the response, one at a time
    size_t unwritten_bytes;
};

// What was observed last, and of whose path. A server of many clients has one for
// each subnet.
static struct {
    bool is_there;
    struct in6_addr subnet;
    quiche_path_state state;
} saved;

static void check(bool is_right, const char *name, const char *problem) {
    if (!is_right) {
        fprintf(stderr, "error: %s: %s\n", name, problem);
        exit(1);
    }
}

// Returns 48 bits of an IPv6 address, or 24 bits of an IPv4 address, which the
// socket shows as ::ffff:192.0.2.1.
static struct in6_addr subnet_of(const struct in6_addr *address) {
    struct in6_addr subnet = {0};

    memcpy(&subnet, address, IN6_IS_ADDR_V4MAPPED(address) ? 12 + 3 : 6);
    return subnet;
}

static const quiche_path_state *saved_for(const struct client *client) {
    bool is_same = IN6_ARE_ADDR_EQUAL(&saved.subnet, &client->subnet);
    return saved.is_there && is_same ? &saved.state : NULL;
}

// Gives the connection what was saved. No other connection has it at the same
// time, because this server has only one.
static void resume(const struct client *client) {
    const quiche_path_state *state = saved_for(client);

    if (state != NULL) {
        quiche_conn_careful_resume_from(client->quic, state, UINT64_MAX);
    }
}

// Saves what was observed. Merges it, because a short download shows less of the
// path than a long one.
static void record(const struct client *client) {
    quiche_path_state observed;

    if (quiche_conn_path_state(client->quic, &observed)) {
        quiche_path_state_merge(saved_for(client), &observed, &saved.state);
        saved.subnet = client->subnet;
        saved.is_there = true;
    }
}

// Deletes what was saved if the path did not take the jump (RFC 9959, 3.5).
static void follow(const struct client *client) {
    quiche_careful_resume_event event;

    while (quiche_conn_careful_resume_event_next(client->quic, &event)) {
        printf("phase %d, trigger %d\n", event.new_phase, event.trigger);

        if (event.new_phase == QUICHE_CAREFUL_RESUME_PHASE_SAFE_RETREAT) {
            saved.is_there = false;
        }
    }
}

static void read_requests(struct client *client) {
    static const quiche_h3_header status[] = {
        {(const uint8_t *) ":status", 7, (const uint8_t *) "200", 3}};
    quiche_h3_event *event;
    int64_t stream;

    while ((stream = quiche_h3_conn_poll(client->http, client->quic, &event)) >= 0) {
        if (quiche_h3_event_type(event) == QUICHE_H3_EVENT_HEADERS) {
            quiche_h3_send_response(client->http, client->quic, stream, status, 1,
                                    false);
            client->stream = stream;
            client->unwritten_bytes = sizeof(body);
        }

        quiche_h3_event_free(event);
    }
}

// Writes until the transport takes no more: the window may have jumped, and one
// chunk at a time would not fill it.
static void write_body(struct client *client) {
    ssize_t written;

    while (client->unwritten_bytes > 0 &&
           (written = quiche_h3_send_body(client->http, client->quic, client->stream,
                                          body, client->unwritten_bytes, true)) >= 0) {
        client->unwritten_bytes -= written;
    }
}

// Sends every packet whose release time has come (RFC 9959, 3.3).
static void send_due(quiche_conn *quic) {
    uint8_t packet[1350];
    quiche_send_info info;
    ssize_t bytes;

    while (quiche_conn_next_release_as_nanos(quic) == 0 &&
           (bytes = quiche_conn_send(quic, packet, sizeof(packet), &info)) >= 0) {
        // A packet that the socket does not take is lost, as on the path.
        sendto(udp, packet, bytes, 0, (struct sockaddr *) &info.to, info.to_len);
    }
}

// Waits for a packet, a release time, or a timeout.
static void wait_for_work(const quiche_conn *quic) {
    uint64_t release_ns = quiche_conn_next_release_as_nanos(quic);
    uint64_t wait_ns = quiche_conn_timeout_as_nanos(quic);

    // If it is 0, there was nothing to send.
    if (release_ns > 0 && release_ns < wait_ns) {
        wait_ns = release_ns;
    }

    struct pollfd readable = {.fd = udp, .events = POLLIN};
    struct timespec wait = {wait_ns / SECOND_NS, wait_ns % SECOND_NS};
    ppoll(&readable, 1, &wait, NULL);
}

// Reads every packet that has arrived.
static void receive(quiche_conn *quic) {
    uint8_t packet[65535];
    struct sockaddr_in6 peer;
    socklen_t peer_len = sizeof(peer);
    ssize_t bytes;

    while ((bytes = recvfrom(udp, packet, sizeof(packet), MSG_DONTWAIT,
                             (struct sockaddr *) &peer, &peer_len)) >= 0) {
        quiche_recv_info info = {(struct sockaddr *) &peer, peer_len,
                                 (struct sockaddr *) &local, sizeof(local)};

        // Drops a packet that it cannot read, and closes the connection if that
        // was the first one.
        quiche_conn_recv(quic, packet, bytes, &info);
    }
}

// Serves the next client until its connection is closed.
static void serve(quiche_config *config, quiche_h3_config *h3_config) {
    uint8_t id[16];
    struct sockaddr_in6 peer;
    socklen_t peer_len = sizeof(peer);

    // Waits for a packet, and leaves it to receive().
    if (recvfrom(udp, NULL, 0, MSG_PEEK, (struct sockaddr *) &peer, &peer_len) < 0 ||
        getentropy(id, sizeof(id)) < 0) {
        return;
    }

    struct client client = {
        .quic = quiche_accept(id, sizeof(id), NULL, 0, (struct sockaddr *) &local,
                              sizeof(local), (struct sockaddr *) &peer, peer_len,
                              config),
        .subnet = subnet_of(&peer.sin6_addr),
    };

    check(client.quic != NULL, "quiche_accept", "the configuration is not complete");

    while (!quiche_conn_is_closed(client.quic)) {
        wait_for_work(client.quic);
        receive(client.quic);
        quiche_conn_on_timeout(client.quic); // does nothing before its time

        if (client.http == NULL && quiche_conn_is_established(client.quic)) {
            client.http = quiche_h3_conn_new_with_transport(client.quic, h3_config);
            resume(&client);
        }

        if (client.http != NULL) {
            read_requests(&client);
            write_body(&client);
        }

        follow(&client);
        send_due(client.quic);
    }

    record(&client);
    quiche_h3_conn_free(client.http);
    quiche_conn_free(client.quic);
}

int main(int argc, char *argv[]) {
    check(argc == 4, argv[0], "wants three arguments, PORT CERT KEY");
    setlinebuf(stdout);

    quiche_h3_config *h3_config = quiche_h3_config_new();
    quiche_config *config = quiche_config_new(QUICHE_PROTOCOL_VERSION);
    check(quiche_config_load_cert_chain_from_pem_file(config, argv[2]) == 0, argv[2],
          "is no PEM file with a certificate");
    check(quiche_config_load_priv_key_from_pem_file(config, argv[3]) == 0, argv[3],
          "is no PEM file with the certificate's key");
    quiche_config_set_application_protos(
        config, (const uint8_t *) QUICHE_H3_APPLICATION_PROTOCOL,
        sizeof(QUICHE_H3_APPLICATION_PROTOCOL) - 1);
    quiche_config_set_initial_max_data(config, 1 << 20);
    quiche_config_set_initial_max_stream_data_bidi_remote(config, 1 << 16);
    quiche_config_set_initial_max_stream_data_uni(config, 1 << 16);
    quiche_config_set_initial_max_streams_bidi(config, 16);
    quiche_config_set_initial_max_streams_uni(config, 16);
    quiche_config_set_max_idle_timeout(config, 5000);
    quiche_config_set_careful_resume(config, NULL); // also turns pacing on

    // Takes packets over IPv6 and IPv4.
    socklen_t local_len = sizeof(local);
    local.sin6_family = AF_INET6;
    local.sin6_port = htons(atoi(argv[1]));
    udp = socket(AF_INET6, SOCK_DGRAM, 0);
    bool is_bound = bind(udp, (struct sockaddr *) &local, local_len) == 0;
    check(is_bound, argv[1], strerror(errno));
    getsockname(udp, (struct sockaddr *) &local, &local_len);
    printf("listening on port %d\n", ntohs(local.sin6_port));

    while (true) {
        serve(config, h3_config);
    }
}
