/* Failing system calls, put before those of the C library by LD_PRELOAD.
 *
 * DPR_FAIL_SYNC=n    the n-th fsync or fdatasync fails with EIO
 * DPR_FAIL_WRITE=n   the n-th write to a regular file fails with ENOSPC
 * DPR_FAIL_ON=1      and so do all after it
 * DPR_SYNC_LOG=path  the paths of what is synced are appended to this file, one a line
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long syncs, writes;

static int fails(atomic_long *count, const char *name) {
    const char *value = getenv(name);
    if (!value) return 0;
    long at = atol(value), now = atomic_fetch_add(count, 1) + 1;
    return now == at || (now > at && getenv("DPR_FAIL_ON"));
}

static void tell(int fd) {
    const char *log = getenv("DPR_SYNC_LOG");
    if (!log) return;
    char link[64], line[4097];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, line, sizeof line - 1);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (length > 0 && out >= 0) {
        line[length] = '\n';
        syscall(SYS_write, out, line, length + 1);
    }
    if (out >= 0) close(out);
}

int fsync(int fd) {
    tell(fd);
    if (fails(&syncs, "DPR_FAIL_SYNC")) return errno = EIO, -1;
    return syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    tell(fd);
    if (fails(&syncs, "DPR_FAIL_SYNC")) return errno = EIO, -1;
    return syscall(SYS_fdatasync, fd);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct stat file;
    if (getenv("DPR_FAIL_WRITE") && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && fails(&writes, "DPR_FAIL_WRITE"))
        return errno = ENOSPC, -1;
    return syscall(SYS_write, fd, bytes, length);
}
