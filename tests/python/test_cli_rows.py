"""Rows on the terminal instead of OUT, JSON of every command, distinct and explode, "did you mean"."""

import json
import subprocess

import pytest
from command import COMMAND, COMMANDS, MISSING, environment, headrace

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.skipif(MISSING, reason="needs build/release (make lib)")


@pytest.fixture(scope="module")
def trips(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "trips.parquet"
    n = 300
    columns = {
        "city": [["Rome", "Oslo", "Bonn"][i % 3] for i in range(n)],
        "fare": [i * 37 % 100 for i in range(n)],
    }
    pq.write_table(pa.table(columns), path, row_group_size=70)
    return path


def objects(out):
    return [json.loads(line) for line in out.splitlines()]


def test_tables_without_out(trips):
    assert headrace("group", "-k", "city", "-a", "count() as n", "-a", "max(fare)", trips)[
        0
    ].splitlines() == [
        "city    n  max(fare)",
        "Bonn  100         99",
        "Oslo  100         99",
        "Rome  100         99",
    ]
    lines = headrace("sort", "-k", "fare:desc", trips)[0].splitlines()
    assert [line.split() for line in lines[:3]] == [["city", "fare"], ["Rome", "99"], ["Oslo", "99"]]
    assert (
        len(lines) == 1 + 40 + 1 and lines[-1] == "... and more rows: --json prints them all, OUT keeps them"
    )
    lines = headrace("sort", "-k", "fare", "-n", 40, trips)[0].splitlines()
    assert len(lines) == 41  # nothing is left out, and nothing says so
    assert len(headrace("shuffle", trips)[0].splitlines()) == 42
    assert len(headrace("sample", "-n", 5, trips)[0].splitlines()) == 6
    two = headrace("group", "-a", "count() as n", "--print", trips, trips)[0]
    assert two.split() == ["n", "600"]


def test_json_without_out(trips):
    rows = objects(headrace("sort", "-k", "fare:desc,city", "--json", trips)[0])
    want = pq.read_table(trips).sort_by([("fare", "descending"), ("city", "ascending")]).to_pylist()
    assert rows == want
    assert objects(headrace("group", "-a", "sum(fare) as s", "-j", trips)[0]) == [
        {"s": sum(r["fare"] for r in want)}
    ]


def test_json_of_the_other_commands(trips, tmp_path):
    out = tmp_path / "out.csv"
    assert objects(headrace("convert", "--json", trips, out)[0]) == [
        {"path": str(out), "rows": 300, "bytes": out.stat().st_size}
    ]
    assert objects(headrace("count", "--json", trips)[0]) == [{"rows": 300}]
    assert objects(headrace("schema", "--json", trips)[0]) == [
        {"name": "city", "type": "string", "nullable": True},
        {"name": "fare", "type": "int64", "nullable": True},
    ]
    (file,) = objects(headrace("stat", "--json", trips)[0])
    meta = pq.read_metadata(trips)
    assert (file["path"], file["rows"], file["columns"]) == (str(trips), 300, 2)
    assert file["written_by"] == meta.created_by
    assert [f["rows"] for f in file["fragments"]] == [70, 70, 70, 70, 20]
    for i, fragment in enumerate(file["fragments"]):
        for k, column in enumerate(fragment["columns"]):
            there = meta.row_group(i).column(k)
            assert column["name"] == there.path_in_schema
            assert column["stored_bytes"] == there.total_compressed_size
            assert (column["least"], column["most"]) == (str(there.statistics.min), str(there.statistics.max))
    (file,) = objects(headrace("stat", "--json", out)[0])
    assert file["rows"] is None and file["fragments"][0]["stored_bytes"] == out.stat().st_size
    formats = {f["name"]: f for f in objects(headrace("formats", "--json")[0])}
    assert formats["parquet"]["can_write"] and not formats["text"]["can_write"]
    first, *options = objects(headrace("formats", "--json", "csv")[0])
    assert first["name"] == "csv"
    assert {"option": "delimiter", "default": ","}.items() <= options[0].items() and options[0]["doc"]
    assert any("write_option" in o for o in options)
    functions = {f["name"]: f for f in objects(headrace("functions", "-j")[0])}
    assert functions["add"]["usage"] == "a + b" and functions["mean"]["is_aggregate"]
    assert [o.get("option") for o in objects(headrace("functions", "-j", "cast")[0])] == [None, "to", "safe"]


def test_names_of_columns_that_look_like_lines(tmp_path):
    columns = {'a": int64\n"b': [1], "c: string": ["x"], "d\n": [None], "\x1b[31m": [True]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    rows = objects(headrace("schema", "--json", tmp_path / "a.parquet")[0])
    assert [r["name"] for r in rows] == list(columns)
    assert [r["type"] for r in rows] == ["int64", "string", "null", "bool"]
    assert "\x1b" not in headrace("schema", tmp_path / "a.parquet")[0]
    (file,) = objects(headrace("stat", "--json", tmp_path / "a.parquet")[0])
    assert [c["name"] for c in file["fragments"][0]["columns"]] == list(columns)


def test_distinct(trips, tmp_path):
    cities = objects(headrace("distinct", "-k", "city", "--json", trips)[0])
    assert cities == [{"city": "Rome", "fare": 0}, {"city": "Oslo", "fare": 37}, {"city": "Bonn", "fare": 74}]
    last = objects(headrace("distinct", "-k", "city", "--keep", "last", "-j", trips)[0])
    assert [r["fare"] for r in last] == [i * 37 % 100 for i in (297, 298, 299)]
    assert headrace("distinct", "-k", "city", "--keep", "none", "-j", trips)[0] == ""
    headrace("distinct", trips, tmp_path / "d.parquet")
    assert pq.read_table(tmp_path / "d.parquet").num_rows == 300  # 3 and 100 have no common factor
    assert "first, last or none" in headrace("distinct", "--keep", "any", trips, status=2)[1]
    assert "did you mean 'city'" in headrace("distinct", "-k", "cityy", trips, status=1)[1]


def test_explode(tmp_path):
    pq.write_table(pa.table({"k": [1, 2, 3], "v": [["a", "b"], [], None]}), tmp_path / "l.parquet")
    rows = objects(headrace("explode", "--list", "v", "--json", tmp_path / "l.parquet")[0])
    assert rows == [{"k": 1, "v": "a"}, {"k": 1, "v": "b"}, {"k": 2, "v": None}, {"k": 3, "v": None}]
    assert "no --list" in headrace("explode", tmp_path / "l.parquet", status=2)[1]
    assert "'k'" in headrace("explode", "--list", "k", tmp_path / "l.parquet", status=1)[1]


def test_out_is_not_overwritten_when_it_was_meant_as_an_input(trips, tmp_path):
    other = tmp_path / "b.parquet"
    other.write_bytes(trips.read_bytes())
    error = headrace("group", "-k", "city", "-a", "count()", trips, other, status=1)[1]
    assert "already contains files" in error and other.read_bytes() == trips.read_bytes()
    error = headrace("sort", "-k", "city", "--print", "--to", "csv", trips, status=2)[1]
    assert "--print has no OUT" in error


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["formats", "parqet"], "did you mean 'parquet'?"),
        (["functions", "str_lenn"], "did you mean 'str_len'?"),
        (["count", "-f", "cvs", "TRIPS"], "did you mean 'csv'?"),
        (["convert", "--to", "parket", "x", "y"], "did you mean 'parquet'?"),
        (["head", "--filter", "str_lenn(city) > 1", "TRIPS"], "did you mean 'str_len'?"),
        (["group", "-a", "maen(fare)", "TRIPS"], "did you mean 'mean'?"),
        (["sort", "-k", "fares", "TRIPS"], "did you mean 'fare'?"),
    ],
)
def test_did_you_mean(trips, args, hint):
    words = [COMMAND, *[trips if a == "TRIPS" else a for a in args]]
    done = subprocess.run(words, capture_output=True, text=True, env=environment())
    assert done.returncode in (1, 2) and hint in done.stderr.splitlines()[0]


def test_a_mark_under_the_place_in_an_expression(trips):
    words = [COMMAND, "count", "--filter", "ciță == 'Ö' and", trips]
    done = subprocess.run(words, capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "headrace: --filter: expression: character 16, at '': expected a value, a column or a function",
        "    ciță == 'Ö' and",
        "                   ^",
    ]


def test_every_command_has_its_options_in_its_help():
    for name in COMMANDS:
        text = headrace(name, "--help")[0]
        assert ("--json" in text) == (name != "completion")
        assert max(map(len, text.splitlines())) <= 120


def test_values_have_one_text(tmp_path):
    """`head` once printed `2024-02-29 12:30:00.000`, files had `2024-02-29T12:30:00`."""
    columns = {
        "s": pa.array([1709209800], pa.timestamp("s")),
        "ns": pa.array([1709209800123456000], pa.timestamp("ns", "Europe/Paris")),
        "day": pa.array([-5], pa.date32()),
        "time": pa.array([45000500], pa.time32("ms")),
        "took": pa.array([4500], pa.duration("ms")),
        "half": pa.array([0.1], pa.float16()),
        "price": pa.array([1.5], pa.float32()),
        "tags": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    path = tmp_path / "values.parquet"
    pq.write_table(pa.table(columns), path)
    line = headrace("head", "--json", path)[0]
    assert line == headrace("convert", "--to", "json", path, "-")[0]
    assert json.loads(line) == {
        "s": "2024-02-29T12:30:00",
        "ns": "2024-02-29T12:30:00.123456Z",
        "day": "1969-12-27",
        "time": "12:30:00.5",
        "took": 4500,
        "half": 0.1,
        "price": 1.5,
        "tags": {"k": 1},
    }
    flat = [name for name in columns if name != "tags"]
    written = headrace("convert", "--to", "csv", "--select", ",".join(flat), path, "-")[0]
    printed = headrace("head", "--select", ",".join(flat), path)[0].splitlines()
    values = dict(zip(printed[0].split(), printed[1].split(), strict=True))
    assert values.pop("took") == "4500ms"  # a table says the unit
    assert list(values.values()) == [v for v in written.splitlines()[1].split(",") if v != "4500"]
