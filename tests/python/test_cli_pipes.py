"""`-` and other pipes: standard input of every format, standard output as a file of one."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest
from command import COMMAND, MISSING, environment, headrace

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ipc = pytest.importorskip("pyarrow.ipc")

pytestmark = pytest.mark.skipif(MISSING, reason="needs build/release (make lib)")


@pytest.fixture(scope="module")
def table():
    n = 50_000
    return pa.table({"id": range(n), "name": [f"n{i % 7}" for i in range(n)], "x": [i / 8 for i in range(n)]})


@pytest.fixture(scope="module")
def parquet(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("pipes") / "a.parquet"
    pq.write_table(table, path, row_group_size=9000)
    return path


def test_every_format_through_both_pipes(parquet, table):
    """`headrace convert a.parquet - --to F | headrace convert -f F - - --to parquet` keeps the rows."""
    for name in ("parquet", "csv", "json", "arrow", "tfrecords"):
        there = headrace("convert", parquet, "-", "--to", name)[0]
        there = there.encode() if isinstance(there, str) else there
        back = headrace("convert", "-f", name, "-", "-", "--to", "parquet", given=there)[0]
        got = pq.read_table(pa.BufferReader(back))
        assert got.select(table.column_names).cast(table.schema).equals(table), name
    assert headrace("count", "-", given=parquet.read_bytes())[0] == "50000\n"  # known by its first bytes
    for text in (b'{"a": 1}\n', b'\n{ "a": 1}', b'[\n  {"a": 1}]', b'{"a": null}\n{"a": 3}'):
        assert headrace("schema", "-", given=text)[0] == "a: int64\n"  # it needed -f json
    assert "neither the name" in headrace("schema", "-", given=b"{a}\n", status=1)[1]


def test_compressed_text(table, parquet):
    import gzip

    data = gzip.compress(headrace("convert", parquet, "-", "--to", "csv")[0].encode())
    assert headrace("count", "-f", "csv", "-", given=data)[0] == "50000\n"


def test_a_file_as_standard_input_is_read_in_place(parquet, tmp_path):
    with open(parquet, "rb") as file:
        done = subprocess.run([COMMAND, "count", "-"], stdin=file, capture_output=True, env=environment())
    assert (done.stdout, done.stderr) == (b"50000\n", b"")
    text = tmp_path / "a.csv"
    text.write_text("not a header\na,b\n1,2\n")
    with open(text, "rb", buffering=0) as file:
        file.read(len("not a header\n"))  # `(read line; headrace ... -) < file`: the rest is the input
        done = subprocess.run(
            [COMMAND, "head", "-f", "csv", "--json", "-"], stdin=file, capture_output=True, env=environment()
        )
    assert json.loads(done.stdout) == {"a": 1, "b": 2}


def test_several_inputs(parquet, tmp_path):
    rows = headrace("sort", "-k", "id:desc", "--json", "-c", "id", "--print", parquet, "-",
                    given=parquet.read_bytes())[0].splitlines()  # fmt: skip
    assert len(rows) == 100_000 and json.loads(rows[0]) == json.loads(rows[1]) == {"id": 49_999}
    assert "once only" in headrace("count", "-", "-", given=b"", status=1)[1]
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(parquet.read_bytes(),))
    writer.start()
    assert headrace("count", fifo)[0] == "50000\n"
    writer.join()


def test_head_of_a_pipe_that_never_ends():
    """Rows of text come as soon as the beginning of the pipe has them, cut after a line."""
    script = f'yes \'{{"a": 1, "b": "{"x" * 100}"}}\' | {COMMAND} head -f json -n 3 -c a -'
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, env=environment()
    )
    assert (done.stdout, done.stderr) == ("a\n1\n1\n1\n", "")


def test_head_of_more_than_the_first_part():
    """The first part (1 MiB) has too few rows, or a row that only the next part completes."""
    lines = [json.dumps({"i": i, "text": "y" * 200}) for i in range(20_000)]  # 4.5 MB
    out = headrace(
        "head", "-n", 15_000, "--json", "-c", "i", "-f", "json", "-", given="\n".join(lines).encode()
    )
    assert [json.loads(line)["i"] for line in out[0].splitlines()] == list(range(15_000))
    data = b'a,b\n1,"' + b"z\n" * 700_000 + b'"\n2,w\n'
    out = headrace("head", "-n", 2, "--width", 5, "-f", "csv", "-", given=data)[0].splitlines()
    assert [line.split()[0] for line in out] == ["a", "1", "2"]


def test_errors_name_the_pipe(tmp_path, parquet):
    assert "standard input: neither the name" in headrace("head", "-", given=b"a,b\n1,2\n", status=1)[1]
    error = headrace("head", "-f", "csv", "-", given=b"a,b\n1\n", status=1)[1]
    assert "standard input" in error and "/proc" not in error
    assert "standard input" in headrace("stat", "-f", "csv", "-", given=b"a,b\n1,2\n")[0]
    wrong = headrace("count", "-", given=parquet.read_bytes()[:-9], status=1)[1]
    assert "standard input" in wrong
    error = headrace("count", "-", given=b"x" * 3_000_000, status=1, HEADRACE_SPILL_QUOTA="1MiB")[1]
    assert "standard input" in error and "spill quota" in error
    error = headrace("count", "-", given=b"x", status=1, HEADRACE_SPILL_DIR=str(tmp_path / "none"))[1]
    assert "none" in error


def test_nothing_is_left_in_the_spill_folder(tmp_path, parquet):
    env = {"HEADRACE_SPILL_DIR": str(tmp_path)}
    assert headrace("count", "-", given=parquet.read_bytes(), **env)[0] == "50000\n"
    job = subprocess.Popen(
        [COMMAND, "count", "-f", "text", "-"], stdin=subprocess.PIPE, env=environment(**env)
    )
    job.stdin.write(b"line\n" * 500_000)
    time.sleep(0.1)
    job.send_signal(signal.SIGINT)
    job.stdin.close()
    assert job.wait(60) == -signal.SIGINT and not list(tmp_path.iterdir())


def test_standard_output_continues_a_file(parquet, tmp_path):
    """`(echo head; headrace ...) > file`: the command writes where the file stands, and only there."""
    script = f"(echo first; {COMMAND} convert -c id {parquet} - --to csv; echo last) > {tmp_path}/out"
    subprocess.run(["bash", "-c", script], check=True, env=environment())
    lines = (tmp_path / "out").read_text().split("\n")
    assert lines[:3] == ["first", "id", "0"] and lines[-3:] == ["49999", "last", ""]


def test_a_reader_that_goes_away(parquet):
    script = (
        f"{COMMAND} convert {parquet} {parquet} {parquet} - --to json | head -n 1; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment(), timeout=60
    )
    assert json.loads(done.stdout)["id"] == 0 and done.stderr == ""
    assert done.returncode == 128 + signal.SIGPIPE


def test_a_device_is_written_not_replaced(parquet, tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    headrace("convert", "--overwrite", "-c", "id", parquet, fifo, "--to", "csv")
    reader.join()
    assert got[0].startswith(b"id\n0\n1\n") and fifo.is_fifo()
    assert (
        "/dev/null\t50000 rows"
        in headrace("convert", "--overwrite", parquet, "/dev/null", "--to", "arrow")[0]
    )
    assert os.stat("/dev/null").st_rdev


def test_what_cannot_go_into_a_pipe(parquet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--to names the format" in headrace("convert", parquet, "-", status=1)[1]
    assert "one file" in headrace("convert", parquet, "-", "--to", "csv", "--folder", status=1)[1]
    assert "one file" in headrace("convert", parquet, "-", "--to", "csv", "--partition", "name", status=1)[1]
    assert (
        "get their beginning last"
        in headrace("convert", "-c", "x", parquet, "-", "--to", "numpy", status=1)[1]
    )
    assert "did you mean 'json'" in headrace("convert", parquet, "-", "--to", "jsn", status=1)[1]
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(parquet):
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "convert", parquet, "-", "--to", "csv"], stdout=full,
                              stderr=subprocess.PIPE, text=True, env=environment())  # fmt: skip
    assert done.returncode == 1 and "No space left" in done.stderr and done.stderr.count("\n") == 1
    assert "standard output" in done.stderr


def test_arrow_stream_to_pyarrow(parquet, table):
    """What `headrace convert - --to arrow` writes is a stream that other programs read while it comes."""
    job = subprocess.Popen([COMMAND, "convert", parquet, "-", "--to", "arrow"], stdout=subprocess.PIPE,
                           env=environment())  # fmt: skip
    data = job.stdout.read()
    assert job.wait(60) == 0
    try:
        got = ipc.open_stream(data).read_all()
    except pa.ArrowInvalid:
        got = ipc.open_file(data).read_all()
    assert got.cast(table.schema).equals(table)
