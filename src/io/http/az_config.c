/* az_config.c - who we are for Azure: options, then the environment.
 *
 * 1. A key, a shared access signature, a token or a connection string among the options decides; without any of them
 *    those of the environment do.
 * 2. A connection string fills what neither gives: AccountName, AccountKey, SharedAccessSignature, BlobEndpoint,
 *    EndpointSuffix, UseDevelopmentStorage.
 * 3. The emulator has an account, a key and an address that everybody knows.
 * 4. Anonymous access is explicit: az://anonymous@container, or an option.
 *
 * Tests: test_gs_az.c, test_az.py. */
#include "io/http/http.h"

#include <stdlib.h>
#include <strings.h>

#define EMULATOR_ACCOUNT "devstoreaccount1"
#define EMULATOR_KEY                                                                                                   \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==" /* published */
#define FABRIC_SUFFIX "fabric.microsoft.com"
#define EMULATOR_ENDPOINT "http://127.0.0.1:10000"

static bool is_name(const char *p, size_t n, const char *name) { return n == strlen(name) && !strncasecmp(p, name, n); }

/* "Name=value". */
static hr_status take_setting(hr_az *az, const char *p, size_t n, hr_error *err)
{
    const struct {
        const char *name;
        char **at;
    } known[] = {
        { "AccountName", &az->account },   { "AccountKey", &az->key },        { "SharedAccessSignature", &az->sas },
        { "BlobEndpoint", &az->endpoint }, { "EndpointSuffix", &az->suffix },
    };
    const char *equals = memchr(p, '=', n), *value = equals ? equals + 1 : NULL;
    size_t n_name = equals ? (size_t)(equals - p) : n, n_value = equals ? n - n_name - 1 : 0;

    if (is_name(p, n_name, "UseDevelopmentStorage") && is_name(value, n_value, "true"))
        az->emulator = HR_SWITCH_ON;
    for (int i = 0; i < HR_LEN(known); i++)
        if (is_name(p, n_name, known[i].name))
            return hr__set_default(known[i].at, value, (int64_t)n_value, err);
    return HR_OK;
}

hr_status hr__az_take_connection(hr_az *az, const char *text, hr_error *err)
{
    for (const char *p = text; *p; p += *p == ';') {
        size_t n = strcspn(p, ";");

        HR_TRY(take_setting(az, p, n, err));
        p += n;
    }
    return HR_OK;
}

static hr_status take_environment(hr_az *az, hr_error *err)
{
    HR_TRY(hr__set_from(&az->connection, "AZURE_STORAGE_CONNECTION_STRING", err));
    HR_TRY(hr__set_from(&az->key, "AZURE_STORAGE_ACCOUNT_KEY", err));
    HR_TRY(hr__set_from(&az->key, "AZURE_STORAGE_KEY", err));
    HR_TRY(hr__set_from(&az->sas, "AZURE_STORAGE_SAS_TOKEN", err));
    return hr__set_from(&az->sas, "AZURE_STORAGE_SAS_KEY", err);
}

static hr_status take_emulator(hr_az *az, hr_error *err)
{
    HR_TRY(hr__set_default(&az->account, EMULATOR_ACCOUNT, sizeof EMULATOR_ACCOUNT - 1, err));
    if (!az->key && !az->sas && !az->token)
        HR_TRY(hr__set_default(&az->key, EMULATOR_KEY, sizeof EMULATOR_KEY - 1, err));
    HR_TRY(hr__set_from(&az->endpoint, "AZURITE_BLOB_STORAGE_URL", err));
    return hr__set_default(&az->endpoint, EMULATOR_ENDPOINT, sizeof EMULATOR_ENDPOINT - 1, err);
}

static hr_status take_all(hr_az *az, hr_error *err)
{
    const char *emulator = getenv("AZURE_STORAGE_USE_EMULATOR");

    if (!az->key && !az->sas && !az->token && !az->connection && az->anonymous != HR_SWITCH_ON)
        HR_TRY(take_environment(az, err));
    HR_TRY(hr__set_from(&az->account, "AZURE_STORAGE_ACCOUNT_NAME", err));
    HR_TRY(hr__set_from(&az->account, "AZURE_STORAGE_ACCOUNT", err));
    if (az->connection)
        HR_TRY(hr__az_take_connection(az, az->connection, err));
    if (az->emulator == HR_SWITCH_ON || (emulator && az->emulator == HR_SWITCH_UNSET && !strcasecmp(emulator, "true")))
        HR_TRY(take_emulator(az, err));
    if (az->sas && az->sas[0] == '?')
        memmove(az->sas, az->sas + 1, strlen(az->sas));
    HR_TRY(hr__check_line("azure_storage_sas_token", az->sas, err));
    HR_TRY(hr__check_line("azure_storage_account_name", az->account, err));
    if (az->fabric == HR_SWITCH_ON)
        HR_TRY(hr__set_default(&az->suffix, FABRIC_SUFFIX, sizeof FABRIC_SUFFIX - 1, err));
    if (az->encryption_key)
        return hr__key_sum("azure_storage_encryption_key", az->encryption_key, true, &az->key_sum, err);
    return HR_OK;
}

/* What is missing or wrong, without the URL. */
static const char *problem(const hr_az *az, const hr_place *p)
{
    if (p->n_bucket == 0)
        return "expected az://container/path, or abfss://container@account.dfs.core.windows.net/path";
    if (p->account && p->n_account == 0)
        return "the URL has no account: expected abfss://container@account.dfs.core.windows.net/path";
    if (az->account && strpbrk(az->account, "/\\?#@: "))
        return "azure_storage_account_name: expected the name of an account, found a part of an address";
    if (!p->account && !az->account && !az->endpoint)
        return "no account in the URL, storage_options (azure_storage_account_name) or AZURE_STORAGE_ACCOUNT_NAME";
    if (strstr(p->key, "?") && strstr(p->key, "sig="))
        return "a shared access signature belongs into storage_options, as azure_storage_sas_token";
    if (p->anonymous || az->anonymous == HR_SWITCH_ON)
        return NULL;
    if (az->key && !hr__az_key_is_good(az->key))
        return "the account's key is not in base64";
    return NULL;
}

/* Without a key and a signature, requests carry tokens. */
static hr_status take_identity(hr_store *s, hr_error *err)
{
    hr_az *az = &s->az;
    const hr_azure_login login = { .token = az->token,
                                   .tenant = az->tenant,
                                   .client = az->client,
                                   .secret = az->client_secret,
                                   .token_file = az->token_file,
                                   .authority = az->authority,
                                   .endpoint = az->identity_endpoint,
                                   .object_id = az->object_id,
                                   .resource_id = az->resource_id,
                                   .store = s };

    if (!az->identity)
        HR_TRY(hr__azure_identity(&login, &az->identity, err));
    return hr__identity_wait(az->identity, err);
}

hr_status hr__az_prepare(hr_store *s, const char *url, hr_error *err)
{
    hr_place p = hr__place(url);
    hr_status st = HR_OK;
    const char *wrong;

    if (!s->az.prepared) {
        HR_TRY(take_all(&s->az, err));
        s->az.prepared = true;
    }
    if ((wrong = problem(&s->az, &p)))
        st = hr_error_set(err, HR_INVALID, "%s", wrong);
    else if (!p.anonymous && s->az.anonymous != HR_SWITCH_ON && !s->az.key && (!s->az.sas || s->az.token))
        st = take_identity(s, err);
    return st ? hr__url_error(err, st, url) : HR_OK;
}
