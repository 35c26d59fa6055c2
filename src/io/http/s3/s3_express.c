/* s3_express.c - directory buckets of S3 (Express One Zone), which keep objects in one zone.
 *
 * 1. Their names end in "--ZONE--x-s3", and so they are known; an option forbids it, for servers that have such names
 *    and know no directory buckets. Their host is one of the zone: s3express-ZONE.REGION. Without a given region it is
 *    that of which the zone's name begins with an abbreviation: "usw2-az1" is in us-west-2.
 * 2. Requests are signed by the credentials of a session with the bucket, for which our credentials ask by
 *    CreateSession. A session ends after five minutes: credentials.c asks for the next one before. The end is counted
 *    from the server's time, since a clock that is wrong by minutes would make each session an old one.
 * 3. Lists come in no order, a prefix ends with a slash, and no list begins behind a key: see store_list.c.
 * 4. ETags are random texts: that of an object does not say how many parts it had.
 *
 * Sources: "Differences for directory buckets", "Directory bucket naming rules" and CreateSession in Amazon's user
 * guide and API reference of S3.
 *
 * Tests: test_s3.c, test_s3_express.py. */
#include "io/http/http.h"

#include <stdlib.h>
#include <time.h>

#define SUFFIX "--x-s3"
#define SESSION_S 300 /* the length of a session */

typedef struct hr_s3_session {
    struct hr_s3_session *next;
    hr_identity *identity;
    char bucket[];
} hr_s3_session;

/* The zone in a bucket's name, which is "BASE--ZONE--x-s3". -> its length; 0: it has none. */
static int find_zone(const hr_place *p, const char **zone)
{
    int end = p->n_bucket - (int)strlen(SUFFIX), begin = end;

    if (end <= 0 || memcmp(p->bucket + end, SUFFIX, strlen(SUFFIX)) != 0)
        return 0;
    while (begin > 2 && memcmp(p->bucket + begin - 2, "--", 2) != 0)
        begin--;
    *zone = p->bucket + begin;
    return begin > 2 ? end - begin : 0;
}

bool hr__s3_is_express(const hr_store *s, const char *url)
{
    const char *zone;
    hr_place p;

    if (hr__kind_of(url) != &hr__s3_kind || s->s3.express == HR_SWITCH_OFF)
        return false;
    p = hr__place(url);
    return find_zone(&p, &zone) > 0;
}

void hr__s3_add_zone(const hr_store *s, const char *url, hr_text *out)
{
    hr_place p = hr__place(url);
    const char *zone = NULL, *region = hr__s3_region(s);
    int n = find_zone(&p, &zone);

    hr__text_add(out, HR_S3_EXPRESS "-%.*s.%s.%s", n, zone, region, hr__aws_domain(region));
}

/* "usw2-az1" -> "us-west-2". False: it is no name of this kind. */
static bool region_of_zone(const char *zone, int n, hr_text *out)
{
    static const char *const ways[][2] = { { "ne", "northeast" }, { "nw", "northwest" }, { "se", "southeast" },
                                           { "sw", "southwest" }, { "n", "north" },      { "e", "east" },
                                           { "s", "south" },      { "w", "west" },       { "c", "central" } };

    for (int i = 0; i < HR_LEN(ways); i++) {
        int m = (int)strlen(ways[i][0]);

        if (n > 2 + m + 1 && memcmp(zone + 2, ways[i][0], (size_t)m) == 0 && zone[2 + m] >= '1' && zone[2 + m] <= '9' &&
            zone[3 + m] == '-') {
            hr__text_add(out, "%.2s-%s-%c", zone, ways[i][1], zone[2 + m]);
            return true;
        }
    }
    return false;
}

hr_status hr__s3_take_zone(hr_store *s, const char *url, hr_error *err)
{
    hr_place p = hr__place(url);
    const char *zone = NULL;
    hr_text region = { 0 };
    int n = find_zone(&p, &zone);
    hr_status st = HR_OK;

    if (!s->s3.region && region_of_zone(zone, n, &region))
        st = region.failed ? hr__error_memory(err, "configuration of S3", 32)
                           : hr__set_default(&s->s3.region, region.data, region.n, err);
    hr__text_clear(&region);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- session */

/* The texts of an identity. */
enum { ADDRESS, REGION, N_TEXTS };

/* One request for a session, signed by `out->by`. */
static hr_status ask(const char *const *with, hr_store *store, int64_t now_s, const hr_credentials *by,
                     hr_http_request *r, hr_text *lines, hr_error *err)
{
    hr_sign_keys keys = {
        .key_id = by->id, .secret = by->secret, .region = with[REGION], .service = HR_S3_EXPRESS, .token = by->token
    };
    char *url = hr__printf(NULL, "%s?session=", with[ADDRESS]);

    hr__text_clear(lines);
    HR_TRY(hr__http_init(r, "GET", url, store, err)); /* takes the URL */
    r->name = hr__printf(NULL, "a session with %s", with[ADDRESS]);
    if (!r->name)
        return hr__error_memory(err, "a session", (int64_t)strlen(with[ADDRESS]));
    HR_TRY(hr__sign4(&keys, "GET", r->url, "", now_s, lines, err));
    if (lines->failed)
        return hr__error_memory(err, "a session", 1000);
    r->more = lines->data;
    return hr__http_run(r, err);
}

/* Takes the session of the answer. */
static hr_status take(const hr_http_request *r, hr_credentials *out, hr_error *err)
{
    const char *xml = r->body.data ? r->body.data : "";
    char *until = hr__xml_text(xml, "Expiration", NULL);
    int64_t end_s = until ? hr__time_of(until) : 0, now_s = (int64_t)time(NULL);

    out->id = hr__xml_text(xml, "AccessKeyId", NULL);
    out->secret = hr__xml_text(xml, "SecretAccessKey", NULL);
    out->token = hr__xml_text(xml, "SessionToken", NULL);
    out->until_s = now_s + (end_s && r->answer.date_s ? end_s - r->answer.date_s : SESSION_S);
    hr__free(until);
    return out->id && out->secret && out->token
               ? HR_OK
               : hr_error_set(err, HR_BAD_DATA, "%s: the answer has no credentials", r->name);
}

static hr_status fetch_session(const char *const *with, hr_credentials *out, hr_error *err)
{
    int64_t now_s = (int64_t)time(NULL);
    hr_http_request r = { 0 };
    hr_store *store = NULL;
    hr_text lines = { 0 };
    hr_status st;

    HR_GO(hr__store_new(NULL, 0, NULL, &store, err));
    st = ask(with, store, now_s, out->by, &r, &lines, err);
    if (st && r.answer.date_s && hr__http_says(&r, hr__s3_kind.skewed)) {
        now_s = r.answer.date_s;
        hr__http_clear(&r);
        hr_error_clear(err);
        st = ask(with, store, now_s, out->by, &r, &lines, err);
    }
    HR_GO(st);
    HR_GO(take(&r, out, err));
done:
    hr__http_clear(&r);
    hr__text_clear(&lines);
    hr__store_unref(store);
    return st;
}

hr_identity *hr__s3_session_of(const hr_store *s, const char *url)
{
    hr_place p = hr__place(url);

    for (const hr_s3_session *i = atomic_load(&s->s3.first); i; i = i->next)
        if (strncmp(i->bucket, p.bucket, (size_t)p.n_bucket) == 0 && !i->bucket[p.n_bucket])
            return i->identity;
    return NULL;
}

/* Two threads can add the same bucket: the identity is one, and the first entry serves. */
static hr_status add_session(hr_store *s, const char *url, hr_error *err)
{
    hr_place p = hr__place(url);
    hr_s3_session *new = hr__zalloc(NULL, sizeof *new + (size_t)p.n_bucket + 1);
    hr_text address = { 0 };
    hr_status st = HR_OK;

    if (!new)
        return hr__error_memory(err, "a session", p.n_bucket);
    memcpy(new->bucket, p.bucket, (size_t)p.n_bucket);
    hr__s3_kind.add_address(s, url, true, &address);
    if (address.failed)
        HR_GO(hr__error_memory(err, "a session", p.n_bucket));
    HR_GO(hr__identity_by(s->s3.identity, fetch_session, (const char *[N_TEXTS]){ address.data, hr__s3_region(s) },
                          N_TEXTS, &new->identity, err));
    new->next = atomic_load(&s->s3.first);
    while (!atomic_compare_exchange_weak(&s->s3.first, &new->next, new))
        ;
    new = NULL;
done:
    hr__text_clear(&address);
    hr__free(new);
    return st;
}

hr_status hr__s3_begin_session(hr_store *s, const char *url, hr_error *err)
{
    if (!hr__s3_session_of(s, url))
        HR_TRY(add_session(s, url, err));
    return hr__identity_wait(hr__s3_session_of(s, url), err);
}

void hr__s3_end_sessions(hr_store *s)
{
    for (hr_s3_session *i = atomic_load(&s->s3.first), *next; i; i = next) {
        next = i->next;
        hr__identity_unref(i->identity);
        hr__free(i);
    }
}
