"""Object stores: ours and peers on the same objects of a SeaweedFS server, over a link with latency.

    python bench/stores.py --peers .venv-bench/bin/python [--latency 0 10 50] [--mbit 0]

The server is on this machine; slow_link.c adds the latency, and a cap if --mbit says so. Participants take
turns, each time in a fresh process, imports not counted; the table has medians, and seconds of CPU of the
process. All have equal rows. The server and the link use the same cores, so a figure at 0 ms says little
about a network.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import machine
import make_data

HERE = Path(__file__).resolve().parent
KEY, SECRET, BUCKET = "AKIABENCH", "SECRETBENCH", "bench"
SMALL, SMALL_BYTES = 1200, 30_000
COLUMNS = ["fare", "f0"]
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

    return {
        "scan": lambda: rows(parquet()),
        "columns": lambda: rows(parquet(COLUMNS)),
        "take": lambda: len(parquet().take(5)),
        "small": lambda: rows(hd.read_binary_files(f"s3://{BUCKET}/small/", storage_options=options)),
        "csv": lambda: rows(hd.read_csv(f"s3://{BUCKET}/csv/", storage_options=options)),
    }


def pyarrow(endpoint):
    import pyarrow.dataset
    import pyarrow.fs

    store = pyarrow.fs.S3FileSystem(
        access_key=KEY, secret_key=SECRET, endpoint_override=endpoint, region="us-east-1"
    )

    def dataset(folder, kind="parquet"):
        return pyarrow.dataset.dataset(f"{BUCKET}/{folder}", format=kind, filesystem=store)

    def rows(scanned):
        return sum(batch.num_rows for batch in scanned.to_batches())

    return {
        "scan": lambda: rows(dataset("table").scanner()),
        "columns": lambda: rows(dataset("table").scanner(columns=COLUMNS)),
        "take": lambda: dataset("table").head(5).num_rows,
        "csv": lambda: rows(dataset("csv", "csv").scanner()),
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

    return {
        "scan": lambda: sum(piece.height for piece in scan().collect_batches(maintain_order=True)),
        "columns": lambda: sum(
            piece.height for piece in scan().select(COLUMNS).collect_batches(maintain_order=True)
        ),
        "take": lambda: scan().head(5).collect().height,
        "csv": lambda: sum(piece.height for piece in csv().collect_batches(maintain_order=True)),
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

    async def small():
        listed = [meta for page in store.list("small/") for meta in page]

        async def one(meta):
            return len(await (await store.get_async(meta["path"])).bytes_async())

        return sum(n > 0 for n in await asyncio.gather(*map(one, listed)))

    return {"small": lambda: asyncio.run(small())}


PARTICIPANTS = {OURS: ours, "pyarrow": pyarrow, "polars": polars, "obstore": obstore}
TITLES = {
    "scan": "Parquet, all columns",
    "columns": f"Parquet, {len(COLUMNS)} columns",
    "take": "Parquet, first 5 rows",
    "small": f"{SMALL:,} objects of {SMALL_BYTES // 1000} kB",
    "csv": "CSV",
}


def run_one(who, what, endpoint):
    """In a process of its own: prints rows, seconds and seconds of CPU."""
    run = PARTICIPANTS[who](endpoint)[what]
    cpu, begin = time.process_time(), time.monotonic()
    rows = run()
    print(json.dumps([rows, time.monotonic() - begin, time.process_time() - cpu]))


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
        "-master.volumeSizeLimitMB=512",
        "-volume.max=16",
        f"-s3.config={config}",
    ]
    started(stack, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{ports['s3']}/healthz", timeout=1)
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
import sys, pathlib, obstore
from obstore.store import S3Store
endpoint, bucket, key, secret, *folders = sys.argv[1:]
import boto3
boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret,
             region_name="us-east-1").create_bucket(Bucket=bucket)
store = S3Store(bucket, endpoint=endpoint, access_key_id=key, secret_access_key=secret, region="us-east-1",
                client_options={"allow_http": True})
for folder in map(pathlib.Path, folders):
    for path in sorted(folder.iterdir()):
        obstore.put(store, f"{folder.name}/{path.name}", path)
"""


def make_objects(folder, data):
    """Folders of files: the tables of the other benchmarks, and small ones."""
    small = folder / "small"
    small.mkdir()
    for i in range(SMALL):
        (small / f"{i:05}.bin").write_bytes(os.urandom(SMALL_BYTES))
    for name in ("table", "csv"):
        (folder / name).symlink_to(make_data.ensure(data, name, make_data.SIZES[name]).resolve())
    return [str(folder / name) for name in ("small", "table", "csv")]


# ------------------------------------------------------------------------------------------------ measuring


def measure(pythons, who, what, endpoint):
    python = pythons[who == OURS]
    done = subprocess.run(
        [python, __file__, "--one", who, what, endpoint],
        capture_output=True,
        text=True,
        cwd=HERE,
        timeout=600,
    )
    if done.returncode:
        return None, (done.stderr.strip().splitlines() or ["?"])[-1]
    return json.loads(done.stdout.splitlines()[-1]), None


def table(pythons, endpoint, runs):
    for what, title in TITLES.items():
        people = [who for who in PARTICIPANTS if what in NAMES[who]]
        taken = {who: [] for who in people}
        for _ in range(runs):
            for who in people:
                found, failed = measure(pythons, who, what, endpoint)
                if failed:
                    print(f"  {title}: {who}: {failed}", file=sys.stderr)
                else:
                    taken[who].append(found)
        rows = {who: {r for r, _, _ in found} for who, found in taken.items() if found}
        if len(set().union(*rows.values())) > 1:
            print(f"  {title}: rows differ: {rows}", file=sys.stderr)
        base = statistics.median([s for _, s, _ in taken[OURS]] or [float("nan")])
        for who, found in taken.items():
            if found:
                seconds, cpu = (statistics.median(f[i] for f in found) for i in (1, 2))
                yield f"| {title} | {who} | {seconds:.2f} | {seconds / base:.2f} | {cpu:.2f} |"


NAMES = {
    OURS: ("scan", "columns", "take", "small", "csv"),
    "pyarrow": ("scan", "columns", "take", "csv"),
    "polars": ("scan", "columns", "take", "csv"),
    "obstore": ("small",),
}


def main():
    if sys.argv[1:2] == ["--one"]:
        return run_one(*sys.argv[2:5])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers", type=Path, default=sys.executable, help="the Python of the peers, with weed beside it"
    )
    parser.add_argument("--data", type=Path, default=HERE / "data", help="where the files are made")
    parser.add_argument("--latency", nargs="*", type=float, default=[0, 10, 50], help="milliseconds")
    parser.add_argument("--mbit", type=float, default=0, help="the cap of the link; 0: none")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    peers = args.peers.absolute()
    cores = machine.n_cpus()
    print(
        f"{machine.cpu_name()}, {cores} cores, "
        f"memcpy {machine.memcpy(1):.1f} / {machine.memcpy(cores):.1f} GB/s"
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "weed").mkdir()
        server = serve(stack, folder / "weed", peers.parent / "weed")
        upload = [peers, "-c", UPLOAD, f"http://127.0.0.1:{server}", BUCKET, KEY, SECRET]
        subprocess.run([*upload, *make_objects(folder, args.data)], check=True)
        for latency in args.latency:
            with ExitStack() as link:
                port = slow_link(link, folder, server, latency, args.mbit)
                print(
                    f"\n{latency:g} ms\n\n| work | | seconds | ratio | CPU |\n|---|---|---|---|---|",
                    flush=True,
                )
                for row in table((peers, sys.executable), f"http://127.0.0.1:{port}", args.runs):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
