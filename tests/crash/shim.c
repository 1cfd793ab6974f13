/* Preloaded into a process, counts what it does to the files below one folder, and at the n-th such call ends the
   process, as kill -9 would, or refuses, as a full disk would. It can make syncs slow, as a disk's are. With a tape,
   each call is written down as well, so that the state of the disk after a power cut can be made from it (powercut.py).

   Kinds: 0 write (also truncate), 1 sync, 2 names (create, rename, link, unlink, mkdir).
   How:   0 nothing, 1 die before, 2 die in the middle of the write, 3 die after,
          4 refuse this one, 5 a short write and then refuse all until disarmed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE, SYNC, NAME, KINDS };
enum { NOTHING, BEFORE, MIDDLE, AFTER, REFUSE, FULL };

static char root[PATH_MAX];
static size_t root_length;
static int armed_kind, armed_how, tape = -1;
static long armed_at, counted[KINDS], refused, taped, slowness;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void crash_arm(const char *folder, int kind, long at, int how) {
    root_length = strlen(folder);
    memcpy(root, folder, root_length + 1);
    memset(counted, 0, sizeof counted);
    armed_kind = kind, armed_at = at, armed_how = how, refused = 0;
}
void crash_disarm(void) { armed_how = NOTHING; }
void crash_slow(long microseconds) { slowness = microseconds; }
void crash_tape(int fd) { tape = fd; }
long crash_counted(int kind) { return counted[kind]; }
long crash_refused(void) { return refused; }
long crash_taped(void) { return taped; }

static int below(const char *path) {
    return root_length && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

/* The path of an open file, in `path`, if it is one of ours. */
static int ours(int fd, char *path) {
    char link[64];
    if (!root_length || fd == tape) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Counts the call. Gives what is to become of it. */
static int gate(int kind) {
    long number = __sync_add_and_fetch(&counted[kind], 1);
    if (armed_kind != kind || !armed_how) return NOTHING;
    if (armed_how == FULL && number >= armed_at) {
        __sync_add_and_fetch(&refused, 1);
        return number == armed_at ? MIDDLE : REFUSE;
    }
    if (number != armed_at) return NOTHING;
    if (armed_how == BEFORE) die();
    if (armed_how == REFUSE) __sync_add_and_fetch(&refused, 1);
    return armed_how;
}

static int refuse(int error) {
    errno = error;
    return -1;
}

/* One call on the tape: a line of words, then the bytes. Paths are relative to the folder, one word each. */
static void record(const char *what, const char *path, const char *other, long offset, const void *data, size_t size) {
    char head[2 * PATH_MAX + 128];
    if (tape < 0) return;
    int kept = errno;
    int length = snprintf(head, sizeof head, "%s %ld %zu %s/ %s/\n", what, offset, size, path + root_length,
                          other ? other + root_length : "");
    struct iovec both[2] = {{head, (size_t)length}, {(void *)data, size}};
    if (REAL(writev)(tape, both, size ? 2 : 1) < 0) abort();
    __sync_add_and_fetch(&taped, 1);
    errno = kept;
}

static ssize_t put(int fd, const void *data, size_t size, off_t offset, const char *path) {
    ssize_t done = offset < 0 ? REAL(write)(fd, data, size) : REAL(pwrite)(fd, data, size, offset);
    if (done > 0) record("write", path, 0, offset < 0 ? lseek(fd, 0, SEEK_CUR) - done : offset, data, (size_t)done);
    return done;
}

static ssize_t guarded(int fd, const void *data, size_t size, off_t offset) {
    char path[PATH_MAX];
    if (!ours(fd, path)) return offset < 0 ? REAL(write)(fd, data, size) : REAL(pwrite)(fd, data, size, offset);
    int fate = gate(WRITE);
    if (fate == REFUSE || (fate == MIDDLE && size < 2 && armed_how == FULL)) return refuse(ENOSPC);
    ssize_t done = fate == MIDDLE && size < 2 ? 0 : put(fd, data, fate == MIDDLE ? size / 2 : size, offset, path);
    if (armed_how != FULL && (fate == MIDDLE || fate == AFTER)) die();
    return done;
}

ssize_t write(int fd, const void *data, size_t size) { return guarded(fd, data, size, -1); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return guarded(fd, data, size, offset); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return guarded(fd, data, size, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    char path[PATH_MAX];
    if (!ours(fd, path)) return REAL(writev)(fd, parts, count);
    ssize_t all = 0;
    for (int i = 0; i < count; i++) {
        ssize_t done = guarded(fd, parts[i].iov_base, parts[i].iov_len, -1);
        if (done < 0) return all ? all : done;
        all += done;
        if ((size_t)done < parts[i].iov_len) break;
    }
    return all;
}

#define GUARDED(kind, error, call, tell)                                                                               \
    int fate = gate(kind);                                                                                             \
    if (fate == REFUSE || (fate == MIDDLE && armed_how == FULL)) return refuse(error);                                 \
    if (fate == MIDDLE) die();                                                                                         \
    int done = call;                                                                                                   \
    if (done >= 0) tell;                                                                                               \
    if (fate == AFTER) die();                                                                                          \
    return done

static int cut(int fd, off_t size) {
    char path[PATH_MAX];
    struct stat now;
    if (!ours(fd, path)) return REAL(ftruncate)(fd, size);
    if (armed_how >= REFUSE && !fstat(fd, &now) && size <= now.st_size) { /* to become shorter needs no room */
        int done = REAL(ftruncate)(fd, size);
        if (done >= 0) record("truncate", path, 0, size, "", 0);
        return done;
    }
    GUARDED(WRITE, ENOSPC, REAL(ftruncate)(fd, size), record("truncate", path, 0, size, "", 0));
}
int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

int fsync(int fd) {
    char path[PATH_MAX];
    if (!ours(fd, path)) return REAL(fsync)(fd);
    if (slowness) usleep(slowness);
    GUARDED(SYNC, EIO, REAL(fsync)(fd), record("sync", path, 0, 0, "", 0));
}
int fdatasync(int fd) {
    char path[PATH_MAX];
    if (!ours(fd, path)) return REAL(fdatasync)(fd);
    if (slowness) usleep(slowness);
    GUARDED(SYNC, EIO, REAL(fdatasync)(fd), record("sync", path, 0, 0, "", 0));
}

int rename(const char *old, const char *new) {
    if (!below(new)) return REAL(rename)(old, new);
    GUARDED(NAME, ENOSPC, REAL(rename)(old, new), record("rename", old, new, 0, "", 0));
}
int link(const char *old, const char *new) {
    if (!below(new)) return REAL(link)(old, new);
    GUARDED(NAME, ENOSPC, REAL(link)(old, new), record("link", old, new, 0, "", 0));
}
int mkdir(const char *path, mode_t mode) {
    if (!below(path)) return REAL(mkdir)(path, mode);
    GUARDED(NAME, ENOSPC, REAL(mkdir)(path, mode), record("mkdir", path, 0, 0, "", 0));
}
/* To remove something needs no room: it is never refused. */
static int removed(int folder, const char *name, int flags, const char *path) {
    int fate = gate(NAME);
    int done = REAL(unlinkat)(folder, name, flags);
    if (done >= 0) record("unlink", path, 0, 0, "", 0);
    if (fate == AFTER || (fate == MIDDLE && armed_how == MIDDLE)) die();
    return done;
}
int unlink(const char *path) {
    if (!below(path)) return REAL(unlink)(path);
    return removed(AT_FDCWD, path, 0, path);
}
int rmdir(const char *path) {
    if (!below(path)) return REAL(rmdir)(path);
    return removed(AT_FDCWD, path, AT_REMOVEDIR, path);
}
int unlinkat(int folder, const char *name, int flags) {
    char path[PATH_MAX], whole[2 * PATH_MAX];
    if (folder == AT_FDCWD || name[0] == '/') return flags & AT_REMOVEDIR ? rmdir(name) : unlink(name);
    if (!ours(folder, path)) return REAL(unlinkat)(folder, name, flags);
    snprintf(whole, sizeof whole, "%s/%s", path, name);
    return removed(folder, name, flags, whole);
}

static int opened(const char *path, int flags, mode_t mode) {
    int fresh = (flags & O_CREAT) && below(path) && access(path, F_OK) < 0;
    int emptied = !fresh && (flags & O_TRUNC) && below(path);
    if (!fresh && !emptied) return REAL(open)(path, flags, mode);
    GUARDED(NAME, ENOSPC, REAL(open)(path, flags, mode),
            record(fresh ? "create" : "truncate", path, 0, 0, "", 0));
}
#define MODE(flags, mode)                                                                                              \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                             \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        mode = va_arg(more, mode_t);                                                                                   \
        va_end(more);                                                                                                  \
    }
int open(const char *path, int flags, ...) {
    MODE(flags, mode);
    return opened(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE(flags, mode);
    return opened(path, flags | O_LARGEFILE, mode);
}
