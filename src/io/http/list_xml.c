/* list_xml.c - one page of a list of keys, as S3 (ListObjectsV2), Google and Azure answer, by expat.
 *
 * The first element says whose words the page has. Elements that we do not know are passed over. Keys are
 * percent-encoded if the page says so (EncodingType), which may stand before or after them: they are decoded when the
 * page has ended. Azure says it for each name (Encoded="true").
 *
 * Tests: test_s3.c, test_gs_az.c. */
#include "io/http/http.h"

#include <stdlib.h>

bool hr__list_decode(char *key)
{
    for (char *c = key; *c; c++)
        if (*c == '+')
            *c = ' ';
    return hr__percent_decode(key) == (int64_t)strlen(key);
}

#ifdef HR_HAVE_S3

#include <expat.h>

#define MAX_TEXT 8192 /* of an element: keys have 1024 bytes, thrice as many when they are encoded */
#define MAX_LEVELS 16

typedef struct list_words {
    const char *root, *object, *key, *tag, *size, *next, *folder, *folder_key;
} list_words;

static const list_words of_s3 = {
    "ListBucketResult", "Contents", "Key", "ETag", "Size", "NextContinuationToken", "CommonPrefixes", "Prefix",
};
static const list_words of_azure = {
    "EnumerationResults", "Blob", "Name", "Etag", "Content-Length", "NextMarker", "BlobPrefix", "Name",
};

typedef struct list_parser {
    hr_list_page *page;
    const list_words *words;
    hr_text text; /* of the element that ends next */
    int level;
    bool in_contents, in_folder;
    hr_list_key key;
    bool is_url;     /* keys are encoded */
    bool is_encoded; /* this key is */
    const char *wrong;
    XML_Parser xml;
} list_parser;

static void stop(list_parser *p, const char *wrong)
{
    if (!p->wrong)
        p->wrong = wrong;
    XML_StopParser(p->xml, XML_FALSE);
}

static void key_clear(hr_list_key *k)
{
    hr__free(k->key);
    hr__free(k->tag);
    *k = (hr_list_key){ .n_bytes = -1 };
}

static void XMLCALL on_start(void *context, const XML_Char *name, const XML_Char **attributes)
{
    list_parser *p = context;

    p->text.n = 0;
    if (p->text.data)
        p->text.data[0] = 0;
    if (++p->level > MAX_LEVELS)
        stop(p, "elements nest too deeply");
    if (p->level == 1) {
        p->words = strcmp(name, of_azure.root) == 0 ? &of_azure : &of_s3;
        p->page->is_list = strcmp(name, p->words->root) == 0;
    }
    if (strcmp(name, p->words->object) == 0)
        p->in_contents = true;
    if (strcmp(name, p->words->folder) == 0)
        p->in_folder = true;
    p->is_encoded = attributes[0] && strcmp(attributes[0], "Encoded") == 0 && strcmp(attributes[1], "true") == 0;
}

static void XMLCALL on_text(void *context, const XML_Char *s, int n)
{
    list_parser *p = context;

    if (p->text.n + n > MAX_TEXT)
        stop(p, "a text is too long");
    else
        hr__text_add_bytes(&p->text, s, n);
}

/* A copy of the element's text. */
static char *taken(list_parser *p)
{
    char *copy = p->text.failed ? NULL : hr__strdup(NULL, p->text.data ? p->text.data : "");

    if (!copy)
        stop(p, "no memory");
    return copy;
}

static void end_contents(list_parser *p)
{
    hr_list_page *page = p->page;

    p->in_contents = false;
    if (!p->key.key || p->key.n_bytes < 0)
        stop(p, "an object has no key, or no size");
    else if (!hr__grow(NULL, (void **)&page->items, &page->cap, page->n + 1, sizeof *page->items))
        stop(p, "no memory");
    else {
        page->items[page->n++] = p->key;
        p->key = (hr_list_key){ .n_bytes = -1 };
        return;
    }
    key_clear(&p->key);
}

static int64_t size_of(list_parser *p)
{
    char *end;
    long long n = strtoll(p->text.data ? p->text.data : "", &end, 10);

    if (!p->text.n || *end || n < 0)
        stop(p, "a size is no number");
    return n;
}

static bool has_quotes(const char *tag) { return tag[0] == '"' || strncmp(tag, "W/", 2) == 0; }

/* The text as an ETag: lists of Azure, rclone and fake-gcs-server have no quotes, which their answers have. */
static char *tag_of(list_parser *p)
{
    char *text = taken(p), *quoted;

    if (!text || !text[0] || has_quotes(text))
        return text;
    if (!(quoted = hr__printf(NULL, "\"%s\"", text)))
        stop(p, "no memory");
    hr__free(text);
    p->key.gained_quotes = p->words != &of_azure;
    return quoted;
}

static void add_folder(list_parser *p)
{
    hr_list_page *page = p->page;
    char *key = taken(p);

    if (key && p->is_encoded && hr__percent_decode(key) != (int64_t)strlen(key))
        stop(p, "a key has a zero byte");
    if (key &&
        hr__grow(NULL, (void **)&page->folders, &page->cap_folders, page->n_folders + 1, sizeof *page->folders)) {
        page->folders[page->n_folders++] = key;
        return;
    }
    hr__free(key);
    stop(p, "no memory");
}

static void in_object(list_parser *p, const char *name)
{
    const char *text = p->text.data ? p->text.data : "";

    if (strcmp(name, p->words->key) == 0) {
        hr__free(p->key.key);
        p->key.key = taken(p);
        if (p->is_encoded && p->key.key && hr__percent_decode(p->key.key) != (int64_t)strlen(p->key.key))
            stop(p, "a key has a zero byte");
    } else if (strcmp(name, p->words->tag) == 0) {
        hr__free(p->key.tag);
        p->key.tag = tag_of(p);
    } else if (strcmp(name, p->words->size) == 0) {
        p->key.n_bytes = size_of(p);
    } else if (strcmp(name, "ResourceType") == 0) {
        p->key.is_folder = strcmp(text, "directory") == 0;
    }
}

static void XMLCALL on_end(void *context, const XML_Char *name)
{
    list_parser *p = context;
    const char *text = p->text.data ? p->text.data : "";

    p->level--;
    if (strcmp(name, p->words->object) == 0) {
        end_contents(p);
    } else if (p->in_contents) {
        in_object(p, name);
    } else if (strcmp(name, p->words->folder) == 0) {
        p->in_folder = false;
    } else if (p->in_folder && strcmp(name, p->words->folder_key) == 0) {
        add_folder(p);
    } else if (strcmp(name, "IsTruncated") == 0) {
        p->page->truncated = strcmp(text, "true") == 0;
    } else if (strcmp(name, "EncodingType") == 0) {
        p->is_url = strcmp(text, "url") == 0;
    } else if (strcmp(name, p->words->next) == 0 && text[0]) {
        hr__free(p->page->next);
        p->page->next = taken(p);
        p->page->truncated = p->page->truncated || p->words == &of_azure;
    }
    p->text.n = 0;
    if (p->text.data)
        p->text.data[0] = 0;
}

hr_status hr__list_parse(const char *xml, int64_t n, hr_list_page *out, hr_error *err)
{
    list_parser p = { .page = out, .key.n_bytes = -1 };
    hr_status st = HR_OK;

    *out = (hr_list_page){ 0 };
    if (!(p.xml = XML_ParserCreate("UTF-8")))
        return hr__error_memory(err, "list of objects", n);
    XML_SetUserData(p.xml, &p);
    XML_SetElementHandler(p.xml, on_start, on_end);
    XML_SetCharacterDataHandler(p.xml, on_text);
    if (n > INT32_MAX || XML_Parse(p.xml, xml, (int)n, 1) != XML_STATUS_OK || p.wrong)
        HR_FAIL(p.text.failed || (p.wrong && strcmp(p.wrong, "no memory") == 0) ? HR_NO_MEMORY : HR_BAD_DATA,
                "list of objects: %s", p.wrong ? p.wrong : XML_ErrorString(XML_GetErrorCode(p.xml)));
    if (!out->is_list)
        HR_FAIL(HR_BAD_DATA, "list of objects: expected a %s", of_s3.root);
    for (int64_t i = 0; i < out->n && p.is_url; i++)
        if (!hr__list_decode(out->items[i].key))
            HR_FAIL(HR_BAD_DATA, "list of objects: a key has a zero byte");
    for (int64_t i = 0; i < out->n_folders && p.is_url; i++)
        if (!hr__list_decode(out->folders[i]))
            HR_FAIL(HR_BAD_DATA, "list of objects: a key has a zero byte");
done:
    key_clear(&p.key);
    hr__text_clear(&p.text);
    XML_ParserFree(p.xml);
    if (st)
        hr__list_clear(out);
    return st;
}

void hr__list_clear(hr_list_page *page)
{
    for (int64_t i = 0; i < page->n; i++)
        key_clear(&page->items[i]);
    for (int64_t i = 0; i < page->n_folders; i++)
        hr__free(page->folders[i]);
    hr__free(page->folders);
    hr__free(page->items);
    hr__free(page->next);
    *page = (hr_list_page){ 0 };
}

#else

hr_status hr__list_parse(const char *xml, int64_t n, hr_list_page *out, hr_error *err)
{
    (void)xml;
    (void)n;
    *out = (hr_list_page){ 0 };
    return hr_error_set(err, HR_UNSUPPORTED, "this build has no expat, so it lists no stores");
}

void hr__list_clear(hr_list_page *page) { *page = (hr_list_page){ 0 }; }

#endif
