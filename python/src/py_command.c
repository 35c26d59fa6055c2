/* py_command.c - the command headrace in a Python process: headrace/__main__.py. */
#include "pyhr.h"

#include <signal.h>

int cli_main(int argc, char **argv); /* src/cli/cli.h */

/* A NULL-terminated array of texts that `words`, a list of bytes, holds. PyMem_Free() it. */
static char **arguments(PyObject *words)
{
    Py_ssize_t n = PyList_Size(words);
    char **argv = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof *argv);

    if (!argv)
        return n < 0 ? NULL : (char **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(argv[i] = PyBytes_AsString(PyList_GetItem(words, i)))) {
            PyMem_Free(argv);
            return NULL;
        }
    return argv;
}

PyObject *pyhr_command(PyObject *module, PyObject *words)
{
    char **argv = arguments(words);
    int status;

    (void)module;
    if (!argv)
        return NULL;
    signal(SIGINT, SIG_DFL); /* Ctrl-C ends the command: no Python code runs that could raise */
    Py_BEGIN_ALLOW_THREADS
    status = cli_main((int)PyList_Size(words), argv);
    Py_END_ALLOW_THREADS
    PyMem_Free(argv);
    return PyLong_FromLong(status);
}
