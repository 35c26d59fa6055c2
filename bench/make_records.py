"""Files of records for the benchmarks: WebDataset shards and TFRecords; see make_data.py."""

import io
import json
import tarfile

import numpy as np
import pyarrow as pa

SHARDS, TFRECORD_FILES = 4, 4
EMBEDDING = 64


def parts(n, n_parts):
    """Begin and end of each part of range(n)."""
    edges = [n * i // n_parts for i in range(n_parts + 1)]
    return list(zip(edges, edges[1:], strict=False))


def make_webdataset(folder, photos):
    """A sample for each photo: jpg, cls, json."""
    for i, (begin, end) in enumerate(parts(len(photos), SHARDS)):
        with tarfile.open(folder / f"{i:03d}.tar", "w", format=tarfile.USTAR_FORMAT) as shard:
            for k in range(begin, end):
                random = np.random.default_rng([24, k])
                label = int(random.integers(0, 1000))
                about = {"id": k, "label": label, "caption": f"photo {k} of {label}", "score": k / 7}
                members = {
                    "cls": str(label).encode(),
                    "jpg": photos[k].read_bytes(),
                    "json": json.dumps(about).encode(),
                }
                for suffix, data in members.items():
                    info = tarfile.TarInfo(f"{k:06d}.{suffix}")
                    info.size = len(data)
                    shard.addfile(info, io.BytesIO(data))


def make_tfrecord(folder, n):
    """What a language model's corpus holds: tokens as int64, an embedding, a label, an address as bytes."""
    import headrace.data

    for i, (begin, end) in enumerate(parts(n, TFRECORD_FILES)):
        random = np.random.default_rng([25, i])
        m = end - begin
        lengths = np.clip(random.lognormal(4.5, 0.8, m), 4, 2048).astype(np.int32)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        tokens = random.zipf(1.2, offsets[-1]) % 50_257
        embedding = random.standard_normal(m * EMBEDDING, dtype=np.float32)
        rows = pa.table(
            {
                "doc": np.arange(begin, end),
                "embedding": pa.ListArray.from_arrays(
                    np.arange(m + 1, dtype=np.int32) * EMBEDDING, pa.array(embedding)
                ),
                "label": random.integers(0, 1000, m),
                "tokens": pa.ListArray.from_arrays(pa.array(offsets), pa.array(tokens)),
                "url": pa.array([f"https://example.org/{k:08x}".encode() for k in range(begin, end)]),
            }
        )
        made = folder / f"part{i}"
        headrace.data.from_arrow(rows).write_tfrecords(str(made))
        (written,) = made.iterdir()
        written.rename(folder / f"{i:03d}.tfrecord")
        made.rmdir()
