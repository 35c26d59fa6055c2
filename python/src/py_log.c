/* py_log.c - what the engine says becomes lines of Python's logger headrace.data (docs/logging.md).
 *
 * Any thread of the engine has something to say, perhaps with a lock held, and must not wait for the GIL: it puts its
 * line into a list, and asks Python to empty the list on the program's first thread. That thread may itself wait for
 * the engine, or in a join(): whoever waits for the engine empties the list, too. One list serves all interpreters. */
#include "pyhr.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct line {
    struct line *next; /* the one before */
    bool warns;
    char text[];
} line;

static _Atomic(line *) newest;

static line *oldest_first(line *l)
{
    line *turned = NULL;

    while (l) {
        line *next = l->next;

        l->next = turned;
        turned = l;
        l = next;
    }
    return turned;
}

/* Python calls it on its first thread, at any place of the program: no exception may leave it. */
static int tell(void *none)
{
    PyObject *events;

    (void)none;
    if (!atomic_load(&newest))
        return 0;
    events = PyImport_ImportModule("headrace.events");
    for (line *l = oldest_first(atomic_exchange(&newest, NULL)); l;) {
        line *next = l->next;
        PyObject *text = events ? PyUnicode_DecodeUTF8(l->text, (Py_ssize_t)strlen(l->text), "replace") : NULL;
        PyObject *made = text ? PyObject_CallMethod(events, l->warns ? "warn" : "note", "O", text) : NULL;

        if (events && !made)
            PyErr_WriteUnraisable(events);
        Py_XDECREF(text);
        Py_XDECREF(made);
        free(l);
        l = next;
    }
    if (!events)
        PyErr_Clear(); /* the interpreter ends */
    Py_XDECREF(events);
    return 0;
}

static void keep(void *context, hr_log_level level, const char *text)
{
    size_t n = strlen(text) + 1;
    line *l = malloc(sizeof *l + n);

    (void)context;
    if (!l)
        return;
    l->warns = level >= HR_LOG_WARNING;
    memcpy(l->text, text, n);
    l->next = atomic_load(&newest);
    while (!atomic_compare_exchange_weak(&newest, &l->next, l))
        ;
    (void)Py_AddPendingCall(tell, NULL); /* it has no room: the next line takes this one along */
}

int pyhr_between_waits(void)
{
    if (PyErr_CheckSignals() < 0)
        return -1;
    return tell(NULL);
}

static void end(void) { hr_set_log(NULL, NULL); }

int pyhr_log_begin(void)
{
    static atomic_bool begun;

    if (atomic_exchange(&begun, true))
        return 0;
    hr_set_log(keep, NULL);
    if (Py_AtExit(end) == 0)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "headrace: no room for a function at the end of Python");
    return -1;
}
