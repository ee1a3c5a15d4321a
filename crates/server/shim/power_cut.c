/* Preloaded into an embedded server: remembers what a power cut would take.
 *
 * Every write under the data directory first has what it replaces copied to a journal,
 * page by page; a flush of the file that returns takes those copies out again. Files made,
 * renamed and removed are noted likewise, until their directory or they themselves are
 * flushed. When every process was killed, `power_cut.rs` puts back what is in the journal.
 *
 * WALWRIGHT_POWER_CUT_DATA is the data directory, WALWRIGHT_POWER_CUT_JOURNAL the directory
 * of the journal, on the same file system; both are absolute, without symbolic links. The
 * journal's layout is read by `power_cut/journal.rs`.
 *
 * Not seen: writes of stdio (PostgreSQL flushes none of the files it writes so), of io_uring,
 * through a mapping, and under symbolic links that lead out of the data directory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3174756372776f70)
#define PAGE 4096
#define RECORDS (1u << 22)
#define FILES (1u << 16)
#define BUCKETS (1u << 20)
/* Records for which disk is taken at a time: 16 MB of pages. */
#define CHUNK 4096u
#define PATH_SIZE (PAGE / 2)

/* Where the parts of the journal begin. The page of record n is the n-th. */
#define FILES_AT ((size_t)PAGE)
#define BUCKETS_AT (FILES_AT + FILES * sizeof(uint32_t))
#define RECORDS_AT (BUCKETS_AT + BUCKETS * sizeof(uint32_t))
#define PAGES_AT (RECORDS_AT + (size_t)RECORDS * sizeof(struct record))
#define SIZE (PAGES_AT + (size_t)RECORDS * PAGE)

enum kind {
    FREE = 0,
    OLD_PAGE = 1, /* a page as it was */
    OLD_SIZE = 2, /* `at` is the length as it was */
    MADE = 3,     /* a name that was made */
    MOVED = 4,    /* a name that was changed; saved/NUMBER is what had the new one */
    GONE = 5,     /* a name that was removed; saved/NUMBER is the file */
};

/* Linked among those of its file, and of its bucket: that of file and page, or, for names,
 * of the directory. Record 0 is none. */
struct record {
    uint32_t kind; /* written last when made, first when taken away */
    uint32_t length; /* of a page that the file's end cut off */
    uint64_t device, inode;
    uint64_t at; /* page number; length; inode of the directory */
    uint64_t number; /* in order of making */
    uint32_t sealed; /* a flush has begun since: another write needs a copy of its own */
    uint32_t next, previous, chain;
    uint32_t unused[2];
};

struct journal {
    uint64_t magic; /* written last */
    uint32_t used;  /* records used so far, record 0 included */
    uint32_t free;  /* the first that is free again, linked by `next` */
    uint64_t number;
    uint32_t incomplete; /* something could not be remembered */
    uint32_t reserved;   /* records that have their disk */
    pthread_mutex_t lock;
};

static struct journal *journal;
static uint32_t *of_file, *of_bucket;
static struct record *records;
static char *pages;
static int journal_fd = -1;
static char data[PATH_SIZE], saved[PATH_SIZE];
static size_t data_length;

static int (*next_fsync)(int), (*next_fdatasync)(int);
static int (*next_fallocate)(int, off_t, off_t);

/* ---- the journal ---- */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint32_t *file_of(uint64_t inode)
{
    return &of_file[mixed(inode) % FILES];
}

static uint32_t *bucket_of(const struct record *r)
{
    uint64_t key;

    if (r->kind >= MADE)
        key = r->at;
    else
        key = mixed(r->inode * 8 + r->kind) + (r->kind == OLD_PAGE ? r->at : 0);
    return &of_bucket[mixed(key) % BUCKETS];
}

static void index_record(uint32_t n)
{
    struct record *r = &records[n];
    uint32_t *file = file_of(r->inode), *bucket = bucket_of(r);

    r->previous = 0;
    r->next = *file;
    if (*file)
        records[*file].previous = n;
    *file = n;
    r->chain = *bucket;
    *bucket = n;
}

static void release(uint32_t n)
{
    records[n].next = journal->free;
    journal->free = n;
}

/* A process was killed while it held the lock: the links may be broken, records are not. */
static void index_again(void)
{
    memset(of_file, 0, FILES * sizeof *of_file);
    memset(of_bucket, 0, BUCKETS * sizeof *of_bucket);
    journal->free = 0;
    for (uint32_t n = 1; n < journal->used; n++) {
        if (records[n].kind == FREE)
            release(n);
        else
            index_record(n);
    }
}

static sigset_t unblocked;

/* Takes the lock. No handler may run meanwhile: one that writes would wait for it forever. */
static void begin(void)
{
    sigset_t all;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &unblocked);
    if (pthread_mutex_lock(&journal->lock) == EOWNERDEAD) {
        index_again();
        pthread_mutex_consistent(&journal->lock);
    }
}

static void end(void)
{
    int error = errno;
    sigset_t before = unblocked;

    pthread_mutex_unlock(&journal->lock);
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
}

/* Disk for more records, so that a full one is found here and not by touching a mapping. */
static bool reserve(void)
{
    size_t done = journal->reserved;

    if (syscall(SYS_fallocate, journal_fd, 0, PAGES_AT + done * PAGE, (size_t)CHUNK * PAGE) != 0 &&
        errno != EOPNOTSUPP)
        return false;
    if (syscall(SYS_fallocate, journal_fd, 0, RECORDS_AT + done * sizeof(struct record),
                CHUNK * sizeof(struct record)) != 0 &&
        errno != EOPNOTSUPP)
        return false;
    journal->reserved += CHUNK;
    return true;
}

/* A record to fill; 0 where there is no room. */
static uint32_t take(void)
{
    uint32_t n = journal->free;

    if (n) {
        journal->free = records[n].next;
        return n;
    }
    if (journal->used >= RECORDS || (journal->used >= journal->reserved && !reserve())) {
        journal->incomplete = 1;
        return 0;
    }
    return journal->used++;
}

static void publish(uint32_t n, enum kind kind, const struct stat *file, uint64_t at)
{
    struct record *r = &records[n];

    r->device = file->st_dev;
    r->inode = file->st_ino;
    r->at = at;
    r->number = journal->number++;
    r->sealed = 0;
    __atomic_store_n(&r->kind, kind, __ATOMIC_RELEASE);
    index_record(n);
}

static void path_of_saved(char *path, uint64_t number)
{
    snprintf(path, PATH_MAX, "%s/%llu", saved, (unsigned long long)number);
}

static bool is_of(const struct record *r, const struct stat *file)
{
    return r->inode == file->st_ino && r->device == file->st_dev;
}

/* Takes a record out of the journal. */
static void drop(uint32_t n)
{
    struct record *r = &records[n];
    uint32_t *link = bucket_of(r);

    __atomic_store_n(&r->kind, FREE, __ATOMIC_RELEASE);
    while (*link != n)
        link = &records[*link].chain;
    *link = r->chain;
    if (r->previous)
        records[r->previous].next = r->next;
    else
        *file_of(r->inode) = r->next;
    if (r->next)
        records[r->next].previous = r->previous;
    release(n);
}

/* Takes a record out, and with the last name of a file all about that file, since its inode
 * will be used again. Whether others went too, which a walk may have been about to visit. */
static bool forget(uint32_t n)
{
    bool is_name = records[n].kind == MOVED || records[n].kind == GONE;
    char path[PATH_MAX];
    struct stat file;
    bool is_last;

    path_of_saved(path, records[n].number);
    drop(n);
    if (!is_name)
        return false;
    is_last = lstat(path, &file) == 0 && file.st_nlink == 1;
    syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (!is_last)
        return false;
    for (uint32_t other = *file_of(file.st_ino), next; other; other = next) {
        next = records[other].next;
        if (is_of(&records[other], &file) && records[other].kind <= OLD_SIZE)
            drop(other);
    }
    return true;
}

/* Whether this is remembered as it was when the last flush of the file began. */
static bool is_remembered(enum kind kind, const struct stat *file, uint64_t at)
{
    struct record key = {.kind = kind, .inode = file->st_ino, .at = at};

    for (uint32_t n = *bucket_of(&key); n; n = records[n].chain) {
        const struct record *r = &records[n];

        if (r->kind == kind && !r->sealed && is_of(r, file) && (kind == OLD_SIZE || r->at == at))
            return true;
    }
    return false;
}

/* ---- what a write replaces ---- */

static void remember_size(const struct stat *file)
{
    uint32_t n = is_remembered(OLD_SIZE, file, 0) ? 0 : take();

    if (n) {
        records[n].length = 0;
        publish(n, OLD_SIZE, file, file->st_size);
    }
}

static ssize_t read_page(int fd, int *readable, char *into, off_t at)
{
    ssize_t length = syscall(SYS_pread64, fd, into, PAGE, at);

    if (length >= 0 || errno != EBADF)
        return length;
    /* Opened for writing alone. */
    if (*readable < 0) {
        char path[64];

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        *readable = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    }
    return syscall(SYS_pread64, *readable, into, PAGE, at);
}

static void remember(int fd, const struct stat *file, off_t from, off_t length)
{
    int readable = -1;

    if (length <= 0)
        return;
    if (from + length > file->st_size)
        remember_size(file);
    for (off_t page = from / PAGE; page <= (from + length - 1) / PAGE; page++) {
        ssize_t there = 0;
        uint32_t n;

        if (is_remembered(OLD_PAGE, file, page))
            continue;
        n = take();
        if (!n)
            break;
        if (page * PAGE < file->st_size)
            there = read_page(fd, &readable, pages + (size_t)n * PAGE, page * PAGE);
        if (there < 0) {
            journal->incomplete = 1;
            release(n);
            break;
        }
        records[n].length = there;
        publish(n, OLD_PAGE, file, page);
    }
    if (readable >= 0)
        syscall(SYS_close, readable);
}

/* What shrinking a file to `size`, or growing it, replaces. */
static void remember_resize(int fd, const struct stat *file, off_t size)
{
    remember_size(file);
    if (size < file->st_size)
        remember(fd, file, size, file->st_size - size);
}

/* ---- what a flush makes durable ---- */

/* Begins a flush: gives the number below which everything will be durable. */
static uint64_t seal(const struct stat *file)
{
    for (uint32_t n = *file_of(file->st_ino); n; n = records[n].next)
        if (is_of(&records[n], file))
            records[n].sealed = 1;
    return journal->number;
}

static void flushed(const struct stat *file, uint64_t before)
{
    for (uint32_t n = *file_of(file->st_ino), next; n; n = next) {
        next = records[n].next;
        if (is_of(&records[n], file) && records[n].number < before && records[n].kind != GONE &&
            forget(n))
            next = *file_of(file->st_ino);
    }
    if (!S_ISDIR(file->st_mode))
        return;
    struct record key = {.kind = MADE, .at = file->st_ino};

    for (uint32_t n = *bucket_of(&key), next; n; n = next) {
        const struct record *r = &records[n];

        next = r->chain;
        if (r->kind >= MADE && r->at == (uint64_t)file->st_ino && r->device == file->st_dev &&
            r->number < before && forget(n))
            next = *bucket_of(&key);
    }
}

/* A write that returns when it is durable: pages, length and the name that was made. */
static void written_through(const struct stat *file, off_t from, off_t length, uint64_t before)
{
    for (uint32_t n = *file_of(file->st_ino), next; n; n = next) {
        const struct record *r = &records[n];
        bool inside = r->kind != OLD_PAGE || ((off_t)r->at >= from / PAGE &&
                                              (off_t)r->at <= (from + length - 1) / PAGE);

        next = r->next;
        if (is_of(r, file) && r->number < before && inside && r->kind <= MADE)
            forget(n);
    }
}

/* ---- which files ---- */

/* Nothing is lost with files that a start removes or makes anew. */
static bool is_watched_path(const char *path)
{
    static const char *const passing[] = {"/pgsql_tmp", "/pg_stat_tmp", "/pg_dynshmem",
                                          "/postmaster."};

    if (strncmp(path, data, data_length) != 0 || path[data_length] != '/')
        return false;
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (strstr(path + data_length, passing[i]))
            return false;
    return true;
}

/* Whether a name is watched, and what it is from the root. */
static bool is_watched_name(const char *path, char *whole)
{
    size_t length = 0;

    if (!journal || !path)
        return false;
    if (path[0] != '/') {
        if (!getcwd(whole, PATH_SIZE - 1))
            return false;
        length = strlen(whole);
        whole[length++] = '/';
        if (path[0] == '.' && path[1] == '/')
            path += 2;
    }
    if (length + strlen(path) >= PATH_SIZE)
        return false;
    strcpy(whole + length, path);
    return is_watched_path(whole);
}

/* Whether what is open is a watched file or directory, and its state. */
static bool is_watched(int fd, struct stat *file)
{
    static struct {
        uint64_t device, inode;
    } known[256];
    char link[64], path[PATH_MAX];
    ssize_t length;
    int error = errno;
    unsigned slot = (unsigned)fd % 256;

    if (!journal)
        return false;
    if (fstat(fd, file) != 0 || !(S_ISREG(file->st_mode) || S_ISDIR(file->st_mode))) {
        errno = error;
        return false;
    }
    if (known[slot].inode == file->st_ino && known[slot].device == file->st_dev)
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    errno = error;
    if (length <= 0)
        return false;
    path[length] = 0;
    if (strcmp(path, data) != 0 && !is_watched_path(path))
        return false;
    known[slot].inode = file->st_ino;
    known[slot].device = file->st_dev;
    return true;
}

/* ---- writes ---- */

static bool is_written_through(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_DSYNC);
}

/* Does `call` with what it replaces remembered. */
#define REMEMBERING(fd, file, from, length, call)                                        \
    do {                                                                                 \
        ssize_t result;                                                                  \
        uint64_t before;                                                                 \
        bool through = is_written_through(fd);                                           \
                                                                                         \
        begin();                                                                         \
        if (fstat(fd, &file) == 0)                                                       \
            remember(fd, &file, from, length);                                           \
        before = journal->number;                                                        \
        if (!through) {                                                                  \
            result = (call);                                                             \
            end();                                                                       \
            return result;                                                               \
        }                                                                                \
        /* It flushes: others write meanwhile. */                                        \
        end();                                                                           \
        result = (call);                                                                 \
        if (result > 0) {                                                                \
            begin();                                                                     \
            written_through(&file, from, result, before);                                \
            end();                                                                       \
        }                                                                                \
        return result;                                                                   \
    } while (0)

static off_t position(int fd, const struct stat *file)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_APPEND) ? file->st_size : syscall(SYS_lseek, fd, 0, SEEK_CUR);
}

static off_t total(const struct iovec *parts, int count)
{
    off_t sum = 0;

    for (int i = 0; i < count; i++)
        sum += parts[i].iov_len;
    return sum;
}

ssize_t write(int fd, const void *from, size_t length)
{
    struct stat file;

    if (!is_watched(fd, &file))
        return syscall(SYS_write, fd, from, length);
    off_t at = position(fd, &file);

    REMEMBERING(fd, file, at, length, syscall(SYS_write, fd, from, length));
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    struct stat file;

    if (!is_watched(fd, &file))
        return syscall(SYS_writev, fd, parts, count);
    off_t at = position(fd, &file);

    REMEMBERING(fd, file, at, total(parts, count), syscall(SYS_writev, fd, parts, count));
}

ssize_t pwrite(int fd, const void *from, size_t length, off_t at)
{
    struct stat file;

    if (!is_watched(fd, &file))
        return syscall(SYS_pwrite64, fd, from, length, at);
    REMEMBERING(fd, file, at, length, syscall(SYS_pwrite64, fd, from, length, at));
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    struct stat file;

    if (!is_watched(fd, &file))
        return syscall(SYS_pwritev, fd, parts, count, at, 0);
    REMEMBERING(fd, file, at, total(parts, count), syscall(SYS_pwritev, fd, parts, count, at, 0));
}

ssize_t copy_file_range(int in, off_t *from, int out, off_t *to, size_t length, unsigned flags)
{
    struct stat file;

    if (!is_watched(out, &file))
        return syscall(SYS_copy_file_range, in, from, out, to, length, flags);
    off_t at = to ? *to : position(out, &file);

    REMEMBERING(out, file, at, length,
                syscall(SYS_copy_file_range, in, from, out, to, length, flags));
}

int ftruncate(int fd, off_t size)
{
    struct stat file;
    int result;

    if (!is_watched(fd, &file))
        return syscall(SYS_ftruncate, fd, size);
    begin();
    if (fstat(fd, &file) == 0)
        remember_resize(fd, &file, size);
    result = syscall(SYS_ftruncate, fd, size);
    end();
    return result;
}

int truncate(const char *path, off_t size)
{
    char whole[PATH_SIZE];
    int fd, result, error;

    if (!is_watched_name(path, whole))
        return syscall(SYS_truncate, path, size);
    fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    result = ftruncate(fd, size);
    error = errno;
    syscall(SYS_close, fd);
    errno = error;
    return result;
}

int posix_fallocate(int fd, off_t from, off_t length)
{
    struct stat file;
    int result;

    if (!is_watched(fd, &file))
        return next_fallocate(fd, from, length);
    begin();
    if (fstat(fd, &file) == 0 && from + length > file.st_size)
        remember_size(&file);
    result = next_fallocate(fd, from, length);
    end();
    return result;
}

int fallocate(int fd, int mode, off_t from, off_t length)
{
    struct stat file;
    int result;

    if (!is_watched(fd, &file))
        return syscall(SYS_fallocate, fd, mode, from, length);
    begin();
    if (fstat(fd, &file) == 0)
        remember(fd, &file, from, length);
    result = syscall(SYS_fallocate, fd, mode, from, length);
    end();
    return result;
}

/* ---- flushes ---- */

static int flush(int (*next)(int), long call, int fd)
{
    struct stat file;
    uint64_t before;
    int result;

    if (!is_watched(fd, &file))
        return next ? next(fd) : syscall(call, fd);
    begin();
    before = seal(&file);
    end();
    result = next ? next(fd) : syscall(call, fd);
    if (result == 0) {
        begin();
        flushed(&file, before);
        end();
    }
    return result;
}

int fsync(int fd)
{
    return flush(next_fsync, SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return flush(next_fdatasync, SYS_fdatasync, fd);
}

int syncfs(int fd)
{
    uint64_t before;
    int result;

    if (!journal)
        return syscall(SYS_syncfs, fd);
    begin();
    before = journal->number;
    for (uint32_t n = 1; n < journal->used; n++)
        records[n].sealed = 1;
    end();
    result = syscall(SYS_syncfs, fd);
    if (result == 0) {
        begin();
        for (uint32_t n = 1; n < journal->used; n++)
            if (records[n].kind != FREE && records[n].number < before)
                forget(n);
        end();
    }
    return result;
}

/* ---- names ---- */

/* Notes a change of names; `old` is the former name of what was renamed. */
static void note(uint32_t n, enum kind kind, const struct stat *file, const char *name,
                 const char *old)
{
    char *page = pages + (size_t)n * PAGE, *slash;
    struct stat directory;

    strcpy(page, name);
    slash = strrchr(page, '/');
    *slash = 0;
    if (stat(page, &directory) != 0)
        directory.st_ino = 0;
    *slash = '/';
    strcpy(page + PATH_SIZE, old ? old : "");
    records[n].length = file->st_mode & 07777;
    publish(n, kind, file, directory.st_ino);
}

/* Keeps what has a name, which the next record's number will find. */
static void save(const char *path)
{
    char kept[PATH_MAX];

    path_of_saved(kept, journal->number);
    if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, kept, 0) != 0)
        journal->incomplete = 1;
}

static void unsave(void)
{
    char kept[PATH_MAX];
    int error = errno;

    path_of_saved(kept, journal->number);
    syscall(SYS_unlinkat, AT_FDCWD, kept, 0);
    errno = error;
}

static int opened(const char *path, int flags, mode_t mode)
{
    char whole[PATH_SIZE];
    struct stat file;
    bool made;
    int fd;

    if (!(flags & (O_CREAT | O_TRUNC)) || !is_watched_name(path, whole))
        return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    begin();
    made = stat(path, &file) != 0;
    if (!made && (flags & O_TRUNC) && !(flags & O_EXCL) && S_ISREG(file.st_mode)) {
        fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
        if (fd >= 0) {
            remember_resize(fd, &file, 0);
            syscall(SYS_close, fd);
        }
    }
    fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && made && fstat(fd, &file) == 0) {
        uint32_t n;

        /* The inode of a file that is no more is used again. */
        flushed(&file, UINT64_MAX);
        n = take();
        if (n)
            note(n, MADE, &file, whole, NULL);
    }
    end();
    return fd;
}

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;

    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list more;

        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    return opened(path, flags, mode);
}

int __open_2(const char *path, int flags)
{
    return opened(path, flags, 0);
}

int rename(const char *old, const char *new)
{
    char from[PATH_SIZE], to[PATH_SIZE];
    struct stat file, replaced;
    bool is_replacing;
    uint32_t n;
    int result;

    if (!is_watched_name(old, from) || !is_watched_name(new, to))
        return syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0);
    begin();
    is_replacing = lstat(new, &replaced) == 0 && S_ISREG(replaced.st_mode);
    if (is_replacing)
        save(new);
    n = lstat(old, &file) == 0 ? take() : 0;
    result = syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0);
    if (result == 0 && n)
        note(n, MOVED, &file, to, from);
    else {
        if (n)
            release(n);
        if (is_replacing)
            unsave();
    }
    end();
    return result;
}

static int removed(const char *path, int flags)
{
    char whole[PATH_SIZE];
    struct stat file;
    uint32_t n;
    int result;

    if (!is_watched_name(path, whole))
        return syscall(SYS_unlinkat, AT_FDCWD, path, flags);
    begin();
    n = lstat(path, &file) == 0 && (S_ISREG(file.st_mode) || S_ISDIR(file.st_mode)) ? take() : 0;
    if (n && S_ISREG(file.st_mode))
        save(path);
    result = syscall(SYS_unlinkat, AT_FDCWD, path, flags);
    if (n && result == 0)
        note(n, GONE, &file, whole, NULL);
    else if (n) {
        release(n);
        unsave();
    }
    end();
    return result;
}

int unlink(const char *path)
{
    return removed(path, 0);
}

int rmdir(const char *path)
{
    return removed(path, AT_REMOVEDIR);
}

/* Notes a name that was just made. */
static int made(int result, const char *path, const char *whole)
{
    struct stat file;
    uint32_t n;

    if (result == 0 && lstat(path, &file) == 0) {
        n = take();
        if (n)
            note(n, MADE, &file, whole, NULL);
    }
    end();
    return result;
}

int link(const char *old, const char *new)
{
    char whole[PATH_SIZE];

    if (!is_watched_name(new, whole))
        return syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0);
    begin();
    return made(syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0), new, whole);
}

int mkdir(const char *path, mode_t mode)
{
    char whole[PATH_SIZE];

    if (!is_watched_name(path, whole))
        return syscall(SYS_mkdirat, AT_FDCWD, path, mode);
    begin();
    return made(syscall(SYS_mkdirat, AT_FDCWD, path, mode), path, whole);
}

/* The names of large file support: the same on 64 bits. */
#define ALIAS(name) __attribute__((alias(#name)))
ssize_t pwrite64(int, const void *, size_t, off_t) ALIAS(pwrite);
ssize_t pwritev64(int, const struct iovec *, int, off_t) ALIAS(pwritev);
int ftruncate64(int, off_t) ALIAS(ftruncate);
int truncate64(const char *, off_t) ALIAS(truncate);
int posix_fallocate64(int, off_t, off_t) ALIAS(posix_fallocate);
int fallocate64(int, int, off_t, off_t) ALIAS(fallocate);
int open64(const char *, int, ...) ALIAS(open);
int __open64_2(const char *, int) ALIAS(__open_2);

/* ---- the beginning ---- */

static void make(void)
{
    pthread_mutexattr_t attributes;

    journal->used = 1;
    journal->number = 1;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&journal->lock, &attributes);
    __atomic_store_n(&journal->magic, MAGIC, __ATOMIC_RELEASE);
}

/* Without a journal a server would seem to lose nothing. */
static void refuse(const char *path)
{
    fprintf(stderr, "power_cut: cannot use the journal %s: %s\n", path, strerror(errno));
    _exit(1);
}

__attribute__((constructor)) static void attach(void)
{
    const char *under = getenv("WALWRIGHT_POWER_CUT_DATA");
    const char *directory = getenv("WALWRIGHT_POWER_CUT_JOURNAL");
    char path[PATH_MAX];
    char *at;

    next_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    next_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    next_fallocate = (int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, "posix_fallocate");
    if (!under || !directory)
        return;
    snprintf(path, sizeof path, "%s/journal", directory);
    snprintf(saved, sizeof saved, "%s/saved", directory);
    snprintf(data, sizeof data, "%s", under);
    data_length = strlen(data);
    journal_fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal_fd < 0 || flock(journal_fd, LOCK_EX) != 0 ||
        syscall(SYS_ftruncate, journal_fd, SIZE) != 0)
        refuse(path);
    at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, journal_fd, 0);
    if (at == MAP_FAILED)
        refuse(path);
    of_file = (uint32_t *)(at + FILES_AT);
    of_bucket = (uint32_t *)(at + BUCKETS_AT);
    records = (struct record *)(at + RECORDS_AT);
    pages = at + PAGES_AT;
    journal = (struct journal *)at;
    if (journal->magic != MAGIC)
        make();
    flock(journal_fd, LOCK_UN);
}
