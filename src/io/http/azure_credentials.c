/* azure_credentials.c - tokens of Microsoft Entra for Azure's stores. The first of these that is configured decides:
 *
 * 1. a token of the options;
 * 2. a client with a secret (options, or AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET);
 * 3. a client with the token of a file (AZURE_FEDERATED_TOKEN_FILE: pods of Kubernetes);
 * 4. the identity that manages the machine: IDENTITY_ENDPOINT and IDENTITY_HEADER, else the machine's metadata.
 *
 * Sources: "OAuth 2.0 client credentials flow on the Microsoft identity platform"; "How to use managed identities for
 * Azure resources on an Azure VM"; "Azure Workload Identity".
 *
 * Tests: test_credentials.py. */
#include "io/http/http.h"

#include <stdlib.h>

#define METADATA "http://169.254.169.254/metadata/identity/oauth2/token"
#define AUTHORITY "https://login.microsoftonline.com"
#define RESOURCE "https://storage.azure.com/"

/* The texts of an identity. */
enum {
    TENANT,
    CLIENT,
    SECRET,
    TOKEN_FILE,
    AUTHORITY_HOST,
    ENDPOINT,
    HEADER,
    OBJECT,
    RESOURCE_ID,
    PROXY,
    PROXY_EXCLUDES,
    N_TEXTS
};

static hr_status no_memory(hr_error *err) { return hr__error_memory(err, "credentials", 100); }

static const hr_member_names names = { .token = "access_token", .expires_in = "expires_in" };

static hr_status take(const hr_question *q, hr_credentials *out, hr_error *err)
{
    hr_text answer = { 0 };
    hr_status st = hr__ask_service(q, &answer, err);

    if (!st)
        st = hr__credentials_of_json(q->what, answer.data ? answer.data : "", answer.n, &names, out, err);
    hr__text_clear(&answer);
    return st;
}

static hr_status fetch_client(const char *const *with, hr_credentials *out, hr_error *err)
{
    const char *authority = with[AUTHORITY_HOST] ? with[AUTHORITY_HOST] : AUTHORITY;
    bool slash = authority[strlen(authority) - 1] == '/';
    char *url = hr__printf(NULL, "%s%s%s/oauth2/v2.0/token", authority, slash ? "" : "/", with[TENANT]);
    hr_question q = { .what = "Microsoft Entra's token service", .url = url, .wait_s = 10, .max_retries = 3 };
    char *assertion = NULL;
    hr_text form = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__check_address("azure_storage_authority_host", authority, err)); /* behind http:// the tenant is a host */
    hr__text_add(&form, "grant_type=client_credentials");
    hr__form_add(&form, "client_id", with[CLIENT]);
    hr__form_add(&form, "scope", RESOURCE ".default");
    if (with[SECRET]) {
        hr__form_add(&form, "client_secret", with[SECRET]);
    } else {
        HR_GO(hr__text_of_file(with[TOKEN_FILE], &assertion, err)); /* it is exchanged now and then */
        hr__form_add(&form, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        hr__form_add(&form, "client_assertion", assertion);
    }
    if (!url || form.failed)
        HR_GO(no_memory(err));
    q.form = form.data;
    q.proxy = with[PROXY];
    q.proxy_excludes = with[PROXY_EXCLUDES];
    q.more = "Content-Type: application/x-www-form-urlencoded\n";
    HR_GO(take(&q, out, err));
done:
    hr__text_clear(&form);
    hr__free(assertion);
    hr__free(url);
    return st;
}

static hr_status fetch_machine(const char *const *with, hr_credentials *out, hr_error *err)
{
    bool is_service = with[ENDPOINT] && with[HEADER];
    char *more =
        is_service ? hr__printf(NULL, "X-IDENTITY-HEADER: %s\n", with[HEADER]) : hr__strdup(NULL, "Metadata: true\n");
    hr_question q = { .what = "the managed identity of this machine", .method = "GET", .wait_s = 1, .max_retries = 1 };
    hr_text url = { 0 };
    hr_status st = HR_OK;

    if (with[ENDPOINT])
        HR_GO(hr__check_address("azure_msi_endpoint", with[ENDPOINT], err));
    hr__text_add(&url, "%s?api-version=%s", with[ENDPOINT] ? with[ENDPOINT] : METADATA,
                 is_service ? "2019-08-01" : "2018-02-01");
    hr__form_add(&url, "resource", RESOURCE);
    if (with[CLIENT])
        hr__form_add(&url, "client_id", with[CLIENT]);
    if (with[OBJECT])
        hr__form_add(&url, "object_id", with[OBJECT]);
    if (with[RESOURCE_ID])
        hr__form_add(&url, is_service ? "mi_res_id" : "msi_res_id", with[RESOURCE_ID]);
    if (!more || url.failed)
        HR_GO(no_memory(err));
    q.url = url.data;
    q.more = more;
    st = take(&q, out, err);
    if (st && st != HR_CANCELLED && st != HR_NO_MEMORY)
        st = hr_error_set(err, HR_INVALID, HR_NO_AZURE ", and this machine gives no managed identity");
done:
    hr__text_clear(&url);
    hr__free(more);
    return st;
}

static const char *first(const char *given, const char *variable)
{
    const char *value = given ? given : getenv(variable);

    return value && value[0] ? value : NULL;
}

hr_status hr__azure_identity(const hr_azure_login *given, hr_identity **out, hr_error *err)
{
    const char *with[N_TEXTS] = {
        [TENANT] = first(given->tenant, "AZURE_TENANT_ID"),
        [CLIENT] = first(given->client, "AZURE_CLIENT_ID"),
        [SECRET] = first(given->secret, "AZURE_CLIENT_SECRET"),
        [TOKEN_FILE] = first(given->token_file, "AZURE_FEDERATED_TOKEN_FILE"),
        [AUTHORITY_HOST] = first(given->authority, "AZURE_AUTHORITY_HOST"),
        [ENDPOINT] = first(given->endpoint, "IDENTITY_ENDPOINT"),
        [HEADER] = first(NULL, "IDENTITY_HEADER"),
        [OBJECT] = first(given->object_id, "AZURE_OBJECT_ID"),
        [RESOURCE_ID] = first(given->resource_id, "AZURE_MSI_RESOURCE_ID"),
        [PROXY] = given->store->proxy,
        [PROXY_EXCLUDES] = given->store->proxy_excludes,
    };

    *out = NULL;
    if (given->token)
        return hr__identity_of_token(given->token, out, err);
    if (with[TENANT] && with[CLIENT] && (with[SECRET] || with[TOKEN_FILE]))
        return hr__identity_shared("azure client", fetch_client, with, N_TEXTS, out, err);
    return hr__identity_shared("azure machine", fetch_machine, with, N_TEXTS, out, err);
}
