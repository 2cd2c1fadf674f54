// What ends slow start on Reno and CUBIC: HyStart++, a standing queue,
// SEARCH, or loss alone.
//
// quiche.h includes this file; including it alone does the same.

#ifndef QUICHE_SLOW_START_H
#define QUICHE_SLOW_START_H

#include "quiche.h"

#if defined(__cplusplus)
extern "C" {
#endif

enum quiche_slow_start_exit {
    // Nothing but congestion.
    QUICHE_SLOW_START_EXIT_NONE = 0,

    // HyStart++, by a rising RTT (RFC 9406). The default.
    QUICHE_SLOW_START_EXIT_HYSTART = 1,

    // SEARCH 4.0, by bytes delivered against bytes sent
    // (draft-chung-ccwg-search).
    QUICHE_SLOW_START_EXIT_SEARCH = 2,

    // SEARCH 3.x, by bytes delivered against twice those delivered before.
    QUICHE_SLOW_START_EXIT_SEARCH_3 = 3,

    // A standing queue, confirmed by what is delivered. Paces Reno and CUBIC.
    QUICHE_SLOW_START_EXIT_QUEUE = 4,

    // As QUEUE, and until a queue shows the window triples in a round trip:
    // Rapid Start (draft-kazuho-ccwg-rapid-start).
    QUICHE_SLOW_START_EXIT_RAPID = 5,
};

// Settings of SEARCH. 0 stands for the default, so that a designated initialiser
// needs to name only what differs.
typedef struct {
    // Length of the window, in RTTs: 1 to 16 (default: 3.5).
    double window_rtts;

    // How many bins a window has: 2 to 64 (default: 10).
    uint32_t bins;

    // The share of the expected bytes that is missing when slow start ends,
    // between 0 and 1 (default: 0.26 for SEARCH 4.0, 0.35 for SEARCH 3.x).
    double threshold;

    // Whether qlog has every evaluation, not only the one that ends slow start.
    bool log_evaluations;
} quiche_search_config;

// Chooses what ends slow start. |search| may be NULL, for the defaults. Of this
// and quiche_config_enable_hystart(), the later call decides: HyStart++ that is
// enabled takes the place of SEARCH.
//
// Returns 0, or QUICHE_ERR_CONGESTION_CONTROL for settings that make no sense.
int quiche_config_set_slow_start_exit(quiche_config *config,
                                      enum quiche_slow_start_exit exit,
                                      const quiche_search_config *search);

#if defined(__cplusplus)
}  // extern C
#endif

#endif // QUICHE_SLOW_START_H
