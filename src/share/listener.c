/* listener.c - how two processes meet: an abstract socket, the same user, and a token.
 *
 * All users of the machine see abstract names and may connect. The kernel reports the peer's user; both sides reject
 * other users. The token rejects processes of the same user with a wrong address: it is the first packet, and the
 * comparison takes constant time.
 *
 * A connection that has not sent its token is a *guest*. Guests and the socket are in one watch, whose descriptor can
 * be polled, so accepting never waits for a peer. Silent guests are closed after a while. Lock: listener->lock, a leaf.
 *
 * Tests: test_link.c, test_ring.c. */
#include "share/share.h"
#include "share/process_link.h"

#include <errno.h>
#include <stdio.h>

#define TOKEN_BYTES 16
#define MAX_GUESTS 32
#define GUEST_NS ((int64_t)10000000000)
#define CONNECT_NS ((int64_t)5000000000) /* while the listener's backlog is full */
#define MAGIC 0x4B545248                 /* "HRTK" */

typedef struct greeting {
    uint32_t magic;
    uint32_t version;
    uint8_t token[TOKEN_BYTES];
} greeting;

typedef struct guest {
    int fd;
    int64_t until_ns;
} guest;

struct hr_listener {
    int fd, watch;
    bool has_token;
    greeting expected;
    char *address;
    hr_mutex lock; /* guards what follows */
    guest guests[MAX_GUESTS];
    int n_guests;
};

/* -------------------------------------------------------------------------------------------------------- addresses */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

static bool parse_token(const char *text, uint8_t out[TOKEN_BYTES])
{
    if (strlen(text) != 2 * TOKEN_BYTES)
        return false;
    for (int i = 0; i < TOKEN_BYTES; i++) {
        int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* "name" or "name:token"; *name is new. */
static hr_status parse_address(const char *address, char **name, bool *has_token, greeting *out, hr_error *err)
{
    const char *colon = strrchr(address, ':');

    *name = NULL;
    *has_token = colon != NULL;
    *out = (greeting){ .magic = MAGIC, .version = 1 };
    if (colon == address || !*address || (colon && !parse_token(colon + 1, out->token)))
        return hr_error_set(err, HR_INVALID, "address: expected 'name:token' with a token of %d hexadecimal digits",
                            2 * TOKEN_BYTES);
    *name = hr__strndup(NULL, address, colon ? (size_t)(colon - address) : strlen(address));
    return *name ? HR_OK : hr__error_memory(err, "address", (int64_t)strlen(address));
}

static hr_status random_address(char **out, hr_error *err)
{
    uint8_t r[8 + TOKEN_BYTES];
    char text[2 * sizeof r + 1];
    int rc = hr__random_secret(r, sizeof r);

    *out = NULL;
    if (rc)
        return hr__error_os(err, rc, "address", "random bytes");
    for (size_t i = 0; i < sizeof r; i++)
        snprintf(text + 2 * i, 3, "%02x", r[i]);
    *out = hr__printf(NULL, "headrace-%.16s:%s", text, text + 16);
    return *out ? HR_OK : hr__error_memory(err, "address", sizeof text);
}

/* -------------------------------------------------------------------------------------------------------- listening */

hr_status hr__listener_open(const char *address, hr_listener **out, hr_error *err)
{
    hr_status st = HR_OK;
    char *name = NULL;
    hr_listener *l = hr__zalloc(NULL, sizeof *l);
    int rc;

    *out = NULL;
    if (!l)
        return hr__error_memory(err, "listener", sizeof *l);
    hr__mutex_init(&l->lock);
    l->fd = l->watch = -1;
    if (!address)
        HR_GO(random_address(&l->address, err));
    else if (!(l->address = hr__strdup(NULL, address)))
        HR_FAIL(HR_NO_MEMORY, "listener: no memory for its address");
    HR_GO(parse_address(l->address, &name, &l->has_token, &l->expected, err));
    rc = l->fd = hr__socket_listen(name);
    if (rc >= 0)
        rc = l->watch = hr__watch_new();
    if (rc >= 0)
        rc = hr__watch_add(l->watch, l->fd, 0);
    if (rc < 0) {
        st = hr__error_os(err, rc, name, "listen");
        goto done;
    }
    *out = l;
    l = NULL;
done:
    hr__free(name);
    hr__listener_close(l);
    return st;
}

void hr__listener_close(hr_listener *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->n_guests; i++)
        hr__file_close(l->guests[i].fd);
    hr__file_close(l->watch);
    hr__file_close(l->fd);
    hr__mutex_clear(&l->lock);
    hr__free(l->address);
    hr__free(l);
}

const char *hr__listener_address(const hr_listener *l) { return l->address; }
int hr__listener_fd(const hr_listener *l) { return l->watch; }

/* --- guests; the lock is held */

static int remove_guest_locked(hr_listener *l, int i)
{
    int fd = l->guests[i].fd;

    hr__watch_remove(l->watch, fd);
    l->n_guests--;
    memmove(&l->guests[i], &l->guests[i + 1], (size_t)(l->n_guests - i) * sizeof *l->guests);
    return fd;
}

static void add_guest_locked(hr_listener *l, int fd)
{
    if (hr__watch_add(l->watch, fd, 1)) {
        hr__file_close(fd);
        return;
    }
    if (l->n_guests == MAX_GUESTS)
        hr__file_close(remove_guest_locked(l, 0));
    l->guests[l->n_guests++] = (guest){ fd, hr__clock_ns() + GUEST_NS };
}

/* Accepts all waiting connections as guests. */
static hr_status open_door_locked(hr_listener *l, hr_error *err)
{
    for (;;) {
        int uid = -1, pid, fd = hr__socket_accept(l->fd, &uid, &pid);
        if (fd == -EAGAIN)
            return HR_OK;
        if (fd == -ECONNABORTED)
            continue;
        if (fd < 0)
            return hr__error_os(err, fd, "listener", "accept");
        if (uid != hr__uid())
            hr__file_close(fd);
        else
            add_guest_locked(l, fd);
    }
}

static bool is_expected(const hr_listener *l, const greeting *g)
{
    const volatile uint8_t *a = (const uint8_t *)g, *b = (const uint8_t *)&l->expected;
    uint8_t differ = 0;

    for (size_t i = 0; i < sizeof *g; i++)
        differ |= a[i] ^ b[i];
    return !differ;
}

/* 1: the token is right; 0: no token yet; -1: close it. */
static int ask_guest(const hr_listener *l, const guest *g)
{
    greeting said = { 0 };
    uint8_t packet[sizeof said + 8];
    int n_fds, fd;
    int64_t n;

    if (!l->has_token)
        return 1;
    n = hr__socket_recv(g->fd, packet, sizeof packet, &fd, 0, &n_fds);
    if (n == -EAGAIN)
        return hr__clock_ns() < g->until_ns ? 0 : -1;
    if (n != sizeof said)
        return -1;
    memcpy(&said, packet, sizeof said);
    return is_expected(l, &said) ? 1 : -1;
}

/* Removes a guest with the right token and returns its descriptor; -1: none. */
static int next_guest_locked(hr_listener *l)
{
    for (int i = 0; i < l->n_guests;) {
        int verdict = ask_guest(l, &l->guests[i]);
        if (verdict > 0)
            return remove_guest_locked(l, i);
        if (verdict < 0)
            hr__file_close(remove_guest_locked(l, i));
        else
            i++;
    }
    return -1;
}

hr_status hr__listener_accept(hr_listener *l, hr_account *account, hr_arena *arena, hr_link **out, hr_error *err)
{
    hr_status st;
    int fd;

    *out = NULL;
    hr__lock(&l->lock);
    st = open_door_locked(l, err);
    fd = next_guest_locked(l);
    hr__unlock(&l->lock);
    if (fd >= 0)
        return hr__link_new(fd, account, arena, out, err);
    return st ? st : HR_PENDING;
}

/* ------------------------------------------------------------------------------------------------------- connecting */

/* Returns the descriptor. Retries while the backlog is full. */
static int connect_to(const char *name)
{
    int64_t until = hr__clock_ns() + CONNECT_NS;
    int fd;

    while ((fd = hr__socket_connect(name)) == -EAGAIN && hr__clock_ns() < until)
        (void)hr__wait_readable(-1, 5);
    return fd;
}

hr_status hr__link_connect(const char *address, hr_account *account, hr_link **out, hr_error *err)
{
    hr_status st = HR_OK;
    char *name = NULL;
    greeting g;
    bool has_token;
    int fd = -1, uid = -1, pid, rc = 0;

    *out = NULL;
    HR_TRY(parse_address(address, &name, &has_token, &g, err));
    fd = connect_to(name);
    if (fd == -ECONNREFUSED || fd == -ENOENT)
        HR_FAIL(HR_PEER, "%s: no process listens there", name);
    if (fd < 0 || (rc = hr__socket_peer(fd, &uid, &pid))) {
        st = hr__error_os(err, fd < 0 ? fd : rc, name, "connect");
        goto done;
    }
    if (uid != hr__uid())
        HR_FAIL(HR_PEER, "%s: the process that listens there belongs to user %d, this one to user %d", name, uid,
                hr__uid());
    if (has_token) {
        int64_t n = hr__socket_send(fd, &g, sizeof g, NULL, 0);
        if (n < 0) {
            st = hr__error_os(err, n, name, "send the token");
            goto done;
        }
    }
    st = hr__link_new(fd, account, NULL, out, err);
    fd = -1; /* taken */
done:
    hr__file_close(fd);
    hr__free(name);
    return st;
}
