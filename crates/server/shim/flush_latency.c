/* Preloaded into an embedded server: makes every flush take at least a chosen time,
 * so that a laptop shows what network storage does.
 *
 * WALWRIGHT_FLUSH_NS holds that time in nanoseconds. A flush that takes longer by
 * itself is left alone, and so is one that fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

typedef int (*flush)(int);

static flush real_fsync, real_fdatasync;
static long long least_ns;

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("WALWRIGHT_FLUSH_NS");

    least_ns = text ? atoll(text) : 0;
    real_fsync = (flush)dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = (flush)dlsym(RTLD_NEXT, "fdatasync");
    /* Sleeps are otherwise up to 50 us too long. Children inherit it. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
}

static int lengthened(flush real, int fd)
{
    struct timespec until;
    int result, error;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (until.tv_nsec + least_ns) / 1000000000LL;
    until.tv_nsec = (until.tv_nsec + least_ns) % 1000000000LL;
    result = real(fd);
    error = errno;
    if (result == 0) {
        /* Signals, which PostgreSQL uses much, do not shorten it. */
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
    }
    errno = error;
    return result;
}

int fsync(int fd)
{
    return lengthened(real_fsync, fd);
}

int fdatasync(int fd)
{
    return lengthened(real_fdatasync, fd);
}
