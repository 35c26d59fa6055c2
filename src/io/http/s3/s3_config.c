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
#include <strings.h>

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

/* What the options say about encryption, in the words of the header. */
static hr_status check_encryption(hr_s3 *s3, hr_error *err)
{
    static const struct {
        const char *given, *sent;
    } kinds[] = { { "AES256", "AES256" },
                  { "aws:kms", "aws:kms" },
                  { "sse:kms", "aws:kms" },
                  { "aws:kms:dsse", "aws:kms:dsse" },
                  { "sse:kms:dsse", "aws:kms:dsse" },
                  { "sse-c", "sse-c" } };
    const char *given = s3->encryption ? s3->encryption : s3->customer_key ? "sse-c" : s3->kms_key ? "aws:kms" : NULL;
    char *sent = NULL;

    for (int i = 0; given && i < HR_LEN(kinds); i++)
        if (strcasecmp(given, kinds[i].given) == 0 && !(sent = hr__strdup(NULL, kinds[i].sent)))
            return hr__error_memory(err, "configuration of S3", 16);
    if (given && !sent)
        return hr_error_set(err, HR_INVALID,
                            "aws_server_side_encryption: expected AES256, aws:kms, aws:kms:dsse or "
                            "sse-c; found another text");
    hr__free(s3->encryption);
    s3->encryption = sent;
    if (sent && (strcmp(sent, "sse-c") == 0) != (s3->customer_key != NULL))
        return hr_error_set(err, HR_INVALID,
                            "aws_server_side_encryption is sse-c with aws_sse_customer_key_base64, and "
                            "never without");
    return s3->customer_key ? hr__key_sum("aws_sse_customer_key_base64", s3->customer_key, false, &s3->key_sum, err)
                            : HR_OK;
}

/* The names that come before others, and after them. */
static hr_status take_more_options(hr_s3 *s3, hr_error *err)
{
    if (s3->endpoint_s3) {
        hr__free(s3->endpoint);
        s3->endpoint = s3->endpoint_s3;
        s3->endpoint_s3 = NULL;
    }
    HR_TRY(hr__set_text(&s3->region, s3->default_region, err));
    return check_encryption(s3, err);
}

static hr_status configure(hr_store *s, hr_error *err)
{
    hr_s3 *s3 = &s->s3;
    const char *profile = s3->profile ? s3->profile : environment("AWS_PROFILE");
    char *credentials = file_of("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    char *config = file_of("AWS_CONFIG_FILE", ".aws/config");
    hr_aws_files files = { profile ? profile : "default", credentials, config };
    hr_aws_profile found = { 0 };
    hr_status st = HR_OK;

    if (!credentials || !config)
        HR_GO(hr__error_memory(err, "configuration of S3", 100));
    HR_GO(hr__aws_profile_read(files.profile, credentials, config, &found, err));
    HR_GO(take_more_options(s3, err));
    HR_GO(hr__set_from(&s3->region, "AWS_REGION", err));
    HR_GO(hr__set_from(&s3->region, "AWS_DEFAULT_REGION", err));
    HR_GO(hr__set_text(&s3->region, found.region, err));
    HR_GO(hr__check_line("the region", s3->region, err));
    HR_GO(hr__set_from(&s3->endpoint, "AWS_ENDPOINT_URL_S3", err));
    HR_GO(hr__set_from(&s3->endpoint, "AWS_ENDPOINT_URL", err));
    HR_GO(hr__set_text(&s3->endpoint, found.endpoint, err));
    if (s3->anonymous != HR_SWITCH_ON)
        HR_GO(hr__aws_identity(s, &files, &found, &s3->identity, err));
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
        st = configure(s, err);
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
