"""Write Fashion-MNIST as Parquet, typed as pandas types lists: image list<list<int64>>, label int64.

Reads the four IDX files of Debian's package dataset-fashion-mnist (MIT licence, see FASHION_MNIST_LICENSE).

    python make_fashion_mnist.py                 the first 10,000 and 2,000 images, beside this script
    python make_fashion_mnist.py --full --out D  all 60,000 and 10,000
"""

import argparse
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SOURCE = Path("/usr/share/datasets/fashion-mnist")
PARTS = {"train": ("train", 10_000), "test": ("t10k", 2_000)}


def read_idx(path):
    """Array of uint8 in an IDX file: 2 zero bytes, 8 for uint8, the number of dimensions, their u32 sizes."""
    try:
        raw = gzip.decompress(path.read_bytes())
    except FileNotFoundError:
        raise SystemExit(f"{path}: not there; apt-get install dataset-fashion-mnist") from None
    if raw[:3] != b"\0\0\x08":
        raise SystemExit(f"{path}: not an IDX file of uint8")
    shape = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def table_of(images, labels):
    """As pa.table({"image": images.tolist(), "label": labels.tolist()}), without a Python int per pixel."""
    n, height, width = images.shape
    pixels = pa.array(images.reshape(-1).astype(np.int64))
    lines = pa.ListArray.from_arrays(np.arange(n * height + 1, dtype=np.int32) * width, pixels)
    image = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * height, lines)
    return pa.table({"image": image, "label": pa.array(labels.astype(np.int64))})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=SOURCE, help="folder of the IDX files (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    parser.add_argument("--full", action="store_true", help="all images instead of the first few")
    parser.add_argument("--rows-per-group", type=int, default=1000)
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    for part, (prefix, few) in PARTS.items():
        count = None if args.full else few
        images = read_idx(args.source / f"{prefix}-images-idx3-ubyte.gz")[:count]
        labels = read_idx(args.source / f"{prefix}-labels-idx1-ubyte.gz")[:count]
        path = args.out / f"fashion_mnist_{part}.parquet"
        pq.write_table(
            table_of(images, labels),
            path,
            row_group_size=args.rows_per_group,
            compression="zstd",
            compression_level=6 if args.full else 22,
        )
        print(f"{path}: {len(labels)} rows, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
