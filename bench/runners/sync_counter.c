/* Counts what a process asks the disk to make safe. Built and preloaded by bench/store.py:
   the count is the program's own, whoever links SQLite in, and costs nothing that a clock would see.
   SYNC_MS makes each of them take at least so many milliseconds: a slower disk, the same one for everybody. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static atomic_long counted;

long synced(void) { return atomic_load(&counted); }

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static int slowed(int (*real)(int), int file) {
    const char *least = getenv("SYNC_MS");
    double until = now() + (least ? atof(least) / 1e3 : 0);
    int done = real(file);
    double left = until - now();
    atomic_fetch_add(&counted, 1);
    if (left > 0) {
        struct timespec rest = {(time_t)left, (long)((left - (time_t)left) * 1e9)};
        nanosleep(&rest, NULL);
    }
    return done;
}

#define COUNTED(name)                                            \
    int name(int file) {                                         \
        static int (*real)(int);                                 \
        if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        return slowed(real, file);                               \
    }

COUNTED(fsync)
COUNTED(fdatasync)
