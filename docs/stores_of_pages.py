"""The stores that the blocks of docs/stores.md and docs/stores/ reach: servers of the tests, on this machine.

A page shows what a reader types: s3://bucket/train/, without an address. Variables of the environment lead
such a URL to a server here, as they lead it to any other server of the kind; a proxy leads
http://data.example.com here. The servers check signatures. They run in a process of their own, for one block.

A store has the empty buckets `bucket`, `out` and `private`, and `public`, which needs no credentials and has
trips.parquet and pictures. http://data.example.com has the same, and so has hdfs://namenode/public, which
user ann may read.
"""

import contextlib
import functools
import multiprocessing
import os
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUCKETS = ("bucket", "out", "private", "public")
OTHERS = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_", "STORAGE_EMULATOR_", "GCE_", "HADOOP_", "HEADRACE_CACHE_")


def has_stores(page):
    return page.stem == "stores" or page.parent.name == "stores"


def png(grey):
    """A picture of 8 x 8 pixels of one grey."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([grey]) * 8) * 8)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def fill(folder):
    """What `public` has."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    names = ["distance", "fare", "tip", *(f"sensor_{i}" for i in range(9))]
    columns = {name: np.round(rng.random(100_000) * 50, 2) for name in names}
    table = pa.table({"id": np.arange(100_000), **columns})
    pq.write_table(table, folder / "trips.parquet", row_group_size=20_000)
    (folder / "pictures").mkdir()
    for i in range(4):
        (folder / "pictures" / f"{i}.png").write_bytes(png(60 * i))


@functools.cache
def public():
    """A folder of what `public` has, made once by a process of its own, which alone imports pyarrow."""
    folder = tempfile.TemporaryDirectory()
    process = multiprocessing.get_context("fork").Process(target=fill, args=(Path(folder.name),))
    process.start()
    process.join()
    assert process.exitcode == 0
    return folder


def s3_environment(server, place):
    server.public = frozenset({"public"})
    (place / "config").write_text("[profile work]\nregion = us-east-1\n")
    keys = f"[work]\naws_access_key_id = {server.key}\naws_secret_access_key = {server.secret}\n"
    (place / "credentials").write_text(keys)
    return {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": server.key,
        "AWS_SECRET_ACCESS_KEY": server.secret,
        "AWS_CONFIG_FILE": str(place / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(place / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def gs_environment(server):
    """Without credentials requests to an emulator are anonymous; `private` alone needs some."""
    server.public = frozenset({"bucket", "out", "public"})
    keys = {"HMAC_KEY_ID": server.key, "HMAC_SECRET": server.secret, "TOKEN": server.bearer}
    return {"STORAGE_EMULATOR_HOST": server.url, **keys}


def az_environment(server):
    """The emulator's address, with an account of its own."""
    server.account, server.public = "account", frozenset({"public"})
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": server.account,
        "AZURE_STORAGE_ACCOUNT_KEY": server.key,
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": server.url,
    }


def serve(place, content, pipe):
    sys.path.insert(0, str(ROOT / "tests" / "python"))
    from cloud_servers import AzServer, GsServer
    from hdfs_server import NameNode
    from object_server import ObjectServer, S3Server

    servers = {}
    for kind, made in (("s3", S3Server), ("gs", GsServer), ("az", AzServer)):
        for bucket in BUCKETS:
            (place / kind / bucket).mkdir(parents=True)
        shutil.copytree(content, place / kind / "public", dirs_exist_ok=True)
        servers[kind] = made(place / kind)
    web = ObjectServer(place / "s3" / "public")
    names = NameNode(place / "s3")
    names.user = "ann"
    pipe.send(
        {
            **s3_environment(servers["s3"], place),
            **gs_environment(servers["gs"]),
            **az_environment(servers["az"]),
            "http_proxy": web.url,
            "WEBHDFS_ENDPOINT": names.url,
            "CLOUDSDK_CONFIG": str(place),
        }
    )
    pipe.recv()


@contextlib.contextmanager
def stores():
    """-> variables of the environment, for a block."""
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as place:
        ours, theirs = fork.Pipe()
        process = fork.Process(target=serve, args=(Path(place), public().name, theirs), daemon=True)
        process.start()
        theirs.close()  # recv() fails when the process does
        try:
            yield ours.recv()
        finally:
            process.terminate()
            process.join()


def enter(environment):
    """The process of a block has these variables, and none of its own that lead to a store."""
    for name in [n for n in os.environ if n.startswith(OTHERS) or n.lower().endswith("_proxy")]:
        del os.environ[name]
    os.environ.update(environment)
