// Slow-start exits of Reno and CUBIC: HyStart++, a standing queue, SEARCH, or
// loss alone; and Rapid Start.
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

#ifndef QUICHE_SLOW_START_H
#define QUICHE_SLOW_START_H

#include "quiche.h"

#if defined(__cplusplus)
extern "C" {
#endif

// What ends slow start.
enum quiche_slow_start_exit {
    // Congestion alone.
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

    // As QUEUE, and the window triples in a round trip until a queue shows:
    // Rapid Start (draft-kazuho-ccwg-rapid-start).
    QUICHE_SLOW_START_EXIT_RAPID = 5,
};

// Settings of SEARCH. 0 stands for the default, so that a designated
// initialiser names only what differs.
typedef struct {
    // Length of the window, in RTTs, from 1 to 16 (default: 3.5).
    double window_rtts;

    // Number of bins in a window, from 2 to 64 (default: 10).
    uint32_t bins;

    // The missing share of the expected bytes at which slow start ends, between
    // 0 and 1 (default: 0.26 for SEARCH 4.0, 0.35 for SEARCH 3.x).
    double threshold;

    // Whether qlog has every evaluation, or only the one that ends slow start.
    bool log_evaluations;
} quiche_search_config;

// Chooses what ends slow start. The later call of this and
// quiche_config_enable_hystart() decides: enabling HyStart++ replaces any other
// exit. |search| may be NULL, for the defaults; only the two forms of SEARCH
// read it.
//
// QUICHE_ERR_CONGESTION_CONTROL: there is no such exit, or a setting of SEARCH
// is outside its range.
int quiche_config_set_slow_start_exit(quiche_config *config,
                                      enum quiche_slow_start_exit exit,
                                      const quiche_search_config *search);

#if defined(__cplusplus)
}  // extern C
#endif

#endif // QUICHE_SLOW_START_H
