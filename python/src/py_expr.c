/* py_expr.c - Expr: the engine's expression over columns.
 *
 * headrace.data.expressions wraps it and has the operators and names that users see; this file makes, inspects and
 * pickles trees. An Expr is immutable. */
#include "pyhr.h"

#include "expr/fn.h"

typedef struct expr_object {
    PyObject ob_base;
    hr_expr *expr;
} expr_object;

/* Takes `e`, even on failure. */
static PyObject *expr_made(pyhr_state *s, hr_status st, hr_expr *e, hr_error *err)
{
    expr_object *self;

    if (st)
        return pyhr_raise(s, st, err);
    if (!(self = PyObject_New(expr_object, s->expr))) {
        hr_expr_unref(e);
        return NULL;
    }
    self->expr = e;
    return (PyObject *)self;
}

hr_expr *pyhr_expr_of(pyhr_state *s, PyObject *op)
{
    if (Py_IS_TYPE(op, s->expr))
        return ((expr_object *)op)->expr;
    PyErr_Format(PyExc_TypeError, "expected an Expr, found %R", (PyObject *)Py_TYPE(op));
    return NULL;
}

int pyhr_exprs(pyhr_state *s, PyObject *list, hr_expr ***out, int *n, PyObject **keep)
{
    PyObject *tuple = PySequence_Tuple(list);
    Py_ssize_t count = tuple ? PyTuple_Size(tuple) : 0;

    *out = NULL;
    *n = 0;
    if (!tuple)
        return -1;
    if (!(*out = count < INT32_MAX ? PyMem_Calloc((size_t)count + 1, sizeof **out) : NULL)) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!((*out)[i] = pyhr_expr_of(s, PyTuple_GetItem(tuple, i))))
            goto failed;
    *n = (int)count;
    *keep = tuple;
    return 0;
failed:
    PyMem_Free(*out);
    *out = NULL;
    Py_DECREF(tuple);
    return -1;
}

static void expr_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    hr_expr_unref(((expr_object *)op)->expr);
    PyObject_Free(op);
    Py_DECREF(type);
}

/* ----------------------------------------------------------------------------------------------------------- making */

static PyObject *expr_column(PyObject *cls, PyObject *arg)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    const char *name = pyhr_text(arg);
    hr_error err = HR_ERROR_INIT;
    hr_expr *e = NULL;
    hr_status st;

    if (!name)
        return NULL;
    st = hr_expr_column(name, &e, &err);
    return expr_made(s, st, e, &err);
}

static PyObject *expr_number(PyObject *cls, PyObject *arg)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_error err = HR_ERROR_INIT;
    hr_expr *e = NULL;
    hr_status st;

    if (PyFloat_Check(arg)) {
        st = hr_expr_double(PyFloat_AsDouble(arg), &e, &err);
    } else {
        long long v = PyLong_AsLongLong(arg);

        if (v == -1 && PyErr_Occurred())
            return NULL;
        st = hr_expr_int(v, &e, &err);
    }
    return expr_made(s, st, e, &err);
}

/* One array from values of Python, NumPy or Arrow. */
static hr_array *values_of(pyhr_state *s, PyObject *values)
{
    const hr_mem mem = { 0 };

    return pyhr_build_column(s, &mem, "literal", values);
}

static PyObject *expr_value(PyObject *cls, PyObject *arg)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_array *a = values_of(s, arg);
    hr_error err = HR_ERROR_INIT;
    hr_expr *e = NULL;
    hr_status st;

    if (!a)
        return NULL;
    st = hr__expr_value(a, false, &e, &err);
    return expr_made(s, st, e, &err);
}

/* A list column of one row, which holds the values. Takes them, even on failure. */
static hr_status one_list(hr_array *takes, hr_array **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    const int64_t offsets[2] = { 0, takes->length };
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_field item = { 0 };
    hr_type *type = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__field_init(&item, "item", takes->type, true, err));
    HR_GO(hr__type_list(HR_T_LARGE_LIST, &item, 0, &type, err));
    HR_GO(hr__buffer_copy(&mem, offsets, sizeof offsets, &buffers[1], err));
    st = hr__array_new(type, 1, 0, buffers, &takes, 1, out, err);
    takes = NULL; /* taken */
done:
    hr__array_unref(takes);
    hr__field_clear(&item);
    hr__type_unref(type);
    return st;
}

static PyObject *expr_list(PyObject *cls, PyObject *arg)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_array *values = values_of(s, arg), *list = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_expr *e = NULL;
    hr_status st;

    if (!values)
        return NULL;
    st = one_list(values, &list, &err);
    if (!st)
        st = hr__expr_value(list, false, &e, &err);
    return expr_made(s, st, e, &err);
}

static PyObject *expr_call(PyObject *cls, PyObject *args)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    PyObject *list, *settings = NULL, *keep_args = NULL, *keep_texts = NULL, *made = NULL;
    const char *name, **texts = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_expr **exprs = NULL, *e = NULL;
    int n = 0, n_texts = 0;
    hr_status st;

    if (!PyArg_ParseTuple(args, "sO|O", &name, &list, &settings))
        return NULL;
    if (pyhr_exprs(s, list, &exprs, &n, &keep_args) < 0)
        return NULL;
    if (settings && pyhr_texts(settings, "settings", &texts, &n_texts, &keep_texts) < 0)
        goto done;
    st = hr_expr_call(name, exprs, n, texts, n_texts, &e, &err);
    made = expr_made(s, st, e, &err);
done:
    PyMem_Free(exprs);
    PyMem_Free(texts);
    Py_XDECREF(keep_args);
    Py_XDECREF(keep_texts);
    return made;
}

/* ------------------------------------------------------------------------------------------------------- inspection */

static PyObject *expr_text(PyObject *op)
{
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    PyObject *made;
    hr_status st = hr_expr_print(((expr_object *)op)->expr, &text, &err);

    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    hr_string_free(text);
    return made;
}

static PyObject *expr_columns(PyObject *op, void *unused)
{
    hr_error err = HR_ERROR_INIT;
    const char **names = NULL;
    int n = 0;
    hr_status st = hr__expr_columns(((expr_object *)op)->expr, &names, &n, &err);
    PyObject *list;

    (void)unused;
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    list = PyList_New(n);
    for (int i = 0; list && i < n; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);

        if (!name || PyList_SetItem(list, i, name) < 0)
            Py_CLEAR(list);
    }
    hr__free(names);
    return list;
}

static PyObject *expr_name(PyObject *op, void *unused)
{
    const hr_expr *e = ((expr_object *)op)->expr;

    (void)unused;
    return e->kind == HR_EXPR_COLUMN ? PyUnicode_FromString(e->name) : Py_NewRef(Py_None);
}

/* The value of a literal: the given one or an equal one. */
static PyObject *expr_literal(PyObject *op, void *unused)
{
    const hr_expr *e = ((expr_object *)op)->expr;
    PyObject *list, *made;

    (void)unused;
    if (e->kind != HR_EXPR_LITERAL)
        Py_RETURN_NONE;
    if (!(list = pyhr_array_list(pyhr_state_of(op), e->value)))
        return NULL;
    made = Py_XNewRef(PyList_GetItem(list, 0));
    Py_DECREF(list);
    return made;
}

static PyObject *expr_same(PyObject *op, PyObject *other)
{
    hr_expr *b = pyhr_expr_of(pyhr_state_of(op), other);

    return b ? PyBool_FromLong(hr__expr_equal(((expr_object *)op)->expr, b)) : NULL;
}

static PyObject *expr_fingerprint(PyObject *op, PyObject *none)
{
    hr_hash h;
    hr_bits128 b;
    char text[33];

    (void)none;
    hr__hash_init(&h, 1);
    hr__expr_fingerprint(((expr_object *)op)->expr, &h);
    b = hr__hash_end(&h);
    PyOS_snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)b.hi, (unsigned long long)b.lo);
    return PyUnicode_FromString(text);
}

/* The type of the expression over a table's columns, as text; an error if it cannot be computed. */
static PyObject *expr_type(PyObject *op, PyObject *arg)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_table *t = pyhr_table_of(s, arg);
    hr_error err = HR_ERROR_INIT;
    hr_bound *b = NULL;
    PyObject *made;
    hr_status st;

    if (!t)
        return NULL;
    st = hr__expr_bind(((expr_object *)op)->expr, t->schema, &b, &err);
    made = st ? pyhr_raise(s, st, &err) : pyhr_type_object(hr__bound_type(b));
    hr__bound_free(b);
    return made;
}

/* The expression's values for a table's rows, as a Column. */
static PyObject *expr_eval(PyObject *op, PyObject *arg)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_table *t = pyhr_table_of(s, arg);
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem };
    hr_error err = HR_ERROR_INIT;
    hr_bound *b = NULL;
    hr_array *a = NULL;
    hr_status st;

    if (!t)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__expr_bind(((expr_object *)op)->expr, t->schema, &b, &err);
    if (!st)
        st = hr__bound_eval(b, &how, t, &a, &err);
    hr__bound_free(b);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(s, st, &err) : pyhr_column(s, a, NULL, false);
}

/* --------------------------------------------------------------------------------------------------------- pickling */

/* A literal as a Table of one row, which pickles. */
static PyObject *literal_table(pyhr_state *s, const hr_expr *e)
{
    hr_error err = HR_ERROR_INIT;
    hr_array *columns[1] = { NULL };
    hr_schema *schema = NULL;
    hr_field f = { 0 };
    hr_table *t = NULL;
    hr_status st;

    st = hr__field_init(&f, "value", e->value->type, true, &err);
    if (!st)
        st = hr__schema_new(&f, 1, &schema, &err);
    if (!st) {
        columns[0] = hr__array_ref(e->value);
        st = hr__table_new(schema, columns, 1, NULL, &t, &err);
    }
    hr__field_clear(&f);
    hr__schema_unref(schema);
    return st ? pyhr_raise(s, st, &err) : pyhr_table(s, t);
}

static PyObject *expr_of_table(PyObject *cls, PyObject *args)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_error err = HR_ERROR_INIT;
    hr_expr *e = NULL;
    PyObject *table;
    hr_table *t;
    int weak;
    hr_status st;

    if (!PyArg_ParseTuple(args, "Op", &table, &weak) || !(t = pyhr_table_of(s, table)))
        return NULL;
    if (t->schema->n != 1)
        return pyhr_raise_text(s, HR_INVALID, "expected a literal of one column, found %d", t->schema->n);
    st = hr__expr_value(hr__array_ref(t->columns[0]), weak, &e, &err);
    return expr_made(s, st, e, &err);
}

static PyObject *args_tuple(pyhr_state *s, const hr_expr *e)
{
    PyObject *tuple = PyTuple_New(e->n_args);
    hr_error err = HR_ERROR_INIT;

    for (int i = 0; tuple && i < e->n_args; i++) {
        PyObject *arg = expr_made(s, HR_OK, hr_expr_ref(e->args[i]), &err);

        if (!arg || PyTuple_SetItem(tuple, i, arg) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *settings_tuple(const hr_expr *e)
{
    PyObject *tuple = PyTuple_New(e->n_settings);

    for (int i = 0; tuple && i < e->n_settings; i++) {
        PyObject *text = PyUnicode_FromString(e->settings[i]);

        if (!text || PyTuple_SetItem(tuple, i, text) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *expr_reduce(PyObject *op, PyObject *none)
{
    pyhr_state *s = pyhr_state_of(op);
    const hr_expr *e = ((expr_object *)op)->expr;
    PyObject *cls = (PyObject *)s->expr;

    (void)none;
    if (e->kind == HR_EXPR_COLUMN)
        return Py_BuildValue("N(s)", PyObject_GetAttrString(cls, "column"), e->name);
    if (e->kind == HR_EXPR_LITERAL) {
        PyObject *table = literal_table(s, e);

        return table ? Py_BuildValue("N(NO)", PyObject_GetAttrString(cls, "of_table"), table,
                                     e->weak ? Py_True : Py_False)
                     : NULL;
    } else {
        PyObject *args = args_tuple(s, e), *settings = args ? settings_tuple(e) : NULL;

        if (!settings) {
            Py_XDECREF(args);
            return NULL;
        }
        return Py_BuildValue("N(sNN)", PyObject_GetAttrString(cls, "call"), e->function->name, args, settings);
    }
}

/* ------------------------------------------------------------------------------------------------ list of functions */

static PyObject *options_text(const hr_option *table)
{
    hr_text t = { 0 };
    PyObject *made;

    hr__options_print(table, &t);
    made = t.failed ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(t.data ? t.data : "", (Py_ssize_t)t.n);
    hr__text_clear(&t);
    return made;
}

static PyObject *expr_functions(PyObject *cls, PyObject *none)
{
    PyObject *list = PyList_New(0);

    (void)cls, (void)none;
    for (int i = 0; list && hr__expr_tables[i]; i++)
        for (const hr_expr_function *f = hr__expr_tables[i]; list && f->name; f++) {
            PyObject *options = options_text(f->options), *entry = NULL;

            if (options)
                entry = Py_BuildValue("(szsiiN)", f->name, f->symbol, f->doc, f->min_args, f->max_args, options);
            if (!entry || PyList_Append(list, entry) < 0)
                Py_CLEAR(list);
            Py_XDECREF(entry);
        }
    return list;
}

static PyMethodDef expr_methods[] = {
    { "column", expr_column, METH_O | METH_CLASS, "column(name)" },
    { "number", expr_number, METH_O | METH_CLASS,
      "number(int or float): a constant with the type of the other operand." },
    { "value", expr_value, METH_O | METH_CLASS, "value([v]): a constant with the type of a column [v]." },
    { "list", expr_list, METH_O | METH_CLASS, "list(values): a constant list." },
    { "call", expr_call, METH_VARARGS | METH_CLASS, "call(function, args, settings=()): settings are 'name=value'." },
    { "of_table", expr_of_table, METH_VARARGS | METH_CLASS, "of_table(table, weak): a pickled literal." },
    { "functions", expr_functions, METH_NOARGS | METH_CLASS,
      "functions(): list of (name, symbol or None, doc, least and most arguments (-1: no limit), options as text)." },
    { "same", expr_same, METH_O, "same(other): whether both are the same tree." },
    { "fingerprint", expr_fingerprint, METH_NOARGS, "32 hex digits." },
    { "type_over", expr_type, METH_O, "type_over(table): the type of the expression over the table's columns." },
    { "eval", expr_eval, METH_O, "eval(table): a Column." },
    { "__reduce__", expr_reduce, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef expr_getset[] = {
    { "columns", expr_columns, NULL, "Names of the columns that the expression reads.", NULL },
    { "name", expr_name, NULL, "The name of a column; otherwise None.", NULL },
    { "literal", expr_literal, NULL, "The value of a constant; otherwise None.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot expr_slots[] = {
    { Py_tp_doc, "An expression over columns." },
    { Py_tp_dealloc, expr_dealloc },
    { Py_tp_str, expr_text },
    { Py_tp_repr, expr_text },
    { Py_tp_methods, expr_methods },
    { Py_tp_getset, expr_getset },
    { 0, NULL },
};

static PyType_Spec expr_spec = {
    .name = "headrace._core.Expr",
    .basicsize = sizeof(expr_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = expr_slots,
};

int pyhr_expr_types(PyObject *module, pyhr_state *s) { return pyhr_add_type(module, &expr_spec, &s->expr); }
