"""The headrace command, as a person and a shell script use it; right and wrong input."""

import base64
import contextlib
import gzip
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from command import BUILD, COMMAND, COMMANDS, MISSING, ROOT, headrace

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.skipif(MISSING, reason="needs build/release (make lib)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files of 5 and 3 rows, one text, one hidden file."""
    at = tmp_path_factory.mktemp("cli")
    for name, begin, n in (("a", 0, 5), ("b", 5, 3)):
        rows = range(begin, begin + n)
        table = pa.table(
            {
                "id": pa.array(rows, pa.int64()),
                "city": pa.array([None if i == 1 else "Köln\n" * (i % 3) for i in rows]),
                "x": pa.array([i / 8 for i in rows], pa.float32()),
                "tags": pa.array([list(range(i)) for i in rows], pa.list_(pa.int32())),
            }
        )
        pq.write_table(table, at / f"{name}.parquet", row_group_size=2)
    (at / "_hidden").write_text("not a Parquet file")
    return at


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_text("one\ntwo\nthree\n")
    return path


# ---- what it says


def test_version_and_help():
    assert headrace("--version")[0] == f"headrace {importlib.metadata.version('headrace')}\n"
    out = headrace("--help")[0]
    for name in (*COMMANDS, "HEADRACE_NUM_THREADS", "HEADRACE_MEMORY_LIMIT", "HEADRACE_STALL_TIMEOUT"):
        assert name in out
    for name in COMMANDS:
        assert headrace(name, "--help")[0].startswith(f"usage: headrace {name} ")


def test_the_command_of_the_package(folder, tmp_path):
    """`python -m headrace` and the script that pip installs are the same command, in a Python process."""
    module = [sys.executable, "-m", "headrace"]
    for words, status in (
        (["--version"], 0),
        (["count", folder], 0),
        (["count", "nope.csv"], 1),
        (["nope"], 2),
    ):
        there, here = (
            subprocess.run([*c, *words], capture_output=True, text=True, cwd=tmp_path)
            for c in ([COMMAND], module)
        )
        assert (here.returncode, here.stdout, here.stderr) == (status, there.stdout, there.stderr)
    pq.write_table(pa.table({"x": range(200_000)}), tmp_path / "in.parquet")
    words = ["convert", "--to", "json", *[str(tmp_path / "in.parquet")] * 100, str(tmp_path / "a" / "b")]
    job = subprocess.Popen([*module, *words])
    while job.poll() is None and not (tmp_path / "a").exists():
        time.sleep(0.01)
    job.send_signal(signal.SIGINT)
    assert job.wait(120) == -signal.SIGINT and sorted(os.listdir(tmp_path)) == ["in.parquet"]


def test_schema(folder):
    out = headrace("schema", folder)[0]
    assert [line.split(":")[0] for line in out.splitlines()] == ["id", "city", "x", "tags"]
    assert out.splitlines()[:3] == ["id: int64", "city: string", "x: float"]
    assert out.splitlines()[3].startswith("tags: list<")


def test_count(folder, text_file):
    assert headrace("count", folder)[0] == "8\n"
    assert headrace("count", folder / "b.parquet", folder / "a.parquet", folder / "b.parquet")[0] == "11\n"
    assert headrace("count", f"{folder}/*.parquet")[0] == "8\n"
    assert headrace("count", text_file)[0] == "3\n"  # counted by reading


def test_head_as_a_table(folder):
    lines = headrace("head", "-n", 2, "--columns", "x,id", folder)[0].splitlines()
    assert lines == ["    x  id", "  0.0   0", "0.125   1"]
    # One line a row whatever the values hold, cut to the width.
    lines = headrace("head", "-n", 6, "--width", 7, "-c", "city", "-c", "tags", folder)[0].splitlines()
    assert len(lines) == 7
    assert lines[5].startswith("Köln\\n ") and lines[3].startswith("Köln\\n… ")
    assert all(len(line) <= 7 + 2 + 7 for line in lines)
    assert headrace("head", "-n", 0, "-c", "id", folder)[0] == "id\n"


def test_head_as_json(folder):
    rows = [json.loads(line) for line in headrace("head", "--json", "-n", 100, folder)[0].splitlines()]
    want = pa.concat_tables([pq.read_table(folder / f"{name}.parquet") for name in "ab"]).to_pylist()
    assert rows == want
    assert len(headrace("head", "--json", folder / "a.parquet")[0].splitlines()) == 5
    assert headrace("head", "--json", "-n", 0, folder)[0] == ""


def test_json_of_every_kind(tmp_path):
    table = pa.table(
        {
            'quo"te': pa.array(['a"b\\c\n\x00\x1b', ""]),
            "bool": pa.array([True, None]),
            "u64": pa.array([2**64 - 1, 0], pa.uint64()),
            "i8": pa.array([-128, 127], pa.int8()),
            "double": pa.array([0.1, float("nan")]),
            "float": pa.array([0.1, float("inf")], pa.float32()),
            "bytes": pa.array([b"\x00\xff", b""], pa.binary()),
            "when": pa.array([datetime(2024, 2, 29, 12, 30), None], pa.timestamp("us")),
            "struct": pa.array([{"a": 1, "b": ["x", None]}, None]),
            "nested": pa.array([[[1, 2], []], [None]], pa.list_(pa.list_(pa.int64()))),
        }
    )
    pq.write_table(table, tmp_path / "k.parquet")
    rows = [json.loads(line) for line in headrace("head", "--json", tmp_path / "k.parquet")[0].splitlines()]
    first, second = rows
    assert first['quo"te'] == 'a"b\\c\n\x00\x1b'
    assert (first["bool"], second["bool"]) == (True, None)
    assert (first["u64"], second["i8"]) == (2**64 - 1, 127)
    assert (first["double"], second["double"]) == (0.1, None)
    assert (first["float"], second["float"]) == (0.1, None)
    assert base64.b64decode(first["bytes"]) == b"\x00\xff" and second["bytes"] == ""
    assert first["when"].startswith("2024-02-29") and second["when"] is None
    assert (first["struct"], second["struct"]) == ({"a": 1, "b": ["x", None]}, None)
    assert (first["nested"], second["nested"]) == ([[1, 2], []], [None])


def test_a_long_head_goes_on(tmp_path):
    pq.write_table(pa.table({"i": list(range(5000))}), tmp_path / "l.parquet")
    lines = headrace("head", "-n", 4321, tmp_path / "l.parquet")[0].split()
    assert lines == ["i", *map(str, range(4321))]


def test_a_terminal_gets_no_orders(tmp_path):
    evil = "\x1b]0;owned\x07\u009b2J"
    pq.write_table(pa.table({evil: [evil]}), tmp_path / "e.parquet")
    out = headrace("head", tmp_path / "e.parquet")[0]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out) and len(out.splitlines()) == 2
    error = headrace("count", f"{tmp_path}/\x1b[31m\n", status=1)[1]
    assert "\x1b" not in error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_nothing(tmp_path, number):
    """The story: an empty folder stayed. Writing begins when the folder exists; 20 million rows take
    seconds.
    """
    pq.write_table(pa.table({"x": range(200_000)}), tmp_path / "in.parquet")
    inputs = [str(tmp_path / "in.parquet")] * 100
    for out in (tmp_path / "a" / "b", tmp_path / "c" / "d.json"):
        words = [COMMAND, "convert", "--to", "json", *inputs, str(out)]
        job = subprocess.Popen(words, stdout=subprocess.PIPE)
        while job.poll() is None and not out.parent.exists():
            time.sleep(0.01)
        job.send_signal(number)
        job.communicate(timeout=300)
        assert job.returncode == -number
        assert sorted(os.listdir(tmp_path)) == ["in.parquet"]


def test_filter(folder, tmp_path):
    rows = pa.concat_tables([pq.read_table(folder / f"{name}.parquet") for name in "ab"]).to_pylist()
    want = [row["id"] for row in rows if row["id"] > 1 and row["x"] is not None and row["x"] < 0.5]
    assert 0 < len(want) < len(rows)
    where = ("--filter", "id > 1", "--filter", "x < 0.5", folder)
    lines = headrace("head", "--json", "--select", "id", *where)[0].splitlines()
    assert [json.loads(line) for line in lines] == [{"id": i} for i in want]
    assert headrace("count", *where)[0] == f"{len(want)}\n"
    headrace("sort", "--key", "id:desc", "-c", "id", *where, tmp_path / "sorted.parquet")
    assert pq.read_table(tmp_path / "sorted.parquet").to_pydict() == {"id": want[::-1]}
    headrace("group", "--agg", "count() as n", *where, tmp_path / "n.parquet")
    assert pq.read_table(tmp_path / "n.parquet").to_pydict() == {"n": [len(want)]}
    assert "nosuch" in headrace("count", "--filter", "nosuch > 1", folder, status=1)[1]
    assert "int64, expected bool" in headrace("count", "--filter", "id + 1", folder, status=1)[1]


def test_convert(folder, tmp_path):
    out, _ = headrace("convert", folder, tmp_path / "all.parquet", "-w", "compression=snappy")
    assert out.startswith(f"{tmp_path}/all.parquet\t8 rows\t")
    assert pq.read_table(tmp_path / "all.parquet").num_rows == 8
    assert pq.ParquetFile(tmp_path / "all.parquet").metadata.row_group(0).column(0).compression == "SNAPPY"
    assert "already contains files" in headrace("convert", folder, tmp_path / "all.parquet", status=1)[1]
    headrace("convert", "--overwrite", "-c", "id", folder, tmp_path / "all.parquet")
    assert pq.read_table(tmp_path / "all.parquet").column_names == ["id"]
    headrace("convert", "--to", "parquet", "--max-rows-per-file", 3, folder, tmp_path / "many")
    assert sorted(pq.read_metadata(p).num_rows for p in (tmp_path / "many").iterdir()) == [2, 3, 3]
    assert "no format has files" in headrace("convert", folder, tmp_path / "x.unknown", status=1)[1]
    for name in ("a.csv.gz", "a.json.zst", "a.jsonl.lz4"):  # were plain under such names
        headrace("convert", "-c", "id", folder, tmp_path / name)
        assert headrace("count", tmp_path / name)[0] == headrace("count", folder)[0]
    where = ("convert", "-c", "id", folder, tmp_path / "b.parquet.gz")
    assert "name says gzip, but with these options a parquet file is not" in headrace(*where, status=1)[1]
    where = ("convert", "-c", "id", "-w", "compression=zstd", folder, tmp_path / "b.csv.gz")
    assert "is compressed by zstd" in headrace(*where, status=1)[1]
    assert "expected IN... and OUT" in headrace("convert", folder, status=2)[1]


def test_group(tmp_path):
    table = pa.table({"k": ["b", "a", "b", None], "x": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "in.parquet")
    out = tmp_path / "out.parquet"
    calls = ["-a", "count()", "-a", "mean(x)", "--agg", "quantile(x, q=1) as most"]
    headrace("group", "-k", "k", *calls, str(tmp_path / "in.parquet"), str(out))
    assert pq.read_table(out).to_pylist() == [
        {"k": "a", "count()": 1, "mean(x)": 2.0, "most": 2.0},
        {"k": "b", "count()": 2, "mean(x)": 2.0, "most": 3.0},
        {"k": None, "count()": 1, "mean(x)": 4.0, "most": 4.0},
    ]
    headrace("group", "-a", "sum(x)", "--overwrite", str(tmp_path / "in.parquet"), str(out))
    assert pq.read_table(out).to_pylist() == [{"sum(x)": 10}]
    for call, text in (
        ("mean", "expected a call such as"),
        ("mean(x) far", "expected a call such as"),
        ("nothing(x)", "unknown function 'nothing'"),
        ("mean(z)", "'z'"),
        ("mean(k)", "expected numbers"),
        ("quantile(x, q=7)", "q"),
    ):
        wrong = headrace("group", "-a", call, tmp_path / "in.parquet", tmp_path / "no.csv", status=1)
        assert text in wrong[1], call
    assert "mean" in headrace("functions")[0]


@pytest.fixture
def spilling(tmp_path):
    """A file of 16 MB, and the arguments of a shuffle of it in 8 MiB, to `out`."""
    n = 1_000_000
    pq.write_table(pa.table({"id": range(n), "k": [i * 7919 % n for i in range(n)]}), tmp_path / "in.parquet")
    (tmp_path / "spill").mkdir()

    def start(out):
        return subprocess.Popen(
            [COMMAND, "shuffle", "-s", "5", "-m", "8MiB", tmp_path / "in.parquet", tmp_path / out],
            env=os.environ | {"HEADRACE_SPILL_DIR": str(tmp_path / "spill")},
            stderr=subprocess.PIPE,
            text=True,
        )

    yield start
    assert list((tmp_path / "spill").iterdir()) == []


def spill_files(process, folder):
    """How many files without a name it has open there."""
    n = 0
    for fd in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            n += str(fd.readlink()).startswith(str(folder))
    return n


def test_killed_while_it_spills(tmp_path, spilling):
    process = spilling("out.parquet")
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if spill_files(process, tmp_path / "spill"):
                break
    process.kill()
    _, err = process.communicate()
    assert process.returncode == -9, err  # it was at it, and not yet done
    assert not (tmp_path / "out.parquet").exists()


def test_two_that_spill_at_once(tmp_path, spilling):
    both = [spilling(f"{i}.parquet") for i in range(2)]
    for process in both:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert (tmp_path / "0.parquet").read_bytes() == (tmp_path / "1.parquet").read_bytes()


def test_sort_shuffle_sample(tmp_path):
    n = 200_000
    table = pa.table(
        {"id": range(n), "k": [(i * 7919) % 1000 for i in range(n)], "s": [f"row {i} " * 5 for i in range(n)]}
    )
    table = table.append_column("m", pa.array([None if i % 10 == 0 else i % 3 for i in range(n)]))
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=20_000)
    spill = tmp_path / "spill"
    spill.mkdir()
    env = {"HEADRACE_SPILL_DIR": str(spill)}
    want = table.sort_by([("k", "descending"), ("id", "ascending")])
    orders = []
    for limit in ("8MiB", "1GB"):
        out = tmp_path / f"sorted {limit}.parquet"
        headrace(
            "sort",
            "-k",
            "k:desc",
            "--key",
            "id:asc",
            "--memory",
            limit,
            tmp_path / "in.parquet",
            out,
            **env,
        )
        assert pq.read_table(out).equals(want.cast(pq.read_schema(out)))
        headrace("shuffle", "-s", 5, "-m", limit, "--overwrite", tmp_path / "in.parquet", out, **env)
        mixed = pq.read_table(out)["id"].to_pylist()
        assert sorted(mixed) == list(range(n)) and mixed[:3] != [0, 1, 2]
        orders.append(mixed)
    assert orders[0] == orders[1]  # whatever the memory
    assert list(spill.iterdir()) == []
    headrace("sort", "-r", "--nulls-first", "-k", "m", tmp_path / "in.parquet", tmp_path / "m.parquet")
    m = pq.read_table(tmp_path / "m.parquet")["m"].to_pylist()
    assert m == [None] * (n // 10) + sorted((v for v in m if v is not None), reverse=True)
    headrace("sort", "-k", "k:desc,id", "-n", 500, tmp_path / "in.parquet", tmp_path / "first.parquet")
    assert pq.read_table(tmp_path / "first.parquet")["id"].to_pylist() == want["id"].to_pylist()[:500]
    headrace("sample", "-p", 0.1, "-c", "id", tmp_path / "in.parquet", tmp_path / "some.csv")
    some = [int(line) for line in (tmp_path / "some.csv").read_text().splitlines()[1:]]
    assert some == sorted(some) and 18_500 < len(some) < 21_500
    headrace("sample", "--rows", 10, "-c", "id", tmp_path / "in.parquet", tmp_path / "ten.csv")
    assert len(set((tmp_path / "ten.csv").read_text().splitlines()[1:])) == 10
    for args, text in [
        (("sort",), "expected IN... and OUT"),
        (("sort", "a", "b.csv"), "no --key is given"),
        (("sort", "-k", "a", "-n", "-3", "a", "b.csv"), "number of rows"),
        (("sample", "a", "b.csv"), "--fraction or --rows"),
        (("sample", "-p", 2, "a", "b.csv"), "from 0 to 1"),
        (("sample", "-n", "x", "a", "b.csv"), "number of rows"),
        (("shuffle", "--seed", "x", "a", "b.csv"), "--seed x"),
    ]:
        assert text in headrace(*args, status=2)[1]
    assert (
        "'nosuch'"
        in headrace("sort", "-k", "nosuch", tmp_path / "in.parquet", tmp_path / "x.csv", status=1)[1]
    )


def test_formats():
    names = [line.split()[0] for line in headrace("formats")[0].splitlines()]
    assert {"parquet", "text"} <= set(names)
    for name in names:
        out = headrace("formats", name)[0]
        assert out.startswith(f"{name}: ") and "\nsuffixes: " in out and "\noptions:" in out


def test_functions():
    lines = headrace("functions")[0].split("\n\naggregates")[0].splitlines()
    assert {line.split()[0] for line in lines} >= {"add", "is_in", "cast", "and", "not"}
    assert "a + b" in lines[[line.split()[0] for line in lines].index("add")]
    assert "usage: cast(a, to=, safe=)\noptions:\nto=" in headrace("functions", "cast")[0]
    assert "options: none" in headrace("functions", "add")[0]
    assert "nosuch" in headrace("functions", "nosuch", status=1)[1]


def test_the_man_page_knows_the_options():
    page = (ROOT / "docs" / "man" / "headrace.1").read_text().replace("\\-", "-")
    for name in COMMANDS:
        for option in re.findall(r"--[a-z]+", headrace(name, "--help")[0]):
            assert option in page, f"{name} {option}"


@pytest.mark.skipif(not shutil.which("man"), reason="needs man")
def test_the_man_page_has_no_mistakes():
    page = ROOT / "docs" / "man" / "headrace.1"
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == ""


# ---- what it refuses


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], "--help"),
        (["cuont", "x"], "cuont"),
        (["--nonsense"], "--nonsense"),
        (["head"], "no FILE is given"),
        (["count"], "no FILE is given"),
        (["schema"], "no FILE is given"),
        (["head", "--nonsense", "x"], "--nonsense"),
        (["head", "-n"], "--rows: expected a value"),
        (["head", "-n", "-1", "x"], "-1"),
        (["head", "-n", "1k", "x"], "1k"),
        (["head", "-n", "99999999999999999999", "x"], "99999999999999999999"),
        (["head", "--width", "many", "x"], "many"),
        (["count", "--memory", "lots", "x"], "--memory: 'lots' is not a number of bytes"),
        (["head", "-m", "0", "x"], "--memory: '0': expected 1 byte or more"),
        (["count", "--format"], "--format"),
        (["formats", "parquet", "text"], "text"),
        (["functions", "add", "or"], "or"),
    ],
)
def test_wrong_calls(args, text):
    assert text in headrace(*args, status=2)[1]


def test_wrong_input(folder, tmp_path):
    absent = tmp_path / "absent.parquet"
    damaged = tmp_path / "damaged.parquet"
    whole = (folder / "a.parquet").read_bytes()
    damaged.write_bytes(whole[:-5])
    for name in ("schema", "head", "count", "stat"):
        assert str(absent) in headrace(name, absent, status=1)[1]
        assert "damaged.parquet" in headrace(name, damaged, status=1)[1]
        assert headrace(name, tmp_path / "*.nothing", status=1)
        assert "nosuchformat" in headrace(name, "-f", "nosuchformat", folder, status=1)[1]
        assert "nosuchoption" in headrace(name, "-o", "nosuchoption=1", folder, status=1)[1]
        assert headrace(name, "gs://bucket/key.parquet", status=1)
    error = headrace("head", "--columns", "id,nosuchcolumn", folder, status=1)[1]
    assert "nosuchcolumn" in error and "city" in error  # and the columns that there are
    assert "nosuch" in headrace("formats", "nosuch", status=1)[1]


def test_an_empty_folder_says_so(tmp_path):
    assert str(tmp_path) in headrace("count", tmp_path, status=1)[1]


# ---- how it behaves


def test_environment(folder):
    assert headrace("count", folder, HEADRACE_NUM_THREADS="1", HEADRACE_MEMORY_LIMIT="64MiB")[0] == "8\n"
    assert len(headrace("head", folder, HEADRACE_NUM_THREADS="3")[0].splitlines()) == 9
    for name, value in (
        ("HEADRACE_NUM_THREADS", "many"),
        ("HEADRACE_NUM_THREADS", "0"),
        ("HEADRACE_MEMORY_LIMIT", "12 parsecs"),
        ("HEADRACE_SPILL_QUOTA", "a lot"),
    ):
        error = headrace("count", folder, status=1, **{name: value})[1]
        assert name in error and value in error


def test_memory(folder, tmp_path):
    for name in ("schema", "head", "count", "stat"):
        assert headrace(name, "--memory", "64MiB", folder) == headrace(name, folder)
    headrace("convert", "-m", "64MiB", folder, tmp_path / "out.parquet")
    assert headrace("count", tmp_path / "out.parquet")[0] == "8\n"
    assert "the memory limit is 1000" in headrace("head", "-m", "1kB", folder, status=1)[1]


def test_a_memory_limit_that_is_too_small_is_refused(folder):
    error = headrace("head", folder, status=1, HEADRACE_MEMORY_LIMIT="1kB")[1]
    assert re.search(r"\d", error)


def test_a_reader_that_goes_away(tmp_path):
    pq.write_table(pa.table({"i": list(range(300_000))}), tmp_path / "l.parquet")
    head = subprocess.Popen(
        [COMMAND, "head", "-n", "300000", tmp_path / "l.parquet"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        restore_signals=False,  # Python ignores SIGPIPE; a child inherits that
    )
    head.stdout.readline()
    head.stdout.close()
    assert head.wait(timeout=120) == -signal.SIGPIPE
    assert head.stderr.read() == b""
    head.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, "head", folder], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert done.returncode == 1 and "standard output" in done.stderr and done.stderr.count("\n") == 1


def test_the_c_example(folder):
    program = BUILD / "examples" / "quickstart"
    if not program.exists():
        pytest.skip("examples are not built")
    run = [program, folder, "x", "3"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.endswith(f"8 rows in 3 batches, sum(x) = {sum(range(8)) / 8}\n")
    data = ROOT / "examples" / "data"
    done = subprocess.run([program, data], capture_output=True, text=True, timeout=120, check=True)
    labels = pa.concat_tables([pq.read_table(p, columns=["label"]) for p in sorted(data.glob("*.parquet"))])
    assert f"{labels.num_rows} rows" in done.stdout
    assert float(done.stdout.split("= ")[1]) == sum(labels["label"].to_pylist())
    wrong = subprocess.run([program, data, "nosuch"], capture_output=True, text=True, timeout=300)
    assert wrong.returncode == 1 and "nosuch" in wrong.stderr


def test_folders_and_columns_of_later_files(tmp_path):
    """Columns of folders, which convert lost; columns that the first file lacks, which nobody heard of."""
    for year, text in (("2023", "a\n1\n"), ("2024", "a,b\n2,x\n")):
        (tmp_path / f"d/year={year}").mkdir(parents=True)
        (tmp_path / f"d/year={year}/f.csv").write_text(text)
    folder = tmp_path / "d"
    out, warning = headrace("head", "--json", folder, warns=True)
    assert [json.loads(line) for line in out.splitlines()] == [
        {"a": 1, "year": "2023"},
        {"a": 2, "year": "2024"},
    ]
    assert warning.startswith(f"headrace: {folder}/year=2024/f.csv: 'b': not read, since {folder}/year=2023")
    assert headrace("head", "--json", "--partitioning", "none", "-c", "a", folder) == (
        '{"a":1}\n{"a":2}\n',
        "",
    )
    out, warning = headrace("head", "--json", "--unify", "all", "--filter", "year == '2024'", folder)
    assert (out, warning) == ('{"a":2,"b":"x","year":"2024"}\n', "")
    headrace(
        "convert", folder, tmp_path / "out", "--to", "parquet", "--unify", "all", "--partition", "year,b"
    )
    assert "year=2024/b=x" in headrace("ls", tmp_path / "out")[0]
    assert headrace("count", tmp_path / "out", "--filter", "b is null and year in ('2023',)")[0] == "1\n"
    assert "expected hive or none" in headrace("head", "--partitioning", "dir", folder, status=2)[1]
    assert "expected first or all" in headrace("head", "--unify", "yes", folder, status=2)[1]


def test_words_of_other_tools(tmp_path):
    file = tmp_path / "f.csv"
    file.write_text("a,b\n1,2\n3,4\n")
    assert headrace("sort", "--by", "a desc", "--json", file)[0] == '{"a":3,"b":4}\n{"a":1,"b":2}\n'
    assert headrace("group", "--by", "a", "-a", "sum(b)", "--json", file)[0].count("\n") == 2
    assert "unknown function 'avg': use mean(x)" in headrace("group", "-a", "avg(b)", file, status=1)[1]
    headrace("convert", file, tmp_path / "o.csv")
    assert '"overwrite" replaces them' in headrace("convert", file, tmp_path / "o.csv", status=1)[1]
    for text, expected in (
        ("a = 1", "'==' instead of '='"),
        ("a > 0 && b > 0", "'and' instead of '&&'"),
        ("a == null", "is_null(x) and is_not_null(x) test for null"),
    ):
        status = 1 if "null" in text else 2
        assert expected in headrace("head", "--filter", text, file, status=status, warns=True)[1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("head x --colums a", "no option '--colums'; did you mean 'columns'?"),
        ("head x --delimiter ;", "no option '--delimiter'; of the format csv it is --option delimiter=VALUE"),
        ("head x --skip-rows=3", "of the format csv it is --option skip_rows=3"),
        ("sort x --desc", "no option '--desc'; here it is --key A:desc"),
        ("distinct x --by k", "here it is --key A,B"),
        ("formats --limit 3", "no option '--limit'; --help lists them"),
        ("head x --f csv", "no option '--f'; "),
        ("head x -d", "no option '-d'; --help lists them"),
        ("head x -n", "--rows: expected a value"),
        ("head x --json=3", "--json: expected no value"),
    ],
)
def test_options_of_other_programs(words, text):
    out, error = headrace(*words.split(), status=2)
    assert out == "" and text in error and error.startswith(f"headrace {words.split()[0]}: ")


def test_a_folder_of_several_formats(tmp_path):
    """The story: a README.txt came first, and all files of the folder were lines of text."""
    (tmp_path / "README.txt").write_text("hello\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"x\n1\n"))
    (tmp_path / "c.csv").write_text("x\n2\n")
    (tmp_path / "notes.md").write_text("x\n")
    _, error = headrace("count", tmp_path, status=1)
    assert re.search(
        r"b\.csv\.gz has the format csv, by its name, and .*README\.txt, the first file, text: ", error
    )
    assert headrace("count", tmp_path / "*.csv*")[0] == "2\n"
    assert headrace("count", tmp_path, "--format", "text")[0] == "6\n"
