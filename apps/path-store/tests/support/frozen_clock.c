/* Preloaded into a redis-server: its wall clock is what a file holds, in
 * microseconds since 1970, and moves only when a test writes there. Time-outs of
 * its event loop are measured with the monotonic clock, which stays real. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t wall_us(void) {
    static volatile int64_t *shared;
    if (!shared) {
        int fd = open(getenv("FROZEN_CLOCK"), O_RDONLY);
        void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED) abort();
        close(fd);
        shared = page;
    }
    return *shared;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    int64_t us = wall_us();
    time->tv_sec = us / 1000000;
    time->tv_usec = us % 1000000;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return syscall(SYS_clock_gettime, clock, time);
    int64_t us = wall_us();
    time->tv_sec = us / 1000000;
    time->tv_nsec = us % 1000000 * 1000;
    return 0;
}

time_t time(time_t *out) {
    time_t now = wall_us() / 1000000;
    if (out) *out = now;
    return now;
}
