"""What travelled over the network stands in stats(): the server's counters say the same."""

import shutil
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_server import ObjectServer

import headrace.data as hd

ROWS = 200_000


@pytest.fixture
def server(tmp_path):
    rng = np.random.default_rng(1)
    columns = {name: rng.random(ROWS) for name in "abcd"}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=ROWS // 8)
    for i in range(200):
        (tmp_path / f"{i:03}.bin").write_bytes(bytes([i]) * 1000)
    server = ObjectServer(tmp_path)
    yield server
    server.close()


def run_of(server, **options):
    ds = hd.read_parquet(f"{server.url}/a.parquet", storage_options=options or None)
    ds.schema()  # the footer is read before the run
    before = len(server.requests), server.body_bytes()
    ds.materialize()
    stats = ds.stats("dict")
    return stats, len(server.requests) - before[0], server.body_bytes() - before[1]


def host_of(stats, server):
    (found,) = [h for h in stats["network"]["hosts"] if h["host"] == server.url]
    return found


def test_requests_and_bytes_are_those_that_the_server_saw(server):
    stats, n_requests, n_bytes = run_of(server)
    network, host = stats["network"], host_of(stats, server)
    assert (network["requests"], network["received_bytes"]) == (n_requests, n_bytes)
    assert host["requests"] == len(server.requests)
    assert host["received_bytes"] == server.body_bytes()
    assert network["retries"] == network["wasted_bytes"] == host["failed"] == host["in_flight"] == 0
    assert 1 <= host["peak_in_flight"] <= host["limit_large"] + host["limit_small"]


@pytest.mark.parametrize("when", ["before", "within"])
def test_the_head_that_gave_the_types_counts_once(server, tmp_path, when):
    """The story: the head of the first file is fetched for no run, and goes to the run. It stayed in
    `outside`, and in the run's bytes.
    """
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text("a,b\n" + "".join(f"{j},{j}.5\n" for j in range(300_000)))
    other = iter(hd.read_parquet(f"{server.url}/a.parquet").iter_batches(batch_size=1000))
    next(other)
    ds = hd.read_csv([f"{server.url}/{i}.csv" for i in range(3)])
    server.forget()
    if when == "before":
        ds.schema()
    ds.take(5)
    network = ds.stats("dict")["network"]
    outside = network["outside"]
    asked = [n for _, path, _, n in server.requests if path.endswith(".csv")]  # `other` reads on
    assert 1 << 20 < network["received_bytes"] <= sum(asked)
    assert network["requests"] + outside["requests"] == len(asked)
    assert outside["received_bytes"] == 0
    other.close()


def test_what_a_row_cache_computes_is_counted(server, tmp_path):
    """The story: the plan below cache() is a run of its own, and its bytes, requests and spills were in
    no statistics; its memory had a limit of its own beside that of the run.
    """
    ds = hd.read_parquet(f"{server.url}/a.parquet").cache(str(tmp_path / "rows"))
    ds.schema()
    before = len(server.requests), server.body_bytes()
    assert ds.materialize().count() == ROWS
    network = ds.stats("dict")["network"]
    assert network["requests"] == len(server.requests) - before[0] > 0
    assert network["received_bytes"] == server.body_bytes() - before[1] > 0
    ds.materialize()
    assert "network" not in ds.stats("dict")  # all rows come from the cache


def test_retries_and_wasted_bytes_are_counted(server):
    refused = []

    def fault(number, handler):
        if handler.command == "GET" and number % 3 == 1:
            refused.append(number)
            return server.status(handler, 500, Retry_After="0")

    server.fault = fault
    stats, n_requests, _ = run_of(server, max_retries=10)
    assert refused
    assert host_of(stats, server)["retries"] == len(refused)
    assert 0 < stats["network"]["retries"] <= len(refused)
    assert stats["network"]["requests"] == n_requests


def test_a_throttled_host_gets_fewer_requests(server):
    def fault(number, handler):
        if handler.command == "GET" and number < 6:
            return server.status(handler, 503, Retry_After="0")

    server.fault = fault
    stats, _, _ = run_of(server, max_retries=20)
    host = host_of(stats, server)
    assert host["throttled"] > 0
    assert host["limit_large"] <= 19


@pytest.mark.parametrize("most", [1, 3])
def test_max_connections_is_a_limit(most, server):
    """The server counted, too, what the client had given up: requests that a busy machine did not answer in
    time, and those that count() announces and nobody reads.
    """
    server.delay_s = 0.002
    again, held = threading.Event(), []

    def fault(number, handler):
        if handler.command != "GET":
            return None
        if held and handler.path == held[0].path:
            again.set()
        if held:
            return None
        held.append(handler)
        handler.close_connection = True
        return again.wait(60)  # its client gives up meanwhile

    server.fault = fault
    urls = [f"{server.url}/{i:03}.bin" for i in range(60)]
    options = {"max_connections": most, "hedges": False, "first_byte_timeout": 0.5, "max_retries": 50}
    ds = hd.read_binary_files(urls, storage_options=options)
    assert len(ds.to_arrow()) == 60
    assert again.is_set() and host_of(ds.stats("dict"), server)["retries"] >= 1
    assert ds.count() == 60
    assert server.most_at_once == most
    assert host_of(ds.stats("dict"), server)["peak_in_flight"] == most


def test_small_files_are_many_at_once(server):
    server.delay_s = 0.05
    hd.read_binary_files([f"{server.url}/{i:03}.bin" for i in range(200)])
    assert server.most_at_once > 30


def test_local_runs_have_no_network(server):
    ds = hd.range(10)
    ds.materialize()
    assert "network" not in ds.stats("dict")


def test_what_leaves_first_is_fetched_first(server, tmp_path):
    """Once the second fragment was asked for after all those beyond the window, and rows waited for it."""
    lines = "".join(f"{i},{i * 7}\n" for i in range(200_000))
    (tmp_path / "a.csv").write_text("a,b\n" + lines * 10)
    ds = hd.read_csv(f"{server.url}/a.csv", storage_options={"max_connections": 1, "hedges": False})
    assert ds.schema().names == ["a", "b"]
    server.forget()
    assert ds.count() == 2_000_000
    large = [(begin, n) for method, _, begin, n in server.requests if method == "GET" and n > 1 << 20]
    assert large[0][0] >= 4 << 20  # the schema has asked for the bytes before
    assert len(large) > 3 and large == sorted(large)
    assert [n for _, n in large][1:3] == [8 << 20] * 2  # of two fragments each


def test_the_fragments_of_a_slow_footer_go_before_those_of_later_files(server, tmp_path):
    """Those of all files behind it were asked for first, and the rows of its own waited for them."""
    size = (tmp_path / "a.parquet").stat().st_size
    for name in "bcd":
        shutil.copy(tmp_path / "a.parquet", tmp_path / f"{name}.parquet")

    def slow_footer(number, handler):
        if handler.path == "/b.parquet" and handler.headers.get("Range", "").endswith(f"-{size - 1}"):
            time.sleep(0.3)

    server.fault = slow_footer
    ds = hd.read_parquet([f"{server.url}/{name}.parquet" for name in "abcd"])
    assert sum(len(b["a"]) for b in ds.iter_batches(batch_size=8192)) == 4 * ROWS
    files = [path for method, path, begin, n in server.requests if method == "GET" and begin + n < size]
    assert list(dict.fromkeys(files)) == [f"/{name}.parquet" for name in "abcd"]


def test_the_footer_that_gave_the_schema_serves_the_run(server, tmp_path):
    """The run asked for the 192 KiB before it first, and waited for them: one round trip more."""
    t = pq.read_metadata(tmp_path / "a.parquet")
    size = sum(t.row_group(i).column(0).total_compressed_size for i in range(t.num_row_groups))
    ds = hd.read_parquet(f"{server.url}/a.parquet", columns=["a"])
    assert ds.schema().names == ["a"]
    server.forget()
    assert sum(len(b["a"]) for b in ds.iter_batches(batch_size=8192)) == ROWS
    assert size <= server.body_bytes() < size + (64 << 10)


def test_bytes_are_received_once(server, tmp_path):
    """Once the reader's windows reached beyond what was announced, and bytes travelled twice."""
    rng = np.random.default_rng(2)
    t = pa.table({name: rng.random(500_000) for name in "abcdefgh"})
    pq.write_table(t, tmp_path / "a.parquet", row_group_size=250_000, write_page_index=True)
    size = (tmp_path / "a.parquet").stat().st_size
    ds = hd.read_parquet(f"{server.url}/a.parquet")
    ds.schema()
    batches = ds.iter_batches(batch_size=8192)
    assert sum(len(b["a"]) for b in batches) == t.num_rows
    network = batches.stats("dict")["network"]
    assert network["received_bytes"] < size * 1.03
    assert network["requests"] < 500


@pytest.mark.parametrize("before", ["schema", "nothing"])
def test_the_bytes_of_a_csv_that_give_its_types_travel_once(before, server, tmp_path):
    """The first 4 MiB of a CSV file travelled twice: for the types of its columns, and for its rows."""
    lines = "".join(f"{i},{i * 7}\n" for i in range(200_000))
    (tmp_path / "a.csv").write_text("a,b\n" + lines * 10)
    ds = hd.read_csv(f"{server.url}/a.csv")
    if before == "schema":
        assert ds.schema().names == ["a", "b"]
        assert server.body_bytes() == 4 << 20
    size = (tmp_path / "a.csv").stat().st_size
    batches = ds.iter_batches(batch_size=8192)
    assert sum(len(b["a"]) for b in batches) == 2_000_000
    assert server.body_bytes() == size == batches.stats("dict")["network"]["received_bytes"]
    server.forget()
    assert ds.count() == 2_000_000  # the bytes were not kept
    assert size - (128 << 10) < server.body_bytes() <= size


@pytest.mark.parametrize("before", ["schema", "nothing"])
@pytest.mark.parametrize(
    "given, n_bytes, n_requests",
    [
        ({"dtypes": {"a": "int64", "b": "int64"}}, 64 << 10, 1),
        ({"dtypes": "int64"}, 64 << 10, 1),
        ({"dtypes": {"a": "int64", "b": "int64"}, "names": ["a", "b"], "header": True}, 64 << 10, 1),
        ({"dtypes": {"a": "int64"}}, 4 << 20, 2),  # the names must come first
    ],
)
def test_types_that_are_given_travel_not(before, given, n_bytes, n_requests, server, tmp_path):
    """schema() fetched 4 MiB for types that were given; without it, these travelled twice."""
    lines = "".join(f"{i},{i * 7}\n" for i in range(200_000))
    (tmp_path / "a.csv").write_text("a,b\n" + lines * 5)
    ds = hd.read_csv(f"{server.url}/a.csv", **given)
    if before == "schema":
        assert ds.schema().types == ["int64", "int64"]
        assert server.body_bytes() == n_bytes
        assert [method for method, *_ in server.requests].count("GET") == n_requests
    assert sum(len(b["a"]) for b in ds.iter_batches(batch_size=8192)) == 1_000_000
    assert server.body_bytes() == (tmp_path / "a.csv").stat().st_size


def test_a_schema_that_is_given_travels_not(server, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "1,2\n" * 100_000)
    schema = pa.schema({"a": "int64", "b": "int64"})
    assert hd.read_csv(f"{server.url}/a.csv", schema=schema).schema().names == ["a", "b"]
    assert server.body_bytes() == 0


@pytest.mark.parametrize("before", ["schema", "nothing"])
@pytest.mark.parametrize("given", ["types", "no types"])
def test_the_bytes_of_fixed_widths_that_give_types_travel_once(before, given, server, tmp_path):
    """The first bytes behind them travelled twice, and 8 MiB for a schema."""
    (tmp_path / "a.fwf").write_text("".join(f"{i:8}{i * 7:10}\n" for i in range(200_000)) * 5)
    dtypes = {"dtypes": {"a": "int64", "b": "int64"}} if given == "types" else {}
    ds = hd.read_fwf(f"{server.url}/a.fwf", widths=[8, 10], names=["a", "b"], **dtypes)
    if before == "schema":
        assert ds.schema().types == ["int64", "int64"]
        assert server.body_bytes() == (64 << 10 if dtypes else (4 << 20) + (16 << 10))
    assert sum(len(b["a"]) for b in ds.iter_batches(batch_size=8192)) == 1_000_000
    assert server.body_bytes() == (tmp_path / "a.fwf").stat().st_size


def test_one_pass_fetches_nothing_for_a_second_epoch(server, tmp_path):
    """The engine guessed a second epoch where the loop left it time, and fetched the file for it."""
    (tmp_path / "a.fwf").write_text("".join(f"{i:8}{i * 7:10}\n" for i in range(200_000)) * 5)
    for _ in hd.read_fwf(f"{server.url}/a.fwf", widths=[8, 10]).iter_batches(batch_size=16_384):
        time.sleep(0.01)
    assert server.body_bytes() == (tmp_path / "a.fwf").stat().st_size


@pytest.mark.parametrize("before", ["schema", "nothing"])
@pytest.mark.parametrize("layout", ["lines", "array"])
@pytest.mark.parametrize("sample", [4 << 20, 1 << 20, 0])
def test_the_bytes_of_json_that_give_its_types_travel_once(sample, layout, before, server, tmp_path):
    """They came by one request after another, with two MiB that no type needed."""
    rows = "".join(f'{{"a": {i}, "b": {i * 7}}}\n' for i in range(200_000)) * 3
    (tmp_path / "a.json").write_text(rows if layout == "lines" else f"[{rows[:-1].replace('}', '},')[:-1]}]")
    size = (tmp_path / "a.json").stat().st_size
    ds = hd.read_json(f"{server.url}/a.json", sample_bytes=sample)
    if before == "schema":
        assert ds.schema().names == ["a", "b"]
        assert server.body_bytes() == (sample + (256 << 10) if sample else size)
        assert [method for method, *_ in server.requests].count("GET") <= (1 if sample else 3)
    assert sum(len(b["a"]) for b in ds.iter_batches(batch_size=8192)) == 600_000
    assert server.body_bytes() == size


def test_rows_travel_while_the_types_do(server, tmp_path):
    """Nothing else was asked for until the bytes that give the types had come and were read."""
    lines = "".join(f"{i},{i * 7}\n" for i in range(200_000))
    (tmp_path / "a.csv").write_text("a,b\n" + lines * 10)
    others = threading.Event()

    def fault(number, handler):
        begin = int((handler.headers.get("Range") or "bytes=-1").split("=")[1].split("-")[0] or -1)
        if begin >= 4 << 20:
            others.set()
        elif begin >= 64 << 10:
            assert others.wait(60)

    server.fault = fault
    assert sum(len(b["a"]) for b in hd.read_csv(f"{server.url}/a.csv").iter_batches()) == 2_000_000


def hangs_once(server, path):
    """The first request for `path` gets no answer until the event is set; others are good."""
    released, hung = threading.Event(), []

    def fault(number, handler):
        if handler.command == "GET" and handler.path == path and not hung:
            hung.append(number)
            released.wait(60)
            handler.close_connection = True
            return True

    server.fault = fault
    return released, hung


def small_files(server, **options):
    urls = [f"{server.url}/{i:03}.bin" for i in range(200)]
    ds = hd.read_binary_files(urls, storage_options=options)
    rows = [row["bytes"] for row in ds.iter_rows()]
    assert rows == [bytes([i]) * 1000 for i in range(200)]
    return ds.stats("dict")["network"]


def test_a_request_that_hangs_is_overtaken_by_its_hedge(server):
    small_files(server)  # the host is known now
    released, hung = hangs_once(server, "/150.bin")
    network = small_files(server)
    assert hung
    assert network["hedges"] >= network["hedges_won"] >= 1
    assert network["hedges"] <= 0.03 * 400 + 1
    assert network["retries"] == 0
    assert network["wasted_bytes"] <= 1000 * network["hedges"]
    released.set()


def test_hedges_can_be_turned_off(server):
    small_files(server, hedges=False)
    released, hung = hangs_once(server, "/150.bin")
    network = small_files(server, hedges=False, timeout=0.5)
    assert hung
    assert (network["hedges"], network["hedges_won"]) == (0, 0)
    assert network["retries"] >= 1
    released.set()


def test_a_host_that_refuses_gets_no_hedges(server):
    small_files(server)
    refused = []

    def fault(number, handler):
        if handler.command == "GET" and len(refused) < 5:
            refused.append(number)
            return server.status(handler, 503, Retry_After="0")
        if handler.path == "/150.bin":
            time.sleep(0.8)

    server.fault = fault
    # Before the others: one that is slow before any refusal comes gets a hedge, on a loaded machine.
    hd.read_binary_files(f"{server.url}/000.bin", storage_options={"max_retries": 20}).take_all()
    assert len(refused) == 5
    assert small_files(server)["hedges"] == 0
