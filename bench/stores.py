"""Object stores: ours and peers on the same objects of a SeaweedFS server, over a link with latency.

    python bench/stores.py --peers .venv-bench/bin/python [--latency 0 10 50] [--mbit 0 1000 10000]

The server is on this machine; slow_link.c adds the latency, and a cap in each direction if --mbit says so.
Participants take turns, each time in a fresh process, imports and the start of Ray not counted; the table has
medians, and seconds of CPU of the process and of those that it started. All have equal rows. The server and
the link use the same cores, so a figure at 0 ms says little about a network. DuckDB takes part where its
httpfs extension is installed, which comes from a repository of its own.
"""

import argparse
import functools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import machine
import make_data

HERE = Path(__file__).resolve().parent
KEY, SECRET, BUCKET = "AKIABENCH", "SECRETBENCH", "bench"
SMALL, SMALL_BYTES = 1200, 30_000
PHOTOS = 400  # different ones, under many names
COLUMNS = ["fare", "f0"]
WRITTEN_ROWS = 4_000_000
LIMIT_S = 600
OURS = "headrace"


# ---------------------------------------------------------------------------------------------- participants


def ours(endpoint):
    import headrace.data as hd

    options = {"key": KEY, "secret": SECRET, "endpoint": endpoint}
    batches = {"batch_size": None, "batch_format": "pyarrow"}

    def rows(ds):
        return sum(batch.num_rows for batch in ds.iter_batches(**batches))

    def parquet(columns=None):
        return hd.read_parquet(f"s3://{BUCKET}/table/", columns=columns, storage_options=options)

    def write():
        """Unsigned, as Polars sends it; without the option a body is hashed where there is no TLS."""
        given = options | {"aws_unsigned_payload": True}
        ds = hd.from_arrow(rows_to_write())
        files = ds.write_parquet(
            out(OURS), compression="none", single_file=True, mode="overwrite", storage_options=given
        )
        return sum(file["rows"] for file in files)

    return {
        "scan": lambda: rows(parquet()),
        "columns": lambda: rows(parquet(COLUMNS)),
        "take": lambda: len(parquet().take(5)),
        "small": lambda: rows(hd.read_binary_files(f"s3://{BUCKET}/small/", storage_options=options)),
        "csv": lambda: rows(hd.read_csv(f"s3://{BUCKET}/csv/", storage_options=options)),
        "jpeg": lambda: rows(hd.read_binary_files(f"s3://{BUCKET}/jpeg/", storage_options=options)),
        "list": lambda: len(
            hd.read_binary_files(f"s3://{BUCKET}/keys/", storage_options=options).input_files()
        ),
        "write": write,
    }


@functools.cache
def rows_to_write():
    """Incompressible columns: the bytes that travel are those of the table."""
    import numpy
    import pyarrow

    rng = numpy.random.default_rng(0)
    return pyarrow.table({f"c{i}": rng.random(WRITTEN_ROWS) for i in range(8)})


def out(who):
    return f"s3://{BUCKET}/out/{who}.parquet"


def pyarrow(endpoint):
    import pyarrow.dataset
    import pyarrow.fs
    import pyarrow.parquet

    store = pyarrow.fs.S3FileSystem(
        access_key=KEY, secret_key=SECRET, endpoint_override=endpoint, region="us-east-1"
    )

    def dataset(folder, kind="parquet"):
        return pyarrow.dataset.dataset(f"{BUCKET}/{folder}", format=kind, filesystem=store)

    def rows(scanned):
        return sum(batch.num_rows for batch in scanned.to_batches())

    def keys(folder):
        below = store.get_file_info(pyarrow.fs.FileSelector(f"{BUCKET}/{folder}", recursive=True))
        return [info for info in below if info.is_file]

    def one(info):
        with store.open_input_file(info.path) as file:
            return len(file.read())

    def jpeg():
        with ThreadPoolExecutor(64) as pool:
            return sum(n > 0 for n in pool.map(one, keys("jpeg")))

    def write():
        table = rows_to_write()
        path = out("pyarrow").removeprefix("s3://")
        pyarrow.parquet.write_table(table, path, filesystem=store, compression="none", use_dictionary=False)
        return table.num_rows

    return {
        "scan": lambda: rows(dataset("table").scanner()),
        "columns": lambda: rows(dataset("table").scanner(columns=COLUMNS)),
        "take": lambda: dataset("table").head(5).num_rows,
        "csv": lambda: rows(dataset("csv", "csv").scanner()),
        "jpeg": jpeg,
        "list": lambda: len(keys("keys")),
        "write": write,
    }


def polars(endpoint):
    import polars as pl

    options = {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_endpoint_url": endpoint,
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }

    def scan():
        return pl.scan_parquet(f"s3://{BUCKET}/table/", storage_options=options)

    def csv():
        return pl.scan_csv(f"s3://{BUCKET}/csv/", storage_options=options)

    def write():
        frame = pl.from_arrow(rows_to_write())
        frame.lazy().sink_parquet(out("polars"), compression="uncompressed", storage_options=options)
        return frame.height

    return {
        "scan": lambda: sum(piece.height for piece in scan().collect_batches(maintain_order=True)),
        "columns": lambda: sum(
            piece.height for piece in scan().select(COLUMNS).collect_batches(maintain_order=True)
        ),
        "take": lambda: scan().head(5).collect().height,
        "csv": lambda: sum(piece.height for piece in csv().collect_batches(maintain_order=True)),
        "write": write,
    }


def obstore(endpoint):
    import asyncio

    from obstore.store import S3Store

    store = S3Store(
        BUCKET,
        endpoint=endpoint,
        access_key_id=KEY,
        secret_access_key=SECRET,
        region="us-east-1",
        client_options={"allow_http": True},
    )

    async def get(folder):
        listed = [meta for page in store.list(f"{folder}/") for meta in page]

        async def one(meta):
            return len(await (await store.get_async(meta["path"])).bytes_async())

        return sum(n > 0 for n in await asyncio.gather(*map(one, listed)))

    return {
        "small": lambda: asyncio.run(get("small")),
        "jpeg": lambda: asyncio.run(get("jpeg")),
        "list": lambda: sum(len(page) for page in store.list("keys/")),
    }


def s3fs(endpoint):
    import s3fs

    store = s3fs.S3FileSystem(
        key=KEY, secret=SECRET, client_kwargs={"endpoint_url": endpoint, "region_name": "us-east-1"}
    )

    def get(folder):
        return sum(len(data) > 0 for data in store.cat(store.find(f"{BUCKET}/{folder}")).values())

    return {
        "small": lambda: get("small"),
        "jpeg": lambda: get("jpeg"),
        "list": lambda: len(store.find(f"{BUCKET}/keys")),
    }


def daft(endpoint):
    import daft

    given = {"endpoint_url": endpoint, "key_id": KEY, "access_key": SECRET, "region_name": "us-east-1"}
    config = daft.io.IOConfig(s3=daft.io.S3Config(**given, use_ssl=False))
    daft.set_planning_config(default_io_config=config)

    def rows(frame):
        return sum(batch.num_rows for batch in frame.to_arrow_iter())

    def table():
        return daft.read_parquet(f"s3://{BUCKET}/table/*.parquet")

    def get(folder):
        found = daft.from_glob_path(f"s3://{BUCKET}/{folder}/**")
        return rows(found.select(daft.col("path").download()))

    def write():
        frame = daft.from_arrow(rows_to_write())
        frame.write_parquet(out("daft"), compression="none", write_mode="overwrite")
        return WRITTEN_ROWS

    return {
        "scan": lambda: rows(table()),
        "columns": lambda: rows(table().select(*COLUMNS)),
        "take": lambda: rows(table().limit(5)),
        "csv": lambda: rows(daft.read_csv(f"s3://{BUCKET}/csv/*.csv")),
        "small": lambda: get("small"),
        "jpeg": lambda: get("jpeg"),
        "list": lambda: rows(daft.from_glob_path(f"s3://{BUCKET}/keys/**").select("path")),
        "write": write,
    }


def ray(endpoint):
    import pyarrow.fs
    import ray.data

    ray.init(num_cpus=machine.n_cpus(), include_dashboard=False, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    store = pyarrow.fs.S3FileSystem(
        access_key=KEY, secret_key=SECRET, endpoint_override=endpoint, region="us-east-1"
    )

    def rows(read, folder, **given):
        ds = read(f"{BUCKET}/{folder}/", filesystem=store, **given)
        return sum(batch.num_rows for batch in ds.iter_batches(batch_size=None, batch_format="pyarrow"))

    def write():
        ray.data.from_arrow(rows_to_write()).write_parquet(
            out("ray").removeprefix("s3://"), filesystem=store, compression="none", mode="overwrite"
        )
        return WRITTEN_ROWS

    return {
        "scan": lambda: rows(ray.data.read_parquet, "table"),
        "columns": lambda: rows(ray.data.read_parquet, "table", columns=COLUMNS),
        "take": lambda: len(ray.data.read_parquet(f"{BUCKET}/table/", filesystem=store).take(5)),
        "csv": lambda: rows(ray.data.read_csv, "csv"),
        "small": lambda: rows(ray.data.read_binary_files, "small"),
        "jpeg": lambda: rows(ray.data.read_binary_files, "jpeg"),
        "write": write,
    }


def duckdb(endpoint):
    import duckdb

    base = duckdb.connect()
    base.execute("LOAD httpfs")
    host = endpoint.removeprefix("http://")
    base.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', REGION 'us-east-1', ENDPOINT '{host}', "
        "URL_STYLE 'path', USE_SSL false)"
    )

    def rows(query):
        return sum(batch.num_rows for batch in base.sql(query).fetch_arrow_reader())

    return {
        "scan": lambda: rows(f"FROM 's3://{BUCKET}/table/*.parquet'"),
        "columns": lambda: rows(f"SELECT {', '.join(COLUMNS)} FROM 's3://{BUCKET}/table/*.parquet'"),
        "take": lambda: rows(f"FROM 's3://{BUCKET}/table/*.parquet' LIMIT 5"),
        "csv": lambda: rows(f"FROM 's3://{BUCKET}/csv/*.csv'"),
        "list": lambda: base.sql(f"SELECT count(*) FROM glob('s3://{BUCKET}/keys/**')").fetchone()[0],
    }


TABLES = ("scan", "columns", "take", "csv")
PARTICIPANTS = {
    OURS: (ours, (*TABLES, "small", "jpeg", "list", "write")),
    "pyarrow": (pyarrow, (*TABLES, "jpeg", "list", "write")),
    "polars": (polars, (*TABLES, "write")),
    "obstore": (obstore, ("small", "jpeg", "list")),
    "s3fs": (s3fs, ("small", "jpeg", "list")),
    "daft": (daft, (*TABLES, "small", "jpeg", "list", "write")),
    "ray": (ray, (*TABLES, "small", "jpeg", "write")),
    "duckdb": (duckdb, (*TABLES, "list")),
}
TITLES = {
    "scan": "Parquet, all columns",
    "columns": f"Parquet, {len(COLUMNS)} columns",
    "take": "Parquet, first 5 rows",
    "csv": "CSV",
    "small": f"{SMALL:,} objects of {SMALL_BYTES // 1000} kB",
    "jpeg": "JPEG objects, not decoded",
    "list": "listing",
    "write": "Parquet, one file written",
}


def processor_seconds():
    """Of this process, and of those that it started, where psutil is (Ray's workers)."""
    try:
        import psutil

        children = psutil.Process().children(recursive=True)
        return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in children)
    except ImportError:
        return time.process_time()


def run_one(who, what, endpoint):
    """In a process of its own: prints rows, seconds and seconds of CPU."""
    run = PARTICIPANTS[who][0](endpoint)[what]
    if what == "write":
        rows_to_write()  # made before the clock runs
    cpu, begin = processor_seconds(), time.monotonic()
    rows = run()
    print(json.dumps([rows, time.monotonic() - begin, processor_seconds() - cpu]))


# ------------------------------------------------------------------------------------------- server, objects


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def started(stack, command, **more):
    process = subprocess.Popen(command, **more)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def serve(stack, folder, weed):
    """Starts the server; -> its port."""
    config = folder / "s3.json"
    keys = [{"accessKey": KEY, "secretKey": SECRET}]
    identity = {"name": "bench", "credentials": keys, "actions": ["Admin", "Read", "Write", "List"]}
    config.write_text(json.dumps({"identities": [identity]}))
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    command = [
        weed,
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        "-s3",
        "-master.telemetry=false",
    ]
    command += [f"-{name}.port={port}" for name, port in ports.items()]
    command += [f"-{name}.port.grpc={free_port()}" for name in ports]
    command += [
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.volumeSizeLimitMB=2000",  # replaced files stay: full volumes answer 500
        "-volume.max=40",
        f"-s3.config={config}",
    ]
    started(stack, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    make = urllib.request.Request(f"http://127.0.0.1:{ports['filer']}/buckets/{BUCKET}/", method="POST")
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{ports['s3']}/healthz", timeout=5)
            urllib.request.urlopen(make, timeout=5)
            time.sleep(3)  # its volumes
            return ports["s3"]
        except OSError:
            time.sleep(0.1)
    sys.exit("SeaweedFS does not start")


def slow_link(stack, folder, server, latency, mbit):
    """A port that leads to the server over a link; the server's own, where nothing is asked for."""
    if not latency and not mbit:
        return server
    program, port = folder / "slow_link", free_port()
    if not program.exists():
        build = ["cc", "-O2", "-pthread", HERE / "slow_link.c", "-o", program]
        subprocess.run(build, check=True)
    words = [program, str(port), str(server), str(latency), str(mbit)]
    started(stack, words, stdout=subprocess.PIPE).stdout.readline()
    return port


UPLOAD = """
import asyncio, sys, pathlib
from obstore.store import S3Store
endpoint, bucket, key, secret, n_jpegs, n_keys, *folders = sys.argv[1:]
store = S3Store(bucket, endpoint=endpoint, access_key_id=key, secret_access_key=secret, region="us-east-1",
                client_options={"allow_http": True})

async def put(objects, at_once):
    async def some():
        for name, data in objects:
            await store.put_async(name, data() if callable(data) else data)
    await asyncio.gather(*(some() for _ in range(at_once)))

def files():
    for folder in map(pathlib.Path, folders):
        paths = sorted(folder.iterdir())
        n = int(n_jpegs) if folder.name == "jpeg" else len(paths)
        for i in range(n):
            path = paths[i % len(paths)]
            name = f"{i:06}.jpg" if folder.name == "jpeg" else path.name
            yield f"{folder.name}/{name}", path.read_bytes

asyncio.run(put(files(), 8))
asyncio.run(put(((f"keys/{i // 1000:03}/{i:06}", b"") for i in range(int(n_keys))), 32))
"""


def make_objects(folder, args):
    """Folders of files: the tables of the other benchmarks, photos, and small files."""
    small = folder / "small"
    small.mkdir()
    for i in range(SMALL):
        (small / f"{i:05}.bin").write_bytes(os.urandom(SMALL_BYTES))
    sizes = {"table": args.rows, "csv": args.records, "photos": PHOTOS}
    made = {kind: make_data.ensure(args.data, kind, n).resolve() for kind, n in sizes.items()}
    for name, kind in {"table": "table", "csv": "csv", "jpeg": "photos"}.items():
        (folder / name).symlink_to(made[kind])
    wanted = {"table": ("scan", "columns", "take"), "csv": ("csv",), "jpeg": ("jpeg",), "small": ("small",)}
    return [folder / name for name, rows in wanted.items() if {*rows} & {*args.only}]


def gigabytes(folders, args):
    """Bytes that a row moves; rows that move an unknown part of their objects are not there."""
    of = {folder.name: sum(f.stat().st_size for f in folder.iterdir()) / 1e9 for folder in folders}
    found = {"scan": of.get("table"), "csv": of.get("csv"), "small": of.get("small")}
    found["jpeg"] = of["jpeg"] / PHOTOS * args.jpegs if "jpeg" in of else None
    found["write"] = WRITTEN_ROWS * 8 * 8 / 1e9
    return {row: n for row, n in found.items() if n}


# ------------------------------------------------------------------------------------------------ measuring


def measure(pythons, who, what, endpoint):
    python = pythons[who == OURS]
    command = [python, __file__, "--one", who, what, endpoint]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, f"no end in {LIMIT_S} s"
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["?"])[-1]
    return json.loads(done.stdout.splitlines()[-1]), None


def table(pythons, endpoint, args, sizes):
    for what in args.only:
        title = {"jpeg": f"{args.jpegs:,} ", "list": f"{args.keys:,} keys: "}.get(what, "") + TITLES[what]
        people = [who for who in args.who if what in PARTICIPANTS[who][1]]
        taken = {who: [] for who in people}
        for _ in range(args.runs):
            for who in people:
                found, failed = measure(pythons, who, what, endpoint)
                if failed:
                    print(f"  {title}: {who}: {failed}", file=sys.stderr)
                else:
                    taken[who].append(found)
        rows = {who: {r for r, _, _ in found} for who, found in taken.items() if found}
        if len(set().union(*rows.values())) > 1:
            print(f"  {title}: rows differ: {rows}", file=sys.stderr)
        base = statistics.median([s for _, s, _ in taken.get(OURS, [])] or [float("nan")])
        for who, found in taken.items():
            if found:
                seconds, cpu = (statistics.median(f[i] for f in found) for i in (1, 2))
                per = f"{cpu / sizes[what]:.2f}" if what in sizes else ""
                yield f"| {title} | {who} | {seconds:.2f} | {seconds / base:.2f} | {cpu:.2f} | {per} |"


def has_httpfs(python):
    """Its repository is asked once; where it does not answer, DuckDB reads no URLs."""
    install = "import duckdb; c = duckdb.connect(); c.execute('INSTALL httpfs'); c.execute('LOAD httpfs')"
    try:
        return subprocess.run([python, "-c", install], capture_output=True, timeout=60).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers", type=Path, default=sys.executable, help="the Python of the peers, with weed beside it"
    )
    parser.add_argument("--data", type=Path, default=HERE / "data", help="where the files are made")
    parser.add_argument("--latency", nargs="*", type=float, default=[0, 10, 50], help="milliseconds")
    parser.add_argument("--mbit", nargs="*", type=float, default=[0], help="caps of the link; 0: none")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=TITLES, default=list(TITLES), help="these rows")
    parser.add_argument("--who", nargs="*", choices=PARTICIPANTS, default=list(PARTICIPANTS))
    parser.add_argument("--rows", type=int, default=make_data.SIZES["table"], help="of the table")
    parser.add_argument("--records", type=int, default=make_data.SIZES["csv"], help="of CSV")
    parser.add_argument("--jpegs", type=int, default=10_000)
    parser.add_argument("--keys", type=int, default=100_000)
    return parser.parse_args()


def main():
    if sys.argv[1:2] == ["--one"]:
        return run_one(*sys.argv[2:5])
    args = arguments()
    peers = args.peers.absolute()
    cores = machine.n_cpus()
    print(
        f"{machine.cpu_name()}, {cores} cores, "
        f"memcpy {machine.memcpy(1):.1f} / {machine.memcpy(cores):.1f} GB/s"
    )
    if "duckdb" in args.who and not has_httpfs(peers):
        print("DuckDB takes no part: its httpfs extension does not install here")
        args.who.remove("duckdb")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "weed").mkdir()
        weed = shutil.which("weed", path=peers.parent)
        server = serve(stack, folder / "weed", weed)
        folders = make_objects(folder, args)
        numbers = [str(args.jpegs), str(args.keys if "list" in args.only else 0)]
        upload = [peers, "-c", UPLOAD, f"http://127.0.0.1:{server}", BUCKET, KEY, SECRET, *numbers]
        subprocess.run([*upload, *folders], check=True)
        sizes = gigabytes(folders, args)
        for latency, mbit in [(latency, mbit) for mbit in args.mbit for latency in args.latency]:
            with ExitStack() as link:
                port = slow_link(link, folder, server, latency, mbit)
                cap = f", {mbit:g} Mbit/s" if mbit else ""
                print(
                    f"\n{latency:g} ms{cap}\n\n| work | | seconds | ratio | CPU | CPU s/GB |\n"
                    "|---|---|---|---|---|---|",
                    flush=True,
                )
                for row in table((peers, sys.executable), f"http://127.0.0.1:{port}", args, sizes):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
