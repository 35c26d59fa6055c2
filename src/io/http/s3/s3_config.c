/* s3_config.c - where S3 is and who we are: options, then the environment, then the files of the AWS tools.
 *
 * 1. Credentials: see aws_credentials.c.
 * 2. The region and the endpoint: options, environment, the profile of ~/.aws/config.
 * 3. Anonymous access is explicit: s3://anonymous@bucket, or an option.
 *
 * The files are read once for each store, when its first s3:// URL is listed.
 *
 * Tests: test_s3.c, test_s3.py, test_credentials.py. */
#include "io/http/http.h"

#include <stdlib.h>

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static char *file_of(const char *variable, const char *below_home)
{
    const char *given = environment(variable), *home = environment("HOME");

    return given ? hr__strdup(NULL, given) : hr__printf(NULL, "%s/%s", home ? home : "", below_home);
}

static hr_status configure(hr_s3 *s3, hr_error *err)
{
    const char *profile = s3->profile ? s3->profile : environment("AWS_PROFILE");
    char *credentials = file_of("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    char *config = file_of("AWS_CONFIG_FILE", ".aws/config");
    hr_aws_files files = { profile ? profile : "default", credentials, config };
    hr_aws_profile found = { 0 };
    hr_status st = HR_OK;

    if (!credentials || !config)
        HR_GO(hr__error_memory(err, "configuration of S3", 100));
    HR_GO(hr__aws_profile_read(files.profile, credentials, config, &found, err));
    HR_GO(hr__set_from(&s3->region, "AWS_REGION", err));
    HR_GO(hr__set_from(&s3->region, "AWS_DEFAULT_REGION", err));
    HR_GO(hr__set_default(&s3->region, found.region, found.region ? (int64_t)strlen(found.region) : 0, err));
    HR_GO(hr__set_from(&s3->endpoint, "AWS_ENDPOINT_URL_S3", err));
    HR_GO(hr__set_from(&s3->endpoint, "AWS_ENDPOINT_URL", err));
    HR_GO(hr__set_default(&s3->endpoint, found.endpoint, found.endpoint ? (int64_t)strlen(found.endpoint) : 0, err));
    if (s3->anonymous != HR_SWITCH_ON)
        HR_GO(hr__aws_identity(s3, &files, &found, &s3->identity, err));
    s3->prepared = true;
done:
    hr__aws_profile_clear(&found);
    hr__free(credentials);
    hr__free(config);
    return st;
}

hr_status hr__s3_prepare(hr_store *s, const char *url, hr_error *err)
{
    hr_s3 *s3 = &s->s3;
    hr_status st = HR_OK;

    if (!s3->prepared)
        st = configure(s3, err);
    if (!st && hr__place(url).n_bucket == 0)
        return hr_error_set(err, HR_INVALID, "%s: expected s3://bucket/key", url);
    if (!st && hr__s3_is_express(s, url))
        st = hr__s3_take_zone(s, url, err);
    if (!st && (hr__place(url).anonymous || s3->anonymous == HR_SWITCH_ON))
        return HR_OK;
    if (!st && !s3->identity)
        st = hr_error_set(err, HR_INVALID, HR_NO_CREDENTIALS);
    if (!st)
        st = hr__identity_wait(s3->identity, err);
    if (!st && hr__s3_is_express(s, url))
        st = hr__s3_begin_session(s, url, err);
    return st ? hr__error_at(err, st, "%s", url) : HR_OK;
}
