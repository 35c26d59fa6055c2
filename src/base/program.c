/* program.c - runs a command that a user has configured, and takes what it prints.
 *
 * The command is words between blanks; quotes keep blanks in a word, and a backslash keeps the next letter. There is no
 * shell: nothing else has a meaning.
 *
 * Tests: test_credentials.c. */
#include "base/all.h"

#include <stdlib.h>

#define MAX_WORDS 64
#define MAX_BYTES (1 << 20)

/* The next word of *at, into `out`, which has room for the whole command. False: there is none. */
static bool next_word(const char **at, char *out)
{
    const char *p = *at;
    char quote = 0;

    while (*p == ' ' || *p == '\t')
        p++;
    if (!*p)
        return false;
    for (; *p && (quote || (*p != ' ' && *p != '\t')); p++) {
        if (*p == quote)
            quote = 0;
        else if (!quote && (*p == '"' || *p == '\''))
            quote = *p;
        else if (*p == '\\' && quote != '\'' && p[1])
            *out++ = *++p;
        else
            *out++ = *p;
    }
    *out = 0;
    *at = p;
    return true;
}

hr_status hr__run_program(const char *command, int timeout_ms, hr_text *out, hr_error *err)
{
    size_t room = strlen(command) + 1;
    char *words = hr__alloc(NULL, 2 * room + 1), *argv[MAX_WORDS + 1], *to = words;
    char *printed = hr__alloc(NULL, MAX_BYTES);
    int n_words = 0, exit = 0;
    hr_status st = HR_OK;
    int64_t n;

    if (!words || !printed)
        HR_GO(hr__error_memory(err, "a program", MAX_BYTES));
    while (n_words < MAX_WORDS && next_word(&command, to)) {
        argv[n_words++] = to;
        to += strlen(to) + 1;
    }
    argv[n_words] = NULL;
    if (n_words == 0 || n_words == MAX_WORDS)
        HR_FAIL(HR_INVALID, "expected a command of 1 to %d words", MAX_WORDS - 1);
    n = hr__program_run(argv, timeout_ms, printed, MAX_BYTES, &exit);
    if (n < 0)
        HR_GO(hr__error_os(err, n, argv[0], "run"));
    if (exit)
        HR_FAIL(HR_IO, "%s: it ended with status %d", argv[0], exit);
    hr__text_add_bytes(out, printed, n);
    if (out->failed)
        HR_GO(hr__error_memory(err, "a program", n));
done:
    hr__free(words);
    hr__free(printed);
    return st;
}
