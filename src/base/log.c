/* log.c - what the library has to say beside the results of calls: one function of the caller gets the lines.
 *
 * Only events that no status can report come here: a fallback, a warning about a position, a thread that did not start.
 * The lock is held while the caller's function runs, so that hr_set_log() returns when no older function runs any more.
 * It is a leaf: a function of the log must not call the library, since the engine may log with locks held.
 *
 * Tests: test_public_api.c. */
#include "base/all.h"

#include <stdarg.h>
#include <stdio.h>

static struct {
    hr_mutex lock;
    void (*fn)(void *context, hr_log_level level, const char *text);
    void *context;
} logger = { .lock = HR_MUTEX_INIT };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void init(void) { hr__mutex_survives_fork(&logger.lock); }

void hr_set_log(void (*fn)(void *context, hr_log_level level, const char *text), void *context)
{
    pthread_once(&once, init);
    hr__lock(&logger.lock);
    logger.fn = fn;
    logger.context = context;
    hr__unlock(&logger.lock);
}

void hr__log(hr_log_level level, const char *fmt, ...)
{
    char text[1000];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    pthread_once(&once, init);
    hr__lock(&logger.lock);
    if (logger.fn)
        logger.fn(logger.context, level, text);
    hr__unlock(&logger.lock);
}
