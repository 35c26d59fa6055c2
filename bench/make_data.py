"""Writes the files that the benchmarks read, the same bytes for the same numbers.

table    rows x 10 columns in 8 files, snappy, row groups of 128 Ki rows: what a table of trips looks like
users    12 M rows of 10 M possible users (text), a float and an integer, in 6 files
tokens   documents of token ids (list<int32>) in 4 files, zstd, log-normal lengths, Zipf ids: text to train on
images   Fashion-MNIST as pandas writes a column of nested lists: list<list<int64>>, one row group
jsonl    rows of the same trips as JSON, an object a line
csv      rows of the same trips as text between commas; a third of the cities need quotes
photos   JPEG files of 52 kB on average, 400 to 640 pixels wide, quality 85 to 95, colour at half the
         resolution; what they show has the spectrum of photographs, from calm to busy
webdataset   the same photos in 4 shards: samples of jpg, cls (a number), json (4 keys)
tfrecord     documents in 4 files: tokens (int64, log-normal lengths), an embedding of 64 floats, two numbers,
             an address as bytes

    python bench/make_data.py FOLDER [--rows N] [--users N] [--documents N] [--images N] [--lines N]
                              [--records N] [--photos N] [--samples N] [--examples N] [KIND...]

A kind that lies there already, with the same number, is left alone.
"""

import argparse
import csv
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from make_records import make_tfrecord, make_webdataset
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
IDX_FOLDER = Path("/usr/share/datasets/fashion-mnist")  # Debian's dataset-fashion-mnist
SIZES = {
    "table": 8_000_000,
    "users": 12_000_000,
    "tokens": 200_000,
    "images": 60_000,
    "jsonl": 1_000_000,
    "csv": 1_000_000,
    "photos": 4_000,
    "webdataset": 4_000,
    "tfrecord": 400_000,
}
TABLE_FILES, USER_FILES, TOKEN_FILES = 8, 6, 4
ROW_GROUP_ROWS = 128 * 1024
SCENES, SCENE_SIDE = 16, 1024
CITIES = np.array(["new york", "boston", "london", "paris", "tokyo", "lagos"])


def parts(n, n_parts):
    """Begin and end of each part of range(n)."""
    edges = [n * i // n_parts for i in range(n_parts + 1)]
    return list(zip(edges, edges[1:], strict=False))


def trips(begin, end, random):
    """The table's rows begin..end."""
    n = end - begin
    return pa.table(
        {
            "id": np.arange(begin, end),
            "ts": (np.int64(1_600_000_000) + begin * 30 + np.cumsum(random.integers(0, 60, n))).astype(
                "datetime64[s]"
            ),
            "vendor": random.integers(0, 6, n).astype(np.int32),
            "dist": random.gamma(2, 2, n).round(2),
            "fare": random.gamma(3, 5, n).round(2),
            "f0": random.standard_normal(n, dtype=np.float32),
            "f1": random.standard_normal(n, dtype=np.float32),
            "f2": random.standard_normal(n, dtype=np.float32),
            "city": pa.DictionaryArray.from_arrays(
                random.integers(0, len(CITIES), n).astype(np.int8), pa.array(CITIES)
            ).cast(pa.string()),
            "label": random.integers(0, 2, n).astype(np.int8),
        }
    )


def make_table(folder, n):
    for i, (begin, end) in enumerate(parts(n, TABLE_FILES)):
        rows = trips(begin, end, np.random.default_rng([20, i]))
        pq.write_table(rows, folder / f"{i:03d}.parquet", compression="snappy", row_group_size=ROW_GROUP_ROWS)


def make_users(folder, n):
    for i, (begin, end) in enumerate(parts(n, USER_FILES)):
        random = np.random.default_rng([22, i])
        ids = random.integers(0, max(1, n * 5 // 6), end - begin)
        rows = pa.table(
            {
                "user": pa.array(np.char.add("user-", ids.astype("U8"))),
                "x": random.standard_normal(end - begin),
                "n": random.integers(0, 100, end - begin),
            }
        )
        pq.write_table(rows, folder / f"{i}.parquet", compression="snappy", row_group_size=ROW_GROUP_ROWS)


def make_tokens(folder, n):
    for i, (begin, end) in enumerate(parts(n, TOKEN_FILES)):
        random = np.random.default_rng([21, i])
        lengths = np.clip(random.lognormal(5.5, 1.0, end - begin), 8, 8192).astype(np.int32)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        ids = (random.zipf(1.2, offsets[-1]) % 50_257).astype(np.int32)
        rows = pa.table(
            {
                "doc": np.arange(begin, end),
                "tokens": pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids)),
            }
        )
        pq.write_table(rows, folder / f"{i}.parquet", compression="zstd", row_group_size=8192)


def make_jsonl(folder, n):
    rows = trips(0, n, np.random.default_rng([22, 0])).drop_columns(["ts"])
    names, columns = rows.column_names, [c.to_pylist() for c in rows.columns]
    with open(folder / "000.jsonl", "w") as f:
        for row in zip(*columns, strict=True):
            f.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")


def make_csv(folder, n):
    """A third of the cities hold commas, quotes or both: they are quoted, and quotes in them doubled."""
    random = np.random.default_rng([23, 0])
    rows = trips(0, n, random)
    cities = np.array([*CITIES, "washington, d.c.", 'the "big" easy', 'saint "st." louis, mo'])
    rows = rows.set_column(
        rows.column_names.index("city"), "city", pa.array(cities[random.integers(0, len(cities), n)])
    )
    columns = [c.to_pylist() for c in rows.columns]
    with open(folder / "000.csv", "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(rows.column_names)
        out.writerows(zip(*columns, strict=True))


def fashion_mnist(n):
    """(uint8 images (n, 28, 28), labels): from Debian's package, else those of the repository, repeated."""
    packed = [IDX_FOLDER / f"train-{name}-ubyte.gz" for name in ("images-idx3", "labels-idx1")]
    if all(p.exists() for p in packed):
        images, labels = (gzip.decompress(p.read_bytes()) for p in packed)
        images = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28)
        labels = np.frombuffer(labels, np.uint8, offset=8)
    else:
        few = pq.read_table(ROOT / "examples" / "data" / "fashion_mnist_train.parquet")
        pixels = few["image"].combine_chunks().flatten().flatten()
        images, labels = pixels.to_numpy().astype(np.uint8).reshape(-1, 28, 28), few["label"].to_numpy()
    again = np.arange(n) % len(labels)
    return images[again], labels[again].astype(np.int64)


def pandas_metadata(names, n):
    """What pandas leaves in the schema of a DataFrame of n rows with such columns."""
    kinds = {"image": ("list[list[int64]]", "object"), "label": ("int64", "int64")}
    columns = [
        {"name": k, "field_name": k, "pandas_type": kinds[k][0], "numpy_type": kinds[k][1], "metadata": None}
        for k in names
    ]
    index = {"kind": "range", "name": None, "start": 0, "stop": n, "step": 1}
    text = {"index_columns": [index], "column_indexes": [], "columns": columns, "attributes": {}}
    return {"pandas": json.dumps(text)}


def make_images(folder, n):
    """As DataFrame({"image": images.tolist(), "label": labels}).to_parquet(), but no Python int per pixel."""
    images, labels = fashion_mnist(n)
    lines = pa.ListArray.from_arrays(
        np.arange(n * 28 + 1, dtype=np.int32) * 28, pa.array(images.reshape(-1).astype(np.int64))
    )
    rows = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * 28, lines)
    table = pa.table({"image": rows, "label": labels})
    pq.write_table(
        table.replace_schema_metadata(pandas_metadata(table.column_names, n)), folder / "fashion.parquet"
    )


def spectrum(random, slope):
    """A square of noise whose amplitude falls with frequency ** -slope, of deviation 1."""
    n = SCENE_SIDE
    frequency = np.hypot(np.fft.fftfreq(n)[:, None], np.fft.rfftfreq(n)[None])
    frequency[0, 0] = 1
    noise = random.standard_normal((n, n // 2 + 1)) + 1j * random.standard_normal((n, n // 2 + 1))
    values = np.fft.irfft2(noise / frequency**slope, (n, n))
    return values / values.std()


def scene(i):
    """A large picture that photos are cut from: calm ones and busy ones."""
    random = np.random.default_rng([23, 0, i])
    luma = 128 + 50 * spectrum(random, 1.3 + 0.4 * i / SCENES)
    blue, red = (128 + 14 * spectrum(random, 1.8) for _ in range(2))
    return Image.fromarray(np.clip(np.stack([luma, blue, red], axis=-1), 0, 255).astype(np.uint8), "YCbCr")


def make_photos(folder, n):
    """A part of a scene each: nothing repeats, and 16 scenes are quickly made."""
    scenes = [scene(i).convert("RGB") for i in range(SCENES)]
    for i in range(n):
        random = np.random.default_rng([23, 1, i])
        w = int(random.integers(400, 641))
        h = int(w * random.uniform(0.66, 0.9))
        x, y = (int(random.integers(0, SCENE_SIDE - side + 1)) for side in (w, h))
        part = scenes[i % SCENES].crop((x, y, x + w, y + h))
        part.save(folder / f"{i:05d}.jpg", quality=int(random.integers(85, 96)))


MAKERS = {
    "users": make_users,
    "table": make_table,
    "tokens": make_tokens,
    "images": make_images,
    "jsonl": make_jsonl,
    "csv": make_csv,
    "photos": make_photos,
    "webdataset": lambda folder, n: make_webdataset(
        folder, sorted(ensure(folder.parent, "photos", n).iterdir())
    ),
    "tfrecord": make_tfrecord,
}


def ensure(folder, kind, n=None):
    """The folder with the files of this kind and size; they are made if they are not there."""
    n = SIZES[kind] if n is None else n
    final = Path(folder) / f"{kind}-{n}"
    if final.exists():
        return final
    making = final.with_name(f".{final.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    MAKERS[kind](making, n)
    making.rename(final)
    return final


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent / "data")
    parser.add_argument("--rows", type=int, default=SIZES["table"], help="of the table (%(default)s)")
    parser.add_argument("--users", type=int, default=SIZES["users"], help="rows of them (%(default)s)")
    parser.add_argument("--documents", type=int, default=SIZES["tokens"], help="(%(default)s)")
    parser.add_argument("--images", type=int, default=SIZES["images"], help="(%(default)s)")
    parser.add_argument("--lines", type=int, default=SIZES["jsonl"], help="of JSON (%(default)s)")
    parser.add_argument("--records", type=int, default=SIZES["csv"], help="of CSV (%(default)s)")
    parser.add_argument("--photos", type=int, default=SIZES["photos"], help="(%(default)s)")
    parser.add_argument("--samples", type=int, default=SIZES["webdataset"], help="(%(default)s)")
    parser.add_argument("--examples", type=int, default=SIZES["tfrecord"], help="(%(default)s)")
    parser.add_argument("kinds", nargs="*", choices=[[], *SIZES], help="which; all if none is named")
    args = parser.parse_args()
    numbers = [args.rows, args.users, args.documents, args.images, args.lines, args.records, args.photos]
    numbers += [args.samples, args.examples]
    sizes = dict(zip(SIZES, numbers, strict=True))
    for kind in args.kinds or SIZES:
        made = ensure(args.folder, kind, sizes[kind])
        files = sorted(made.iterdir())
        print(f"{made}: {len(files)} files, {sum(f.stat().st_size for f in files) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
