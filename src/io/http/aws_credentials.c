/* aws_credentials.c - who we are to AWS. The first of these places that is configured decides, even if it fails:
 *
 * 1. the options of the reader: keys, the token of a file, or a container's service. A role among them without such a
 *    token is taken on by what is found otherwise;
 * 2. AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, unless an option names a profile;
 * 3. AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN (pods of Kubernetes), unless an option names a profile;
 * 4. the profile: a role (of another profile, of a machine, or of a token's file), SSO, keys, credential_process;
 * 5. the container's service (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, _FULL_URI: ECS, EKS);
 * 6. the machine's metadata (version 2 alone), unless AWS_EC2_METADATA_DISABLED is true.
 *
 * The environment is read when a store is prepared, and not while credentials are fetched, since a program can change
 * it then. All texts that it gave are the identity's.
 *
 * Sources: "AWS SDKs and Tools Reference Guide", standardized credential providers; "AWS STS API Reference".
 *
 * Tests: test_credentials.c, test_credentials.py. */
#include "io/http/aws_profile.h"
#include "io/http/credentials.h"
#include "io/http/http.h"

#include <stdlib.h>
#include <time.h>

#define METADATA "http://169.254.169.254"
#define CONTAINER "http://169.254.170.2"
#define MAX_ROLES 5 /* that follow each other */
#define PROCESS_MS 60000

/* The texts of an identity. */
enum {
    PROFILE,
    KEYS_FILE,
    CONFIG_FILE,
    HOME,
    STS_URL,
    SSO_URL,
    REGION,
    ROLE,
    TOKEN_FILE,
    SESSION_NAME,
    CONTAINER_URL,
    CONTAINER_TOKEN,
    CONTAINER_TOKEN_FILE,
    METADATA_URL,
    ENV_ID,
    ENV_SECRET,
    ENV_TOKEN,
    EXTERNAL_ID,
    PROXY,
    PROXY_EXCLUDES,
    N_TEXTS
};

static hr_status no_memory(hr_error *err) { return hr__error_memory(err, "credentials", 100); }

/* -------------------------------------------------------------------------------------------------------------- STS */

static char *sts_url(const char *const *with, const char *region)
{
    const char *domain;

    if (with[STS_URL])
        return hr__strdup(NULL, with[STS_URL]);
    region = region ? region : with[REGION] ? with[REGION] : "us-east-1";
    domain = hr__aws_domain(region);
    return hr__printf(NULL, "https://sts.%s.%s", region, domain);
}

static hr_status check_sts(const char *const *with, hr_error *err)
{
    return with[STS_URL] ? hr__check_address("aws_endpoint_url_sts", with[STS_URL], err) : HR_OK;
}

/* The credentials in an answer of STS. */
static hr_status take_sts(const char *what, const char *xml, hr_credentials *out, hr_error *err)
{
    char *until = hr__xml_text(xml, "Expiration", NULL);

    out->id = hr__xml_text(xml, "AccessKeyId", NULL);
    out->secret = hr__xml_text(xml, "SecretAccessKey", NULL);
    out->token = hr__xml_text(xml, "SessionToken", NULL);
    out->until_s = hr__time_of(until);
    hr__free(until);
    if (!out->id || !out->secret || !out->token)
        return hr_error_set(err, HR_BAD_DATA, "%s: its answer has no credentials", what);
    return HR_OK;
}

static const char *session_of(const char *given) { return given ? given : "headrace"; }

/* A role for the holder of a token: of a pod, of a run in CI. Nothing is signed. */
static hr_status fetch_by_token(const char *const *with, const char *role, const char *file, const char *session,
                                hr_credentials *out, hr_error *err)
{
    char *token = NULL, *url = sts_url(with, NULL);
    hr_text form = { 0 }, answer = { 0 };
    hr_status st = HR_OK;

    HR_GO(check_sts(with, err));
    HR_GO(hr__text_of_file(file, &token, err));
    hr__form_add(&form, "Action", "AssumeRoleWithWebIdentity");
    hr__form_add(&form, "RoleArn", role);
    hr__form_add(&form, "RoleSessionName", session_of(session));
    hr__form_add(&form, "Version", "2011-06-15");
    hr__form_add(&form, "WebIdentityToken", token);
    if (!url || form.failed)
        HR_GO(no_memory(err));
    HR_GO(hr__ask_service(&(hr_question){ .what = "AWS STS (AssumeRoleWithWebIdentity)",
                                          .url = url,
                                          .form = form.data,
                                          .more = "Content-Type: application/x-www-form-urlencoded\n",
                                          .wait_s = 10,
                                          .max_retries = 3,
                                          .proxy = with[PROXY],
                                          .proxy_excludes = with[PROXY_EXCLUDES] },
                          &answer, err));
    HR_GO(take_sts("AWS STS", answer.data ? answer.data : "", out, err));
done:
    hr__text_clear(&answer);
    hr__text_clear(&form);
    hr__free(url);
    hr__free(token);
    return st;
}

static hr_status fetch_web(const char *const *with, hr_credentials *out, hr_error *err)
{
    return fetch_by_token(with, with[ROLE], with[TOKEN_FILE], with[SESSION_NAME], out, err);
}

/* "url/?Action=AssumeRole&...", sorted. */
static char *role_url(const char *base, const hr_aws_profile *p)
{
    hr_text q = { 0 };
    char *url = NULL;

    hr__form_add(&q, "Action", "AssumeRole");
    if (p->duration)
        hr__form_add(&q, "DurationSeconds", p->duration);
    if (p->external_id)
        hr__form_add(&q, "ExternalId", p->external_id);
    hr__form_add(&q, "RoleArn", p->role);
    hr__form_add(&q, "RoleSessionName", session_of(p->session_name));
    hr__form_add(&q, "Version", "2011-06-15");
    if (base && !q.failed)
        url = hr__printf(NULL, "%s/?%s", base, q.data);
    hr__text_clear(&q);
    return url;
}

/* The profile's role, for the holder of other credentials. */
static hr_status fetch_role(const char *const *with, const hr_aws_profile *p, const hr_credentials *who,
                            hr_credentials *out, hr_error *err)
{
    const char *region = p->region ? p->region : with[REGION] ? with[REGION] : "us-east-1";
    char *base = sts_url(with, region), *url = role_url(base, p);
    hr_text headers = { 0 }, answer = { 0 };
    hr_status st = HR_OK;

    HR_GO(check_sts(with, err));
    if (!url)
        HR_GO(no_memory(err));
    HR_GO(hr__sign4(
        &(hr_sign_keys){
            .key_id = who->id, .secret = who->secret, .token = who->token, .region = region, .service = "sts" },
        "GET", url, "", (int64_t)time(NULL), &headers, err));
    HR_GO(hr__ask_service(&(hr_question){ .what = "AWS STS (AssumeRole)",
                                          .method = "GET",
                                          .url = url,
                                          .more = headers.data,
                                          .wait_s = 10,
                                          .max_retries = 3,
                                          .proxy = with[PROXY],
                                          .proxy_excludes = with[PROXY_EXCLUDES] },
                          &answer, err));
    HR_GO(take_sts("AWS STS", answer.data ? answer.data : "", out, err));
done:
    hr__text_clear(&answer);
    hr__text_clear(&headers);
    hr__free(url);
    hr__free(base);
    return st;
}

/* The role of the options, for the holder of what is found otherwise. */
static hr_status fetch_assumed(const char *const *with, hr_credentials *out, hr_error *err)
{
    const hr_aws_profile p = { .role = (char *)with[ROLE],
                               .session_name = (char *)with[SESSION_NAME],
                               .external_id = (char *)with[EXTERNAL_ID] };

    return fetch_role(with, &p, out->by, out, err);
}

/* -------------------------------------------------------------------------------------------- machines, containers */

static const hr_member_names service_names = { "AccessKeyId", "SecretAccessKey", "Token", "Expiration", NULL };

/* The address of a container's service gets a token: it is this machine's, or it is encrypted. */
static bool may_be_asked(const char *url) { return hr__url_is_near(url) || strncmp(url, "https://", 8) == 0; }

static hr_status fetch_container(const char *const *with, hr_credentials *out, hr_error *err)
{
    hr_question q = { .what = "the credentials of the container", .method = "GET", .url = with[CONTAINER_URL] };
    char *token = NULL, *header = NULL;
    hr_text answer = { 0 };
    hr_status st = HR_OK;

    q.wait_s = 2;
    q.max_retries = 3;
    q.proxy = with[PROXY];
    q.proxy_excludes = with[PROXY_EXCLUDES];
    if (!may_be_asked(q.url))
        HR_FAIL(HR_INVALID,
                "AWS_CONTAINER_CREDENTIALS_FULL_URI: expected https, or an address of this machine, found "
                "'%s'",
                q.url);
    if (with[CONTAINER_TOKEN_FILE])
        HR_GO(hr__text_of_file(with[CONTAINER_TOKEN_FILE], &token, err));
    if (token || with[CONTAINER_TOKEN]) {
        if (!(header = hr__printf(NULL, "Authorization: %s\n", token ? token : with[CONTAINER_TOKEN])))
            HR_GO(no_memory(err));
        q.more = header;
    }
    HR_GO(hr__ask_service(&q, &answer, err));
    HR_GO(hr__credentials_of_json(q.what, answer.data ? answer.data : "", answer.n, &service_names, out, err));
done:
    hr__text_clear(&answer);
    hr__free(header);
    hr__free(token);
    return st;
}

/* Asks the machine's metadata for a path. `token`: of the session; NULL: asks for one. */
static hr_status ask_metadata(const char *const *with, const char *path, const char *token, hr_text *answer,
                              hr_error *err)
{
    hr_question q = { .what = "the metadata of this machine", .wait_s = 1, .max_retries = 1 };
    const char *base = with[METADATA_URL] ? with[METADATA_URL] : METADATA;
    int n_base = (int)strlen(base);
    char *url = hr__printf(NULL, "%.*s%s", n_base - (n_base > 0 && base[n_base - 1] == '/'), base, path);
    char *more = token ? hr__printf(NULL, "X-aws-ec2-metadata-token: %s\n", token)
                       : hr__strdup(NULL, "X-aws-ec2-metadata-token-ttl-seconds: 21600\n");
    hr_status st = url && more ? HR_OK : no_memory(err);

    *answer = (hr_text){ 0 };
    q.method = token ? "GET" : "PUT";
    q.url = url;
    q.more = more;
    if (!st)
        st = hr__ask_service(&q, answer, err);
    if (!st && !answer->data)
        st = hr_error_set(err, HR_BAD_DATA, "%s: its answer is empty", q.what);
    hr__free(url);
    hr__free(more);
    return st;
}

#define ROLES "/latest/meta-data/iam/security-credentials/"

static hr_status fetch_machine(const char *const *with, hr_credentials *out, hr_error *err)
{
    hr_text token = { 0 }, role = { 0 }, answer = { 0 };
    char *path = NULL;
    hr_status st = HR_OK;

    if (with[METADATA_URL])
        HR_GO(hr__check_address("aws_metadata_endpoint", with[METADATA_URL], err));
    st = ask_metadata(with, "/latest/api/token", NULL, &token, err);
    if (st)
        HR_FAIL(st == HR_CANCELLED ? st : HR_INVALID,
                HR_NO_CREDENTIALS ", and the metadata of this machine do not answer (in a container they need a hop "
                                  "limit of 2)");
    HR_GO(ask_metadata(with, ROLES, token.data, &role, err));
    role.data[strcspn(role.data, "\r\n")] = 0;
    if (!(path = hr__printf(NULL, ROLES "%s", role.data)))
        HR_GO(no_memory(err));
    HR_GO(ask_metadata(with, path, token.data, &answer, err));
    HR_GO(hr__credentials_of_json("the metadata of this machine", answer.data, answer.n, &service_names, out, err));
done:
    hr__free(path);
    hr__text_clear(&token);
    hr__text_clear(&role);
    hr__text_clear(&answer);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- profiles */

static hr_status fetch_process(const char *command, hr_credentials *out, hr_error *err)
{
    static const hr_member_names names = { "AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration", NULL };
    hr_text answer = { 0 };
    hr_status st = hr__run_program(command, PROCESS_MS, &answer, err);

    if (!st)
        st = hr__credentials_of_json("credential_process", answer.data ? answer.data : "", answer.n, &names, out, err);
    if (st)
        st = hr__error_at(err, st, "the profile's credential_process");
    hr__text_clear(&answer);
    return st;
}

/* The token that `aws sso login` has put into its folder. */
static hr_status sso_token(const char *const *with, const hr_aws_profile *p, char **out, hr_error *err)
{
    char name[48], *path = NULL, *json = NULL, *until = NULL;
    const char *key = p->sso_session ? p->sso_session : p->sso_url;
    hr_error unread = HR_ERROR_INIT;
    hr_status st = HR_OK;

    HR_GO(hr__sha1_hex(key, name, err));
    path = hr__printf(NULL, "%s/.aws/sso/cache/%s.json", with[HOME] ? with[HOME] : "", name);
    if (!path)
        HR_GO(no_memory(err));
    if (hr__text_of_file(path, &json, &unread) == HR_OK) {
        *out = hr__json_text(json, (int64_t)strlen(json), "accessToken");
        until = hr__json_text(json, (int64_t)strlen(json), "expiresAt");
    }
    if (!*out || (until && hr__time_of(until) < (int64_t)time(NULL)))
        HR_FAIL(HR_INVALID, "the profile '%s' uses SSO, and its login has ended: run 'aws sso login --profile %s'",
                with[PROFILE], with[PROFILE]);
done:
    hr_error_clear(&unread);
    hr__free(path);
    hr__free(json);
    hr__free(until);
    return st;
}

static char *sso_url(const char *const *with, const hr_aws_profile *p)
{
    const char *region = p->sso_region ? p->sso_region : "us-east-1";
    hr_text url = { 0 };

    if (with[SSO_URL])
        hr__text_add(&url, "%s", with[SSO_URL]);
    else
        hr__text_add(&url, "https://portal.sso.%s.%s", region, hr__aws_domain(region));
    hr__text_add(&url, "/federation/credentials?account_id=");
    hr__url_add_encoded(&url, p->sso_account, false);
    hr__text_add(&url, "&role_name=");
    hr__url_add_encoded(&url, p->sso_role, false);
    if (url.failed)
        hr__text_clear(&url);
    return url.data;
}

static hr_status fetch_sso(const char *const *with, const hr_aws_profile *p, hr_credentials *out, hr_error *err)
{
    static const hr_member_names names = { "accessKeyId", "secretAccessKey", "sessionToken", "expiration", NULL };
    char *token = NULL, *url = NULL, *more = NULL;
    hr_text answer = { 0 };
    hr_status st = HR_OK;

    if (!p->sso_account || !p->sso_role)
        HR_FAIL(HR_INVALID, "the profile '%s' uses SSO, but it has no sso_account_id and sso_role_name", with[PROFILE]);
    HR_GO(sso_token(with, p, &token, err));
    url = sso_url(with, p);
    more = hr__printf(NULL, "x-amz-sso_bearer_token: %s\n", token);
    if (!url || !more)
        HR_GO(no_memory(err));
    HR_GO(hr__ask_service(&(hr_question){ .what = "AWS SSO",
                                          .method = "GET",
                                          .url = url,
                                          .more = more,
                                          .wait_s = 10,
                                          .max_retries = 3,
                                          .proxy = with[PROXY],
                                          .proxy_excludes = with[PROXY_EXCLUDES] },
                          &answer, err));
    HR_GO(hr__credentials_of_json("AWS SSO", answer.data ? answer.data : "", answer.n, &names, out, err));
done:
    hr__text_clear(&answer);
    hr__free(token);
    hr__free(url);
    hr__free(more);
    return st;
}

static hr_status take_keys(hr_aws_profile *from, hr_credentials *out, hr_error *err)
{
    if (!from->key_id || !from->secret)
        return hr_error_set(err, HR_INVALID, "%s",
                            from->key_id  ? "an access key id without its secret access key"
                            : from->found ? "it has no credentials"
                                          : "no file of AWS has this profile");
    out->id = from->key_id;
    out->secret = from->secret;
    out->token = from->token;
    from->key_id = from->secret = from->token = NULL;
    return HR_OK;
}

static hr_status fetch_named(const char *const *with, const char *profile, int depth, hr_credentials *out,
                             hr_error *err);

/* credential_source: where the keys are that a role needs. */
static hr_status fetch_source(const char *const *with, const char *source, hr_credentials *out, hr_error *err)
{
    if (strcmp(source, "Ec2InstanceMetadata") == 0)
        return fetch_machine(with, out, err);
    if (strcmp(source, "EcsContainer") == 0 && with[CONTAINER_URL])
        return fetch_container(with, out, err);
    if (strcmp(source, "Environment") == 0 && with[ENV_ID] && with[ENV_SECRET]) {
        out->id = hr__strdup(NULL, with[ENV_ID]);
        out->secret = hr__strdup(NULL, with[ENV_SECRET]);
        out->token = hr__strdup(NULL, with[ENV_TOKEN]);
        return out->id && out->secret ? HR_OK : no_memory(err);
    }
    return hr_error_set(err, HR_INVALID, "the profile's credential_source '%s' gives no credentials", source);
}

static hr_status fetch_role_of(const char *const *with, hr_aws_profile *p, const char *profile, int depth,
                               hr_credentials *out, hr_error *err)
{
    hr_credentials *who = NULL;
    hr_status st = HR_OK;

    if (p->mfa)
        return hr_error_set(err, HR_UNSUPPORTED,
                            "its role needs a code (mfa_serial); use credential_process, or keys with a session token");
    if (p->token_file)
        return fetch_by_token(with, p->role, p->token_file, p->session_name, out, err);
    HR_TRY(hr__credentials_new(&who, err));
    if (p->source_profile && strcmp(p->source_profile, profile) == 0)
        st = take_keys(p, who, err);
    else if (p->source_profile)
        st = fetch_named(with, p->source_profile, depth + 1, who, err);
    else if (p->credential_source)
        st = fetch_source(with, p->credential_source, who, err);
    else
        st = hr_error_set(err, HR_INVALID,
                          "it has a role_arn, but no source_profile, credential_source or "
                          "web_identity_token_file");
    if (!st)
        st = fetch_role(with, p, who, out, err);
    hr__credentials_unref(who);
    return st;
}

static hr_status fetch_named(const char *const *with, const char *profile, int depth, hr_credentials *out,
                             hr_error *err)
{
    hr_aws_profile p;
    hr_status st = hr__aws_profile_read(profile, with[KEYS_FILE], with[CONFIG_FILE], &p, err);

    if (st)
        return st;
    if (depth >= MAX_ROLES)
        st = hr_error_set(err, HR_INVALID, "more than %d roles follow each other", MAX_ROLES);
    else if (p.role)
        st = fetch_role_of(with, &p, profile, depth, out, err);
    else if (p.sso_session || p.sso_url)
        st = fetch_sso(with, &p, out, err);
    else if (p.process && !p.key_id)
        st = fetch_process(p.process, out, err);
    else
        st = take_keys(&p, out, err);
    if (st)
        st = hr__error_at(err, st, "the profile '%s'", profile);
    hr__aws_profile_clear(&p);
    return st;
}

static hr_status fetch_profile(const char *const *with, hr_credentials *out, hr_error *err)
{
    return fetch_named(with, with[PROFILE], 0, out, err);
}

static bool has_credentials(const hr_aws_profile *p)
{
    return p->role || p->sso_session || p->sso_url || p->key_id || p->process;
}

/* -------------------------------------------------------------------------------------------------------- the first */

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static bool is_true(const char *value) { return value && strcasecmp(value, "true") == 0; }

static hr_status fixed(const char *id, const char *secret, const char *token, hr_identity **out, hr_error *err)
{
    hr_credentials *c = NULL;
    hr_status st;

    if (!secret)
        return hr_error_set(err, HR_INVALID, "an access key id without its secret access key");
    HR_TRY(hr__credentials_new(&c, err));
    c->id = hr__strdup(NULL, id);
    c->secret = hr__strdup(NULL, secret);
    c->token = token && token[0] ? hr__strdup(NULL, token) : NULL;
    st = c->id && c->secret && (c->token || !token || !token[0]) ? hr__identity_fixed(c, out, err) : no_memory(err);
    hr__credentials_unref(c);
    return st;
}

static const char *first(const char *given, const char *variable) { return given ? given : environment(variable); }

/* Of the options, else of the environment; new. NULL: there is none, or no memory. */
static char *container_url(const hr_s3 *s3, bool *given)
{
    bool by_option = s3->container_path || s3->container_url;
    const char *path = by_option ? s3->container_path : environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = by_option ? s3->container_url : environment("AWS_CONTAINER_CREDENTIALS_FULL_URI");

    *given = path || full;
    return path ? hr__printf(NULL, CONTAINER "%s", path) : hr__strdup(NULL, full);
}

/* What is found without a role of the options. */
static hr_status identity_of(const hr_s3 *s3, const hr_aws_profile *profile, const char *const *with, hr_identity **out,
                             hr_error *err)
{
    bool by_profile = s3->profile != NULL;

    if (s3->key_id)
        return fixed(s3->key_id, s3->secret, s3->session_token ? s3->session_token : s3->token, out, err);
    if (s3->secret)
        return hr_error_set(err, HR_INVALID, "a secret access key without its access key id");
    if (s3->session_token && s3->session_token[0])
        return hr_error_set(err, HR_INVALID,
                            "a session token without its aws_access_key_id and aws_secret_access_key: the options "
                            "need all three");
    if (s3->token_file && !with[ROLE])
        return hr_error_set(err, HR_INVALID, "aws_web_identity_token_file without aws_role_arn");
    if (s3->token_file)
        return hr__identity_shared("aws web identity", fetch_web, with, N_TEXTS, out, err);
    if (s3->container_path || s3->container_url)
        return hr__identity_shared("aws container", fetch_container, with, N_TEXTS, out, err);
    if (!by_profile && with[ENV_ID])
        return fixed(with[ENV_ID], with[ENV_SECRET], with[ENV_TOKEN], out, err);
    if (!by_profile && with[TOKEN_FILE] && with[ROLE])
        return hr__identity_shared("aws web identity", fetch_web, with, N_TEXTS, out, err);
    if (by_profile || has_credentials(profile))
        return hr__identity_of(fetch_profile, with, N_TEXTS, out, err);
    if (with[CONTAINER_URL])
        return hr__identity_shared("aws container", fetch_container, with, N_TEXTS, out, err);
    if (!is_true(environment("AWS_EC2_METADATA_DISABLED")))
        return hr__identity_shared("aws machine", fetch_machine, with, N_TEXTS, out, err);
    return HR_OK;
}

/* The role of the options is taken on by *base, which becomes the identity that does so. */
static hr_status assume(const hr_s3 *s3, const char **with, hr_identity **base, hr_error *err)
{
    hr_identity *by = *base;
    hr_status st;

    with[ROLE] = s3->role;
    *base = NULL;
    st = hr__identity_by(by, fetch_assumed, with, N_TEXTS, base, err);
    hr__identity_unref(by);
    return st;
}

hr_status hr__aws_identity(const hr_store *store, const hr_aws_files *files, const hr_aws_profile *profile,
                           hr_identity **out, hr_error *err)
{
    const hr_s3 *s3 = &store->s3;
    const char *env_role = environment("AWS_ROLE_ARN"), *token_file = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
    bool by_token = s3->token_file || (token_file && !env_role && !s3->key_id && !s3->profile), has_container;
    char *container = container_url(s3, &has_container);
    const char *with[N_TEXTS] = {
        [PROFILE] = files->profile,
        [KEYS_FILE] = files->credentials,
        [CONFIG_FILE] = files->config,
        [HOME] = environment("HOME"),
        [STS_URL] = first(s3->sts, "AWS_ENDPOINT_URL_STS"),
        [SSO_URL] = environment("AWS_ENDPOINT_URL_SSO"),
        [REGION] = s3->region,
        [ROLE] = by_token && s3->role ? s3->role : env_role,
        [TOKEN_FILE] = s3->token_file ? s3->token_file : token_file,
        [SESSION_NAME] = first(s3->role_session, "AWS_ROLE_SESSION_NAME"),
        [CONTAINER_URL] = container,
        [CONTAINER_TOKEN] = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
        [CONTAINER_TOKEN_FILE] = first(s3->container_token_file, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        [METADATA_URL] = first(s3->metadata, "AWS_EC2_METADATA_SERVICE_ENDPOINT"),
        [ENV_ID] = environment("AWS_ACCESS_KEY_ID"),
        [ENV_SECRET] = environment("AWS_SECRET_ACCESS_KEY"),
        [ENV_TOKEN] = environment("AWS_SESSION_TOKEN"),
        [EXTERNAL_ID] = s3->external_id,
        [PROXY] = store->proxy,
        [PROXY_EXCLUDES] = store->proxy_excludes,
    };
    hr_status st;

    *out = NULL;
    st = has_container && !container ? no_memory(err) : identity_of(s3, profile, with, out, err);
    if (!st && *out && s3->role && !by_token)
        st = assume(s3, with, out, err);
    hr__free(container);
    return st;
}
