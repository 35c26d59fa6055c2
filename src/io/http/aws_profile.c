/* aws_profile.c - reads ~/.aws/credentials and ~/.aws/config.
 *
 * Sections are "[name]", "[profile name]" and "[sso-session name]"; a setting is "name = value" at the beginning of a
 * line. Lines that begin with a blank belong to the setting above them, and to no setting of ours.
 *
 * Tests: test_s3.c, test_credentials.py. */
#include "io/http/aws_profile.h"

#include "io/http/credentials.h"

#include <ctype.h>

#define N_KEYS 3 /* the first settings */

static const struct {
    const char *name;
    size_t offset; /* of a char * in hr_aws_profile */
} settings[] = {
    { "aws_access_key_id", offsetof(hr_aws_profile, key_id) },
    { "aws_secret_access_key", offsetof(hr_aws_profile, secret) },
    { "aws_session_token", offsetof(hr_aws_profile, token) },
    { "region", offsetof(hr_aws_profile, region) },
    { "endpoint_url", offsetof(hr_aws_profile, endpoint) },
    { "role_arn", offsetof(hr_aws_profile, role) },
    { "role_session_name", offsetof(hr_aws_profile, session_name) },
    { "external_id", offsetof(hr_aws_profile, external_id) },
    { "duration_seconds", offsetof(hr_aws_profile, duration) },
    { "source_profile", offsetof(hr_aws_profile, source_profile) },
    { "credential_source", offsetof(hr_aws_profile, credential_source) },
    { "web_identity_token_file", offsetof(hr_aws_profile, token_file) },
    { "mfa_serial", offsetof(hr_aws_profile, mfa) },
    { "credential_process", offsetof(hr_aws_profile, process) },
    { "sso_session", offsetof(hr_aws_profile, sso_session) },
    { "sso_start_url", offsetof(hr_aws_profile, sso_url) },
    { "sso_region", offsetof(hr_aws_profile, sso_region) },
    { "sso_account_id", offsetof(hr_aws_profile, sso_account) },
    { "sso_role_name", offsetof(hr_aws_profile, sso_role) },
};

static char **setting_of(hr_aws_profile *p, int i) { return (char **)((char *)p + settings[i].offset); }

void hr__aws_profile_clear(hr_aws_profile *p)
{
    for (int i = 0; i < HR_LEN(settings); i++)
        hr__free(*setting_of(p, i));
    *p = (hr_aws_profile){ 0 };
}

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

/* "[profile name]" or "[name]"; "[sso-session name]" is a section of that whole name. */
static bool is_section(line l, const char *section)
{
    line name = trimmed(l.p + 1, l.p + l.n - 1);

    if (name.n > 8 && memcmp(name.p, "profile ", 8) == 0)
        name = trimmed(name.p + 8, name.p + name.n);
    return is(name, section);
}

static hr_status take_setting(hr_aws_profile *out, line name, line value, hr_error *err)
{
    for (int i = 0; i < HR_LEN(settings); i++) {
        char **at = setting_of(out, i);

        if (!is(name, settings[i].name))
            continue;
        if (!*at && value.n > 0 && !(*at = hr__strndup(NULL, value.p, (size_t)value.n)))
            return hr__error_memory(err, "a profile", value.n);
        return HR_OK;
    }
    return HR_OK;
}

hr_status hr__aws_section_take(hr_aws_profile *out, const char *text, int64_t n, const char *section, hr_error *err)
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
            inside = l.n > 2 && l.p[l.n - 1] == ']' && is_section(l, section);
            out->found = out->found || inside;
            continue;
        }
        equals = inside && !isspace((unsigned char)*p) ? memchr(l.p, '=', (size_t)l.n) : NULL; /* not a nested one */
        if (equals)
            HR_TRY(take_setting(out, trimmed(l.p, equals), trimmed(equals + 1, l.p + l.n), err));
    }
    return HR_OK;
}

static hr_status take_file(hr_aws_profile *out, const char *path, const char *section, hr_error *err)
{
    char *text = NULL;
    hr_error unread = HR_ERROR_INIT;
    hr_status st = hr__text_of_file(path, &text, &unread);

    if (!st)
        st = hr__aws_section_take(out, text, (int64_t)strlen(text), section, err);
    else if (st == HR_NO_MEMORY)
        hr__error_move(err, &unread);
    else
        st = HR_OK;
    hr_error_clear(&unread);
    hr__free(text);
    return st;
}

static void move_keys(hr_aws_profile *to, hr_aws_profile *from)
{
    if (to->key_id || !from->key_id)
        return;
    hr__free(to->secret);
    hr__free(to->token);
    to->key_id = from->key_id;
    to->secret = from->secret;
    to->token = from->token;
    from->key_id = from->secret = from->token = NULL;
}

/* What `to` lacks of what `from` has, but keys. */
static void move_rest(hr_aws_profile *to, hr_aws_profile *from)
{
    for (int i = N_KEYS; i < HR_LEN(settings); i++) {
        char **a = setting_of(to, i), **b = setting_of(from, i);

        if (!*a) {
            *a = *b;
            *b = NULL;
        }
    }
}

hr_status hr__aws_profile_read(const char *profile, const char *credentials, const char *config, hr_aws_profile *out,
                               hr_error *err)
{
    hr_aws_profile keys = { 0 }, more = { 0 };
    char *session = NULL;
    hr_status st = HR_OK;

    *out = (hr_aws_profile){ 0 };
    HR_GO(take_file(&keys, credentials, profile, err));
    HR_GO(take_file(&more, config, profile, err));
    if (more.sso_session) {
        if (!(session = hr__printf(NULL, "sso-session %s", more.sso_session)))
            HR_FAIL(HR_NO_MEMORY, "a profile: no memory");
        HR_GO(take_file(&more, config, session, err));
    }
    move_keys(out, &keys);
    move_keys(out, &more);
    move_rest(out, &keys);
    move_rest(out, &more);
    out->found = keys.found || more.found;
done:
    hr__free(session);
    hr__aws_profile_clear(&keys);
    hr__aws_profile_clear(&more);
    return st;
}
