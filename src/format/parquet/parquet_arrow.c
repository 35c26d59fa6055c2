/* parquet_arrow.c - the Arrow schema that Arrow's writers embed in a footer: base64 of an IPC schema message.
 *
 * A field whose type this reader does not know becomes null, which restores nothing: the Parquet types suffice to read
 * every value. A damaged message is an error: otherwise columns would silently change their types.
 *
 * Tests: test_parquet_meta.c, test_parquet_prune.c. */
#include "format/arrow/ipc.h"
#include "format/parquet/parquet_meta.h"

/* The table of the schema in a message; 0: the message is not a schema. */
static int64_t find_schema(hr_flat *f, hr_error *err)
{
    int64_t at = 0, table, n;

    if (hr__flat_load(f, 0, 4) == 0xffffffff)
        at = 4; /* "continuation", before the length since Arrow 0.15 */
    n = (int64_t)hr__flat_load(f, at, 4);
    f->data += at + 4;
    f->n -= at + 4;
    if (f->bad || n < 8 || n > f->n)
        return 0;
    f->n = n;
    if (hr__flat_verify(f, &ipc__message_table, &table, err))
        return 0;
    return hr__flat_number(f, table, 1, 1, 0) == 1 ? hr__flat_table(f, table, 2) : 0;
}

/* Turns HR_UNSUPPORTED for an unknown type into success: the Parquet types take over. */
static hr_status forgive(hr_status st, hr_error *mine, hr_error *err)
{
    if (st != HR_UNSUPPORTED) {
        hr__error_move(err, mine);
        return st;
    }
    hr_error_clear(mine);
    return HR_OK;
}

hr_status pq__arrow_schema_parse(hr_view base64, hr_account *account, hr_schema **out, hr_error *err)
{
    uint8_t *bytes = hr__alloc(account, (size_t)(base64.n / 4 * 3 + 4));
    hr_error mine = HR_ERROR_INIT;
    ipc_schema *s = NULL;
    hr_flat f = { .data = bytes };
    hr_status st = HR_OK;
    int64_t table;

    *out = NULL;
    if (!bytes)
        return hr__error_memory(err, "Arrow schema", base64.n);
    f.n = hr__base64_read(base64.data, base64.n, bytes);
    table = f.n < 16 ? 0 : find_schema(&f, &mine);
    hr_error_clear(&mine);
    if (!table)
        HR_FAIL(HR_BAD_DATA, "the embedded Arrow schema is damaged");
    st = ipc__schema_read(&f, table, account, &s, &mine);
    if (!st)
        st = ipc__schema_types(s, true, out, &mine);
    st = st ? forgive(st, &mine, err) : HR_OK;
done:
    ipc__schema_free(s);
    hr__free(bytes);
    return st;
}
