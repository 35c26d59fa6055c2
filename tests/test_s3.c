/* test_s3.c - signatures against those that AWS publishes, addresses, profiles, lists, keys against patterns. */
#include "harness.h"

#include "io/http/http.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef HR_HAVE_S3

/* The examples of "Authenticating Requests: Using the Authorization Header" in the documentation of S3. */
static const struct {
    const char *url, *signature;
} signatures[] = {
    { "https://examplebucket.s3.amazonaws.com/?lifecycle=",
      "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
    { "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
      "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
    { "https://examplebucket.s3.amazonaws.com:443?max-keys=2&prefix=J",
      "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
};

static hr_sign_keys example_keys(void)
{
    return (hr_sign_keys){ .key_id = "AKIAIOSFODNN7EXAMPLE",
                           .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                           .region = "us-east-1" };
}

/* The example "PUT Object" has headers that we do not sign; the hash of its body is this. */
static void bodies_are_signed_by_their_hash(void **state)
{
    hr_sign_keys keys = example_keys();
    hr_http_request r = { .data = (const uint8_t *)"Welcome to Amazon S3.", .n_data = 21 };
    hr_error err = HR_ERROR_INIT;
    hr_text lines = { 0 };

    (void)state;
    r.url = (char *)"http://b1/x";
    assert_ok(hr__s3_hash(&r, &err), &err);
    assert_string_equal(r.hash, "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    assert_ok(hr__sign4(&keys, "PUT", r.url, r.hash, 1369353600, &lines, &err), &err);
    assert_contains(lines.data, "x-amz-content-sha256: 44ce7dd67c959e0d");
    hr__text_clear(&lines);
    r.url = (char *)"https://b1/x";
    assert_ok(hr__s3_hash(&r, &err), &err);
    assert_string_equal(r.hash, "UNSIGNED-PAYLOAD");
}

/* Checked by botocore's signer of S3 Express with the same keys, time and headers. */
static void sessions_sign_with_their_token(void **state)
{
    hr_sign_keys keys = example_keys();
    hr_error err = HR_ERROR_INIT;
    hr_text lines = { 0 };

    (void)state;
    keys.service = HR_S3_EXPRESS;
    keys.token = "TOKEN/+=";
    keys.header = "x-amz-s3session-token";
    assert_ok(hr__sign4(&keys, "GET", "https://b--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com/a/b", "",
                        1369353600, &lines, &err),
              &err);
    assert_contains(lines.data, "x-amz-s3session-token: TOKEN/+=\n");
    assert_contains(lines.data, "/20130524/us-east-1/s3express/aws4_request");
    assert_contains(lines.data, "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-s3session-token,");
    assert_null(strstr(lines.data, "x-amz-security-token"));
    assert_contains(lines.data, "a5d8995445007fe0c6f8df18d9ab7359f66713e109e601613997170ad21fbd0f");
    hr__text_clear(&lines);
}

static void signatures_are_those_of_aws(void **state)
{
    hr_sign_keys keys = example_keys();

    (void)state;
    for (int i = 0; i < HR_LEN(signatures); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_text lines = { 0 };

        assert_ok(hr__sign4(&keys, "GET", signatures[i].url, "", 1369353600, &lines, &err), &err);
        assert_contains(lines.data, "x-amz-date: 20130524T000000Z\n");
        assert_contains(lines.data, "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request");
        assert_contains(lines.data, signatures[i].signature);
        hr__text_clear(&lines);
    }
}

#endif

static const struct {
    const char *url, *query, *region, *endpoint;
    hr_switch virtual_host;
    const char *want;
} addresses[] = {
    { "s3://b1/a b/é+=%.x", "", NULL, NULL, 0, "https://b1.s3.us-east-1.amazonaws.com/a%20b/%C3%A9%2B%3D%25.x" },
    { "s3a://b1/../x//y", "", "eu-west-1", NULL, 0, "https://b1.s3.eu-west-1.amazonaws.com/../x//y" },
    { "s3://b.1/x", "", NULL, NULL, 0, "https://s3.us-east-1.amazonaws.com/b.1/x" },
    { "s3://anonymous@b1/x", "", NULL, "http://127.0.0.1:9000/", 0, "http://127.0.0.1:9000/b1/x" },
    { "s3://b1/x", "", NULL, "http://host:9000", HR_SWITCH_ON, "http://b1.host:9000/x" },
    { "s3://b1/x", "", NULL, "host:9000", HR_SWITCH_ON, "https://host:9000/b1/x" },
    { "s3://b1/x", "", NULL, NULL, HR_SWITCH_OFF, "https://s3.us-east-1.amazonaws.com/b1/x" },
    { "s3://b1/x/", "list-type=2", NULL, "http://h", 0, "http://h/b1/?list-type=2" },
    { "s3://b1", "list-type=2", NULL, NULL, 0, "https://b1.s3.us-east-1.amazonaws.com/?list-type=2" },
    /* Directory buckets: at a host of the zone, also if the endpoint is Amazon's of the region. */
    { "s3://b--usw2-az1--x-s3/a b", "", "us-west-2", NULL, 0,
      "https://b--usw2-az1--x-s3.s3express-usw2-az1.us-west-2.amazonaws.com/a%20b" },
    { "s3://b-1--usw2-lax1-az1--x-s3/", "list-type=2", "us-west-2", "https://s3.us-west-2.amazonaws.com", 0,
      "https://b-1--usw2-lax1-az1--x-s3.s3express-usw2-lax1-az1.us-west-2.amazonaws.com/?list-type=2" },
    { "s3://b--cnn1-az1--x-s3/x", "", "cn-north-1", NULL, 0,
      "https://b--cnn1-az1--x-s3.s3express-cnn1-az1.cn-north-1.amazonaws.com.cn/x" },
    { "s3://b--use1-az4--x-s3/x", "", "us-east-1", "https://s3express-fips-use1-az4.us-east-1.amazonaws.com", 0,
      "https://b--use1-az4--x-s3.s3express-fips-use1-az4.us-east-1.amazonaws.com/x" },
    { "s3://b--use1-az4--x-s3/x", "", "us-east-1",
      "https://b--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com/", 0,
      "https://b--use1-az4--x-s3.s3express-use1-az4.us-east-1.amazonaws.com/x" },
    { "s3://b--use1-az4--x-s3/x", "", NULL, "http://127.0.0.1:9000", 0, "http://127.0.0.1:9000/b--use1-az4--x-s3/x" },
    { "s3://b--x-s3/x", "", NULL, NULL, 0, "https://b--x-s3.s3.us-east-1.amazonaws.com/x" },
    { "s3://--x-s3/x", "", NULL, NULL, 0, "https://--x-s3.s3.us-east-1.amazonaws.com/x" },
    { "s3://s3/x", "", NULL, "http://s3.host:9000", HR_SWITCH_ON, "http://s3.s3.host:9000/x" },
};

static const struct {
    const char *bucket, *region;
} zones[] = {
    { "b--use1-az4--x-s3", "us-east-1" },
    { "b--apne1-az4--x-s3", "ap-northeast-1" },
    { "b--aps1-az1--x-s3", "ap-south-1" },
    { "b--eun1-az1--x-s3", "eu-north-1" },
    { "b--usw2-lax1-az1--x-s3", "us-west-2" },
    { "b--cac1-az4--x-s3", "ca-central-1" },
    { "b--apse2-az1--x-s3", "ap-southeast-2" },
    { "b--q--x-s3", NULL },
    { "b--usx1-az1--x-s3", NULL },
};

static void zones_name_regions(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(zones); i++) {
        char *url = hr__printf(NULL, "s3://%s/x", zones[i].bucket);
        hr_store none = { 0 }, given = { .s3.region = (char *)"eu-west-1" }, off = { .s3.express = HR_SWITCH_OFF };

        assert_true(hr__s3_is_express(&none, url));
        assert_false(hr__s3_is_express(&off, url));
        assert_ok(hr__s3_take_zone(&none, url, &err), &err);
        assert_ok(hr__s3_take_zone(&given, url, &err), &err);
        assert_string_equal(given.s3.region, "eu-west-1");
        if (zones[i].region)
            assert_string_equal(none.s3.region, zones[i].region);
        else
            assert_null(none.s3.region);
        hr__free(none.s3.region);
        hr__free(url);
    }
}

static void urls_lead_to_addresses(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(addresses); i++) {
        hr_store store = { .s3 = { .region = (char *)addresses[i].region,
                                   .endpoint = (char *)addresses[i].endpoint,
                                   .virtual_host = addresses[i].virtual_host } };
        char *found = hr__store_address(&store, addresses[i].url, addresses[i].query[0], addresses[i].query, NULL);

        assert_string_equal(found, addresses[i].want);
        hr__free(found);
    }
}

static const char profiles[] = "# keys\n"
                               "[default]\n"
                               "aws_access_key_id = one\n"
                               "aws_secret_access_key=1=1\n"
                               "\n"
                               "[profile work]\r\n"
                               "aws_access_key_id=two\r\n"
                               "s3 =\n"
                               "  aws_access_key_id = nested\n"
                               "region = eu-north-1\r\n"
                               "[profile workshop]\n"
                               "aws_secret_access_key=no\n"
                               "[broken\n"
                               "region = no";

static void profiles_are_read(void **state)
{
    hr_aws_profile one = { 0 }, two = { 0 }, none = { 0 };
    live_memory before = live_now();

    (void)state;
    assert_int_equal(hr__aws_section_take(&one, profiles, sizeof profiles - 1, "default", NULL), HR_OK);
    assert_string_equal(one.key_id, "one");
    assert_string_equal(one.secret, "1=1");
    assert_null(one.region);
    assert_int_equal(hr__aws_section_take(&two, profiles, sizeof profiles - 1, "work", NULL), HR_OK);
    assert_string_equal(two.key_id, "two");
    assert_string_equal(two.region, "eu-north-1");
    assert_null(two.secret);
    assert_int_equal(hr__aws_section_take(&none, profiles, sizeof profiles - 1, "other", NULL), HR_OK);
    assert_null(none.key_id);
    hr__aws_profile_clear(&one);
    hr__aws_profile_clear(&two);
    assert_no_leak(before);
}

#ifdef HR_HAVE_S3

static const char page[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix>a</Prefix>"
    "<Contents><Key>a+b%2Fc%C3%A9</Key><ETag>&quot;x&quot;</ETag><Size>5</Size><Owner><ID>1</ID></Owner></Contents>"
    "<Contents><Key>a%2B</Key><Size>0</Size></Contents><EncodingType>url</EncodingType>"
    "<IsTruncated>true</IsTruncated><NextContinuationToken>t=</NextContinuationToken></ListBucketResult>";

static void a_page_is_parsed(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_list_page p;

    (void)state;
    assert_ok(hr__list_parse(page, sizeof page - 1, &p, &err), &err);
    assert_int_equal(p.n, 2);
    assert_string_equal(p.items[0].key, "a b/cé");
    assert_string_equal(p.items[0].tag, "\"x\"");
    assert_int_equal(p.items[0].n_bytes, 5);
    assert_string_equal(p.items[1].key, "a+");
    assert_null(p.items[1].tag);
    assert_true(p.truncated);
    assert_string_equal(p.next, "t=");
    hr__list_clear(&p);
    assert_no_leak(before);
}

static const struct {
    const char *text, *tag;
    bool gained;
} tags[] = {
    { "&quot;x-2&quot;", "\"x-2\"", false }, { "\"x\"", "\"x\"", false },       { "x", "\"x\"", true },
    { "W/&quot;x&quot;", "W/\"x\"", false }, { "&quot;&quot;", "\"\"", false }, { "", "", false },
};

static void tags_without_quotes_gain_them(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(tags); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_list_page p;
        char xml[256];
        int n = snprintf(xml, sizeof xml,
                         "<ListBucketResult><Contents><ETag>%s</ETag><Key>a</Key><Size>1</Size></Contents>"
                         "</ListBucketResult>",
                         tags[i].text);

        assert_ok(hr__list_parse(xml, n, &p, &err), &err);
        assert_string_equal(p.items[0].tag, tags[i].tag);
        assert_int_equal(p.items[0].gained_quotes, tags[i].gained);
        hr__list_clear(&p);
    }
}

static const struct {
    const char *xml, *text;
} wrong_pages[] = {
    { "", "list of objects: " },
    { "<Error><Code>SlowDown</Code></Error>", "expected a ListBucketResult" },
    { "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>", "an object has no key, or no size" },
    { "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>", "a size is no number" },
    { "<ListBucketResult><Contents><Key>a</Key><Size>1</Size>", "no element found" },
    { "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%00</Key><Size>1</Size></Contents>"
      "</ListBucketResult>",
      "a key has a zero byte" },
    { "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>", "elements nest too deeply" },
};

static void a_damaged_page_is_one_error(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(wrong_pages); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_list_page p;

        assert_status(hr__list_parse(wrong_pages[i].xml, (int64_t)strlen(wrong_pages[i].xml), &p, &err), HR_BAD_DATA,
                      &err);
        assert_contains(err.text, wrong_pages[i].text);
    }
    assert_no_leak(before);
}

static hr_status parse_page(hr_error *err)
{
    hr_list_page p;

    HR_TRY(hr__list_parse(page, sizeof page - 1, &p, err));
    hr__list_clear(&p);
    return HR_OK;
}

static void no_memory_is_one_error(void **state)
{
    (void)state;
    assert_true(run_with_faults(parse_page, HR_FAULT_MEMORY) > 3);
}

#endif

static const struct {
    const char *pattern, *key;
    bool want;
} keys[] = {
    { "a/*.csv", "a/b.csv", true },
    { "a/*.csv", "a/b/c.csv", false },
    { "a/*.csv", "a/.b.csv", false },
    { "a/**/c.csv", "a/c.csv", true },
    { "a/**/c.csv", "a/b/d/c.csv", true },
    { "a/**/c.csv", "a/_b/c.csv", false },
    { "a/*", "a/b/c.parquet", true }, /* a folder that matches stands for its files */
    { "a/*", "a/b/c.txt", false },
    { "a/*", "a/b.txt", true },
    { "a/*", "a/b/_c.parquet", false },
    { "a/**", "a/b/c.parquet", true },
    { "a?c/[xy]", "abc/y", true },
    { "a?c/[xy]", "abc/z", false },
    { NULL, "b/c.parquet", true },
    { NULL, "b/c.txt", false },
    /* "a/b//c": what is below the folder begins with a slash, of which the loop over names once never got away. */
    { "a/*", "a/b//c.parquet", true },
    { "a/*", "a/b//_c.parquet", false },
    { NULL, "/c.parquet", true },
    { NULL, "_b/c.parquet", false },
    { NULL, "b//c.parquet", true },
    /* A pattern with "//" once fitted keys without it, and none with it. */
    { "a//*", "a//b.txt", true },
    { "a//*", "a/b.txt", false },
    { "a/*//c.txt", "a/b//c.txt", true },
    { "a/*//c.txt", "a/b/c.txt", false },
    { "a/b?/", "a/bc/d.parquet", true },
    { "/*", "/b.txt", true },
    /* A file that fits counts although a folder above it fits, too, for which the suffix would have to be right. */
    { "**/a*", "ab/ac.txt", true },
    { "**/a*", "ab/c.txt", false },
    { "**/a*", "ab/c.parquet", true },
    { "a/**", "a", false },
    { "a/**/**/b", "a/b", true },
    { "**/.x/**/b", "q/.x/b", true },
    { "**/.x/**/b", ".y/.x/b", false },
};

static void keys_fit_patterns_as_files_do(void **state)
{
    static const char *const suffixes[] = { ".parquet" };
    hr_paths_options options = { .suffixes = suffixes, .n_suffixes = 1 };

    (void)state;
    for (int i = 0; i < HR_LEN(keys); i++)
        if (hr__key_fits(keys[i].pattern, keys[i].key, &options) != keys[i].want)
            fail_msg("%s, %s", keys[i].pattern ? keys[i].pattern : "NULL", keys[i].key);
}

/* As the words of patterns say it, and in exponential time: each "**" tries all numbers of folders. 2: fits; 1: a
 * folder above fits. */
static int fits_slowly(const char *const *parts, int n_parts, const char *const *names, int n_names)
{
    hr_paths_options all = { .hidden = true };
    bool hides = n_names && (names[0][0] == '.' || names[0][0] == '_');
    int found = 0;

    if (n_parts == 0 && n_names == 0)
        return 2;
    if (n_parts == 0 || (n_parts == 1 && strcmp(parts[0], "**") == 0)) {
        found = n_names > 0;
        for (int i = 0; i < n_names; i++)
            found = found && names[i][0] != '.' && names[i][0] != '_';
        return found;
    }
    if (strcmp(parts[0], "**") == 0) {
        found = n_names ? fits_slowly(parts + 1, n_parts - 1, names, n_names) : 0;
        return n_names < 2 || hides ? found : HR_MAX(found, fits_slowly(parts, n_parts, names + 1, n_names - 1));
    }
    if (n_names == 0 || !hr__key_fits(parts[0], names[0], &all))
        return 0;
    return fits_slowly(parts + 1, n_parts - 1, names + 1, n_names - 1);
}

static void join_parts(const char *const *parts, int n, char *out, size_t cap)
{
    out[0] = 0;
    for (int i = 0; i < n; i++)
        snprintf(out + strlen(out), cap - strlen(out), "%s%s", i ? "/" : "", parts[i]);
}

static void several_any_are_tried_in_all_ways(void **state)
{
    static const char *const parts_of[] = { "**", "**", "a", "b", "*", "a*", ".h", ".*", "?" };
    static const char *const names_of[] = { "a", "b", "ab", ".h", "a", "b" };
    static const char *const none[] = { ".none" };
    hr_paths_options files = { .suffixes = none, .n_suffixes = 1 }, all = { 0 };
    uint64_t seed = 1;
    int n_fit = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        const char *parts[7], *names[8];
        int n_parts = 1 + (int)random_below(&seed, 7), n_names = 1 + (int)random_below(&seed, 8), want;
        char pattern[64], key[64];

        for (int k = 0; k < n_parts; k++)
            parts[k] = parts_of[random_below(&seed, HR_LEN(parts_of))];
        for (int k = 0; k < n_names; k++)
            names[k] = names_of[random_below(&seed, HR_LEN(names_of))];
        join_parts(parts, n_parts, pattern, sizeof pattern);
        join_parts(names, n_names, key, sizeof key);
        want = fits_slowly(parts, n_parts, names, n_names);
        if (hr__key_fits(pattern, key, &all) != (want > 0) || hr__key_fits(pattern, key, &files) != (want == 2))
            fail_msg("'%s' and '%s': expected %d", pattern, key, want);
        n_fit += want > 0;
    }
    assert_in_range(n_fit, 1000, 19000);
}

/* 20 times "**" and 500 folders can be divided in 10^35 ways, which once were all tried. */
static void many_any_take_no_time(void **state)
{
    hr_paths_options all = { 0 };
    hr_text pattern = { 0 }, key = { 0 };

    (void)state;
    for (int i = 0; i < 20; i++)
        hr__text_add(&pattern, "**/a/");
    hr__text_add(&pattern, "b");
    for (int i = 0; i < 500; i++)
        hr__text_add(&key, "a/");
    hr__text_add(&key, "c");
    assert_false(hr__key_fits(pattern.data, key.data, &all));
    key.data[key.n - 1] = 'b';
    assert_true(hr__key_fits(pattern.data, key.data, &all));
    hr__text_clear(&pattern);
    hr__text_clear(&key);
}

static void without_keys_it_says_where_they_come_from(void **state)
{
    static const char *const urls[] = { "s3://b1/x" };
    hr_error err = HR_ERROR_INIT;
    hr_paths paths;

    (void)state;
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/nothing", 1);
    setenv("AWS_CONFIG_FILE", "/nothing", 1);
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
    unsetenv("AWS_ACCESS_KEY_ID");
    assert_status(hr__paths_list(urls, 1, NULL, NULL, &paths, &err), HR_INVALID, &err);
    assert_contains(err.text, "s3://b1/x: no credentials in storage_options");
}

int main(void)
{
    const struct CMUnitTest cases[] = {
#ifdef HR_HAVE_S3
        cmocka_unit_test(bodies_are_signed_by_their_hash),
        cmocka_unit_test(signatures_are_those_of_aws),
        cmocka_unit_test(sessions_sign_with_their_token),
        cmocka_unit_test(a_page_is_parsed),
        cmocka_unit_test(tags_without_quotes_gain_them),
        cmocka_unit_test(a_damaged_page_is_one_error),
        cmocka_unit_test(no_memory_is_one_error),
#endif
        cmocka_unit_test(urls_lead_to_addresses),
        cmocka_unit_test(zones_name_regions),
        cmocka_unit_test(profiles_are_read),
        cmocka_unit_test(keys_fit_patterns_as_files_do),
        cmocka_unit_test(several_any_are_tried_in_all_ways),
        cmocka_unit_test(many_any_take_no_time),
        cmocka_unit_test(without_keys_it_says_where_they_come_from),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
