/* py_table.c - Table and Schema: rows and their types for Python and other libraries.
 *
 * Other libraries read a Table by protocol: __arrow_c_schema__, __arrow_c_array__ and __arrow_c_stream__ share its
 * buffers, and its columns have the buffer protocol (py_column.c). */
#include "pyhr.h"

/* ----------------------------------------------------------------------------------------------------------- Schema */

typedef struct schema_object {
    PyObject ob_base;
    hr_schema *schema;
} schema_object;

PyObject *pyhr_schema(pyhr_state *s, hr_schema *takes)
{
    schema_object *self = PyObject_New(schema_object, s->schema);

    if (!self) {
        hr__schema_unref(takes);
        return NULL;
    }
    self->schema = takes;
    return (PyObject *)self;
}

static void schema_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    hr__schema_unref(((schema_object *)op)->schema);
    PyObject_Free(op);
    Py_DECREF(type);
}

static PyObject *name_object(const char *name)
{
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "surrogateescape");
}

static PyObject *schema_names_list(const hr_schema *schema)
{
    PyObject *list = PyList_New(schema->n);

    for (int i = 0; list && i < schema->n; i++) {
        PyObject *name = name_object(schema->fields[i].name);

        if (!name || PyList_SetItem(list, i, name) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *pyhr_type_object(const hr_type *t)
{
    hr_text text = { 0 };
    PyObject *made;

    hr__type_print(t, &text);
    made =
        text.failed || !text.data ? PyErr_NoMemory() : PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.n, "replace");
    hr__text_clear(&text);
    return made;
}

static PyObject *schema_names(PyObject *op, void *none)
{
    (void)none;
    return schema_names_list(((schema_object *)op)->schema);
}

static PyObject *schema_types(PyObject *op, void *none)
{
    const hr_schema *schema = ((schema_object *)op)->schema;
    PyObject *list = PyList_New(schema->n);

    (void)none;
    for (int i = 0; list && i < schema->n; i++) {
        PyObject *type = pyhr_type_object(schema->fields[i].type);

        if (!type || PyList_SetItem(list, i, type) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *schema_export(PyObject *op, PyObject *none)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema out;
    hr_status st = hr__schema_export(((schema_object *)op)->schema, &out, &err);

    (void)none;
    return st ? pyhr_raise(s, st, &err) : pyhr_schema_capsule(&out);
}

static PyObject *schema_compare(PyObject *a, PyObject *b, int how)
{
    bool equal;

    if (Py_TYPE(a) != Py_TYPE(b) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    equal = hr__schema_equal(((schema_object *)a)->schema, ((schema_object *)b)->schema);
    return PyBool_FromLong(equal == (how == Py_EQ));
}

static Py_ssize_t schema_length(PyObject *op) { return ((schema_object *)op)->schema->n; }

static PyObject *schema_str(PyObject *op)
{
    hr_text text = { 0 };
    PyObject *made;

    hr__schema_print(((schema_object *)op)->schema, &text);
    made = text.failed ? PyErr_NoMemory()
                       : PyUnicode_DecodeUTF8(text.data ? text.data : "", (Py_ssize_t)text.n, "replace");
    hr__text_clear(&text);
    return made;
}

/* Schema.from_arrow(source): from a capsule or an object with __arrow_c_schema__; unpickling calls it, too. */
static PyObject *schema_from_arrow(PyObject *cls, PyObject *from)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema in;
    hr_schema *schema = NULL;
    hr_status st;
    PyObject *capsule;

    if (!PyCapsule_CheckExact(from) && pyhr_check_arrow_names(s, from) < 0)
        return NULL;
    capsule = PyCapsule_CheckExact(from) ? Py_NewRef(from) : PyObject_CallMethod(from, "__arrow_c_schema__", NULL);
    if (!capsule)
        return NULL;
    if (pyhr_take_schema(capsule, &in) < 0) {
        Py_DECREF(capsule);
        return NULL;
    }
    st = hr__schema_import(&in, &schema, &err);
    Py_DECREF(capsule);
    return st ? pyhr_raise(s, st, &err) : pyhr_schema(s, schema);
}

/* Schema.metadata(key): the text under that key of each column's metadata, None where there is none. */
static PyObject *schema_metadata(PyObject *op, PyObject *key)
{
    const hr_schema *schema = ((schema_object *)op)->schema;
    PyObject *bytes = PyUnicode_AsUTF8String(key), *made;

    if (!bytes)
        return NULL;
    made = PyList_New(schema->n);
    for (int i = 0; made && i < schema->n; i++) {
        const hr_field *f = &schema->fields[i];
        int64_t n = 0;
        const char *text = hr__metadata_get(f->metadata, f->metadata_bytes, PyBytes_AsString(bytes), &n);
        PyObject *value = text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, "replace") : Py_NewRef(Py_None);

        if (!value || PyList_SetItem(made, i, value) < 0)
            Py_CLEAR(made);
    }
    Py_DECREF(bytes);
    return made;
}

static PyMethodDef schema_methods[] = {
    { "metadata", schema_metadata, METH_O,
      "metadata(key): the text under that key of each column's metadata; None where there is none." },
    { "__arrow_c_schema__", schema_export, METH_NOARGS, "Arrow's PyCapsule of the schema." },
    { "__reduce__", pyhr_schema_reduce, METH_NOARGS, NULL },
    { "_unpickle", pyhr_schema_unpickle, METH_O | METH_CLASS, "Unpickles; pickles call it." },
    { "from_arrow", schema_from_arrow, METH_O | METH_CLASS,
      "from_arrow(source): from a capsule or an object with __arrow_c_schema__." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef schema_getset[] = {
    { "names", schema_names, NULL, "Column names, a list of str.", NULL },
    { "types", schema_types, NULL, "Column types in Arrow's notation, a list of str.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot schema_slots[] = {
    { Py_tp_doc, "Names and types of a table's columns. Immutable." },
    { Py_tp_dealloc, schema_dealloc },
    { Py_tp_methods, schema_methods },
    { Py_tp_getset, schema_getset },
    { Py_tp_richcompare, schema_compare },
    { Py_tp_hash, PyObject_HashNotImplemented },
    { Py_tp_str, schema_str },
    { Py_sq_length, schema_length },
    { 0, NULL },
};

static PyType_Spec schema_spec = {
    .name = "headrace._core.Schema",
    .basicsize = sizeof(schema_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = schema_slots,
};

/* ------------------------------------------------------------------------------------------------------------ Table */

typedef struct table_object {
    PyObject ob_base;
    hr_table *table;
} table_object;

PyObject *pyhr_table(pyhr_state *s, hr_table *takes)
{
    table_object *self;

    if (!takes)
        Py_RETURN_NONE;
    self = PyObject_New(table_object, s->table);
    if (!self) {
        hr_table_unref(takes);
        return NULL;
    }
    self->table = takes;
    return (PyObject *)self;
}

hr_table *pyhr_table_of(pyhr_state *s, PyObject *op)
{
    if (Py_IS_TYPE(op, s->table))
        return ((table_object *)op)->table;
    PyErr_Format(PyExc_TypeError, "expected a Table, found %R", (PyObject *)Py_TYPE(op));
    return NULL;
}

static void table_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    hr_table_unref(((table_object *)op)->table);
    PyObject_Free(op);
    Py_DECREF(type);
}

static PyObject *table_num_rows(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(((table_object *)op)->table->n_rows);
}

static PyObject *table_names(PyObject *op, void *none)
{
    (void)none;
    return schema_names_list(((table_object *)op)->table->schema);
}

static PyObject *table_schema(PyObject *op, void *none)
{
    (void)none;
    return pyhr_schema(pyhr_state_of(op), hr__schema_ref(((table_object *)op)->table->schema));
}

static PyObject *table_sole(PyObject *op, void *none)
{
    (void)none;
    return PyBool_FromLong(((table_object *)op)->table->sole);
}

static PyObject *table_nbytes(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__table_bytes_used(((table_object *)op)->table));
}

/* [(instance, file, fragment, row, ordinal, n, by_ordinal)], or None. */
static PyObject *table_origin(PyObject *op, void *none)
{
    const hr_table *t = ((table_object *)op)->table;
    PyObject *list;
    hr_run_coords r;

    (void)none;
    if (!t->origin)
        Py_RETURN_NONE;
    list = PyList_New(0);
    for (int64_t row = 0; list && row < t->n_rows; row += r.n) {
        const hr_coord *c = &r.first;
        PyObject *run;

        r = hr__origin_run(t->origin, row);
        run = Py_BuildValue("iiiLLLO", (int)c->instance, (int)c->file, (int)c->fragment, (long long)c->row,
                            (long long)c->ordinal, (long long)r.n, r.by_ordinal ? Py_True : Py_False);
        if (!run || PyList_Append(list, run) < 0)
            Py_CLEAR(list);
        Py_XDECREF(run);
    }
    return list;
}

static int column_index(const hr_table *t, PyObject *key)
{
    long i;

    if (PyUnicode_Check(key)) {
        const char *name = pyhr_text(key);

        i = name ? hr_table_column_index(t, name) : -1;
        if (i < 0 && !PyErr_Occurred())
            PyErr_SetObject(PyExc_KeyError, key);
        return (int)i;
    }
    i = PyLong_AsLong(key);
    if (i == -1 && PyErr_Occurred())
        return -1;
    if (i < 0 || i >= t->schema->n) {
        PyErr_Format(PyExc_IndexError, "expected a column index below %d, found %ld", t->schema->n, i);
        return -1;
    }
    return (int)i;
}

static PyObject *make_column(PyObject *op, int i, bool writable)
{
    const hr_table *t = ((table_object *)op)->table;
    PyObject *name = name_object(t->schema->fields[i].name);
    PyObject *made =
        name ? pyhr_column(pyhr_state_of(op), hr__array_ref(t->columns[i]), name, writable && t->sole) : NULL;

    Py_XDECREF(name);
    return made;
}

static PyObject *table_column(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "key", "writable", NULL };
    PyObject *key;
    int writable = 1, i;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", names, &key, &writable))
        return NULL;
    i = column_index(((table_object *)op)->table, key);
    return i < 0 ? NULL : make_column(op, i, writable);
}

/* *flat: whether numpy can use the column's buffer; with `fill`, replaces numbers with nulls by a filled copy. */
static int flat_column(pyhr_state *s, PyObject **col, bool fill, bool *flat, bool *may_write)
{
    PyObject *filled;

    if (pyhr_column_flat(s, *col, flat, may_write) < 0)
        return -1;
    if (!fill || *flat || !pyhr_column_is_number(*col))
        return 0;
    if (!(filled = pyhr_column_filled(s, *col)))
        return -1;
    Py_DECREF(*col);
    *col = filled;
    return pyhr_column_flat(s, filled, flat, may_write);
}

/* A batch as arrays, in one call: {name: dense(column)} for dense columns without times, other(column) for the rest.
 * `fill`: makes numbers with nulls dense first. */
static PyObject *table_batch(PyObject *op, PyObject *args)
{
    const hr_table *t = ((table_object *)op)->table;
    pyhr_state *s = pyhr_state_of(op);
    PyObject *dense, *other, *dict;
    int writable, fill = 0;

    if (!PyArg_ParseTuple(args, "OOp|p", &dense, &other, &writable, &fill))
        return NULL;
    dict = PyDict_New();
    for (int i = 0; dict && i < t->schema->n; i++) {
        PyObject *col = make_column(op, i, writable), *name = name_object(t->schema->fields[i].name), *v = NULL;
        bool flat = false, may_write = false;

        if (col && name && flat_column(s, &col, fill, &flat, &may_write) == 0)
            v = PyObject_CallFunctionObjArgs(flat && may_write >= writable ? dense : other, col, NULL);
        if (!v || PyDict_SetItem(dict, name, v) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(name);
        Py_XDECREF(v);
        Py_XDECREF(col);
    }
    return dict;
}

static PyObject *table_slice(PyObject *op, PyObject *args)
{
    long long begin, n;
    hr_error err = HR_ERROR_INIT;
    hr_table *out = NULL;
    hr_status st;

    if (!PyArg_ParseTuple(args, "LL", &begin, &n))
        return NULL;
    st = hr_table_slice(((table_object *)op)->table, begin, n, &out, &err);
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : pyhr_table(pyhr_state_of(op), out);
}

/* Rows as dicts of Python objects. */
static PyObject *table_to_pylist(PyObject *op, PyObject *none)
{
    const hr_table *t = ((table_object *)op)->table;
    pyhr_state *s = pyhr_state_of(op);
    PyObject *list = PyList_New((Py_ssize_t)t->n_rows);

    (void)none;
    for (int64_t i = 0; list && i < t->n_rows; i++) {
        PyObject *row = PyDict_New();

        if (!row || PyList_SetItem(list, (Py_ssize_t)i, row) < 0)
            Py_CLEAR(list);
    }
    for (int c = 0; list && c < t->schema->n; c++) {
        PyObject *name = name_object(t->schema->fields[c].name);

        if (!name || pyhr_array_rows(s, t->columns[c], name, list) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *table_arrow_schema(PyObject *op, PyObject *none)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema schema;
    hr_status st = hr_table_export(((table_object *)op)->table, &schema, NULL, &err);

    (void)none;
    return st ? pyhr_raise(s, st, &err) : pyhr_schema_capsule(&schema);
}

static PyObject *table_arrow_array(PyObject *op, PyObject *args, PyObject *kwargs)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema schema;
    struct ArrowArray array;
    PyObject *a, *b, *pair;
    hr_status st;

    (void)args, (void)kwargs; /* requested_schema: the protocol allows to ignore it */
    st = hr_table_export(((table_object *)op)->table, &schema, &array, &err);
    if (st)
        return pyhr_raise(s, st, &err);
    a = pyhr_schema_capsule(&schema);
    b = pyhr_array_capsule(&array);
    pair = a && b ? PyTuple_Pack(2, a, b) : NULL;
    Py_XDECREF(a);
    Py_XDECREF(b);
    return pair;
}

static PyObject *table_arrow_stream(PyObject *op, PyObject *args, PyObject *kwargs)
{
    PyObject *one = PyTuple_Pack(1, op), *made;

    (void)args, (void)kwargs;
    made = one ? pyhr_tables_stream(pyhr_state_of(op), ((table_object *)op)->table->schema, one) : NULL;
    Py_XDECREF(one);
    return made;
}

/* Table.stream(schema, tables) */
static PyObject *table_stream_of(PyObject *cls, PyObject *args)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    PyObject *schema, *tables;

    if (!PyArg_ParseTuple(args, "O!O", s->schema, &schema, &tables))
        return NULL;
    return pyhr_tables_stream(s, ((schema_object *)schema)->schema, tables);
}

static PyObject *table_concat(PyObject *cls, PyObject *list)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_error err = HR_ERROR_INIT;
    PyObject *tuple = PySequence_Tuple(list), *made = NULL;
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    hr_table **parts = tuple ? PyMem_Calloc((size_t)n + 1, sizeof *parts) : NULL;
    hr_table *out = NULL;
    hr_status st;

    if (!parts) {
        if (tuple)
            PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(parts[i] = pyhr_table_of(s, PyTuple_GetItem(tuple, i))))
            goto done;
    if (!n) {
        PyErr_SetString(PyExc_ValueError, "concat: expected at least one table");
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    st = hr__table_concat(&(hr_mem){ 0 }, parts[0]->schema, parts, (int)n, &out, &err);
    Py_END_ALLOW_THREADS
    made = st ? pyhr_raise(s, st, &err) : pyhr_table(s, out);
done:
    PyMem_Free(parts);
    Py_XDECREF(tuple);
    return made;
}

/* The tables under one schema: the first one's, completed by the others (data/conform.c). */
static PyObject *table_conformed(PyObject *cls, PyObject *list)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    PyObject *tuple = PySequence_Tuple(list), *made = NULL;
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_status st = HR_OK;

    if (!tuple)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        hr_table *t = pyhr_table_of(s, PyTuple_GetItem(tuple, i));
        hr_schema *both = NULL;

        if (!t)
            goto done;
        st = schema ? hr__schema_conform(schema, t->schema, &both, &err) : HR_OK;
        if (st) {
            hr__error_at(&err, st, "table %lld", (long long)i);
            pyhr_raise(s, st, &err);
            goto done;
        }
        hr__schema_unref(schema);
        schema = both ? both : hr__schema_ref(t->schema);
    }
    made = PyList_New(n);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        hr_table *in = pyhr_table_of(s, PyTuple_GetItem(tuple, i)), *out = NULL;
        PyObject *op;

        Py_BEGIN_ALLOW_THREADS
        st = hr__table_conform(&(hr_mem){ 0 }, in, schema, &out, &err);
        Py_END_ALLOW_THREADS
        op = st ? pyhr_raise(s, st, &err) : pyhr_table(s, out);
        if (!op || PyList_SetItem(made, i, op) < 0)
            Py_CLEAR(made);
    }
done:
    hr__schema_unref(schema);
    Py_DECREF(tuple);
    return made;
}

static PyObject *table_empty(PyObject *cls, PyObject *schema)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_error err = HR_ERROR_INIT;
    hr_table *out = NULL;
    hr_status st;

    if (!Py_IS_TYPE(schema, s->schema)) {
        PyErr_SetString(PyExc_TypeError, "empty: expected a Schema");
        return NULL;
    }
    st = hr__table_empty(((schema_object *)schema)->schema, &out, &err);
    return st ? pyhr_raise(s, st, &err) : pyhr_table(s, out);
}

static PyObject *table_compare(PyObject *a, PyObject *b, int how)
{
    const hr_table *t = ((table_object *)a)->table, *u;
    bool equal;

    if (Py_TYPE(a) != Py_TYPE(b) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    u = ((table_object *)b)->table;
    Py_BEGIN_ALLOW_THREADS
    equal = t->n_rows == u->n_rows && hr__schema_equal(t->schema, u->schema);
    for (int i = 0; equal && i < t->schema->n; i++)
        equal = hr__array_equal(t->columns[i], u->columns[i]);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(equal == (how == Py_EQ));
}

/* Table.build({name: values}) and Table.build_rows([{name: value}]): see py_build.c. */
static PyObject *table_build(PyObject *cls, PyObject *columns)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_table *t = pyhr_build_table(s, &(hr_mem){ 0 }, columns);

    return t ? pyhr_table(s, t) : NULL;
}

static PyObject *table_build_rows(PyObject *cls, PyObject *rows)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_table *t = pyhr_build_rows(s, &(hr_mem){ 0 }, rows);

    return t ? pyhr_table(s, t) : NULL;
}

/* The table with a column (a Column, or built from values) added, or replaced if the name exists. */
static PyObject *table_with_column(PyObject *op, PyObject *args)
{
    const hr_table *t = ((table_object *)op)->table;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    const char *name;
    PyObject *values;
    hr_field *fields = NULL, added = { 0 };
    hr_array **columns = NULL, *built, *shaped = NULL;
    hr_schema *schema = NULL;
    hr_table *out = NULL;
    int at, n, ragged = 0;
    hr_status st = HR_OK;

    if (!PyArg_ParseTuple(args, "O&O|p", pyhr_text_arg, &name, &values, &ragged))
        return NULL;
    built = pyhr_build_column(s, &(hr_mem){ 0 }, name, values);
    if (!built)
        return NULL;
    if (ragged) {
        HR_GO(hr__array_as_ragged(&(hr_mem){ 0 }, built, &shaped, &err));
        hr__array_unref(built);
        built = shaped;
    }
    at = hr__schema_find(t->schema, name);
    n = t->schema->n + (at < 0);
    at = at < 0 ? t->schema->n : at;
    fields = PyMem_Calloc((size_t)n, sizeof *fields);
    columns = PyMem_Calloc((size_t)n, sizeof *columns);
    if (!fields || !columns) {
        PyErr_NoMemory();
        goto done;
    }
    if (built->length != t->n_rows) {
        pyhr_raise_text(s, HR_INVALID, "column '%s' has %lld rows, the table has %lld", name, (long long)built->length,
                        (long long)t->n_rows);
        goto done;
    }
    HR_GO(hr__field_init(&added, name, built->type, true, &err));
    for (int i = 0; i < n; i++)
        fields[i] = i == at ? added : t->schema->fields[i];
    HR_GO(hr__schema_new(fields, n, &schema, &err));
    for (int i = 0; i < n; i++)
        columns[i] = hr__array_ref(i == at ? built : t->columns[i]);
    HR_GO(hr__table_new(schema, columns, t->n_rows, t->origin, &out, &err));
done:
    if (st)
        pyhr_raise(s, st, &err);
    hr__field_clear(&added);
    PyMem_Free(fields);
    PyMem_Free(columns);
    hr__schema_unref(schema);
    hr__array_unref(built);
    return out ? pyhr_table(s, out) : NULL;
}

static PyMethodDef table_methods[] = {
    { "column", (PyCFunction)(void (*)(void))table_column, METH_VARARGS | METH_KEYWORDS,
      "column(key, writable=True): a Column by index or name; its memory is writable only if the table is sole." },
    { "batch", table_batch, METH_VARARGS,
      "batch(dense, other, writable, fill=False): {name: dense(column) or other(column)}." },
    { "slice", table_slice, METH_VARARGS, "slice(begin, n): n rows from begin; shares the memory." },
    { "to_pylist", table_to_pylist, METH_NOARGS, "Rows as dicts of Python objects." },
    { "with_column", table_with_column, METH_VARARGS,
      "with_column(name, values, ragged=False): adds or replaces a column. ragged: turns an array into a column of\n"
      "tensors of any shape." },
    { "__arrow_c_schema__", table_arrow_schema, METH_NOARGS, "Arrow's PyCapsule of the schema." },
    { "__arrow_c_array__", (PyCFunction)(void (*)(void))table_arrow_array, METH_VARARGS | METH_KEYWORDS,
      "Arrow's PyCapsules: a struct array that shares the memory." },
    { "__arrow_c_stream__", (PyCFunction)(void (*)(void))table_arrow_stream, METH_VARARGS | METH_KEYWORDS,
      "Arrow's PyCapsule of a stream of this one table." },
    { "__reduce__", pyhr_table_reduce, METH_NOARGS, "Pickles the rows; slices are made contiguous." },
    { "_unpickle", pyhr_table_unpickle, METH_VARARGS | METH_CLASS, "Unpickles; pickles call it." },
    { "stream", table_stream_of, METH_VARARGS | METH_CLASS, "stream(schema, tables): an Arrow stream of the tables." },
    { "concat", table_concat, METH_O | METH_CLASS, "concat(tables): one contiguous table." },
    { "conformed", table_conformed, METH_O | METH_CLASS,
      "conformed(tables): the same rows under one schema, if types differ only in nulls and tensors." },
    { "empty", table_empty, METH_O | METH_CLASS, "empty(schema): a table without rows." },
    { "build", table_build, METH_O | METH_CLASS, "build({name: values}): copies arrays or lists." },
    { "build_rows", table_build_rows, METH_O | METH_CLASS, "build_rows([{name: value}]): from row dicts." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef table_getset[] = {
    { "num_rows", table_num_rows, NULL, "Number of rows.", NULL },
    { "names", table_names, NULL, "Column names.", NULL },
    { "schema", table_schema, NULL, "The Schema.", NULL },
    { "sole", table_sole, NULL, "True if no other object uses the memory: columns are writable.", NULL },
    { "nbytes", table_nbytes, NULL, "Bytes that the rows use.", NULL },
    { "origin", table_origin, NULL, "Coordinates: [(instance, file, fragment, row, ordinal, n, by_ordinal)].", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot table_slots[] = {
    { Py_tp_doc, "Immutable rows of named, typed columns on shared buffers." },
    { Py_tp_dealloc, table_dealloc },
    { Py_tp_methods, table_methods },
    { Py_tp_getset, table_getset },
    { Py_tp_richcompare, table_compare },
    { Py_tp_hash, PyObject_HashNotImplemented },
    { 0, NULL },
};

static PyType_Spec table_spec = {
    .name = "headrace._core.Table",
    .basicsize = sizeof(table_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = table_slots,
};

int pyhr_table_types(PyObject *module, pyhr_state *s)
{
    return pyhr_add_type(module, &schema_spec, &s->schema) < 0 || pyhr_add_type(module, &table_spec, &s->table) < 0 ? -1
                                                                                                                    : 0;
}
