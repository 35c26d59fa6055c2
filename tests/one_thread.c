/* one_thread.c - the end of a test that starts a thread and says in meson.build that it does not. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* The linker puts it in the place of pthread_create. */
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*fn)(void *), void *context);

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *how, void *(*fn)(void *), void *context)
{
    (void)out;
    (void)how;
    (void)fn;
    (void)context;
    (void)fprintf(stderr, "this test starts a thread: take it from the list one_thread in tests/meson.build\n");
    abort();
}
