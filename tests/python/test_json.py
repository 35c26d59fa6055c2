"""read_json: types and values against pyarrow.json and Python's json, options, compression, order."""

import datetime
import gzip
import json
import math

import pyarrow as pa
import pyarrow.json
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace.exceptions import TypeMismatchError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
KEYS = st.sampled_from(["a", "b", "cc", "key with blanks", 'q"\\', "ä€"])
LEAVES = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "text": TEXT,
    "bool": st.booleans(),
}


def values(kind):
    """Values of one shape, null now and then."""
    if isinstance(kind, str):
        inner = LEAVES[kind]
    elif isinstance(kind, list):
        inner = st.lists(values(kind[0]), max_size=4)
    else:
        inner = st.fixed_dictionaries({}, optional={k: values(v) for k, v in kind.items()})
    return st.none() | inner


KINDS = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=1) | st.dictionaries(KEYS, inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def rows(draw):
    kinds = draw(st.dictionaries(KEYS, KINDS, min_size=1, max_size=4))
    return draw(
        st.lists(st.fixed_dictionaries({}, optional={k: values(v) for k, v in kinds.items()}), max_size=12)
    )


def fits(got, want):
    """Whether a value equals the written one: missing keys are null, integers may be floats."""
    if isinstance(got, dict):
        return (
            isinstance(want, dict) and set(want) <= set(got) and all(fits(got[k], want.get(k)) for k in got)
        )
    if isinstance(got, list):
        return isinstance(want, list) and len(got) == len(want) and all(map(fits, got, want))
    if isinstance(got, float) and isinstance(want, int | float):
        return got == float(want)
    return got == want and type(got) is type(want)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=rows(), indent=st.sampled_from([None, 2]), array=st.booleans(), ascii_only=st.booleans())
def test_python_writes_we_read(data, indent, array, ascii_only, tmp_path_factory):
    path = tmp_path_factory.mktemp("json") / "x.json"
    if array:
        path.write_text(json.dumps(data, indent=indent, ensure_ascii=ascii_only), "utf-8")
    else:
        path.write_text(
            "\n".join(json.dumps(r, indent=indent, ensure_ascii=ascii_only) for r in data), "utf-8"
        )
    layout = "sequence" if indent and not array else None  # "{}" in the first line looks like lines
    got = hd.read_json(path, layout=layout).to_arrow().to_pylist()
    assert len(got) == len(data)
    for g, w in zip(got, data, strict=True):
        assert fits(g, w), (g, w)


def test_types_are_those_of_pyarrow(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"i": 1, "f": 1, "s": "x", "l": [[1], []], "o": {"p": null, "q": [{"r": true}]}, "n": null}\n'
        '{"f": 2.5, "l": null, "o": {"p": 7, "t": []}, "new": "y"}\n'
    )
    got, want = hd.read_json(path).to_arrow(), pa.json.read_json(path)
    assert {f.name: f.type for f in got.schema} == {f.name: f.type for f in want.schema}
    assert got.select(want.column_names).to_pylist() == want.to_pylist()


def test_several_fragments_are_in_order(tmp_path):
    path = tmp_path / "x.jsonl"
    with open(path, "w") as f:
        for i in range(150_000):
            f.write(f'{{"id": {i}, "text": "{"ä" * (i % 50)}\\n", "part": [{i}, {i / 7}]}}\n')
    table = hd.read_json(path).to_arrow()
    assert path.stat().st_size > 8 << 20  # several fragments
    assert table.column("id").to_pylist() == list(range(150_000))
    assert table.column("part")[149_999].as_py() == [149_999, 149_999 / 7]
    assert hd.read_json(path).count() == 150_000
    assert hd.read_json(path, columns=["id"]).take(2) == [{"id": 0}, {"id": 1}]


def test_compressed_and_several_files(tmp_path):
    (tmp_path / "a.json").write_text('{"a": 1, "b": "x"}\n')
    with gzip.open(tmp_path / "b.json.gz", "wt") as f:
        f.write('[{"b": "y"}, {"a": 3}]')
    ds = hd.read_json([tmp_path / "a.json", tmp_path / "b.json.gz"])
    assert ds.take_all() == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 3, "b": None}]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ('{"a": 1}\n{"a": "x"}\n', {}, r"x\.json: line 2, column 7: column 'a': found a string, but line 1"),
        (
            '{"a": 1}\n{"a": "x"}\n',
            {"sample_bytes": 1},
            "line 2, column 7: column 'a': expected int64, found a string",
        ),
        ('{"a": 1}\n{"c": 1}\n', {"sample_bytes": 1}, "line 2, column 2: key 'c' is not in the schema"),
        ('{"a": 1}\n{"a": \n', {}, "line 2, column 7"),
        ('{"a": NaN}', {}, "line 1, column 7"),
        ('{"a": 18446744073709551616}', {}, "big_integers="),
    ],
)
def test_errors_name_the_place(tmp_path, text, options, message):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(Exception, match=message):
        hd.read_json(path, **options).take_all()


def test_options(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}\n{"a": 2, "c": [1]}\nnonsense\n{"a": "x"}\n{"a": 18446744073709551616}\n')
    assert hd.read_json(path, sample_bytes=1, unexpected="ignore", on_error="skip").take_all() == [
        {"a": 1},
        {"a": 2},
    ]
    path.write_text('{"a": NaN}\n{"a": -Infinity}\n')
    got = [r["a"] for r in hd.read_json(path, allow_nan=True).take_all()]
    assert math.isnan(got[0])
    assert got[1] == -math.inf
    path.write_text('{"a": 18446744073709551616}')
    assert hd.read_json(path, big_integers="string").take_all() == [{"a": "18446744073709551616"}]
    path.write_text('{"a": 1, "b": "x"}')
    options = pa.json.ParseOptions(unexpected_field_behavior="ignore")
    assert hd.read_json(path, lines=True, parse_options=options).take_all() == [{"a": 1, "b": "x"}]


def test_rows_left_out_are_counted_and_do_not_hang_on_the_columns(tmp_path):
    """The story: a projection brought back a row whose other column did not fit."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1, "b": 2}\n{"a": 2, "b": "x"}\n{"a": 3\n{"a": 4, "b": 5}\n')
    schema = pa.schema({"a": "int64", "b": "int64"})
    ds = hd.read_json(path, schema=schema, on_error="skip")
    assert ds.take_all() == [{"a": 1, "b": 2}, {"a": 4, "b": 5}]
    assert ds.stats("dict")["bad_rows"] == 2
    few = ds.select_columns(["a"])
    assert few.take_all() == [{"a": 1}, {"a": 4}] and ds.count() == few.count() == 2


def test_pretty_objects_behind_an_empty_one(tmp_path):
    p = tmp_path / "e.json"
    for head in ("{}\n", "{ }\r\n\n{}\n", " {}\n"):
        p.write_text(head + '{\n  "a": 1\n}\n{\n  "a": 2\n}\n')
        n = head.count("{")
        assert hd.read_json(str(p)).take_all() == [{"a": None}] * n + [{"a": 1}, {"a": 2}]
        p.write_text(head + '{"a": 1}\n{"a": 2}\n')
        assert hd.read_json(str(p)).take_all() == [{"a": None}] * n + [{"a": 1}, {"a": 2}]
    p.write_text("{}\n" * 10_000)
    assert hd.read_json(str(p)).count() == 10_000


def test_options_of_pyarrow(tmp_path):
    from pyarrow import json as pj

    p = tmp_path / "o.json"
    p.write_text('{"a": 1}\n{"a":\n2}\n')
    read = pj.ReadOptions(block_size=8, use_threads=False)
    got = hd.read_json(str(p), read_options=read, parse_options=pj.ParseOptions(newlines_in_values=True))
    assert got.take_all() == [{"a": 1}, {"a": 2}]
    for bad in ({"read_options": {"block_size": 8}}, {"parse_options": read}):
        with pytest.raises(TypeMismatchError, match="expected pyarrow.json"):
            hd.read_json(str(p), **bad)


WHOLE = [
    "2020-01-02",
    "2020-01-02 03:04",
    "2020-01-02T03:04",
    "2020-01-02T03",
    "2020-01-02T03:04:05",
    "0001-01-01",
    "9999-12-31 23:59:59",
]
ZONED = [
    "2020-01-02T03:04:05Z",
    "2020-01-02T03:04+01:00",
    "2020-01-02T03:04:05-0330",
    "2020-01-02 03:04:05+01",
]
TEXTS = [
    "",
    "x",
    "2020",
    "2020-01",
    "20200102",
    "2020-1-2",
    "2020/01/02",
    "2020-001",
    "2020-13-01",
    "2020-02-30",
    "03:04:05",
    " 2020-01-02",
    "2020-01-02 ",
    "2020-01-02t03:04:05",
    "2020-01-02T24:00:00",
    "2020-01-02T03:04:60",
    "2020-01-02T03:04:05z",
    "2020-01-02T03:04:05.123",
    "2020-01-02T03:04:05.5Z",
]


def read_both(path, rows, **options):
    """The column 'a' by our reader and by pyarrow."""
    path.write_text("".join(json.dumps({"a": value}) + "\n" for value in rows))
    return hd.read_json(path, **options).to_arrow()["a"], pa.json.read_json(path)["a"]


@pytest.mark.parametrize("text", WHOLE + TEXTS)
def test_times_are_those_of_pyarrow(tmp_path, text):
    for rows in ([text], [None, text], [text, "2020-01-02"], ["2020-01-02", text, None]):
        ours, theirs = read_both(tmp_path / "a.jsonl", rows)
        assert ours.type == theirs.type, rows
        assert ours.to_pylist() == theirs.to_pylist(), rows
    nested = [{"t": text, "l": [text, None]}]
    ours, theirs = read_both(tmp_path / "a.jsonl", nested)
    assert ours.type == theirs.type and ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize("text", ZONED)
def test_times_with_a_zone_keep_it(tmp_path, text):
    """pyarrow reads the same instants but drops the zone; our CSV reader keeps it as well."""
    ours, theirs = read_both(tmp_path / "a.jsonl", [text, None])
    assert ours.type == pa.timestamp("s", "UTC") and theirs.type == pa.timestamp("s")
    assert ours.cast("int64").to_pylist() == theirs.cast("int64").to_pylist()
    (tmp_path / "a.csv").write_text(f"a,b\n{text},1\n")
    assert hd.read_csv(tmp_path / "a.csv").to_arrow()["a"].to_pylist() == ours.to_pylist()[:1]
    # Beside times without one it is not known which instants those are.
    mixed = [text, "2020-01-02T03:04:05"]
    ours, _ = read_both(tmp_path / "a.jsonl", mixed)
    assert ours.to_pylist() == mixed


def test_times_can_be_left_alone_or_declared(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = ["2020-01-02T03:04:05", "2020-01-02"]
    ours, _ = read_both(path, rows, times=False)
    assert ours.to_pylist() == rows
    ours, _ = read_both(path, rows, schema=pa.schema({"a": "string"}))
    assert ours.to_pylist() == rows
    ours, _ = read_both(
        path, rows + ["2020-01-02T03:04:05.123456Z"], schema=pa.schema({"a": pa.timestamp("us")})
    )
    assert ours.type == pa.timestamp("us") and ours[2].as_py().microsecond == 123456


def test_what_is_no_time_later_is_an_error_that_says_what_to_do(tmp_path):
    path = tmp_path / "a.jsonl"
    for later in ("soon", "2020-01-02T03:04:05.5", "2020-01-02T03:04:05Z"):
        with pytest.raises(TypeMismatchError, match=r"a.jsonl: line 2, column 7: column 'a': .*times=False"):
            read_both(path, ["2020-01-02", later], sample_bytes=1)
        assert read_both(path, ["2020-01-02", later], sample_bytes=1, times=False)[0][1].as_py() == later
        ours, _ = read_both(path, ["2020-01-02", later], sample_bytes=1, on_error="skip")
        assert ours.to_pylist() == [datetime.datetime(2020, 1, 2)]
    # Files after the first are read as it was.
    path.write_text('{"a": "2020-01-02"}\n')
    (tmp_path / "b.jsonl").write_text('{"a": "2020-01-02T00:00:00Z"}\n')
    with pytest.raises(TypeMismatchError, match="b.jsonl: line 1, column 7: .* without a zone"):
        hd.read_json(tmp_path).take_all()


def test_times_there_and_back(tmp_path):
    times = pa.table(
        {"a": pa.array([0, 10**9, None], pa.timestamp("s")), "b": pa.array([1, 2, 3], pa.int64())}
    )
    hd.from_arrow(times).write_json(str(tmp_path / "out"))
    assert hd.read_json(str(tmp_path / "out")).to_arrow() == times
