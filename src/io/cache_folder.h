/* cache_folder.h - a folder of files that can be made again, which all processes of this machine share: a limit, which
 * files go first, and how a file gets its name.
 *
 *     ROOT/GROUP/NAME       a file of the cache, complete
 *     ROOT/GROUP/NAME*.tmp  one that is being written, or was left by a process that was killed
 *     ROOT/.lock            who has its lock removes files
 *
 * Nothing here is an error of a run. */
#ifndef HR_CACHE_FOLDER_H
#define HR_CACHE_FOLDER_H

#include "io/io.h"

/* What a process knows of a folder: zero at first; one for all users of it. */
typedef struct hr_cache_state {
    _Atomic int64_t unseen, due;  /* bytes that were written since the last look; that make the next one due */
    _Atomic int64_t writing;      /* bytes that threads write now */
    _Atomic uint64_t root;        /* a hash of the folder of the last look */
    _Atomic int64_t paused_until; /* of the clock; 0: no write has failed */
    _Atomic uint64_t paused_root; /* a hash of the folder in which it failed */
    _Atomic int64_t full_until;   /* the same: there was no room */
    _Atomic uint64_t full_root;   /* a hash of the folder whose full disk a warning has told */
} hr_cache_state;

typedef struct hr_cache_folder {
    const char *root;
    int64_t limit; /* bytes; INT64_MAX: what the disk has */
    bool (*is_entry)(const char *name);
    hr_cache_state *state;
    /* NULL: the files that were not read for longest go first, of all groups. Else the folder of one group: groups that
     * were not read for longest go first, in a group the newest files, and files of this group, or of a group that
     * hr__cache_hold holds, never go to make room for new ones. */
    const char *group;
} hr_cache_folder;

/* Before a write of n bytes: whether there is room, after the removal of other files if necessary, and writing is not
 * paused. True: hr__cache_wrote must follow. */
bool hr__cache_room(const hr_cache_folder *f, int64_t n);
void hr__cache_wrote(const hr_cache_folder *f, int64_t n);
/* A new temporary file for `path`, in the folder `group`, which it makes. *tmp is new. -> fd; < 0: -errno. err: more
 * about it. */
int hr__cache_create(const char *group, const char *path, hr_account *account, char **tmp, hr_error *err);
/* Closes fd and gives the file its name; on failure, or if rc < 0, removes it. Takes tmp. -> rc, or -errno. */
int hr__cache_commit(int fd, char *tmp, const char *path, int rc);
/* Writing stops for a while, with a warning. err: NULL or without text: the errno says why. */
void hr__cache_pause(const hr_cache_folder *f, int rc, const hr_error *err);
void hr__cache_touch(int fd); /* the file is one that was read now */
/* While the descriptor is open, other processes keep the files of this group. -1: another one does, or it cannot. */
int hr__cache_hold(const char *group, hr_account *account);

#endif
