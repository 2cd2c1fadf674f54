// HTTP/3 server that resumes: sends 4 MB to each client, one client at a time,
// and starts a later download from the same /24 at half of what an earlier one
// reached (RFC 9959).
//
//     cargo build
//     cd examples
//     LIB="../target/debug/libquiche.a -lstdc++ -lm"
//     cc -D_GNU_SOURCE -I../quiche/include resuming_server.c $LIB -o server
//     ./server 4433 ../quiche/examples/cert.crt ../quiche/examples/cert.key
//
// Careful Resume has three duties for an application: to send each packet when it
// is due, to write whenever the window may have opened, and to give saved
// parameters to one connection at a time.

#include <quiche.h>
#include <quiche_careful_resume.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BODY_BYTES 4000000

// Longest sleep: packets that come meanwhile wait.
#define NAP_NS 200000

static const uint8_t body[BODY_BYTES];

// What the last path carried, until another subnet's takes its place. A server of
// many clients keeps one for each.
static struct {
    bool is_there;
    uint32_t subnet;
    quiche_path_state state;
} saved;

struct client {
    quiche_conn *quic;
    quiche_h3_conn *http;
    uint32_t subnet;
    int64_t stream; // -1: nothing to write
    size_t written_bytes;
};

// One connection at a time is served here, so that it alone has the parameters.
// Not before the handshake is complete, which validates the client's address.
static void resume(struct client *client) {
    if (saved.is_there && saved.subnet == client->subnet) {
        quiche_conn_careful_resume_from(client->quic, &saved.state, UINT64_MAX);
    }
}

static void record(struct client *client) {
    quiche_path_state observed;

    if (!quiche_conn_path_state(client->quic, &observed)) {
        return;
    }

    bool is_held = saved.is_there && saved.subnet == client->subnet;
    quiche_path_state_merge(is_held ? &saved.state : NULL, &observed,
                            &saved.state);
    saved.subnet = client->subnet;
    saved.is_there = true;
}

// A retreat deletes what was saved (RFC 9959, 3.5).
static void follow(struct client *client) {
    quiche_careful_resume_event event;

    while (quiche_conn_careful_resume_event_next(client->quic, &event)) {
        printf("phase %d, trigger %d\n", event.new_phase, event.trigger);
        fflush(stdout);

        if (event.new_phase == QUICHE_CAREFUL_RESUME_PHASE_SAFE_RETREAT) {
            saved.is_there = false;
        } else if (event.new_phase == QUICHE_CAREFUL_RESUME_PHASE_NORMAL) {
            record(client);
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
            client->written_bytes = 0;
            resume(client);
        }

        quiche_h3_event_free(event);
    }
}

// Until the transport takes no more: one chunk an event would waste the jump.
static void write_body(struct client *client) {
    while (client->stream >= 0) {
        ssize_t written = quiche_h3_send_body(
            client->http, client->quic, client->stream,
            body + client->written_bytes, BODY_BYTES - client->written_bytes, true);

        if (written < 0) {
            return;
        }

        client->written_bytes += written;

        if (client->written_bytes == BODY_BYTES) {
            client->stream = -1;
        }
    }
}

// Sends every packet whose release time has come (RFC 9959, 3.3).
static void send_due(int udp, quiche_conn *quic) {
    uint8_t packet[1350];
    quiche_send_info info;

    while (quiche_conn_next_release_as_nanos(quic) == 0) {
        ssize_t bytes = quiche_conn_send(quic, packet, sizeof(packet), &info);

        if (bytes < 0) {
            return;
        }

        // A packet that the socket does not take is lost.
        sendto(udp, packet, bytes, 0, (struct sockaddr *) &info.to, info.to_len);
    }
}

// Serves the client of an Initial packet until its connection is closed.
static void serve(int udp, quiche_config *config, quiche_h3_config *h3_config,
                  struct sockaddr_in *local) {
    uint8_t packet[65535];
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof(peer);
    ssize_t bytes = recvfrom(udp, packet, sizeof(packet), 0,
                             (struct sockaddr *) &peer, &peer_len);

    uint32_t version;
    uint8_t type, scid[QUICHE_MAX_CONN_ID_LEN], dcid[QUICHE_MAX_CONN_ID_LEN];
    uint8_t token[512];
    size_t scid_len = sizeof(scid), dcid_len = sizeof(dcid);
    size_t token_len = sizeof(token);

    // Type 1 is Initial.
    if (bytes < 0 ||
        quiche_header_info(packet, bytes, sizeof(dcid), &version, &type, scid,
                           &scid_len, dcid, &dcid_len, token, &token_len) < 0 ||
        type != 1) {
        return;
    }

    struct client client = {
        .quic = quiche_accept(dcid, dcid_len, NULL, 0, (struct sockaddr *) local,
                              sizeof(*local), (struct sockaddr *) &peer, peer_len,
                              config),
        .subnet = ntohl(peer.sin_addr.s_addr) >> 8,
        .stream = -1,
    };

    if (client.quic == NULL) {
        return;
    }

    while (!quiche_conn_is_closed(client.quic)) {
        while (bytes >= 0) {
            quiche_recv_info info = {(struct sockaddr *) &peer, peer_len,
                                     (struct sockaddr *) local, sizeof(*local)};

            // A packet that cannot be read is dropped.
            quiche_conn_recv(client.quic, packet, bytes, &info);
            bytes = recvfrom(udp, packet, sizeof(packet), MSG_DONTWAIT,
                             (struct sockaddr *) &peer, &peer_len);
        }

        if (quiche_conn_timeout_as_millis(client.quic) == 0) {
            quiche_conn_on_timeout(client.quic);
        }

        if (client.http == NULL && quiche_conn_is_established(client.quic)) {
            client.http = quiche_h3_conn_new_with_transport(client.quic, h3_config);
        }

        if (client.http != NULL) {
            read_requests(&client);
            write_body(&client);
        }

        follow(&client);
        send_due(udp, client.quic);
        nanosleep(&(struct timespec) {.tv_nsec = NAP_NS}, NULL);
        bytes = recvfrom(udp, packet, sizeof(packet), MSG_DONTWAIT,
                         (struct sockaddr *) &peer, &peer_len);
    }

    record(&client);

    if (client.http != NULL) {
        quiche_h3_conn_free(client.http);
    }

    quiche_conn_free(client.quic);
}

int main(int argc, char *argv[]) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s PORT CERT KEY\n", argv[0]);
        return 2;
    }

    quiche_config *config = quiche_config_new(QUICHE_PROTOCOL_VERSION);
    quiche_h3_config *h3_config = quiche_h3_config_new();

    if (quiche_config_load_cert_chain_from_pem_file(config, argv[2]) < 0 ||
        quiche_config_load_priv_key_from_pem_file(config, argv[3]) < 0) {
        fprintf(stderr, "cannot read %s and %s; name PEM files\n", argv[2],
                argv[3]);
        return 1;
    }

    quiche_config_set_application_protos(
        config, (const uint8_t *) QUICHE_H3_APPLICATION_PROTOCOL,
        sizeof(QUICHE_H3_APPLICATION_PROTOCOL) - 1);
    quiche_config_set_initial_max_data(config, 1 << 20);
    quiche_config_set_initial_max_stream_data_bidi_remote(config, 1 << 16);
    quiche_config_set_initial_max_stream_data_uni(config, 1 << 16);
    quiche_config_set_initial_max_streams_bidi(config, 16);
    quiche_config_set_initial_max_streams_uni(config, 16);
    quiche_config_set_max_idle_timeout(config, 5000);
    quiche_config_set_careful_resume(config, NULL);

    struct sockaddr_in local = {.sin_family = AF_INET,
                                .sin_port = htons(atoi(argv[1])),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t local_len = sizeof(local);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);

    if (udp < 0 || bind(udp, (struct sockaddr *) &local, sizeof(local)) < 0 ||
        getsockname(udp, (struct sockaddr *) &local, &local_len) < 0) {
        perror("cannot listen");
        return 1;
    }

    printf("listening on 127.0.0.1:%d\n", ntohs(local.sin_port));
    fflush(stdout);

    while (true) {
        serve(udp, config, h3_config, &local);
    }
}
