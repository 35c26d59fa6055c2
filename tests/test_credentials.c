/* test_credentials.c - members of small JSON documents, times, commands; identities that fetch, renew and fail. */
#include "harness.h"

#include "io/http/http.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char *member(const char *json, const char *name) { return hr__json_text(json, (int64_t)strlen(json), name); }

static const struct {
    const char *json, *name, *want;
} members[] = {
    { "{\"a\":\"x\"}", "a", "x" },
    { "{ \"b\" : [\"a\", {\"a\" : \"deep\"}] }", "a", "deep" },
    { "{\"x\":\"a\",\"a\":\"\"}", "a", "" },
    { "{\"x\":\"\\\"a\\\":\\\"no\\\"\",\"a\":12.5e3}", "a", "12.5e3" },
    { "{\"\\u0061\":\"\\u00e9\\ud83d\\ude00\\n\\/\"}", "a", "\xc3\xa9\xf0\x9f\x98\x80\n/" },
    { "{\"a\":\"\\uFFFD\\u20ac\\u007f\"}", "a", "\xef\xbf\xbd\xe2\x82\xac\x7f" },
    { "{\"a\":null}", "a", NULL },
    { "{\"a\":{\"b\":1}}", "a", NULL },
    { "{\"a\":\"cut", "a", NULL },
    { "{\"a\":\"\\u12", "a", NULL },
    { "{\"a\":\"\\ud800x\"}", "a", NULL },
    { "{\"a\":\"\\u0000\"}", "a", NULL },
    { "{\"a\":\"\\", "a", NULL },
    { "{\"a\"", "a", NULL },
    { "{\"a\":", "a", NULL },
    { "", "a", NULL },
};

static void members_are_found(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(members); i++) {
        char *found = member(members[i].json, members[i].name);

        if (members[i].want)
            assert_string_equal(found, members[i].want);
        else
            assert_null(found);
        hr__free(found);
    }
    assert_no_leak(before);
}

static void times_are_read(void **state)
{
    (void)state;
    assert_int_equal(hr__time_of("1970-01-02T00:00:01Z"), 86401);
    assert_int_equal(hr__time_of("2024-02-29T12:30:00.123Z"), 1709209800);
    assert_int_equal(hr__time_of("2024-02-29T12:30:00+02:00"), 1709209800 - 7200);
    assert_int_equal(hr__time_of("2024-02-29T12:30:00-00:30"), 1709209800 + 1800);
    assert_int_equal(hr__time_of("soon"), 0);
    assert_int_equal(hr__time_of(NULL), 0);
}

static void answers_are_taken(void **state)
{
    static const hr_member_names names = { "AccessKeyId", "SecretAccessKey", "Token", "Expiration", NULL };
    static const hr_member_names bearer = { .token = "access_token", .expires_in = "expires_in" };
    const char *json = "{\"AccessKeyId\":\"i\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":1700000000000}";
    const char *short_one = "{\"AccessKeyId\":\"i\"}", *token = "{\"access_token\":\"b\",\"expires_in\":3600}";
    hr_credentials *c = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(hr__credentials_new(&c, &err), &err);
    assert_ok(hr__credentials_of_json("it", json, (int64_t)strlen(json), &names, c, &err), &err);
    assert_string_equal(c->id, "i");
    assert_string_equal(c->secret, "s");
    assert_string_equal(c->token, "t");
    assert_int_equal(c->until_s, 1700000000);
    hr__credentials_unref(c);
    assert_ok(hr__credentials_new(&c, &err), &err);
    assert_int_equal(hr__credentials_of_json("it", short_one, (int64_t)strlen(short_one), &names, c, &err),
                     HR_BAD_DATA);
    assert_string_equal(err.text, "it: its answer has no 'SecretAccessKey'");
    hr__credentials_unref(c);
    assert_ok(hr__credentials_new(&c, &err), &err);
    assert_ok(hr__credentials_of_json("it", token, (int64_t)strlen(token), &bearer, c, &err), &err);
    assert_string_equal(c->token, "b");
    assert_in_range(c->until_s, (int64_t)time(NULL) + 3590, (int64_t)time(NULL) + 3610);
    hr__credentials_unref(c);
    hr_error_clear(&err);
}

/* --- identities */

static atomic_int n_fetches;
static atomic_llong lifetime_s; /* of what is fetched; < 0: the fetch fails; 0: it does not end */
static atomic_bool held;        /* the fetch waits */

static hr_status fetch_test(const char *const *with, hr_credentials *out, hr_error *err)
{
    int n = atomic_fetch_add(&n_fetches, 1) + 1;
    int64_t life = atomic_load(&lifetime_s);

    while (atomic_load(&held))
        hr__wait_readable(-1, 1);
    if (life < 0)
        return hr_error_set(err, HR_IO, "fetch %d of '%s' fails", n, with[0]);
    out->token = hr__printf(NULL, "%s%d", with[0], n);
    out->until_s = life ? (int64_t)time(NULL) + life : 0;
    return out->token ? HR_OK : hr__error_memory(err, "test", 1);
}

static hr_identity *identity_of(const char *name)
{
    hr_error err = HR_ERROR_INIT;
    hr_identity *i = NULL;

    assert_ok(hr__identity_of(fetch_test, &name, 1, &i, &err), &err);
    return i;
}

/* The token for an attempt now; waits while it is fetched. */
static hr_status token_now(hr_identity *i, char *out, hr_error *err)
{
    hr_credentials *c = NULL;
    hr_status st;

    while (!(st = hr__identity_now(i, &c, err)) && !c)
        hr__wait_readable(-1, 1);
    snprintf(out, 40, "%s", c ? c->token : "");
    hr__credentials_unref(c);
    return st;
}

static void begin_test(int64_t life)
{
    atomic_store(&n_fetches, 0);
    atomic_store(&lifetime_s, life);
}

#ifdef HR_HAVE_S3

/* What one process has fetched serves another one, unless the store has refused it. */
static void processes_share_what_is_fetched(void **state)
{
    char folder[] = "/tmp/headrace-test-XXXXXX", token[40], *command;
    const char *name = "s";
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_credentials *c = NULL;
    hr_identity *i = NULL;

    (void)state;
    assert_non_null(mkdtemp(folder));
    setenv("XDG_RUNTIME_DIR", folder, 1);
    unsetenv("HEADRACE_SHARE_CREDENTIALS");
    begin_test(3600);
    for (int process = 0; process < 3; process++) { /* each forgets what the one before knew */
        setenv("HEADRACE_SHARE_CREDENTIALS", process == 2 ? "off" : "on", 1);
        assert_ok(hr__identity_shared("test", fetch_test, &name, 1, &i, &err), &err);
        assert_ok(hr__identity_wait(i, &err), &err);
        assert_ok(token_now(i, token, &err), &err);
        assert_string_equal(token, process == 2 ? "s2" : "s1");
        hr__identity_unref(i);
        hr__identities_forget();
    }
    setenv("HEADRACE_SHARE_CREDENTIALS", "on", 1);
    assert_ok(hr__identity_shared("test", fetch_test, &name, 1, &i, &err), &err);
    assert_ok(hr__identity_wait(i, &err), &err);
    assert_ok(hr__identity_now(i, &c, &err), &err);
    assert_string_equal(c->token, "s1");
    assert_true(hr__identity_refused(i, c));
    hr__credentials_unref(c);
    assert_ok(token_now(i, token, &err), &err);
    assert_string_equal(token, "s3");
    hr__identity_unref(i);
    hr__identities_forget();
    unsetenv("XDG_RUNTIME_DIR");
    command = hr__printf(NULL, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    hr__free(command);
    assert_no_leak(before);
}

static char shared_folder[64];

/* What the processes of other runs have left. */
static void empty_shared_folder(void)
{
    char path[80];
    DIR *d;

    snprintf(path, sizeof path, "%s/headrace", shared_folder);
    if ((d = opendir(path))) {
        for (struct dirent *e; (e = readdir(d));)
            (void)unlinkat(dirfd(d), e->d_name, 0);
        closedir(d);
    }
}

/* Two processes, one after the other: the second takes what the first has left, or asks for itself. */
static hr_status fetch_and_share(hr_error *err)
{
    const char *name = "s";
    hr_identity *i = NULL;
    hr_status st = HR_OK;
    char token[40];

    for (int process = 0; process < 2; process++) {
        HR_GO(hr__identity_shared("test", fetch_test, &name, 1, &i, err));
        HR_GO(hr__identity_wait(i, err));
        HR_GO(token_now(i, token, err));
        assert_string_equal(token, atomic_load(&n_fetches) == 1 ? "s1" : "s2");
        hr__identity_unref(i);
        i = NULL;
        hr__identities_forget();
    }
done:
    hr__identity_unref(i);
    hr__identities_forget();
    return st;
}

/* Between runs, so that no fault is spent on it. */
static hr_status fetch_and_share_anew(hr_error *err)
{
    empty_shared_folder();
    begin_test(3600);
    return fetch_and_share(err);
}

/* The file went around base/os once: no test could make its calls fail. */
static hr_status a_fault_costs_a_request(hr_error *err)
{
    hr_status st = fetch_and_share_anew(err);

    assert_int_equal(st, HR_OK);
    assert_in_range(atomic_load(&n_fetches), 1, 2);
    return st;
}

static void faults_of_the_shared_file(void **state)
{
    (void)state;
    temp_dir_new(shared_folder);
    setenv("XDG_RUNTIME_DIR", shared_folder, 1);
    setenv("HEADRACE_SHARE_CREDENTIALS", "on", 1);
    assert_true(run_with_faults(a_fault_costs_a_request, HR_FAULT_IO | MAY_RECOVER) > 12);
    assert_true(run_with_faults(fetch_and_share_anew, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER) > 20);
    unsetenv("XDG_RUNTIME_DIR");
    temp_dir_free(shared_folder);
}

#endif

static void equal_identities_are_one(void **state)
{
    live_memory before = live_now();
    hr_identity *a, *b, *c;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    begin_test(3600);
    a = identity_of("a");
    b = identity_of("a");
    c = identity_of("c");
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_ok(hr__identity_wait(a, &err), &err);
    assert_ok(hr__identity_wait(b, &err), &err);
    assert_int_equal(atomic_load(&n_fetches), 1);
    hr__identity_unref(a);
    hr__identity_unref(b);
    hr__identity_unref(c);
    hr__identities_forget();
    assert_no_leak(before);
}

/* Credentials that end in two minutes serve, while others are fetched once beside. */
static void they_are_renewed_before_they_end(void **state)
{
    hr_identity *i = identity_of("r");
    hr_error err = HR_ERROR_INIT;
    char token[40];

    (void)state;
    begin_test(120);
    assert_ok(hr__identity_wait(i, &err), &err);
    atomic_store(&lifetime_s, 3600);
    atomic_store(&held, true);
    for (int k = 0; k < 3; k++) {
        assert_ok(token_now(i, token, &err), &err);
        assert_string_equal(token, "r1");
    }
    atomic_store(&held, false);
    for (int k = 0; k < 5000 && strcmp(token, "r2") != 0; k++) {
        assert_ok(token_now(i, token, &err), &err);
        hr__wait_readable(-1, 1);
    }
    assert_string_equal(token, "r2");
    assert_int_equal(atomic_load(&n_fetches), 2);
    hr__identity_unref(i);
    hr__identities_forget();
}

static void those_that_ended_are_waited_for(void **state)
{
    hr_identity *i = identity_of("e");
    hr_error err = HR_ERROR_INIT;
    char token[40];

    (void)state;
    begin_test(5); /* too short for a request */
    assert_ok(hr__identity_wait(i, &err), &err);
    atomic_store(&lifetime_s, 3600);
    assert_ok(token_now(i, token, &err), &err);
    assert_string_equal(token, "e2");
    hr__identity_unref(i);
    hr__identities_forget();
}

static void a_failed_fetch_is_an_error_when_nothing_is_left(void **state)
{
    live_memory before = live_now();
    hr_identity *i = identity_of("f");
    hr_error err = HR_ERROR_INIT;
    char token[40];

    (void)state;
    begin_test(-1);
    assert_int_equal(hr__identity_wait(i, &err), HR_IO);
    assert_string_equal(err.text, "fetch 1 of 'f' fails");
    assert_int_equal(token_now(i, token, &err), HR_IO);
    assert_string_equal(err.text, "fetch 1 of 'f' fails"); /* no second one before a pause */
    hr_error_clear(&err);
    atomic_store(&lifetime_s, 3600);
    assert_ok(hr__identity_wait(i, &err), &err); /* who waits asks at once */
    atomic_store(&lifetime_s, -1);
    assert_ok(token_now(i, token, &err), &err);
    assert_string_equal(token, "f2");
    hr__identity_unref(i);
    hr__identities_forget();
    assert_no_leak(before);
}

static void refused_ones_are_exchanged(void **state)
{
    hr_identity *i = identity_of("x"), *fixed = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_credentials *c = NULL, *other = NULL;
    char token[40];

    (void)state;
    begin_test(0);
    assert_ok(hr__identity_wait(i, &err), &err);
    assert_ok(hr__identity_now(i, &c, &err), &err);
    assert_true(hr__identity_refused(i, c));
    assert_ok(token_now(i, token, &err), &err);
    assert_string_equal(token, "x2");
    assert_true(hr__identity_refused(i, c)); /* of another request: these are gone already */
    assert_ok(token_now(i, token, &err), &err);
    assert_string_equal(token, "x2");
    assert_ok(hr__identity_fixed(c, &fixed, &err), &err);
    assert_ok(hr__identity_wait(fixed, &err), &err);
    assert_ok(hr__identity_now(fixed, &other, &err), &err);
    assert_ptr_equal(other, c);
    assert_false(hr__identity_refused(fixed, c));
    hr__credentials_unref(c);
    hr__credentials_unref(other);
    hr__identity_unref(fixed);
    hr__identity_unref(i);
    hr__identities_forget();
}

static void wait_in_thread(void *context)
{
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__identity_wait(context, &err), &err);
}

static void threads_share_one_fetch(void **state)
{
    hr_identity *i = identity_of("t");
    hr_thread threads[8];

    (void)state;
    begin_test(3600);
    atomic_store(&held, true);
    for (int k = 0; k < HR_LEN(threads); k++)
        assert_int_equal(hr__thread_start(&threads[k], "waits", wait_in_thread, i), 0);
    hr__wait_readable(-1, 60);
    atomic_store(&held, false);
    for (int k = 0; k < HR_LEN(threads); k++)
        hr__thread_join(threads[k]);
    assert_int_equal(atomic_load(&n_fetches), 1);
    hr__identity_unref(i);
    hr__identities_forget();
}

/* Tells by whose token it was asked for. */
static hr_status fetch_session(const char *const *with, hr_credentials *out, hr_error *err)
{
    atomic_fetch_add(&n_fetches, 1);
    out->token = hr__printf(NULL, "%s by %s", with[0], out->by->token);
    out->until_s = (int64_t)time(NULL) + 300;
    return out->token ? HR_OK : hr__error_memory(err, "test", 1);
}

static hr_status begin_session(const char *token, hr_identity **out, hr_error *err)
{
    static const char *const with[] = { "bucket" };
    hr_identity *base = NULL;
    hr_status st;

    *out = NULL;
    HR_GO(hr__identity_of_token(token, &base, err));
    HR_GO(hr__identity_by(base, fetch_session, with, 1, out, err));
    HR_GO(hr__identity_wait(*out, err));
done:
    hr__identity_unref(base);
    return st;
}

static void equal_keys_share_a_session(void **state)
{
    live_memory before = live_now();
    hr_identity *a = NULL, *b = NULL, *c = NULL;
    hr_error err = HR_ERROR_INIT;
    char token[40];

    (void)state;
    begin_test(0);
    assert_ok(begin_session("me", &a, &err), &err);
    assert_ok(begin_session("me", &b, &err), &err);
    assert_ok(begin_session("you", &c, &err), &err);
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    assert_int_equal(atomic_load(&n_fetches), 2);
    assert_ok(token_now(a, token, &err), &err); /* 300 s are not too few to begin with the next one */
    assert_string_equal(token, "bucket by me");
    assert_int_equal(atomic_load(&n_fetches), 2);
    hr__identity_unref(a);
    hr__identity_unref(b);
    hr__identity_unref(c);
    hr__identities_forget();
    assert_no_leak(before);
}

static hr_status session_and_use(hr_error *err)
{
    hr_identity *i = NULL;
    hr_status st = begin_session("me", &i, err);

    hr__identity_unref(i);
    hr__identities_forget();
    return st;
}

static void no_memory_for_a_session(void **state)
{
    (void)state;
    assert_true(run_with_faults(session_and_use, HR_FAULT_MEMORY) > 3);
}

static hr_status fetch_and_use(hr_error *err)
{
    static const char *const with[] = { "n", NULL };
    hr_credentials *c = NULL;
    hr_identity *i = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__identity_of(fetch_test, with, 2, &i, err));
    HR_GO(hr__identity_wait(i, err));
    HR_GO(hr__identity_now(i, &c, err));
    assert_non_null(c);
done:
    hr__credentials_unref(c);
    hr__identity_unref(i);
    hr__identities_forget();
    return st;
}

static void no_memory_is_one_error(void **state)
{
    (void)state;
    begin_test(3600);
    assert_true(run_with_faults(fetch_and_use, HR_FAULT_MEMORY) > 3);
}

static hr_status profile_and_program(hr_error *err)
{
    hr_aws_profile p = { 0 };
    hr_text out = { 0 };
    hr_status st = hr__aws_profile_read("default", "/nothing", "/dev/null", &p, err);

    if (!st)
        st = hr__run_program("echo x", 5000, &out, err);
    hr__text_clear(&out);
    hr__aws_profile_clear(&p);
    return st;
}

static void no_memory_for_files_and_programs(void **state)
{
    (void)state;
    assert_true(run_with_faults(profile_and_program, HR_FAULT_MEMORY) > 3);
}

/* --- commands */

static void run(const char *command, hr_status want, const char *text)
{
    hr_error err = HR_ERROR_INIT;
    hr_text out = { 0 };
    hr_status st = hr__run_program(command, 5000, &out, &err);

    assert_int_equal(st, want);
    if (st)
        assert_contains(err.text, text);
    else
        assert_string_equal(out.data ? out.data : "", text);
    hr__text_clear(&out);
    hr_error_clear(&err);
}

static void commands_are_run_without_a_shell(void **state)
{
    live_memory before = live_now();

    (void)state;
    run("echo one  'two  three' \"four \\\"five\\\"\" six\\ seven $HOME ''", HR_OK,
        "one two  three four \"five\" six seven $HOME \n");
    run("true", HR_OK, "");
    run("sh -c 'exit 3'", HR_IO, "sh: it ended with status 3");
    run("sh -c 'kill -9 $$'", HR_IO, "sh: it ended with status 137");
    run("/no/such/program", HR_NOT_FOUND, "/no/such/program");
    run("  ", HR_INVALID, "expected a command");
    assert_no_leak(before);
}

static void a_program_that_does_not_end_is_killed(void **state)
{
    int64_t begin = hr__clock_ns();
    hr_error err = HR_ERROR_INIT;
    hr_text out = { 0 };

    (void)state;
    assert_int_not_equal(hr__run_program("sleep 30", 100, &out, &err), HR_OK);
    assert_contains(err.text, "sleep");
    assert_true(hr__clock_ns() - begin < (int64_t)10 * 1000000000);
    hr__text_clear(&out);
    hr_error_clear(&err);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(answers_are_taken),
#ifdef HR_HAVE_S3
        cmocka_unit_test(processes_share_what_is_fetched),
        cmocka_unit_test(faults_of_the_shared_file),
#endif
        cmocka_unit_test(equal_identities_are_one),
        cmocka_unit_test(they_are_renewed_before_they_end),
        cmocka_unit_test(those_that_ended_are_waited_for),
        cmocka_unit_test(a_failed_fetch_is_an_error_when_nothing_is_left),
        cmocka_unit_test(refused_ones_are_exchanged),
        cmocka_unit_test(threads_share_one_fetch),
        cmocka_unit_test(no_memory_is_one_error),
        cmocka_unit_test(equal_keys_share_a_session),
        cmocka_unit_test(no_memory_for_a_session),
        cmocka_unit_test(no_memory_for_files_and_programs),
        cmocka_unit_test(commands_are_run_without_a_shell),
        cmocka_unit_test(a_program_that_does_not_end_is_killed),
    };
    return cmocka_run_group_tests(cases, NULL, NULL);
}
