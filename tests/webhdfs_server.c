/* webhdfs_server.c - implements webhdfs_server.h: a thread for each connection, one lock for all files.
 *
 * Folders are the beginnings of paths, and those that MKDIRS made. The operations and refusals are those of HDFS that
 * src/io/http/hdfs asks for. */
#include "webhdfs_server.h"

#include "harness.h"
#include "io/io.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FILES 64
#define MAX_PATH_BYTES 400

typedef struct file {
    char path[MAX_PATH_BYTES]; /* without '/' at the beginning */
    char *data;                /* NULL: a folder */
    int64_t n;
    int id;
    char attribute[100], value[200]; /* "": none */
} file;

typedef struct request {
    int fd;
    char path[MAX_PATH_BYTES], query[8192];
    char *body;
    int64_t n;
} request;

int webhdfs_port;

static struct {
    pthread_mutex_t lock;
    file files[MAX_FILES];
    int n_files, next_id, fd;
    char counted[4000]; /* "CREATE RENAME ..." */
    const char *says;   /* to all requests; NULL: what they ask for */
    atomic_int n_threads;
    atomic_bool stop;
} server = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ------------------------------------------------------------------------------------------------------------ files */

static file *find(const char *path)
{
    for (int i = 0; i < server.n_files; i++)
        if (strcmp(server.files[i].path, path) == 0)
            return &server.files[i];
    return NULL;
}

static bool is_below(const file *f, const char *path)
{
    size_t n = strlen(path);

    return n == 0 || (strncmp(f->path, path, n) == 0 && f->path[n] == '/');
}

static bool is_folder(const char *path)
{
    const file *f = find(path);

    for (int i = 0; i < server.n_files; i++)
        if (is_below(&server.files[i], path))
            return true;
    return f && !f->data;
}

static void drop(file *f)
{
    free(f->data);
    *f = server.files[--server.n_files];
}

static file *add(const char *path, const char *data, int64_t n)
{
    file *f = find(path);

    if (f)
        drop(f);
    assert_true(server.n_files < MAX_FILES);
    f = &server.files[server.n_files++];
    *f = (file){ .n = n, .id = ++server.next_id };
    snprintf(f->path, sizeof f->path, "%s", path);
    if (data) {
        f->data = malloc((size_t)n + 1);
        assert_non_null(f->data);
        memcpy(f->data, data, (size_t)n);
        f->data[n] = 0;
    }
    return f;
}

/* ---------------------------------------------------------------------------------------------------------- answers */

static void send_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        data += sent;
        n -= (size_t)sent;
    }
}

static void answer(const request *r, int status, const char *lines, const char *body, int64_t n)
{
    char head[9000];
    int m = snprintf(head, sizeof head, "HTTP/1.1 %d x\r\nContent-Length: %lld\r\n%s\r\n", status, (long long)n, lines);

    send_all(r->fd, head, (size_t)m);
    send_all(r->fd, body, (size_t)n);
}

static void answer_text(const request *r, int status, const char *text)
{
    answer(r, status, "", text, (int64_t)strlen(text));
}

static void refuse(const request *r, int status, const char *exception, const char *message)
{
    char text[400];

    snprintf(text, sizeof text, "{\"RemoteException\":{\"exception\":\"%s\",\"message\":\"%s\"}}", exception, message);
    answer_text(r, status, text);
}

static void not_found(const request *r) { refuse(r, 404, "FileNotFoundException", "File does not exist"); }

/* The value in the query, decoded; "": there is none. */
static const char *value_of(const request *r, const char *name, char *out, size_t cap)
{
    char text[40];
    const char *at;
    size_t n;

    snprintf(text, sizeof text, "%s=", name);
    at = strstr(r->query, text);
    at = at ? at + strlen(text) : "";
    n = HR_MIN(strcspn(at, "&"), cap - 1);
    memcpy(out, at, n);
    out[n] = 0;
    (void)hr__percent_decode(out);
    return out;
}

static int add_status(char *out, size_t cap, const char *name, const file *f)
{
    return snprintf(
        out, cap, "{\"pathSuffix\":\"%s\",\"type\":\"%s\",\"length\":%lld,\"modificationTime\":%d,\"fileId\":%d}", name,
        f && f->data ? "FILE" : "DIRECTORY", f && f->data ? (long long)f->n : 0, f ? f->id : 1, f ? f->id : 1);
}

static void get_status(const request *r)
{
    char one[600], text[700];
    const file *f = find(r->path);

    if (!f && !is_folder(r->path)) {
        not_found(r);
        return;
    }
    add_status(one, sizeof one, "", f);
    snprintf(text, sizeof text, "{\"FileStatus\":%s}", one);
    answer_text(r, 200, text);
}

/* The name of what is directly in the folder, and leads to the file; false: it is not below it. */
static bool child(const file *f, const char *folder, char *name, size_t cap)
{
    const char *at = f->path + strlen(folder) + (folder[0] ? 1 : 0);

    if (!is_below(f, folder))
        return false;
    snprintf(name, cap, "%.*s", (int)strcspn(at, "/"), at);
    return true;
}

static void list_status(const request *r)
{
    char text[16000], name[MAX_PATH_BYTES], other[MAX_PATH_BYTES], path[2 * MAX_PATH_BYTES];
    int n = snprintf(text, sizeof text, "{\"FileStatuses\":{\"FileStatus\":[");
    bool any = false;

    if (!find(r->path) && !is_folder(r->path)) {
        not_found(r);
        return;
    }
    for (int i = 0; i < server.n_files; i++) {
        bool again = false;

        if (!child(&server.files[i], r->path, name, sizeof name))
            continue;
        for (int k = 0; k < i && !again; k++)
            again = child(&server.files[k], r->path, other, sizeof other) && strcmp(name, other) == 0;
        if (again)
            continue;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s", any ? "," : "");
        snprintf(path, sizeof path, "%s%s%s", r->path, r->path[0] ? "/" : "", name);
        n += add_status(text + n, sizeof text - (size_t)n, name, find(path));
        any = true;
    }
    snprintf(text + n, sizeof text - (size_t)n, "]}}");
    answer_text(r, 200, text);
}

/* The DataNode is the same server: its URL has "dn=1". */
static bool redirects(const request *r)
{
    char lines[9000];

    if (strstr(r->query, "dn=1"))
        return false;
    assert_int_equal(r->n, 0); /* a NameNode would throw it away */
    snprintf(lines, sizeof lines, "Location: http://127.0.0.1:%d/webhdfs/v1/%s?%s&dn=1\r\n", webhdfs_port, r->path,
             r->query);
    answer(r, 307, lines, "", 0);
    return true;
}

static void rename_to(const request *r, const char *to, const char *option)
{
    size_t n = strlen(r->path);

    char folder[MAX_PATH_BYTES];

    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(to, '/') ? strrchr(to, '/') - to : 0), to);
    if ((!find(r->path) && !is_folder(r->path)) || (folder[0] && !is_folder(folder))) {
        not_found(r);
        return;
    }
    if ((find(to) || is_folder(to)) && strcmp(option, "NONE") == 0) {
        refuse(r, 403, "FileAlreadyExistsException", "rename destination exists");
        return;
    }
    if (find(to))
        drop(find(to));
    for (int i = 0; i < server.n_files; i++) {
        file *f = &server.files[i];
        char path[2 * MAX_PATH_BYTES];

        if (strcmp(f->path, r->path) != 0 && !is_below(f, r->path))
            continue;
        snprintf(path, sizeof path, "%s%s", to, f->path + n);
        snprintf(f->path, sizeof f->path, "%.*s", MAX_PATH_BYTES - 1, path);
    }
    answer_text(r, 200, "");
}

static void concat(const request *r)
{
    char names[8192], *rest = names;
    file *to = find(r->path), *from;

    value_of(r, "sources", names, sizeof names);
    for (char *name; (name = strtok_r(rest, ",", &rest));) {
        if (!to || !(from = find(name + 1))) {
            not_found(r);
            return;
        }
        to->data = realloc(to->data, (size_t)(to->n + from->n) + 1);
        assert_non_null(to->data);
        memcpy(to->data + to->n, from->data, (size_t)from->n);
        to->n += from->n;
        to->data[to->n] = 0;
        drop(from);
        to = find(r->path);
    }
    answer_text(r, 200, "");
}

static void delete_at(const request *r)
{
    bool found = false, all = strstr(r->query, "recursive=true") != NULL;

    for (int i = 0; i < server.n_files && !all; i++)
        if (r->path[0] && is_below(&server.files[i], r->path)) {
            refuse(r, 403, "PathIsNotEmptyDirectoryException", "is non empty");
            return;
        }
    for (int i = server.n_files - 1; i >= 0; i--)
        if (strcmp(server.files[i].path, r->path) == 0 || is_below(&server.files[i], r->path)) {
            drop(&server.files[i]);
            found = true;
        }
    answer_text(r, 200, found ? "{\"boolean\":true}" : "{\"boolean\":false}");
}

static void set_attribute(const request *r)
{
    char name[100];
    file *f = find(r->path);

    value_of(r, "xattr.name", name, sizeof name);
    if (!f) {
        not_found(r);
    } else if (strcmp(f->attribute, name) == 0) {
        refuse(r, 403, "IOException", "XAttr already exists. The REPLACE flag must be specified.");
    } else {
        snprintf(f->attribute, sizeof f->attribute, "%s", name);
        value_of(r, "xattr.value", f->value, sizeof f->value);
        answer_text(r, 200, "");
    }
}

static void get_attribute(const request *r)
{
    char name[100], text[400];
    const file *f = find(r->path);

    value_of(r, "xattr.name", name, sizeof name);
    if (!f || strcmp(f->attribute, name) != 0) {
        refuse(r, f ? 403 : 404, f ? "XAttrNotFoundException" : "FileNotFoundException", "not found");
        return;
    }
    snprintf(text, sizeof text, "{\"XAttrs\":[{\"name\":\"%s\",\"value\":%s}]}", name, f->value);
    answer_text(r, 200, text);
}

static void act(const request *r)
{
    char op[40], to[MAX_PATH_BYTES], option[40];
    file *f;

    value_of(r, "op", op, sizeof op);
    if (server.says) {
        answer_text(r, 200, server.says);
        return;
    }
    if (strcmp(op, "CREATE") == 0 && redirects(r))
        return;
    snprintf(server.counted + strlen(server.counted), sizeof server.counted - strlen(server.counted), "%s ", op);
    if (strcmp(op, "GETFILESTATUS") == 0) {
        get_status(r);
    } else if (strcmp(op, "LISTSTATUS") == 0) {
        list_status(r);
    } else if (strcmp(op, "OPEN") == 0) {
        f = find(r->path);
        if (f)
            answer(r, 200, "", f->data, f->n);
        else
            not_found(r);
    } else if (strcmp(op, "CREATE") == 0) {
        (void)add(r->path, r->body, r->n);
        answer(r, 201, "", "", 0);
    } else if (strcmp(op, "MKDIRS") == 0) {
        if (!is_folder(r->path))
            (void)add(r->path, NULL, 0);
        answer_text(r, 200, "{\"boolean\":true}");
    } else if (strcmp(op, "RENAME") == 0) {
        value_of(r, "destination", to, sizeof to);
        rename_to(r, to + 1, value_of(r, "renameoptions", option, sizeof option));
    } else if (strcmp(op, "CONCAT") == 0) {
        concat(r);
    } else if (strcmp(op, "DELETE") == 0) {
        delete_at(r);
    } else if (strcmp(op, "SETXATTR") == 0) {
        set_attribute(r);
    } else if (strcmp(op, "GETXATTRS") == 0) {
        get_attribute(r);
    } else if (strcmp(op, "REMOVEXATTR") == 0) {
        if ((f = find(r->path)))
            f->attribute[0] = 0;
        answer_text(r, 200, "");
    } else {
        refuse(r, 400, "IllegalArgumentException", op);
    }
}

/* ---------------------------------------------------------------------------------------------------------- threads */

/* Splits "PUT /webhdfs/v1/a%20b?op=CREATE HTTP/1.1". */
static bool parse_line(request *r, char *head)
{
    char *path = strstr(head, " /webhdfs/v1/"), *end = path ? strchr(path + 1, ' ') : NULL, *query;

    if (!end)
        return false;
    *path = *end = 0;
    path += strlen(" /webhdfs/v1/");
    query = strchr(path, '?');
    if (query)
        *query++ = 0;
    snprintf(r->query, sizeof r->query, "%.*s", (int)sizeof r->query - 1, query ? query : "");
    snprintf(r->path, sizeof r->path, "%.*s", (int)sizeof r->path - 1, path);
    (void)hr__percent_decode(r->path);
    for (size_t n = strlen(r->path); n && r->path[n - 1] == '/';)
        r->path[--n] = 0;
    return true;
}

/* The next request; its body is from malloc. false: the end. */
static bool read_request(request *r)
{
    char head[12000], *end = NULL;
    const char *length;
    int64_t n = 0;

    head[0] = 0;
    while (!(end = strstr(head, "\r\n\r\n"))) {
        ssize_t got = n + 1 < (int64_t)sizeof head ? recv(r->fd, head + n, sizeof head - 1 - (size_t)n, 0) : 0;

        if (got <= 0)
            return false;
        n += got;
        head[n] = 0;
    }
    end += 4;
    length = strstr(head, "Content-Length: ");
    r->n = length ? atoll(length + 16) : 0;
    r->body = malloc((size_t)r->n + 1);
    assert_non_null(r->body);
    n -= end - head;
    memcpy(r->body, end, (size_t)n);
    while (n < r->n) {
        ssize_t got = recv(r->fd, r->body + n, (size_t)(r->n - n), 0);

        if (got <= 0)
            return false;
        n += got;
    }
    return parse_line(r, head);
}

static void *serve(void *arg)
{
    request r = { .fd = (int)(intptr_t)arg };

    while (read_request(&r)) {
        pthread_mutex_lock(&server.lock);
        act(&r);
        pthread_mutex_unlock(&server.lock);
        free(r.body);
        r.body = NULL;
    }
    free(r.body);
    close(r.fd);
    atomic_fetch_sub(&server.n_threads, 1);
    return NULL;
}

static void *accept_all(void *arg)
{
    const int yes = 1;

    (void)arg;
    while (!atomic_load(&server.stop)) {
        int fd = accept(server.fd, NULL, NULL);
        pthread_t t;

        if (fd < 0)
            continue;
        assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes), 0); /* an answer is two sends */
        atomic_fetch_add(&server.n_threads, 1);
        assert_int_equal(pthread_create(&t, NULL, serve, (void *)(intptr_t)fd), 0);
        pthread_detach(t);
    }
    atomic_fetch_sub(&server.n_threads, 1);
    return NULL;
}

void webhdfs_start(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    pthread_t t;

    atomic_store(&server.stop, false);
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server.fd >= 0);
    assert_int_equal(bind(server.fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(server.fd, 128), 0);
    assert_int_equal(getsockname(server.fd, (struct sockaddr *)&at, &n), 0);
    webhdfs_port = ntohs(at.sin_port);
    atomic_store(&server.n_threads, 1);
    assert_int_equal(pthread_create(&t, NULL, accept_all, NULL), 0);
    pthread_detach(t);
}

void webhdfs_stop(void)
{
    atomic_store(&server.stop, true);
    shutdown(server.fd, SHUT_RDWR);
    for (int i = 0; i < 20000 && atomic_load(&server.n_threads); i++)
        usleep(1000);
    assert_int_equal(atomic_load(&server.n_threads), 0);
    close(server.fd);
    webhdfs_clear();
}

/* ------------------------------------------------------------------------------------------------------- for tests */

void webhdfs_clear(void)
{
    pthread_mutex_lock(&server.lock);
    while (server.n_files)
        drop(&server.files[0]);
    server.counted[0] = 0;
    pthread_mutex_unlock(&server.lock);
}

void webhdfs_put(const char *path, const char *text)
{
    pthread_mutex_lock(&server.lock);
    (void)add(path, text, (int64_t)strlen(text));
    pthread_mutex_unlock(&server.lock);
}

const char *webhdfs_get(const char *path)
{
    const file *f;

    pthread_mutex_lock(&server.lock);
    f = find(path);
    pthread_mutex_unlock(&server.lock);
    return f ? f->data : NULL;
}

int64_t webhdfs_bytes(const char *path)
{
    const file *f;

    pthread_mutex_lock(&server.lock);
    f = find(path);
    pthread_mutex_unlock(&server.lock);
    return f ? f->n : -1;
}

int webhdfs_files(void) { return server.n_files; }

int webhdfs_count(const char *op)
{
    int n = 0;

    pthread_mutex_lock(&server.lock);
    for (const char *at = server.counted; (at = strstr(at, op)); at++)
        n++;
    pthread_mutex_unlock(&server.lock);
    return n;
}

void webhdfs_decide(const char *path, const char *hidden)
{
    file *f;

    pthread_mutex_lock(&server.lock);
    f = find(path);
    assert_non_null(f);
    snprintf(f->attribute, sizeof f->attribute, "user.headrace.%d", f->id);
    snprintf(f->value, sizeof f->value, "\"%s\"", hidden);
    pthread_mutex_unlock(&server.lock);
}

void webhdfs_say(const char *body)
{
    pthread_mutex_lock(&server.lock);
    server.says = body;
    pthread_mutex_unlock(&server.lock);
}
