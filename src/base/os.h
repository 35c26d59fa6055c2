/* os.h - the only door to the operating system: threads, clock, files, memory maps, sockets' file descriptors.
 *
 * os_linux.c implements it. Every call that can fail for reasons outside the program calls hr__fault() first, so that
 * tests can make each of them fail in turn. Functions return errors as -errno (negative) and results as >= 0; the
 * caller knows the file's name and writes the message. */
#ifndef HR_OS_H
#define HR_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- faults: tests make the nth call fail (see tests/faults.c). One relaxed load when off. */
enum { HR_FAULT_MEMORY = 1, HR_FAULT_IO = 2 };
bool hr__fault(int kind); /* true: fail now */
bool hr__fault_hit(void); /* true: the armed call was reached and failed */
/* For tests: call number `after` (0: the next) of these kinds fails, once. */
void hr__fault_arm(int kinds, int64_t after);
bool hr__fault_disarm(void); /* For tests: as hr__fault_hit, and no call fails any more. */

/* --- clock */
int64_t hr__clock_ns(void); /* monotonic */
/* The time that this thread, or all threads of the process, have used CPUs. A system call. */
int64_t hr__thread_cpu_ns(void);
int64_t hr__process_cpu_ns(void);
int64_t hr__thread_delay_ns(void); /* in which this thread could run and had no CPU; -1: the kernel does not say */
/* Of hr__process_cpu_ns(), the time in the kernel; and the page faults so far that read no disk. */
void hr__process_kernel(int64_t *ns, int64_t *faults);
/* HR_STALL=name:50ms,... (or *:50ms): the delay of a name, for tests; "disk" delays each read of a file. 0: none. */
int64_t hr__stall_ns(const char *name);
void hr__sleep_ns(int64_t ns);

/* --- threads */
typedef pthread_mutex_t hr_mutex;
typedef pthread_cond_t hr_cond; /* on the monotonic clock */
typedef pthread_t hr_thread;
#define HR_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
void hr__mutex_init(hr_mutex *m);
void hr__mutex_clear(hr_mutex *m);
void hr__lock(hr_mutex *m);
bool hr__try_lock(hr_mutex *m); /* false: another thread holds it */
void hr__unlock(hr_mutex *m);
void hr__cond_init(hr_cond *c);
void hr__cond_clear(hr_cond *c);
void hr__cond_wait(hr_cond *c, hr_mutex *m);
bool hr__cond_wait_ns(hr_cond *c, hr_mutex *m, int64_t wait_ns); /* false: timed out */
void hr__cond_signal(hr_cond *c);
void hr__cond_broadcast(hr_cond *c);
/* The thread blocks all signals but those of its own faults. -errno on failure. */
int hr__thread_start(hr_thread *out, const char *name, void (*fn)(void *), void *arg);
void hr__thread_join(hr_thread t);
int hr__pid(void);      /* cached; corrected in a forked child */
bool hr__is_fork(void); /* the process was forked after it had loaded the engine */
int hr__uid(void);
/* Names a process among all processes that share a file system. Containers of one host share the kernel's boot id but
 * not the numbers of processes, so `space` is a hash of the boot id and of the namespaces of pid and start_ticks. */
typedef struct hr_process {
    uint64_t space;
    int64_t start_ticks; /* since boot; 0: not known */
    int pid;
} hr_process;
int hr__process_self(hr_process *out); /* 0; -errno if /proc lacks it: `out` is zero */
/* True only if it is certain: p is of our own space, and no process has its pid, or one that started at another
 * time. */
bool hr__process_is_gone(const hr_process *p);
/* From now on no thread holds `m` (a static lock, at most twelve of them) while the process forks: the child can use
 * it. A thread that holds it may take others of them, and no lock for which a thread that forks may wait. */
void hr__mutex_survives_fork(hr_mutex *m);

/* Runs a program (found by PATH, without a shell; its input is empty, its errors are ours) until it ends, or for
 * timeout_ms, after which it is killed (-ETIMEDOUT). Keeps the first `cap` bytes that it prints. -> bytes; *exit is its
 * status, or 128 + the signal that ended it. */
int64_t hr__program_run(char *const *argv, int timeout_ms, char *out, int64_t cap, int *exit);

/* --- the machine */
int hr__cpus_allowed(void); /* min(affinity mask, ceil(cgroup cpu.max)), at least 1 */
/* CPU time, since boot, of all processes on the CPUs of our affinity mask (what a hypervisor took is in it), and the
 * number of these CPUs; ticks of 10 ms. False: /proc/stat does not say. `root` as below. */
bool hr__machine_cpu(const char *root, int64_t *ns, int *n_cpus);
int64_t hr__memory_physical(void); /* min(physical memory, cgroup v2/v1 limit), bytes; looked up each time */
int64_t hr__memory_page(void);
/* The limits of the process's cgroups; INT64_MAX (bytes) and 0 (CPUs): no limit. `root`: "" for this machine, or a
 * folder that tests use instead. Reads v1 and v2, all levels from our own group up to the mount. */
void hr__cgroup_limits(const char *root, int64_t *memory_bytes, double *cpus);

/* --- files: -errno on failure */
typedef struct hr_stat {
    int64_t n_bytes;
    int64_t mtime_ns;
    bool is_dir;
    bool is_file;
} hr_stat;
int hr__file_open(const char *path);   /* read-only, CLOEXEC; -> fd */
int hr__file_create(const char *path); /* write-only, new or truncated; -> fd */
int64_t hr__file_read_at(int fd, void *out, int64_t n,
                         int64_t offset);                    /* whole n unless the file ends; -> bytes read */
int64_t hr__file_write(int fd, const void *data, int64_t n); /* whole n */
int64_t hr__file_write_at(int fd, const void *data, int64_t n, int64_t offset); /* whole n */
int hr__file_create_unnamed(const char *folder); /* O_TMPFILE; -EOPNOTSUPP: this file system has none. -> fd */
int hr__file_create_scratch(const char *folder); /* to read and write; has no name, or loses it at once; -> fd */
int hr__file_create_new(const char *path);       /* -EEXIST if it is there; -> fd */
int hr__file_link(int fd, const char *path);     /* a name for an unnamed file; -EEXIST if it is there */
int hr__file_rename(const char *from, const char *to, bool replace); /* -EEXIST unless `replace` */
bool hr__file_may_replace(const char *path); /* nothing has the name, or a regular file, not by a link */
int hr__file_remove(const char *path);
void hr__file_touch(int fd);        /* it was written now; cannot fail */
int hr__file_sync(int fd);          /* contents and size are on the disk */
int hr__file_close_written(int fd); /* closes; reports errors that the system found late */
int hr__dir_create(const char *path);
int hr__dir_remove(const char *path); /* only an empty one */
/* Locks the folder among the processes of this machine. -> a descriptor, which hr__file_close lets go; -EAGAIN: another
 * one has it */
int hr__dir_lock(const char *path);
int hr__files_limit(void); /* descriptors that this process may have */
int hr__file_stat(const char *path, hr_stat *out);
int hr__file_stat_fd(int fd, hr_stat *out);
void hr__file_advise(int fd, int64_t offset, int64_t n);       /* will need; a hint, cannot fail */
void hr__file_write_behind(int fd, int64_t offset, int64_t n); /* starts write-back; a hint, waits for nothing */
void hr__file_punch(int fd, int64_t offset, int64_t n);        /* gives disk space back, if the file system can */
/* Free bytes (those that we may write) and all bytes of the file system that holds a file or folder. */
int hr__disk_space(const char *path, int64_t *free_bytes, int64_t *all_bytes);
void hr__file_close(int fd);
int hr__file_duplicate(int fd);              /* another descriptor of the same open file, CLOEXEC; -> fd */
int hr__file_open_to_lock(const char *path); /* the file exists and is no link; -> fd */
/* Private files: this user's regular files, with one name, that nobody else may read or write. -EPERM: it is another
 * one. A link is -ELOOP. `dir`: a descriptor of the folder. */
int hr__dir_open_private(const char *path);             /* made if it is missing; -> fd */
int hr__file_open_private(int dir, const char *name);   /* read-only; -> fd */
int hr__file_create_private(int dir, const char *name); /* write-only; -EEXIST if it is there; -> fd */
/* Made if it is missing. -> a descriptor, which hr__file_close lets go; -EAGAIN: another process has the lock */
int hr__file_lock_private(int dir, const char *name);
int hr__file_rename_in(int dir, const char *from, const char *to); /* replaces `to` */
int hr__file_remove_in(int dir, const char *name);
int hr__link_read(const char *path, char *out, int cap); /* where it leads, with a zero byte; -> bytes without it */
/* Locks the whole file. The lock belongs to the descriptor and its copies in forked children, and goes with the last of
 * them. 0: locked. -EAGAIN: another descriptor has the lock. -EOPNOTSUPP: locks of this file system prove nothing,
 * since other processes see the file through another kernel (NFS, FUSE) or another inode (overlays). */
int hr__file_lock(int fd);
/* Names in a folder, sorted by byte value, without "." and ".."; *names for hr__dir_list_free(). -> count */
int hr__dir_list(const char *path, char ***names);
void hr__dir_list_free(char **names, int n);

/* --- memory maps. Fresh pages are zero. */
void *hr__map_private(size_t n);                       /* anonymous; NULL on failure */
void *hr__map_shared(int fd, size_t n, bool writable); /* NULL on failure */
void hr__unmap(void *p, size_t n);
int hr__memfd(const char *name, int64_t n);              /* sized, sealed against shrinking, CLOEXEC; -> fd */
int hr__memfd_check(int fd, int64_t *n_bytes);           /* 0 if fd is a memfd sealed against shrinking; its size */
void hr__memfd_punch(int fd, int64_t offset, int64_t n); /* gives pages back; cannot fail */

/* --- local sockets, SOCK_SEQPACKET, CLOEXEC, non-blocking. All -> fd or 0, -errno on failure; -EAGAIN: would block. */
int hr__socket_listen(const char *abstract_name);            /* Linux abstract name, without the leading NUL */
int hr__socket_accept(int fd, int *peer_uid, int *peer_pid); /* SO_PEERCRED */
int hr__socket_connect(const char *abstract_name);
int64_t hr__socket_send(int fd, const void *data, int64_t n, const int *fds, int n_fds);
/* -> bytes, 0 at the peer's end. Up to max_fds descriptors are stored into fds, their number in *n_fds. */
int64_t hr__socket_recv(int fd, void *out, int64_t cap, int *fds, int max_fds, int *n_fds);
int hr__wait_readable(int fd, int timeout_ms); /* 1 readable or closed, 0 timed out */
int hr__wait_writable(int fd, int timeout_ms);
int hr__socket_peer(int fd, int *peer_uid, int *peer_pid); /* SO_PEERCRED */
void hr__socket_shutdown(
    int fd); /* both ends see the end now, even if others have the descriptor; sent bytes still arrive */
int hr__random_secret(void *out, int n); /* at most 256 random bytes; 0 */

/* --- many descriptors at once: a watch is a descriptor itself. -errno on failure. */
int hr__watch_new(void);                            /* -> fd, CLOEXEC */
int hr__watch_add(int watch, int fd, uint64_t key); /* level-triggered: reported while there are bytes to read */
void hr__watch_remove(int watch, int fd);           /* call it before you close fd: a forked child may have fd, too */
/* Keys of the descriptors that are readable or closed. -> their number; 0: timed out. timeout_ms < 0: no limit. */
int hr__watch_wait(int watch, uint64_t *keys, int max_keys, int timeout_ms);
/* A descriptor with what happened to it. A closed one, or one with an error, is both. */
typedef struct hr_ready {
    uint64_t key;
    bool readable, writable;
} hr_ready;
/* Waits for these of the descriptor from now on, whether or not the watch has it already; neither: removes it. */
int hr__watch_set(int watch, int fd, bool reads, bool writes, uint64_t key);
int hr__watch_wait_ready(int watch, hr_ready *out, int max, int timeout_ms); /* as hr__watch_wait */
int hr__event_new(void); /* -> fd, CLOEXEC; readable from set to clear */
void hr__event_set(int fd);
void hr__event_clear(int fd);

#endif
