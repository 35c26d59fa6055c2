/* s3_config.c - where S3 is and who we are: options, then the environment, then the files of the AWS tools.
 *
 * 1. Keys, in this order: the options; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (not if a profile is named by
 *    option); the profile in ~/.aws/credentials, then in ~/.aws/config. The first place that has a key id decides, and
 *    a key id without a secret is an error.
 * 2. The region and the endpoint: options, environment, the profile of ~/.aws/config.
 * 3. Anonymous access is explicit: s3://anonymous@bucket, or an option.
 *
 * The files are read once for each store, when its first s3:// URL is listed.
 *
 * Tests: test_s3.c, test_s3.py. */
#include "io/http/http.h"

#include <ctype.h>
#include <stdlib.h>

#define MAX_FILE_BYTES (1 << 20)

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

/* ------------------------------------------------------------------------------------------------------------ files */

typedef struct line {
    const char *p;
    int64_t n;
} line;

static line trimmed(const char *p, const char *end)
{
    while (p < end && isspace((unsigned char)*p))
        p++;
    while (end > p && isspace((unsigned char)end[-1]))
        end--;
    return (line){ p, end - p };
}

static bool is(line l, const char *text) { return l.n == (int64_t)strlen(text) && memcmp(l.p, text, (size_t)l.n) == 0; }

/* "[profile name]" or "[name]". */
static bool is_profile(line l, const char *profile)
{
    line name = trimmed(l.p + 1, l.p + l.n - 1);

    if (name.n > 8 && memcmp(name.p, "profile ", 8) == 0)
        name = trimmed(name.p + 8, name.p + name.n);
    return is(name, profile);
}

static hr_status take_setting(hr_s3 *s3, line name, line value, hr_error *err)
{
    const struct {
        const char *name;
        char **at;
    } known[] = {
        { "aws_access_key_id", &s3->key_id }, { "aws_secret_access_key", &s3->secret },
        { "aws_session_token", &s3->token },  { "region", &s3->region },
        { "endpoint_url", &s3->endpoint },
    };

    for (int i = 0; i < HR_LEN(known); i++)
        if (is(name, known[i].name))
            return hr__set_default(known[i].at, value.p, value.n, err);
    return HR_OK;
}

hr_status hr__s3_take_profile(hr_s3 *s3, const char *text, int64_t n, const char *profile, hr_error *err)
{
    const char *end = text + n, *stop;
    bool inside = false;

    for (const char *p = text; p < end; p = stop + 1) {
        const char *equals;
        line l;

        stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        l = trimmed(p, stop);
        if (l.n == 0 || l.p[0] == '#' || l.p[0] == ';')
            continue;
        if (l.p[0] == '[') {
            inside = l.n > 2 && l.p[l.n - 1] == ']' && is_profile(l, profile);
            continue;
        }
        equals = inside && !isspace((unsigned char)*p) ? memchr(l.p, '=', (size_t)l.n) : NULL; /* not a nested one */
        if (equals)
            HR_TRY(take_setting(s3, trimmed(l.p, equals), trimmed(equals + 1, l.p + l.n), err));
    }
    return HR_OK;
}

/* A file that is not there, or cannot be read, has no settings. */
static hr_status take_file(hr_s3 *s3, const char *variable, const char *below_home, const char *profile, hr_error *err)
{
    const char *given = environment(variable), *home = environment("HOME");
    char *path = given ? hr__strdup(NULL, given) : hr__printf(NULL, "%s/%s", home ? home : "", below_home);
    char *text = hr__alloc(NULL, MAX_FILE_BYTES);
    hr_status st = HR_OK;
    int fd = path && text ? hr__file_open(path) : -1;
    int64_t n = fd >= 0 ? hr__file_read_at(fd, text, MAX_FILE_BYTES, 0) : -1;

    if (!path || !text)
        st = hr__error_memory(err, "configuration of S3", MAX_FILE_BYTES);
    else if (n > 0)
        st = hr__s3_take_profile(s3, text, n, profile, err);
    if (fd >= 0)
        hr__file_close(fd);
    hr__free(text);
    hr__free(path);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ store */

static void clear(hr_s3 *s3)
{
    hr__free(s3->key_id);
    hr__free(s3->secret);
    hr__free(s3->token);
    hr__free(s3->region);
    hr__free(s3->endpoint);
}

/* The keys of `from` come together: never an id of one place with a secret of another. */
static void move_keys(hr_s3 *to, hr_s3 *from)
{
    if (to->key_id || !from->key_id)
        return;
    to->key_id = from->key_id;
    to->secret = from->secret;
    to->token = from->token;
    from->key_id = from->secret = from->token = NULL;
}

static hr_status take_keys(hr_s3 *s3, hr_error *err)
{
    hr_s3 found = { 0 };
    hr_status st = HR_OK;

    if (!s3->profile) {
        HR_GO(hr__set_from(&found.key_id, "AWS_ACCESS_KEY_ID", err));
        HR_GO(hr__set_from(&found.secret, "AWS_SECRET_ACCESS_KEY", err));
        HR_GO(hr__set_from(&found.token, "AWS_SESSION_TOKEN", err));
        move_keys(s3, &found);
    }
done:
    clear(&found);
    return st;
}

static hr_status take_files(hr_s3 *s3, hr_error *err)
{
    const char *profile = s3->profile ? s3->profile : environment("AWS_PROFILE");
    hr_s3 keys = { 0 }, config = { 0 };
    hr_status st = HR_OK;

    profile = profile ? profile : "default";
    HR_GO(take_file(&keys, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", profile, err));
    HR_GO(take_file(&config, "AWS_CONFIG_FILE", ".aws/config", profile, err));
    move_keys(s3, &keys);
    move_keys(s3, &config);
    if (config.region)
        HR_GO(hr__set_default(&s3->region, config.region, (int64_t)strlen(config.region), err));
    if (config.endpoint)
        HR_GO(hr__set_default(&s3->endpoint, config.endpoint, (int64_t)strlen(config.endpoint), err));
done:
    clear(&keys);
    clear(&config);
    return st;
}

hr_status hr__s3_prepare(hr_store *s, const char *url, hr_error *err)
{
    hr_s3 *s3 = &s->s3;

    if (!s3->prepared) {
        HR_TRY(take_keys(s3, err));
        HR_TRY(hr__set_from(&s3->region, "AWS_REGION", err));
        HR_TRY(hr__set_from(&s3->region, "AWS_DEFAULT_REGION", err));
        HR_TRY(hr__set_from(&s3->endpoint, "AWS_ENDPOINT_URL_S3", err));
        HR_TRY(hr__set_from(&s3->endpoint, "AWS_ENDPOINT_URL", err));
        HR_TRY(take_files(s3, err));
        s3->prepared = true;
    }
    if (hr__place(url).n_bucket == 0)
        return hr_error_set(err, HR_INVALID, "%s: expected s3://bucket/key", url);
    if (hr__place(url).anonymous || s3->anonymous == HR_SWITCH_ON)
        return HR_OK;
    if (!s3->key_id)
        return hr_error_set(err, HR_INVALID,
                            "%s: no credentials in storage_options (aws_access_key_id, aws_secret_access_key), "
                            "AWS_ACCESS_KEY_ID, ~/.aws/credentials; public data: s3://anonymous@bucket",
                            url);
    if (!s3->secret)
        return hr_error_set(err, HR_INVALID, "%s: an access key id without its secret access key", url);
    return HR_OK;
}
