"""Damaged files of every format but Parquet: no wrong rows in silence where a careful reader refuses.

Careful readers are pyarrow with full validation, NumPy, Python's json, csv, tarfile, zipfile, gzip, Pillow,
zarr, and for TFRecord the definition of the format. HEADRACE_THOROUGH=1 reads thousands of damaged copies.
"""

import datetime as dt
import gzip
import io
import json
import os
import struct
import tarfile

import google_crc32c
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.json
import pytest
from corruption import KINDS, cases, reader_of_paths, run_cases
from PIL import Image

import headrace.data as hd

N = 24  # cases of each file by default: three of each kind


def bench(name, ours, theirs, data, *, n=N, covered=False, **more):
    report = run_cases(ours, theirs, data, cases(n, 60 * n), name=name, **more)
    print(report.line())
    report.check(covered=covered)


def ours_of(read, path, **options):
    return reader_of_paths(lambda p: read(str(p), **options).to_arrow(), path)


UNCUT = tuple(kind for kind in KINDS if kind != "cut")  # a file that is cut between records is a whole one


# ---------------------------------------------------------------------------------- what is written


def numbers(n=300):
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "id": pa.array(range(n), pa.int64()),
            "x": pa.array(rng.normal(size=n), pa.float64()),
            "small": pa.array(rng.integers(0, 100, n).astype("i2"), mask=rng.random(n) < 0.2),
            "name": pa.array([None if i % 11 == 3 else f"row {i} é" for i in range(n)]),
            "flag": pa.array(rng.random(n) < 0.5),
        }
    )


PAIRS = pa.map_(pa.string(), pa.int8())


def nested(n=120):
    rng = np.random.default_rng(6)
    base = dt.datetime(2024, 2, 28, 23, 59, 58)
    return pa.table(
        {
            "list": pa.array(
                [[int(v) for v in rng.integers(0, 9, i % 4)] for i in range(n)], pa.list_(pa.int32())
            ),
            "struct": pa.array([{"a": i, "b": f"s{i}"} if i % 7 else None for i in range(n)]),
            "word": pa.array([f"word {i % 5}" for i in range(n)]).dictionary_encode(),
            "time": pa.array([base + dt.timedelta(seconds=i) for i in range(n)], pa.timestamp("us")),
            "day": pa.array([base.date() + dt.timedelta(days=i) for i in range(n)], pa.date64()),
            "clock": pa.array([i * 700 for i in range(n)], pa.time32("s")),
            "price": pa.array([None if i % 9 == 0 else i for i in range(n)], pa.int32()).cast(
                pa.decimal128(12, 2)
            ),
            "map": pa.array(
                [[(f"k{j}", j) for j in range(i % 3)] for i in range(n)], pa.map_(pa.string(), pa.int8())
            ),
            "view": pa.array([f"{i} " * (i % 9) for i in range(n)], pa.string_view()),
            "fixed": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.int16(), 2)),
        }
    )


def ipc(table, stream, compression=None, rows=100):
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=not stream)
    open_writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with open_writer(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return out.getvalue()


def written_by_us(table, tmp_path, write, **options):
    folder = tmp_path / "written"
    getattr(hd.from_arrow(table), write)(str(folder), **options)
    (path,) = [p for p in sorted(folder.rglob("*")) if p.is_file()]
    data = path.read_bytes()
    path.unlink()
    return data


# ---------------------------------------------------------------------------------------- Arrow IPC


def read_ipc(data):
    open_reader = pa.ipc.open_file if data[:6] == b"ARROW1" else pa.ipc.open_stream
    table = open_reader(pa.BufferReader(data)).read_all()
    table.validate(full=True)
    return table


def polars_ipc(table, stream):
    out = io.BytesIO()
    frame = pl.from_arrow(table)
    (frame.write_ipc_stream if stream else frame.write_ipc)(out, compression="uncompressed")
    return out.getvalue()


def feather(table, compression):
    out = io.BytesIO()
    pyarrow.feather.write_feather(table.to_pandas(), out, compression=compression)
    return out.getvalue()


IPC = {
    "pyarrow file": lambda: ipc(numbers(), False),
    "pyarrow stream": lambda: ipc(numbers(), True),
    "pyarrow file, nested": lambda: ipc(nested(), False),
    "pyarrow stream, nested": lambda: ipc(nested(), True),
    "pyarrow file, lz4": lambda: ipc(numbers(), False, "lz4"),
    "pyarrow file, zstd": lambda: ipc(nested(), False, "zstd"),
    "pandas feather": lambda: feather(numbers(), "lz4"),
    "polars file": lambda: polars_ipc(numbers(), False),
    "polars stream": lambda: polars_ipc(numbers(), True),
}


@pytest.mark.parametrize("name", IPC)
def test_arrow(tmp_path, name):
    ours = ours_of(hd.read_arrow, tmp_path / "a.arrow", check_values="all")
    bench(name, ours, read_ipc, IPC[name]())


@pytest.mark.parametrize(
    "options", [{}, {"stream": True}, {"compression": "lz4"}, {"compression": "zstd"}], ids=str
)
def test_arrow_of_ours(tmp_path, options):
    data = written_by_us(nested(), tmp_path, "write_arrow", **options)
    ours = ours_of(hd.read_arrow, tmp_path / "a.arrow", check_values="all")
    bench(f"ours {options}", ours, read_ipc, data)


# ------------------------------------------------------------------------------------------------ NumPy


def array_of(values):
    return values.dtype.str, values.shape, values.tobytes()


def read_npy(data):
    return array_of(np.load(io.BytesIO(data), allow_pickle=False))


def saved(values):
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


NPY = {
    "numbers": lambda: np.random.default_rng(1).normal(size=(200, 3)),
    "fortran": lambda: np.asfortranarray(np.random.default_rng(1).integers(0, 99, (50, 4))),
    "big-endian": lambda: np.arange(500, dtype=">i4"),
    "texts": lambda: np.array([f"text {i}" for i in range(60)]),
    "times": lambda: np.arange(300).astype("M8[s]"),
    "records": lambda: np.array([(i, i / 2, b"xy") for i in range(90)], dtype="i4, f8, S3"),
    "flags": lambda: np.arange(300) % 3 == 0,
}


@pytest.mark.parametrize("name", NPY)
def test_npy(tmp_path, name):
    bench(f"npy, {name}", ours_of(hd.read_numpy, tmp_path / "a.npy"), read_npy, saved(NPY[name]()))


def test_npy_of_ours(tmp_path):
    table = pa.table({"data": np.arange(1000.0)})
    data = written_by_us(table, tmp_path, "write_numpy", column="data")
    bench("npy, ours", ours_of(hd.read_numpy, tmp_path / "a.npy"), read_npy, data)


def read_npz(data):
    with np.load(io.BytesIO(data), allow_pickle=False) as members:
        return {name: array_of(members[name]) for name in members.files}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    out = io.BytesIO()
    save(out, x=np.arange(300), words=np.array([f"w{i % 9}" for i in range(300)]), y=np.ones((300, 2), "f4"))
    bench(save.__name__, ours_of(hd.read_numpy, tmp_path / "a.npz"), read_npz, out.getvalue(), covered=True)


# ------------------------------------------------------------------------------------------------ TFRecord


def masked(data):
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_records(data):
    """By the definition: length, its checksum, bytes, their checksum."""
    rows, at = [], 0
    while at < len(data):
        n, check = struct.unpack_from("<QI", data, at)
        if check != masked(data[at : at + 8]):
            raise ValueError(f"length at {at}")
        payload = data[at + 12 : at + 12 + n]
        (check,) = struct.unpack_from("<I", data, at + 12 + n)
        if len(payload) != n or check != masked(payload):
            raise ValueError(f"payload at {at}")
        rows.append(payload)
        at += n + 16
    return rows


@pytest.mark.parametrize("raw", [False, True], ids=["examples", "raw"])
def test_tfrecord(tmp_path, raw):
    data = written_by_us(numbers(60).drop(["flag"]), tmp_path, "write_tfrecords")
    ours = ours_of(hd.read_tfrecords, tmp_path / "a.tfrecords", raw=raw)
    bench(f"tfrecord, raw={raw}", ours, read_records, data, covered=True, kinds=UNCUT)
    bench(f"tfrecord, raw={raw}, cut", ours, read_records, data, kinds=("cut",), n=N // 8)


def test_tfrecord_gzip(tmp_path):
    data = gzip.compress(written_by_us(numbers(60).drop(["flag"]), tmp_path, "write_tfrecords"))
    ours = ours_of(hd.read_tfrecords, tmp_path / "a.tfrecords.gz")
    bench("tfrecord.gz", ours, lambda d: read_records(gzip.decompress(d)), data, covered=True)


# ------------------------------------------------------------------------------------------------ tar


def read_tar(data):
    """Python's tarfile, except that a header it does not understand is an error, as for GNU tar."""
    rows = []
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            if member.isreg():
                rows.append((member.name, tar.extractfile(member).read()))
                if len(rows[-1][1]) != member.size:
                    raise ValueError(f"{member.name} is cut short")
        rest = data[tar.offset :]
    if any(rest):
        raise ValueError("what follows is no header")
    return rows


def tar_of(format_):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format_) as tar:
        for i in range(12):
            folder = "long/" * 40 if i % 5 == 4 else ""
            for suffix, data in (
                ("txt", f"text {i} " * i),
                ("bin", bytes(range(i, i + 99))),
                ("cls", str(i)),
            ):
                data = data.encode() if isinstance(data, str) else data
                member = tarfile.TarInfo(f"{folder}sample{i:03}.{suffix}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


TAR = {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


@pytest.mark.parametrize("name", TAR)
def test_webdataset(tmp_path, name):
    ours = ours_of(hd.read_webdataset, tmp_path / "a.tar", decoder=None)
    bench(f"tar, {name}", ours, read_tar, tar_of(TAR[name]), n=2 * N)


def test_webdataset_of_ours(tmp_path):
    table = pa.table({"__key__": [f"k{i}" for i in range(20)], "txt": ["x" * i for i in range(20)]})
    data = written_by_us(table, tmp_path, "write_webdataset")
    bench("tar, ours", ours_of(hd.read_webdataset, tmp_path / "a.tar", decoder=None), read_tar, data)


# ------------------------------------------------------------------------------------------------ CSV


def read_csv(data):
    return pa.csv.read_csv(io.BytesIO(data))


def with_pandas(method, **options):
    out = io.StringIO()
    getattr(numbers(120).to_pandas(), method)(out, **options)
    return out.getvalue().encode()


def with_polars(method):
    out = io.BytesIO()
    getattr(pl.from_arrow(numbers(120)), method)(out)
    return out.getvalue()


def quoted():
    rows = [f'{i},"say ""hi"" {i}","two\nlines, {i}"' for i in range(80)]
    return "\n".join(["n,text,lines", *rows, ""]).encode()


CSV = {
    "pandas": lambda: with_pandas("to_csv", index=False),
    "polars": lambda: with_polars("write_csv"),
    "quoted": quoted,
}


@pytest.mark.parametrize("name", CSV)
def test_csv(tmp_path, name):
    bench(f"csv, {name}", ours_of(hd.read_csv, tmp_path / "a.csv"), read_csv, CSV[name](), n=2 * N)


def test_csv_of_ours(tmp_path):
    data = written_by_us(numbers(120), tmp_path, "write_csv")
    bench("csv, ours", ours_of(hd.read_csv, tmp_path / "a.csv"), read_csv, data)


# ------------------------------------------------------------------------------------------------ fixed width


def read_fwf(data):
    table = pd.read_fwf(io.BytesIO(data), widths=[8, 12, 14], encoding="utf-8", encoding_errors="strict")
    return pa.Table.from_pandas(table)


def fixed_width():
    rows = [f"{i:8}{i / 7:12.6f}{f'Zürich {i}':>14}" for i in range(100)]
    return "\n".join([f"{'n':>8}{'x':>12}{'place':>14}", *rows, ""]).encode()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_fwf(tmp_path, suffix):
    data, theirs = fixed_width(), read_fwf
    if suffix:
        data, theirs = gzip.compress(data), lambda d: read_fwf(gzip.decompress(d))
    ours = ours_of(hd.read_fwf, tmp_path / f"a.fwf{suffix}", widths=[8, 12, 14])
    bench(f"fwf{suffix}", ours, theirs, data, n=2 * N, covered=bool(suffix))


# ------------------------------------------------------------------------------------------------ JSON


def only_once(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def no_constant(name):
    raise ValueError(f"{name} is no JSON")


def read_json(data):
    """Python's json in strict mode, line by line, and pyarrow's."""
    text = data.decode()
    text.encode()
    rows = []
    for line in text.split("\n"):
        if line.strip(" \t\r"):
            rows.append(json.loads(line, object_pairs_hook=only_once, parse_constant=no_constant))
            json.dumps(rows[-1], ensure_ascii=False).encode()  # no half of a surrogate pair
    return repr(rows), pa.json.read_json(io.BytesIO(data))


JSON = {
    "pandas": lambda: with_pandas("to_json", orient="records", lines=True),
    "polars": lambda: with_polars("write_ndjson"),
}


def same_json(a, b):
    return a == b if isinstance(a, pa.Table) else a[0] == b[0]


@pytest.mark.parametrize("name", JSON)
def test_json(tmp_path, name):
    ours = ours_of(hd.read_json, tmp_path / "a.json")
    bench(f"json, {name}", ours, read_json, JSON[name](), n=2 * N, same=same_json)


def test_json_of_ours(tmp_path):
    data = written_by_us(nested(60).drop(["view", "fixed"]), tmp_path, "write_json")
    bench("json, ours", ours_of(hd.read_json, tmp_path / "a.json"), read_json, data, same=same_json)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
@pytest.mark.parametrize("method", ["csv", "json"])
def test_compressed_text_of_ours(tmp_path, method, codec):
    """The story: frames of zstd and lz4 had no checksum, and a damaged file gave other rows."""
    table = numbers(400) if method == "csv" else nested(60).drop(["view", "fixed"])
    data = written_by_us(table, tmp_path, f"write_{method}", compression=codec)
    read = hd.read_csv if method == "csv" else hd.read_json
    suffix = {"gzip": "gz", "zstd": "zst", "lz4": "lz4"}[codec]
    ours = ours_of(read, tmp_path / f"a.{method}.{suffix}")
    bench(f"{method}.{suffix}, ours", ours, None, data, n=2 * N, covered=True)


# ------------------------------------------------------------------------------------------------ text


def read_text(data):
    return [line for line in data.decode().split("\n") if line.strip()]


def lines():
    return "".join(f"line {i}: äöü {i * i}\n" for i in range(100)).encode()


def test_text(tmp_path):
    def normal(data):
        return [line.removesuffix("\r") for line in read_text(data)]

    bench("text", ours_of(hd.read_text, tmp_path / "a.txt"), normal, lines())


def inflated(name):
    def read(data):
        with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
            out = stream.read()
        return read_text(out)

    return read


@pytest.mark.parametrize("suffix", ["gz", "zst", "lz4", "br"])
def test_compressed_text(tmp_path, suffix):
    name = {"gz": "gzip", "zst": "zstd", "lz4": "lz4", "br": "brotli"}[suffix]
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(lines() * 5)
    data = sink.getvalue().to_pybytes()
    theirs = (lambda d: read_text(gzip.decompress(d))) if suffix == "gz" else inflated(name)
    ours = ours_of(hd.read_text, tmp_path / f"a.txt.{suffix}")
    bench(f"text.{suffix}", ours, theirs, data, covered=suffix == "gz")


# ------------------------------------------------------------------------------------------------ images


def picture():
    x, y = np.meshgrid(np.arange(48), np.arange(40))
    return np.stack([x * 5, y * 6, (x * y) % 256], -1).astype("u1")


def image_file(**options):
    out = io.BytesIO()
    Image.fromarray(picture()).save(out, **options)
    return out.getvalue()


def read_image(data):
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB").tobytes(), image.size


IMAGES = {
    "png": lambda: image_file(format="PNG"),
    "jpeg": lambda: image_file(format="JPEG"),
    "progressive jpeg": lambda: image_file(format="JPEG", progressive=True),
    "webp": lambda: image_file(format="WEBP"),
    "lossless webp": lambda: image_file(format="WEBP", lossless=True),
    "gif": lambda: image_file(format="GIF"),
    "bmp": lambda: image_file(format="BMP"),
    "tiff": lambda: image_file(format="TIFF"),
    "deflated tiff": lambda: image_file(format="TIFF", compression="tiff_deflate"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images(tmp_path, name):
    path = tmp_path / ("a." + name.split()[-1])

    def pixels(path):
        return hd.read_images(str(path), mode="RGB").take_all()[0]["image"].tobytes()

    bench(f"images, {name}", reader_of_paths(pixels, path), read_image, IMAGES[name](), covered=name == "png")


# ------------------------------------------------------------------------------------------------ Zarr


@pytest.mark.parametrize("codec", ["gzip", "crc32c"])
def test_zarr_chunk(tmp_path, codec):
    zarr = pytest.importorskip("zarr")
    from zarr import codecs

    known = {"gzip": codecs.GzipCodec(), "crc32c": None}
    array = zarr.create_array(
        str(tmp_path / "a.zarr"),
        shape=(64, 8),
        chunks=(64, 8),
        dtype="i4",
        compressors=[known[codec]] if known[codec] else [codecs.Crc32cCodec()],
    )
    array[:] = np.arange(512).reshape(64, 8)
    (chunk,) = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(tmp_path / "a.zarr")
        for name in names
        if name != "zarr.json"
    ]
    data = open(chunk, "rb").read()
    ours = reader_of_paths(lambda _: hd.read_zarr(str(tmp_path / "a.zarr")).to_arrow(), chunk)
    theirs = reader_of_paths(lambda _: zarr.open(str(tmp_path / "a.zarr"), mode="r")[:].tobytes(), chunk)
    bench(f"zarr, {codec}", ours, theirs, data, covered=True)
