"""Every function that `headrace functions` lists has a case here, and gives what pyarrow or Python gives.

A case has the kinds of its columns, an expression over them, and a reference: a function of whole columns
(pyarrow), or of a row's values (Python; None if a value is None, unless it says otherwise). It runs over rows
with nulls, NaN, infinities, all scripts, time zones and nested values: all rows, none, one, and slices with
odd borders; then all cases run again in other processes, with 1, 2 and 8 threads and with 16 MiB.
"""

import datetime
import decimal
import hashlib
import io
import json
import math
import os
import random as python_random
import re
import subprocess
import sys
import sysconfig
import zoneinfo
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from expression_tables import ticks

import headrace.data as hd
from headrace.data.expressions import coalesce, col, greatest, if_else, least, random, uuid, vector

D = decimal.Decimal
A, B, C = col("c0"), col("c1"), col("c2")
N_ROWS = 61
BERLIN = "Europe/Berlin"
TEXTS = [
    "",
    "a",
    "aA,b",
    "hello World",
    "  x\t",
    "Éa",
    "ab1 cd22",
    "日本語",
    "ǅaß",
    "%_",
    "a,b,,c",
    "é" * 9,
    "٣",
]


def at(*args):
    return datetime.datetime(*args, tzinfo=datetime.UTC)


MOMENTS = [
    at(1970, 1, 1),
    at(1969, 12, 31, 23, 59, 59, 999999),
    at(2024, 2, 29, 12, 30, 15, 1),
    at(2023, 10, 29, 0, 30),
    at(2023, 10, 29, 1, 30),
    at(2024, 3, 31, 1, 0),
    at(2021, 1, 3, 23, 30, 59, 5000),
    at(1999, 12, 31, 22, 0),
]


def picture(seed, h=6, w=9):
    return np.random.default_rng(seed).integers(0, 256, (h, w, 3), dtype=np.uint8)


def png(array):
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


KINDS = {
    "bool": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [0, 1, -1, 2, 3, -7, 100, -1000]),
    "long": (pa.int64(), [0, 1, -1, 2**53 + 1, -(2**62), 2**63 - 1]),
    "exponent": (pa.int32(), [0, 1, 2, 3]),
    "float": (pa.float64(), [0.0, -0.0, 1.5, 2.5, -2.5, 1e300, -0.3, math.nan, math.inf, -math.inf]),
    "unit": (pa.float64(), [0.0, 0.5, -1.0, 1.0, 2.0, math.nan, 1e-9]),
    "single": (pa.float32(), [0.0, 1.25, -3.5, math.nan, math.inf]),
    "money": (pa.decimal128(10, 2), [D("0.00"), D("1.25"), D("-7.50"), D("99999.99")]),
    "text": (pa.string(), TEXTS),
    "large_text": (pa.large_string(), TEXTS),
    "number_text": (pa.string(), ["1", "-20", "3", "1000"]),
    "binary": (pa.binary(), [b"", b"a", b"\xff\x00", b"ab"]),
    "moment": (pa.timestamp("us", BERLIN), MOMENTS),
    "local": (pa.timestamp("ns"), [m.replace(tzinfo=None) for m in MOMENTS]),
    "date": (pa.date32(), [m.date() for m in MOMENTS]),
    "list": (pa.list_(pa.int32()), [[], [1], [3, None, 2], [5, 4, 3, 2]]),
    "lists": (pa.large_list(pa.list_(pa.string())), [[], [["a"], None, ["é", None]], [[]]]),
    "struct": (pa.struct({"a": pa.int32(), "b": pa.string()}), [{"a": 1, "b": "é"}, {"a": None, "b": "x"}]),
    "map": (pa.map_(pa.string(), pa.int32()), [[], [("k", 1), ("é", None)]]),
    "fixed": (pa.list_(pa.int16(), 2), [[1, 2], [None, 3]]),
    "image": (pa.binary(), [png(picture(i)) for i in range(3)]),
}


def instant(v):
    """In UTC: Python compares times of one zone by their clocks, which may show a time twice."""
    return v.astimezone(datetime.UTC) if isinstance(v, datetime.datetime) and v.tzinfo else v


def compared(op):
    return rows(lambda a, b: op(instant(a), instant(b)))


def rows(fn, nulls=False):
    """Applies a reference function of a row's values to columns."""

    def over(*columns):
        return [
            None if not nulls and any(v is None for v in row) else fn(*row)
            for row in zip(*(c.to_pylist() for c in columns), strict=True)
        ]

    return over


LONG_PLACES = {v: i for i, v in enumerate([2**53 + 1, -(2**62), *range(100, 120), -1])}


def interval(*bounds):
    """The number of the (low, high] that has a value."""
    return lambda v: next((i for i, (low, high) in enumerate(bounds) if low < v <= high), None)


def of_float(v):
    return math.nan if v is None else float(v)


def in_singles(a, b):
    return [of_float(a), of_float(b), of_float(a)]


def logic(fn):
    """SQL's logic: null is unknown, and the result is null if it depends on it."""

    def by_row(*row):
        found = {()}
        for v in row:
            found = {(*f, x) for f in found for x in ((v,) if v is not None else (True, False))}
        results = {fn(*f) for f in found}
        return results.pop() if len(results) == 1 else None

    return rows(by_row, nulls=True)


def best(of):
    def by_row(*row):
        there = [v for v in row if v is not None]
        numbers = [v for v in there if v == v]
        return of(numbers) if numbers else there[0] if there else None

    return rows(by_row, nulls=True)


def python_float(op):
    """Python raises where IEEE has a value; NumPy has it."""

    def by_row(*row):
        with np.errstate(all="ignore"):
            return float(op(*map(np.float64, row)))

    return rows(by_row)


def sort_list(v):
    return sorted(x for x in v if x is not None) + [None] * v.count(None)


def pixels(fn):
    from PIL import Image

    return rows(lambda data: fn(np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))).tolist())


def resized(h, w):
    from PIL import Image

    return lambda a: np.asarray(Image.fromarray(a).resize((w, h), Image.Resampling.BILINEAR))


def in_zone(fn):
    zone = zoneinfo.ZoneInfo(BERLIN)
    return rows(lambda v: fn(v.astimezone(zone)))


def numbers_between(found):
    assert all(0 <= v < 1 for v in found) and len(set(found)) == len(found)


def identifiers(found):
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", v) for v in found
    )
    assert len(set(found)) == len(found)


S, T, L, PIXELS = A.str, A.dt, A.list, A.image.decode()
CASES = [
    *[
        (name, (k, k), op(A, B), compared(op))
        for name, op in {
            "equal": lambda a, b: a == b,
            "not_equal": lambda a, b: a != b,
            "less": lambda a, b: a < b,
            "less_equal": lambda a, b: a <= b,
            "greater": lambda a, b: a > b,
            "greater_equal": lambda a, b: a >= b,
        }.items()
        for k in ("int", "long", "float", "money", "moment", "date")
    ],
    ("less", ("text", "large_text"), A < B, rows(lambda a, b: a.encode() < b.encode())),
    ("equal", ("text", "binary"), A == B, rows(lambda a, b: a.encode() == b)),
    ("and", ("bool", "bool"), A & B, logic(lambda a, b: a and b)),
    ("or", ("bool", "bool"), A | B, logic(lambda a, b: a or b)),
    ("xor", ("bool", "bool"), A ^ B, logic(lambda a, b: a != b)),
    ("not", ("bool",), ~A, logic(lambda a: not a)),
    ("is_null", ("float",), A.is_null(), rows(lambda v: v is None, nulls=True)),
    ("is_not_null", ("list",), A.is_not_null(), rows(lambda v: v is not None, nulls=True)),
    ("is_nan", ("float",), A.is_nan(), rows(lambda v: v != v)),
    ("add", ("int", "int"), A + B, rows(lambda a, b: a + b)),
    ("add", ("text", "text"), A + B, rows(lambda a, b: a + b)),
    ("add", ("local", "local"), A + (B - A), rows(lambda a, b: b)),
    ("subtract", ("money", "money"), A - B, rows(lambda a, b: a - b)),
    ("multiply", ("float", "float"), A * B, python_float(lambda a, b: a * b)),
    ("multiply", ("money", "int"), A * B, rows(lambda a, b: a * b)),
    ("divide", ("int", "float"), A / B, python_float(np.divide)),
    (
        "divide",
        ("money", "money"),
        A / B,
        lambda a, b: pc.divide(a, pc.if_else(pc.equal(b, D("0.00")), None, b)),
    ),
    ("floor_divide", ("int", "int"), A // B, rows(lambda a, b: a // b if b else None)),
    ("modulo", ("int", "int"), A % B, rows(lambda a, b: a % b if b else None)),
    ("modulo", ("float", "float"), A % B, python_float(np.remainder)),
    ("negate", ("float",), -A, rows(lambda v: -v)),
    ("abs", ("int",), A.abs(), rows(abs)),
    ("sign", ("float",), A.sign(), pc.sign),
    *[
        (name, (k,), getattr(A, name)(), getattr(pc, name))
        for name in ("ceil", "floor", "trunc")
        for k in ("float", "single", "money", "int")
    ],
    ("round", ("float",), A.round(), pc.round),
    ("round", ("money",), A.round(1), lambda v: pc.round(v, 1)),
    *[
        (name, (k,), getattr(A, name)(), getattr(pc, name))
        for name in "exp ln log2 log10 sqrt sin cos tan asin acos atan".split()
        for k in ("unit", "exponent")
    ],
    ("power", ("int", "exponent"), A**B, rows(lambda a, b: a**b)),
    ("power", ("unit", "float"), A**B, pc.power),
    (
        "if_else",
        ("bool", "text", "text"),
        if_else(A, B, C),
        rows(lambda c, a, b: None if c is None else a if c else b, True),
    ),
    ("coalesce", ("list", "list"), coalesce(A, B), rows(lambda a, b: b if a is None else a, True)),
    ("least", ("float", "float", "float"), least(A, B, C), best(min)),
    ("greatest", ("money", "money"), greatest(A, B), best(max)),
    ("is_in", ("text",), A.is_in(["a", "日本語", None]), rows(lambda v: v in ("a", "日本語", None), True)),
    ("is_in", ("float",), A.is_in([1.5, math.nan, math.inf]), rows(lambda v: v in (1.5, math.inf), True)),
    ("not_in", ("moment",), A.not_in(MOMENTS[:2]), rows(lambda v: v not in MOMENTS[:2], True)),
    ("lookup", ("text",), A.lookup({"a": 7, "日本語": 2, "zz": 0}), rows({"a": 7, "日本語": 2}.get)),
    (
        "lookup",
        ("single",),
        A.lookup({1.25: "x", 0.1: "no", math.inf: "y"}),
        rows({1.25: "x", math.inf: "y"}.get),
    ),
    ("lookup", ("long",), A.lookup(LONG_PLACES), rows(LONG_PLACES.get)),
    ("one_hot", ("text",), A.one_hot(TEXTS[:3]), rows(lambda v: [int(v == t) for t in TEXTS[:3]], True)),
    ("one_hot", ("bool",), A.one_hot([True]), rows(lambda v: [int(v is True)], True)),
    ("bucket", ("float",), A.bucket([-2.5, 0, 1.5, 9]), rows(interval((-2.5, 0), (0, 1.5), (1.5, 9)))),
    ("bucket", ("int",), A.bucket([-7, 0, 3], right=False), rows(interval((-8, -1), (-1, 2)))),
    ("bucket", ("money",), A.bucket([0, 2], lowest=True), rows(interval((-0.001, 2)))),
    ("categorize", ("text",), A._categorized('{"categories": [], "ordered": false}'), rows(lambda v: v)),
    ("vector", ("int", "float"), vector(A, B), rows(lambda *row: [of_float(v) for v in row], True)),
    ("vector", ("single", "int"), vector(A, B, A, dtype="float32"), rows(in_singles, True)),
    ("cast", ("number_text",), A.cast("int16"), rows(int)),
    ("cast", ("float",), A.cast("float32"), lambda v: pc.cast(v, pa.float32())),
    ("cast", ("money",), A.cast("string"), lambda v: pc.cast(v, pa.string())),
    (
        "cast",
        ("moment",),
        A.cast("timestamp[s, tz=UTC]", safe=False),
        rows(lambda v: v.replace(microsecond=0)),
    ),
    ("str_len", ("text",), S.len(), rows(len)),
    ("str_byte_len", ("text",), S.byte_len(), rows(lambda v: len(v.encode()))),
    *[
        (f"str_{name}", (k,), getattr(S, name)(), fn)
        for name, fn in {
            "upper": pc.utf8_upper,
            "lower": pc.utf8_lower,
            "capitalize": pc.utf8_capitalize,
            "title": pc.utf8_title,
            "swapcase": pc.utf8_swapcase,
            "strip": pc.utf8_trim_whitespace,
            "lstrip": pc.utf8_ltrim_whitespace,
            "rstrip": pc.utf8_rtrim_whitespace,
            "reverse": rows(lambda v: v[::-1]),
            "split_whitespace": pc.utf8_split_whitespace,
            "is_ascii": rows(str.isascii),
            "is_alpha": pc.utf8_is_alpha,
            "is_alnum": pc.utf8_is_alnum,
            "is_digit": pc.utf8_is_digit,
            "is_decimal": pc.utf8_is_decimal,
            "is_numeric": pc.utf8_is_numeric,
            "is_space": pc.utf8_is_space,
            "is_lower": pc.utf8_is_lower,
            "is_upper": pc.utf8_is_upper,
            "is_title": pc.utf8_is_title,
            "is_printable": pc.utf8_is_printable,
        }.items()
        for k in ("text", "large_text")
    ],
    ("str_lpad", ("text",), S.lpad(5, "é"), rows(lambda v: v.rjust(5, "é"))),
    ("str_rpad", ("text",), S.rpad(5), rows(lambda v: v.ljust(5))),
    ("str_center", ("text",), S.center(6, "*"), lambda v: pc.utf8_center(v, 6, "*")),
    ("str_zfill", ("number_text",), S.zfill(4), rows(lambda v: v.zfill(4))),
    ("str_slice", ("text",), S[-4:9:2], rows(lambda v: v[-4:9:2])),
    (
        "str_replace_slice",
        ("text",),
        S.replace_slice(1, 3, "é"),
        lambda v: pc.utf8_replace_slice(v, 1, 3, "é"),
    ),
    ("str_repeat", ("text",), S.repeat(2), rows(lambda v: v * 2)),
    ("str_starts_with", ("text",), S.starts_with("a"), rows(lambda v: v.startswith("a"))),
    ("str_ends_with", ("text",), S.ends_with("É", ignore_case=True), rows(lambda v: v.lower().endswith("é"))),
    ("str_contains", ("large_text",), S.contains("本"), rows(lambda v: "本" in v)),
    ("str_find", ("text",), S.find("b"), rows(lambda v: v.encode().find(b"b"))),
    ("str_count", ("text",), S.count("a"), rows(lambda v: v.count("a"))),
    ("str_replace", ("text",), S.replace("a", "<é>"), rows(lambda v: v.replace("a", "<é>"))),
    ("str_split", ("text",), S.split(",", max_splits=1), rows(lambda v: v.split(",", 1))),
    ("str_like", ("text",), S.match("a%b_"), lambda v: pc.match_like(v, "a%b_")),
    (
        "str_match_regex",
        ("text",),
        S.match_regex(r"[a-z]\d"),
        rows(lambda v: re.search(r"[a-z][0-9]", v) is not None),
    ),
    ("str_find_regex", ("text",), S.find_regex(r"[b-d]+"), lambda v: pc.find_substring_regex(v, r"[b-d]+")),
    ("str_count_regex", ("text",), S.count_regex(r"[a-z]+"), rows(lambda v: len(re.findall("[a-z]+", v)))),
    (
        "str_replace_regex",
        ("text",),
        S.replace_regex(r"([a-z])(\d)", r"\2\1"),
        rows(lambda v: re.sub(r"([a-z])([0-9])", r"\2\1", v)),
    ),
    ("str_split_regex", ("text",), S.split_regex("[ ,]"), rows(lambda v: re.split("[ ,]", v))),
    (
        "str_extract",
        ("text",),
        S.extract(r"(?P<l>[a-z]+)(?P<n>\d+)"),
        lambda v: pc.extract_regex(v, r"(?P<l>[a-z]+)(?P<n>\d+)"),
    ),
    *[
        (f"dt_{part}", (k,), getattr(T, part)(), getattr(pc, part))
        for part in "year quarter month day day_of_week day_of_year iso_week iso_year".split()
        for k in ("moment", "local", "date")
    ],
    *[
        (f"dt_{part}", (k,), getattr(T, part)(), getattr(pc, part))
        for part in "hour minute second millisecond microsecond nanosecond".split()
        for k in ("moment", "local")
    ],
    ("dt_date", ("moment",), T.date(), in_zone(datetime.datetime.date)),
    (
        "dt_floor",
        ("moment",),
        T.floor("day"),
        in_zone(lambda v: v.replace(hour=0, minute=0, second=0, microsecond=0)),
    ),
    ("dt_ceil", ("local",), T.ceil("hour"), lambda v: pc.ceil_temporal(v, unit="hour")),
    ("dt_round", ("local",), T.round("minute"), lambda v: pc.round_temporal(v, unit="minute")),
    (
        "dt_strftime",
        ("moment",),
        T.strftime("%a %d.%m.%y %H:%M %Z"),
        in_zone(lambda v: v.strftime("%a %d.%m.%y %H:%M %Z")),
    ),
    ("list_len", ("list",), L.len(), rows(len)),
    ("list_get", ("list",), L[-2], rows(lambda v: v[-2] if len(v) > 1 else None)),
    ("list_slice", ("list",), L[::-2], rows(lambda v: v[::-2])),
    ("list_sort", ("list",), L.sort(), rows(sort_list)),
    (
        "list_flatten",
        ("lists",),
        L.flatten(),
        rows(lambda v: [x for part in v if part is not None for x in part]),
    ),
    ("arr_to_list", ("fixed",), A.arr.to_list(), rows(list)),
    ("struct_field", ("struct",), A.struct["b"], rows(lambda v: v["b"])),
    ("map_keys", ("map",), A.map.keys(), rows(lambda v: [k for k, _ in v])),
    ("map_values", ("map",), A.map.values(), rows(lambda v: [x for _, x in v])),
    ("random", (), random(seed=3), numbers_between),
    ("uuid", (), uuid(seed=3), identifiers),
    ("image_decode", ("image",), PIXELS, pixels(lambda a: a)),
    ("image_resize", ("image",), PIXELS.image.resize(4, 5), pixels(resized(4, 5))),
    ("image_center_crop", ("image",), PIXELS.image.center_crop(4, 5), pixels(lambda a: a[1:5, 2:7])),
    ("image_random_flip", ("image",), PIXELS.image.random_flip(1.0, seed=1), pixels(lambda a: a[:, ::-1])),
    (
        "image_random_resized_crop",
        ("image",),
        PIXELS.image.random_resized_crop(4, 5, scale=(1.0, 1.0), ratio=(1.5, 1.5), seed=1),
        pixels(resized(4, 5)),
    ),
    (
        "image_normalize",
        ("image",),
        PIXELS.image.normalize(0.5, 0.25, layout="HWC"),
        pixels(lambda a: np.round((a / 255 - 0.5) / 0.25, 4)),
    ),
]


def table_for(kinds, n=N_ROWS, seed=1):
    """Columns c0, c1, ...: values of each kind and nulls; a slice with an offset that is no multiple of 8."""
    draw = python_random.Random(seed)
    columns = {}
    for i, kind in enumerate(kinds):
        typ, values = KINDS[kind]
        cells = [draw.choice([None, *values, *values]) for _ in range(n + 3)]
        columns[f"c{i}"] = pa.array(cells, typ)
    return pa.table(columns or {"other": list(range(n + 3))}).slice(3)


def plain(values):
    """Comparable lists and numbers: tensors as lists, times as Python's with all digits."""
    if isinstance(values, (pa.ChunkedArray, pa.Array)):
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        if isinstance(values.type, pa.ExtensionType) or "variable_shape" in str(values.type):
            return [None if v is None else v for v in values.to_pylist()]
        return (ticks(values) if pa.types.is_timestamp(values.type) else values).to_pylist()
    return values


def nearly(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or a == b or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-300)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(nearly, a, b))
    return a == b and (a is None) == (b is None)


def computed(table, expr, pieces=None):
    if pieces is not None:
        ds = hd.from_arrow([table.slice(i, pieces) for i in range(0, len(table), pieces)])
    else:
        ds = hd.from_arrow(table)
    return ds.with_column("r", expr).select_columns(["r"])


def values_of(ds, is_image):
    if is_image:  # with the digits of float32
        images = (r["r"] for r in ds.iter_rows())
        return [None if a is None else np.asarray(a, np.float64).round(4).tolist() for a in images]
    found = ds.to_arrow()
    return plain(found["r"]) if "r" in found.column_names else []


def names_of_functions():
    """The names that the command `headrace functions` prints."""
    command = Path(sysconfig.get_path("scripts")) / "headrace"
    lines = subprocess.run([command, "functions"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in lines.split("\n\naggregates")[0].splitlines() if line.strip()]


def test_every_function_has_a_case():
    names = names_of_functions()
    assert len(names) > 100
    missing = sorted(set(names) - {case[0] for case in CASES})
    assert not missing, f"no differential case: {', '.join(missing)}"
    assert not sorted({case[0] for case in CASES} - set(names))


def same_as(found, want, table, expr):
    want = plain(want)
    if isinstance(want, list) and want and any(isinstance(v, datetime.datetime) for v in want):
        kind = computed(table, expr).to_arrow()["r"].type
        want = plain(pa.array(want, kind))
    assert len(found) == len(want)
    for i, (a, b) in enumerate(zip(found, want, strict=True)):
        assert nearly(a, b), (i, table.slice(i, 1).to_pylist(), a, b)


@pytest.mark.parametrize(
    ("name", "kinds", "expr", "other"), CASES, ids=[f"{c[0]}-{'-'.join(c[1]) or 'none'}" for c in CASES]
)
def test_as_others_have_it(name, kinds, expr, other):
    is_image = "image" in kinds
    table = table_for(kinds, 20 if is_image else N_ROWS)
    whole = values_of(computed(table, expr), is_image)
    if not kinds:
        other(whole)
        return
    same_as(whole, other(*(c.combine_chunks() for c in table.columns)), table, expr)
    for n in (1, 7):
        assert nearly(values_of(computed(table, expr, n), is_image), whole)
    assert values_of(computed(table.slice(0, 0), expr), is_image) == []
    for i in (0, 5):
        assert nearly(values_of(computed(table.slice(i, 1), expr), is_image), whole[i : i + 1])


def digest():
    """A digest of the results of all cases over some thousand rows in slices, computed together; images
    apart.
    """
    sums = {}
    for is_image in (False, True):
        cases = [c for c in CASES if ("image" in c[1]) == is_image]
        kinds = sorted({k for c in cases for k in c[1]})
        n = 300 if is_image else 9000
        table = table_for([k for k in kinds for _ in range(3)], n)
        names = {(k, i): f"{k}{i}" for k in kinds for i in range(3)}
        table = table.rename_columns([names[k, i] for k in kinds for i in range(3)])
        ds = hd.from_arrow([table.slice(i, 1117) for i in range(0, len(table), 1117)])
        for at_case, (name, used, expr, _) in enumerate(cases):
            new = {f"c{i}": names[k, i] for i, k in enumerate(used)}
            one = ds.select_columns(list(new.values())) if used else ds.select_columns([names[kinds[0], 0]])
            one = one.rename_columns({v: k for k, v in new.items()}) if used else one
            found = one.with_column("r", expr).select_columns(["r"]).to_arrow()["r"].combine_chunks()
            sink = pa.BufferOutputStream()
            batch = pa.record_batch({"r": found})
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            sums[f"{at_case} {name} {used}"] = hashlib.sha256(sink.getvalue()).hexdigest()
    return sums


@pytest.fixture(scope="module")
def digests():
    """Digests by environment, from one process after the other."""
    found = {}
    for setting in (
        {"HEADRACE_NUM_THREADS": "1"},
        {"HEADRACE_NUM_THREADS": "2"},
        {"HEADRACE_NUM_THREADS": "8"},
        {"HEADRACE_MEMORY_LIMIT": "16MiB"},
    ):
        here = Path(__file__).parent
        code = "import json, test_every_function as t; print(json.dumps(t.digest()))"
        env = {**os.environ, **setting, "PYTHONPATH": str(here)}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120
        )
        assert done.returncode == 0 and "HEADRACE_" not in done.stderr, done.stderr[-2000:]
        found[str(setting)] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_threads_and_a_small_memory_change_nothing(digests):
    first, *others = digests.values()
    assert len(first) == len(CASES)
    for other in others:
        assert {k for k in first if first[k] != other[k]} == set()
