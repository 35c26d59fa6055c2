"""read_csv and read_fwf: turn keyword arguments (for CSV also pyarrow's) into options of the engine's
formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from headrace._core import InvalidArgument, TypeMismatchError, UnsupportedError
from headrace.data.files import FileArguments, read_files

if TYPE_CHECKING:
    from headrace.data.annotations import Paths
    from headrace.data.dataset import Dataset


_TYPE_NAMES = {int: "int64", float: "double", str: "string", bool: "bool", bytes: "binary"}


def _listed(items, extra=""):
    """A list option of the engine: commas between items, a backslash before separators in an item."""
    if isinstance(items, str):
        items = [items]
    special = "\\," + extra
    out = ",".join("".join("\\" + c if c in special else c for c in str(item)) for item in items)
    return out


def _words(items):
    """A list of words. The list of one empty word is a comma, to distinguish it from the empty list."""
    items = list([items] if isinstance(items, str) else items)
    return "," if items == [""] else _listed(items)


def _type_name(where, column, given):
    """The name of a type given as str, numpy dtype, Python type or pyarrow type."""
    if given in _TYPE_NAMES:
        return _TYPE_NAMES[given]
    name = getattr(given, "name", None) or str(given)  # numpy and pandas have names, pyarrow prints itself
    name = str(given) if str(given).startswith(("timestamp", "time32", "time64", "date")) else name
    return {"object": "string", "datetime64[ns]": "timestamp[ns]", "datetime64[us]": "timestamp[us]"}.get(
        name, name
    )


def _types(where, dtypes):
    """dtypes, a dict or a schema, as the engine's options (dtypes, default_type)."""
    if hasattr(dtypes, "names") and hasattr(dtypes, "field"):
        dtypes = {f.name: f.type for f in dtypes}
    if not hasattr(dtypes, "items"):
        return None, _type_name(where, None, dtypes)
    return ",".join(f"{_listed(c)}:{_listed(_type_name(where, c, t))}" for c, t in dtypes.items()), None


def _char(value):
    if value is False or value is None:
        return ""
    return {"\t": "\\t", "\\": "\\\\", "\0": "\\0"}.get(value, value)


def _from_read_options(given, o):
    if given.autogenerate_column_names:
        o["header"] = False
    elif given.column_names:
        o["names"] = list(given.column_names)
    o["skip_rows"] = given.skip_rows
    o["skip_rows_after_names"] = given.skip_rows_after_names
    o["encoding"] = given.encoding


def _from_parse_options(given, o):
    o["delimiter"] = given.delimiter
    o["quote"] = given.quote_char
    o["double_quote"] = given.double_quote
    o["escape"] = given.escape_char
    o["ignore_empty_lines"] = given.ignore_empty_lines
    if given.invalid_row_handler is not None:
        raise UnsupportedError("read_csv: invalid_row_handler is not supported; use ragged=")


def _from_convert_options(given, o):
    if given.column_types:
        o["dtypes"] = dict(given.column_types)
    for name in ("null_values", "true_values", "false_values"):
        o[name] = list(getattr(given, name))
    for name in ("strings_can_be_null", "quoted_strings_can_be_null", "decimal_point"):
        o[name] = getattr(given, name)
    if given.include_columns:
        o["columns"] = list(given.include_columns)
    if given.include_missing_columns:
        raise UnsupportedError("read_csv: include_missing_columns is not supported")
    if given.auto_dict_encode:
        raise UnsupportedError("read_csv: auto_dict_encode is not supported")
    if any(type(p).__name__ != "_ISO8601" and p is not None for p in given.timestamp_parsers):
        raise UnsupportedError("read_csv: timestamp_parsers other than ISO8601 are not supported")


_FROM_ARROW = {
    "read_options": _from_read_options,
    "parse_options": _from_parse_options,
    "convert_options": _from_convert_options,
}


def read_csv(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    header: bool | str | None = None,
    dtypes: Any = None,
    delimiter: str | None = None,
    quote: str | None = None,
    double_quote: bool | None = None,
    escape: str | None = None,
    comment: str | None = None,
    null_values: Sequence[str] | None = None,
    strings_can_be_null: bool | None = None,
    quoted_strings_can_be_null: bool | None = None,
    true_values: Sequence[str] | None = None,
    false_values: Sequence[str] | None = None,
    decimal_point: str | None = None,
    skip_rows: int | None = None,
    skip_rows_after_names: int | None = None,
    ignore_empty_lines: bool | None = None,
    ragged: str | None = None,
    encoding: str | None = None,
    encoding_errors: str | None = None,
    infer_bytes: int | None = None,
    max_line_bytes: int | None = None,
    fragment_bytes: int | None = None,
    read_options: Any = None,
    parse_options: Any = None,
    convert_options: Any = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """One row per row of CSV files; quoted fields may hold delimiters and newlines. The engine decompresses
    compressed files.

    columns: names, in the order of the result; the engine does not parse other columns. names: the names of
    all columns; the first row is then data unless header=True. header=False without names: f0, f1, ...
    dtypes: dict of column -> type, or one type for all. The engine infers the other types from the first
    infer_bytes (4 MiB), in pyarrow's order: null, int64, bool, date32, time32[s], timestamp[s],
    timestamp[ns], double, string, binary. A later value that does not fit is DataError with file, line,
    column and text. ragged: what to do with a row with a wrong number of fields: 'error', 'pad', 'truncate',
    'fit' (pad or truncate) or 'skip'. encoding: any name that iconv knows; encoding_errors: 'strict',
    'replace', 'ignore'. The other options are those of pyarrow.csv; read_options, parse_options and
    convert_options accept pyarrow's objects.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    own = dict(
        columns=columns, names=names, header=header, dtypes=dtypes, delimiter=delimiter, quote=quote,
        double_quote=double_quote, escape=escape, comment=comment, null_values=null_values,
        strings_can_be_null=strings_can_be_null, quoted_strings_can_be_null=quoted_strings_can_be_null,
        true_values=true_values, false_values=false_values, decimal_point=decimal_point, skip_rows=skip_rows,
        skip_rows_after_names=skip_rows_after_names, ignore_empty_lines=ignore_empty_lines, ragged=ragged,
        encoding=encoding, encoding_errors=encoding_errors, infer_bytes=infer_bytes,
        max_line_bytes=max_line_bytes, fragment_bytes=fragment_bytes,
    )  # fmt: skip
    o = {}
    for name, given in (
        ("read_options", read_options),
        ("parse_options", parse_options),
        ("convert_options", convert_options),
    ):
        if given is not None:
            wanted = {"read": "ReadOptions", "parse": "ParseOptions", "convert": "ConvertOptions"}[
                name.split("_")[0]
            ]
            if type(given).__name__ != wanted:
                raise TypeMismatchError(
                    f"read_csv: {name}: expected pyarrow.csv.{wanted}, found {type(given).__name__}"
                )
            _FROM_ARROW[name](given, o)
    o.update((k, v) for k, v in own.items() if v is not None)
    for name in ("delimiter", "quote", "escape", "comment", "decimal_point"):
        if name in o:
            o[name] = _char(o[name])
            if name in ("delimiter", "decimal_point") and not o[name]:
                raise InvalidArgument(f"read_csv: {name}: expected one byte, found none")
    for name in ("null_values", "true_values", "false_values"):
        if name in o:
            o[name] = _words(o[name])
    if "names" in o:
        o["names"] = _listed(o["names"])
    if isinstance(o.get("header"), bool):
        o["header"] = "first" if o["header"] else "none"
    if "dtypes" in o:
        o["dtypes"], o["default_type"] = _types("read_csv", o["dtypes"])
    if "encoding" in o:
        o["encoding"] = o["encoding"].lower()
    return read_files("read_csv", "csv", paths, columns=o.pop("columns", None), options=o, **common)


def _spans(colspecs):
    """[(0, 8), (8, None)] as the engine's colspecs."""
    if isinstance(colspecs, str):
        raise UnsupportedError(
            f"read_fwf: colspecs={colspecs!r}: places are not inferred; give them, or widths"
        )
    try:
        return ",".join(f"{begin or 0}:{'' if end is None else end}" for begin, end in colspecs)
    except (TypeError, ValueError):
        raise TypeMismatchError(
            f"read_fwf: colspecs: expected a list of (begin, end), not {colspecs!r}"
        ) from None


def read_fwf(
    paths: Paths,
    *,
    colspecs: Sequence[tuple[int, int | None]] | None = None,
    widths: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    header: bool | str | None = None,
    dtypes: Any = None,
    fill: str | None = None,
    null_values: Sequence[str] | None = None,
    strings_can_be_null: bool | None = None,
    true_values: Sequence[str] | None = None,
    false_values: Sequence[str] | None = None,
    decimal_point: str | None = None,
    skip_rows: int | None = None,
    ignore_empty_lines: bool | None = None,
    encoding: str | None = None,
    infer_bytes: int | None = None,
    fragment_bytes: int | None = None,
    **common: Unpack[FileArguments],
) -> Dataset:
    """One row per line of text with columns of fixed width, as in pandas.read_fwf: each column is a range of
    characters. The engine decompresses compressed files.

    colspecs: a list of (begin, end) in characters from 0; end None: the end of the line. widths: the number
    of characters of each column, one after the other. One of the two is necessary: the engine never infers
    the places. fill: characters to strip at both ends of a field (blanks and tabs; pandas calls it
    delimiter). names: the names of all columns; the first line is then a row unless header=True. header=False
    without names: f0, f1, ... columns: names, in the order of the result; the engine does not parse other
    columns. A field beyond the end of its line is null; the engine ignores characters outside all columns.
    Types and the other options are those of read_csv. DataError names file, line, column, its characters, the
    type and the text.

    common: filesystem, storage_options, cache, partitioning, partition_filter, include_paths,
    ignore_missing_paths, file_extensions, shuffle, schema, unify, arrow_open_stream_args, concurrency,
    override_num_blocks: see docs/reading.md.
    """
    o = dict(
        colspecs=None if colspecs is None else _spans(colspecs),
        widths=None if widths is None else _listed(widths),
        names=None if names is None else _listed(names),
        header=("first" if header else "none") if isinstance(header, bool) else header,
        null_values=None if null_values is None else _words(null_values),
        true_values=None if true_values is None else _words(true_values),
        false_values=None if false_values is None else _words(false_values),
        fill=fill, decimal_point=decimal_point, strings_can_be_null=strings_can_be_null,
        skip_rows=skip_rows, ignore_empty_lines=ignore_empty_lines, encoding=encoding,
        infer_bytes=infer_bytes, fragment_bytes=fragment_bytes,
    )  # fmt: skip
    if dtypes is not None:
        o["dtypes"], o["default_type"] = _types("read_fwf", dtypes)
    return read_files("read_fwf", "fwf", paths, columns=columns, options=o, **common)
