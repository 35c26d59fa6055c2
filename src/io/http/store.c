/* store.c - what all URLs of a reader share: limits on time, retries, how requests are signed.
 *
 * Tests: test_http.c. */
#include "io/http/http.h"

#include <stdlib.h>

#define CONNECT_MS 10000
#define SILENCE_MS 30000
#define MAX_RETRIES 5
#define IDLE_S 30

typedef struct number_option {
    const char *name;
    size_t offset; /* in hr_store */
    double scale, least, most;
} number_option;

static const number_option numbers[] = {
    { "timeout", offsetof(hr_store, silence_ms), 1000, 0.01, 86400 },
    { "connect_timeout", offsetof(hr_store, connect_ms), 1000, 0.01, 86400 },
    { "max_retries", offsetof(hr_store, max_retries), 1, 0, 100 },
};

/* "timeout=30": seconds. */
static hr_status set_number(hr_store *s, const number_option *o, const char *value, hr_error *err)
{
    char *end;
    double x = strtod(value, &end);

    if (end == value || *end || !(x >= o->least && x <= o->most))
        return hr_error_set(err, HR_INVALID, "storage_options: %s: expected a number from %g to %g, found '%.100s'",
                            o->name, o->least, o->most, value);
    *(int *)((char *)s + o->offset) = (int)(x * o->scale);
    return HR_OK;
}

static hr_status set_option(hr_store *s, const char *option, hr_error *err)
{
    size_t n = strcspn(option, "=");
    const char *value = option[n] ? option + n + 1 : "";
    hr_near near;

    hr__near_begin(&near, option, n);
    for (int i = 0; i < HR_LEN(numbers); i++) {
        if (strlen(numbers[i].name) == n && memcmp(option, numbers[i].name, n) == 0)
            return set_number(s, &numbers[i], value, err);
        hr__near_try(&near, numbers[i].name, strlen(numbers[i].name));
    }
    return hr_error_set(err, HR_INVALID, "storage_options: there is no option '%.*s'%s", (int)n, option,
                        hr__near_hint(&near));
}

hr_status hr__store_new(const char *const *options, int n_options, hr_account *account, hr_store **out, hr_error *err)
{
    hr_store *s = hr__zalloc(account, sizeof *s);
    hr_status st = HR_OK;

    *out = NULL;
    if (!s)
        return hr__error_memory(err, "store", sizeof *s);
    atomic_init(&s->refs, 1);
    s->connect_ms = CONNECT_MS;
    s->silence_ms = SILENCE_MS;
    s->max_retries = MAX_RETRIES;
    s->idle_s = IDLE_S;
    for (int i = 0; i < n_options; i++)
        HR_GO(set_option(s, options[i], err));
    *out = s;
    s = NULL;
done:
    hr__store_unref(s);
    return st;
}

char *hr__store_url(const hr_store *s, const char *url, hr_account *account)
{
    (void)s;
    return hr__url_encoded(url, account);
}

hr_store *hr__store_ref(hr_store *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hr__store_unref(hr_store *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    hr__free(s);
}
