/* A record of what a process does to the files of one directory, put before the C library by LD_PRELOAD.
 *
 * DPR_RECORD_ROOT=path  the directory
 * DPR_RECORD=path       the record, outside of it
 *
 * The record is a sequence of entries, in the order in which the system was asked:
 *
 *   names N                        names that changed in one step; N lines follow:
 *   + DIRECTORY INODE f|d NAME       a name is there, of a file or a directory
 *   - DIRECTORY NAME                 a name is gone
 *   write INODE OFFSET N           N bytes follow, and a line feed
 *   truncate INODE N               the file has N bytes now
 *   sync INODE                     a file or a directory was synced
 *   say N                          N bytes that were written to the standard output follow, and a line feed
 *   unknown NAME                   a call that writes in a way of which there is no record
 *
 * Names are found by listing the directory before and after each call, as some programs call the system without the C
 * library; such calls are seen at the next one that goes through it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 4096, LONGEST = 160 };

struct name {
    ino_t dir, inode;
    char kind, name[LONGEST];
};

static struct name before[MOST], now[MOST];
static int before_count, now_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static int out = -1;

/* Called by the functions below, each of which stands for the next one of its name. */
#define NEXT(name) ((__typeof__(&name))next(#name))

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static void put(const void *bytes, size_t length) {
    const char *at = bytes;
    while (length) {
        long written = syscall(SYS_write, out, at, length);
        if (written <= 0) abort();
        at += written, length -= (size_t)written;
    }
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line) abort();
    put(line, (size_t)length);
}

static void list(const char *path, ino_t dir) {
    DIR *entries = opendir(path);
    if (!entries) return;
    struct dirent *entry;
    while ((entry = readdir(entries))) {
        struct stat found;
        char inner[4096];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (fstatat(dirfd(entries), entry->d_name, &found, AT_SYMLINK_NOFOLLOW)) continue;
        if (now_count == MOST || strlen(entry->d_name) >= LONGEST) abort();
        struct name *name = &now[now_count++];
        memset(name, 0, sizeof *name);
        name->dir = dir, name->inode = found.st_ino, name->kind = S_ISDIR(found.st_mode) ? 'd' : 'f';
        strcpy(name->name, entry->d_name);
        if (name->kind != 'd') continue;
        if ((size_t)snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) >= sizeof inner) abort();
        list(inner, found.st_ino);
    }
    closedir(entries);
}

static int has(const struct name *names, int count, const struct name *name) {
    for (int at = 0; at < count; at++)
        if (!memcmp(&names[at], name, sizeof *name)) return 1;
    return 0;
}

/* Tells of the names that changed since it was called last. */
static void look(void) {
    struct stat found;
    now_count = 0;
    if (!stat(root, &found)) list(root, found.st_ino);
    int changes = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass && !changes) break;
        if (pass) tell("names %d\n", changes);
        for (int at = 0; at < before_count; at++) {
            if (has(now, now_count, &before[at])) continue;
            if (pass) tell("- %lu %s\n", (unsigned long)before[at].dir, before[at].name);
            else changes++;
        }
        for (int at = 0; at < now_count; at++) {
            if (has(before, before_count, &now[at])) continue;
            if (pass)
                tell("+ %lu %lu %c %s\n", (unsigned long)now[at].dir, (unsigned long)now[at].inode, now[at].kind,
                     now[at].name);
            else changes++;
        }
    }
    memcpy(before, now, sizeof now[0] * (size_t)now_count);
    before_count = now_count;
}

/* Begins a call. Returns 0 in a process of which there is no record. */
static int begin(void) {
    static int is_open;
    pthread_mutex_lock(&lock);
    if (!is_open) {
        is_open = 1;
        const char *record = getenv("DPR_RECORD");
        root = getenv("DPR_RECORD_ROOT");
        if (root && record) out = (int)syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        struct stat found;
        if (out >= 0 && !stat(root, &found)) tell("root %lu\n", (unsigned long)found.st_ino);
    }
    if (out < 0) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    look();
    return 1;
}

static void end(void) {
    pthread_mutex_unlock(&lock);
}

/* Returns the inode of an open file or directory that is in the directory, or is it; 0 for any other. */
static ino_t inside(int fd) {
    char link[64], path[4096];
    struct stat found;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t prefix = strlen(root);
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, root, prefix) || (path[prefix] && path[prefix] != '/')) return 0;
    if (fstat(fd, &found) || (!S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode))) return 0;
    return found.st_ino;
}

static void wrote(int fd, off_t offset, const void *bytes, ssize_t length) {
    ino_t inode = inside(fd);
    if (length <= 0) return;
    if (inode) tell("write %lu %ld %ld\n", (unsigned long)inode, (long)offset, (long)length);
    else if (fd == 1) tell("say %ld\n", (long)length);
    else return;
    put(bytes, (size_t)length);
    put("\n", 1);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    int recorded = begin();
    ssize_t written = syscall(SYS_write, fd, bytes, length);
    if (recorded) {
        wrote(fd, written > 0 ? lseek(fd, 0, SEEK_CUR) - written : 0, bytes, written);
        end();
    }
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t all = 0;
    for (int at = 0; at < count; at++) {
        ssize_t written = write(fd, parts[at].iov_base, parts[at].iov_len);
        if (written < 0) return all ? all : written;
        all += written;
        if ((size_t)written < parts[at].iov_len) break;
    }
    return all;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    int recorded = begin();
    ssize_t written = NEXT(pwrite)(fd, bytes, length, offset);
    if (recorded) wrote(fd, offset, bytes, written), end();
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    return pwrite(fd, bytes, length, offset);
}

static void cut(int fd, off_t length) {
    ino_t inode = inside(fd);
    if (inode) tell("truncate %lu %ld\n", (unsigned long)inode, (long)length);
}

int ftruncate(int fd, off_t length) {
    int recorded = begin(), failed = NEXT(ftruncate)(fd, length);
    if (recorded) {
        if (!failed) cut(fd, length);
        end();
    }
    return failed;
}

int ftruncate64(int fd, off64_t length) {
    return ftruncate(fd, length);
}

static int synced(int fd, long call) {
    int recorded = begin(), failed = (int)syscall(call, fd);
    if (recorded) {
        ino_t inode = inside(fd);
        if (!failed && inode) tell("sync %lu\n", (unsigned long)inode);
        end();
    }
    return failed;
}

int fsync(int fd) {
    return synced(fd, SYS_fsync);
}

int fdatasync(int fd) {
    return synced(fd, SYS_fdatasync);
}

static int opened(int recorded, int fd, int flags) {
    if (!recorded) return fd;
    look();
    if (fd >= 0 && (flags & O_TRUNC)) cut(fd, 0);
    end();
    return fd;
}

int openat(int dir, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    int recorded = (flags & (O_CREAT | O_TRUNC)) && begin();
    return opened(recorded, (int)syscall(SYS_openat, dir, path, flags, mode), flags);
}

int openat64(int dir, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    return openat(dir, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    return openat(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = va_arg(arguments, mode_t);
    va_end(arguments);
    return openat(AT_FDCWD, path, flags, mode);
}

/* A call that changes names: one step of the record. */
#define NAMES(name, parameters, arguments)              \
    int name parameters {                               \
        int recorded = begin();                         \
        int failed = NEXT(name) arguments;              \
        if (recorded) look(), end();                    \
        return failed;                                  \
    }

NAMES(rename, (const char *from, const char *to), (from, to))
NAMES(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
NAMES(renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
NAMES(link, (const char *from, const char *to), (from, to))
NAMES(linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
NAMES(unlink, (const char *path), (path))
NAMES(unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
NAMES(mkdir, (const char *path, mode_t mode), (path, mode))
NAMES(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
NAMES(rmdir, (const char *path), (path))

/* Calls that write in ways of which there is no record: whoever reads it refuses it. */
#define UNKNOWN(name, to, type, parameters, arguments)  \
    type name parameters {                              \
        if (begin()) {                                  \
            if (inside(to)) tell("unknown %s\n", #name); \
            end();                                      \
        }                                               \
        return NEXT(name) arguments;                    \
    }

UNKNOWN(copy_file_range, out_fd, ssize_t,
        (int in, off64_t *in_at, int out_fd, off64_t *out_at, size_t length, unsigned flags),
        (in, in_at, out_fd, out_at, length, flags))
UNKNOWN(posix_fallocate, fd, int, (int fd, off_t offset, off_t length), (fd, offset, length))
UNKNOWN(fallocate, fd, int, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length))
