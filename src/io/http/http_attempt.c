/* http_attempt.c - an attempt as libcurl sees it: its options and headers, what its callbacks do, what went wrong.
 *
 * The callbacks run on the thread that moves the bytes, which need not be the one that began the attempt.
 *
 * Certificates are always checked: against those of SSL_CERT_FILE when the store was opened, of the usual places of
 * systems, of libcurl's folder, and where there are none, of the file that a program hands over (Python: certifi's).
 *
 * Tests: test_http.c, test_certificates.py. */
#include "io/http/http.h"

#ifdef HR_HAVE_CURL

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LEAST_BUFFER (16 << 10)

/* --- certificates */

static hr_mutex lock = HR_MUTEX_INIT; /* a leaf */
static const char *certificates;      /* NULL: those of libcurl, or handed_over */
static bool has_folder;               /* of certificates: libcurl's */
static char *handed_over;             /* guarded by lock */

/* Whether OpenSSL finds a certificate in the folder: their names are hashes. */
static bool has_certificates(const char *folder)
{
    DIR *d = folder ? opendir(folder) : NULL;
    const struct dirent *e;
    bool found = false;

    while (d && !found && (e = readdir(d))) {
        size_t n = strlen(e->d_name);

        found = n == 10 && strcmp(e->d_name + 8, ".0") == 0;
    }
    if (d)
        closedir(d);
    return found;
}

static void find_certificates(void)
{
    const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
    const char *const places[] = { curl->cainfo ? curl->cainfo : "", "/etc/ssl/certs/ca-certificates.crt",
                                   "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem" };

    hr__mutex_survives_fork(&lock);
    for (int i = 0; !certificates && i < HR_LEN(places); i++)
        if (access(places[i], R_OK) == 0)
            certificates = places[i];
    has_folder = !certificates && has_certificates(curl->capath);
}

static pthread_once_t certificates_once = PTHREAD_ONCE_INIT;

bool hr__http_has_certificates(void)
{
    const char *given = getenv("SSL_CERT_FILE");

    pthread_once(&certificates_once, find_certificates);
    return (given && given[0]) || certificates || has_folder;
}

hr_status hr__http_use_certificates(const char *path, hr_error *err)
{
    char *copy = hr__strdup(NULL, path), *old;

    if (!copy)
        return hr__error_memory(err, path, (int64_t)strlen(path));
    pthread_once(&certificates_once, find_certificates);
    hr__lock(&lock);
    old = handed_over;
    handed_over = copy;
    hr__unlock(&lock);
    hr__free(old);
    return HR_OK;
}

/* libcurl copies the path. */
static void set_certificates(const hr_store *s, CURL *easy)
{
    if (s->certificates || certificates) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, s->certificates ? s->certificates : certificates);
    } else if (!has_folder) {
        hr__lock(&lock);
        if (handed_over)
            curl_easy_setopt(easy, CURLOPT_CAINFO, handed_over);
        hr__unlock(&lock);
    }
}

/* --- callbacks of libcurl */

static size_t on_header(char *data, size_t size, size_t n, void *context)
{
    hr_http_request *r = context;

    r->progress_ns = hr__clock_ns();
    r->answered = true;
    hr__http_header(r, data, size * n);
    return size * n;
}

static size_t on_body(char *data, size_t size, size_t n, void *context)
{
    hr_http_request *r = context;

    r->progress_ns = hr__clock_ns();
    if (!r->n_attempt) {
        r->first_ns = r->progress_ns - r->begin_ns;
        atomic_store(&hr__lane_of(r)->first_ns, r->first_ns);
    }
    r->n_attempt += (int64_t)(size * n);
    hr__host_count(r, HR_TRAFFIC_BYTES, (int64_t)(size * n));
    if (!r->is_small)
        atomic_fetch_add(&hr__lane_of(r)->came, (int64_t)(size * n));
    return hr__http_bytes(r, data, size * n) ? size * n : 0;
}

/* The next bytes of the pieces that the attempt sends. */
static size_t on_read(char *to, size_t size, size_t n, void *context)
{
    hr_http_request *r = context;
    size_t room = size * n, got = 0;

    while (got < room && r->at_piece < r->n_pieces) {
        const hr_http_piece *p = &r->pieces[r->at_piece];
        size_t m = HR_MIN(room - got, (size_t)(p->n - r->in_piece));

        memcpy(to + got, p->data + r->in_piece, m);
        got += m;
        r->in_piece += (int64_t)m;
        if (r->in_piece == p->n) {
            r->at_piece++;
            r->in_piece = 0;
        }
    }
    return got;
}

/* libcurl begins the body again, on a new connection in place of one that was dead. */
static int on_seek(void *context, curl_off_t offset, int origin)
{
    hr_http_request *r = context;

    if (origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    r->at_piece = 0;
    for (r->in_piece = offset; r->at_piece < r->n_pieces && r->in_piece >= r->pieces[r->at_piece].n; r->at_piece++)
        r->in_piece -= r->pieces[r->at_piece].n;
    return CURL_SEEKFUNC_OK;
}

/* --- headers and options */

/* The header lines of an attempt. Returns false without memory. */
static bool add_headers(const hr_text *lines, struct curl_slist **out)
{
    char *line = lines->data, *end;

    for (; line && *line; line = end + 1) {
        struct curl_slist *longer;

        if (!(end = strchr(line, '\n')))
            break;
        *end = 0;
        longer = curl_slist_append(*out, line);
        if (!longer)
            return false;
        *out = longer;
    }
    return !lines->failed;
}

/* libcurl would add a type of its own. HttpFS takes bytes of this one alone. */
static const char *type_line(const hr_http_request *r)
{
    if (r->more && strstr(r->more, "Content-Type:"))
        return "";
    return r->kind && r->kind->sends_abroad && r->target ? "Content-Type: application/octet-stream\n"
                                                         : "Content-Type:\n";
}

static hr_status make_headers(const hr_http_request *r, struct curl_slist **out, hr_error *err)
{
    hr_text lines = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    hr__text_add(&lines, "Accept:\nExpect:\n%s%s", type_line(r), r->more ? r->more : "");
    if (r->n_bytes > 0 && !(r->kind && r->kind->add_range_query))
        hr__text_add(&lines, "Range: bytes=%lld-%lld\n", (long long)(r->offset + r->n_got),
                     (long long)(r->offset + r->n_bytes - 1));
    if (r->if_match)
        hr__text_add(&lines, "If-Match: %s\n", r->if_match);
    if (r->kind && !r->foreign)
        st = r->kind->sign(r, r->target ? r->target : r->url, (int64_t)time(NULL) + atomic_load(&r->store->ahead_s),
                           &lines, err);
    if (!st && !add_headers(&lines, out))
        st = hr__error_memory(err, "headers of a request", lines.n);
    hr__text_clear(&lines);
    return st;
}

static bool sends_body(const hr_http_request *r)
{
    return strcmp(r->method, "PUT") == 0 || strcmp(r->method, "POST") == 0;
}

/* Before a connection: a host with a private address learns nothing, and whether it answers is not told. libcurl asks
 * for each address of a name. */
static curl_socket_t public_socket(void *context, curlsocktype purpose, struct curl_sockaddr *to)
{
    hr_http_request *r = context;
    const void *bytes = to->family == AF_INET6 ? (const void *)&((struct sockaddr_in6 *)&to->addr)->sin6_addr
                                               : (const void *)&((struct sockaddr_in *)&to->addr)->sin_addr;
    char text[INET6_ADDRSTRLEN] = "";

    (void)purpose;
    if (!inet_ntop(to->family, bytes, text, sizeof text) || hr__address_is_private(text)) {
        r->is_private = !r->is_public;
        return CURL_SOCKET_BAD;
    }
    r->is_public = true;
    r->is_private = false;
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* Before a request goes out on a connection, a new one or one that is used again. */
static int look_at_address(void *context, char *server, char *own, int port, int own_port)
{
    hr_http_request *r = context;

    (void)own;
    (void)port;
    (void)own_port;
    r->is_private = hr__address_is_private(server);
    return r->is_private ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* The address of a proxy says nothing about the server's. So a request that may only go to public addresses goes by the
 * proxy, or has its address looked at: libcurl does not choose. */
static void set_proxy(hr_http_request *r, CURL *easy, const char *url)
{
    bool public = r->public_only || (r->public_abroad && r->foreign);
    bool ours = public || r->store->proxy || r->store->proxy_excludes;
    const char *proxy = ours ? hr__url_proxy(url, r->store) : NULL;

    if (proxy) {
        curl_easy_setopt(easy, CURLOPT_PROXY, proxy);
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    } else if (public) {
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
        curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, look_at_address);
        curl_easy_setopt(easy, CURLOPT_PREREQDATA, r);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, public_socket);
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, r);
    } else if (ours || hr__url_is_near(url)) {
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    }
}

static void set_options(hr_http_request *r, CURL *easy, const struct curl_slist *headers)
{
    const char *url = r->target ? r->target : r->url;

    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, r);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L); /* keys may hold ".." */
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_USERAGENT,
                     r->store->user_agent ? r->store->user_agent : "headrace/" HR_VERSION_TEXT);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* a proxy's answer is not the object's */
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)(sends_body(r) ? LEAST_BUFFER : r->buffer_bytes));
    curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)r->store->connect_ms);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)r->store->idle_s);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, r->on_new ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, r->store->shuffle_addresses == HR_SWITCH_OFF ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    set_certificates(r->store, easy);
    set_proxy(r, easy, url);
    if (strcmp(r->method, "HEAD") == 0)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else if (strcmp(r->method, "GET") != 0)
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
    if (sends_body(r)) {
        bool empty = hr__http_holds_back(r);

        if (r->pieces && !empty) {
            curl_easy_setopt(easy, CURLOPT_POST, 1L);
            curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
            curl_easy_setopt(easy, CURLOPT_READDATA, r);
            curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
            curl_easy_setopt(easy, CURLOPT_SEEKDATA, r);
        } else {
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, r->data && !empty ? (const char *)r->data : ""); /* borrowed */
        }
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(empty ? 0 : r->n_data));
        curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)r->buffer_bytes);
    }
}

hr_status hr__attempt_set(hr_http_request *r, hr_error *err)
{
    struct curl_slist *headers = NULL;
    hr_status st = make_headers(r, &headers, err);

    r->headers = headers;
    if (!st)
        set_options(r, r->easy, headers);
    return st;
}

/* Of the connection: many small requests, or a small memory limit, get small ones. */
int64_t hr__attempt_buffer(const hr_http_request *r)
{
    int64_t n = r->n_bytes > 0  ? r->n_bytes
                : sends_body(r) ? r->n_data
                                : HR_HTTP_BUFFER,
            most = hr__account_limit(r->account) / 1024;

    return HR_MAX(LEAST_BUFFER, HR_MIN(HR_MIN(n, most), HR_HTTP_BUFFER));
}

/* --- what went wrong */

/* What a proxy did wrong in an attempt that failed, into `text`; false: it was not the proxy. */
static bool is_of_proxy(const hr_http_request *r, CURLcode code, char *text, size_t cap, bool *may_retry)
{
    const char *proxy = hr__url_proxy(r->target ? r->target : r->url, r->store);
    char *shown = proxy ? hr__url_shown(proxy, NULL) : NULL;
    const char *name = shown ? shown : "";
    long status = 0;

    curl_easy_getinfo(r->easy, CURLINFO_HTTP_CONNECTCODE, &status);
    if (status / 100 == 2)
        status = 0;
    if (status) {
        snprintf(text, cap, "the proxy %s%srefuses to connect to the host (HTTP %ld)", name, shown ? " " : "", status);
        *may_retry = status == 429 || status >= 500;
    } else if (code == CURLE_COULDNT_CONNECT && proxy) {
        snprintf(text, cap, "no connection to the proxy %s", name);
    } else if (code == CURLE_COULDNT_RESOLVE_PROXY) {
        snprintf(text, cap, "the name of the proxy %s%sis not known", name, shown ? " " : "");
    } else {
        hr__free(shown);
        return false;
    }
    hr__free(shown);
    return true;
}

/* `what` and the host of the URL without a password: it is often an option's or the environment's, and not in the name
 * of the object. */
static const char *of_host(const hr_http_request *r, const char *what, const char *more, char *text, size_t cap)
{
    const char *end, *host = hr__url_host(r->target ? r->target : r->url, &end);

    snprintf(text, cap, "%s %.*s%s", what, (int)HR_MIN(end - host, 200), host, more);
    return text;
}

/* What is wrong with a certificate: OpenSSL's numbers. libcurl compares the names itself: some versions before they
 * ask OpenSSL for its number (1), others after OpenSSL has found nothing (0). */
static const char *of_certificate(const hr_http_request *r, char *text, size_t cap)
{
    const char *tls = curl_version_info(CURLVERSION_NOW)->ssl_version;
    const char *file = r->store->certificates ? r->store->certificates : certificates;
    long number = -1;

    if (tls && strncmp(tls, "OpenSSL", 7) == 0)
        curl_easy_getinfo(r->easy, CURLINFO_SSL_VERIFYRESULT, &number);
    switch (number) {
    case 0:
    case 1:
    case 62:
    case 64:
        return of_host(r, "the server's certificate is not valid: it is for another name than the host", "", text, cap);
    case 9: return "the server's certificate is not valid yet";
    case 10: return "the server's certificate is not valid: it has expired";
    case 2:
    case 18:
    case 19:
    case 20:
    case 21:
        snprintf(
            text, cap,
            "the server's certificate is not valid: nobody who signed it is in %.150s (SSL_CERT_FILE names another "
            "file)",
            file ? file : "the system's certificates");
        return text;
    default: return "the server's certificate is not valid";
    }
}

/* An answer that was stopped by on_body is judged by its status. */
const char *hr__attempt_wrong(const hr_http_request *r, int curl_code, char *text, size_t cap, bool *may_retry)
{
    CURLcode code = (CURLcode)curl_code;

    *may_retry = true;
    if (code != CURLE_OK && is_of_proxy(r, code, text, cap, may_retry))
        return text;
    switch (code) {
    case CURLE_OK:
    case CURLE_WRITE_ERROR: return NULL;
    case CURLE_COULDNT_RESOLVE_HOST: return of_host(r, "the name of the host", " is not known", text, cap);
    case CURLE_COULDNT_CONNECT: return of_host(r, "no connection to the host", "", text, cap);
    case CURLE_OPERATION_TIMEDOUT: return of_host(r, "no connection in time to the host", "", text, cap);
    case CURLE_PARTIAL_FILE: return "the server sends fewer bytes than it promised";
    case CURLE_GOT_NOTHING: return "the server closed the connection without an answer";
    case CURLE_PEER_FAILED_VERIFICATION: *may_retry = false; return of_certificate(r, text, cap);
    case CURLE_SSL_CACERT_BADFILE:
        *may_retry = false;
        snprintf(text, cap, "the file of certificates%s%.200s cannot be read", r->store->certificates ? " " : "",
                 r->store->certificates ? r->store->certificates : "");
        return text;
    case CURLE_SSL_CONNECT_ERROR: return of_host(r, "no connection of TLS to the host", "", text, cap);
    case CURLE_URL_MALFORMAT: *may_retry = false; return of_host(r, "malformed URL of the host", "", text, cap);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY: return "what the server sends is no HTTP";
    default: return curl_easy_strerror(code);
    }
}

#else

bool hr__http_has_certificates(void) { return true; }

hr_status hr__http_use_certificates(const char *path, hr_error *err)
{
    (void)path;
    (void)err;
    return HR_OK;
}

#endif
