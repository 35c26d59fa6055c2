"""How fast does a Dataset class feed a loop? Ours beside torch's DataLoader, torchdata's and SPDL's.

    python bench/data_loader.py [--photos FOLDER] [--kind NAME ...] [--workers N] [--runs N]

prints a table in Markdown. Three kinds of Dataset that many programs have:

images   JPEG files in folders, as torchvision's ImageFolder: Pillow decodes, crops and scales to 224 x 224
tokens   windows of 1,025 tokens of a memory map, as nanoGPT's; a batch takes microseconds to make
lines    an IterableDataset over JSON lines, which deals the lines to its workers by get_worker_info()

Each loader makes `--runs` passes; its workers are new in the first one. The figures: milliseconds until the
first batch of the first pass and (median) of a later one, and batches a second of a later pass. The loaders
take turns in one process. SPDL takes map-style datasets; peers that are not installed are left out. Each pass
must give the rows of the first loader's, by the sum of a column.
"""

import argparse
import functools
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from machine import cpu_name, n_cpus
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, get_worker_info

BATCH = {"images": 32, "tokens": 16, "lines": 256}
WINDOW = 1025


class Images(Dataset):
    def __init__(self, folder):
        self.files = sorted(Path(folder).rglob("*.jpg"))[:1500]
        if not self.files:
            raise SystemExit(f"{folder}: no files of JPEG")

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with Image.open(self.files[i]) as image:
            image = image.convert("RGB")
            side = min(image.size)
            image = image.resize((224, 224), Image.Resampling.BILINEAR, box=(0, 0, side, side))
        x = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div_(255)
        return x, i % 10


class Tokens(Dataset):
    def __init__(self, path):
        self.path, self.tokens = path, np.memmap(path, np.uint16, "r")

    def __len__(self):
        return len(self.tokens) // WINDOW

    def __getitem__(self, i):
        window = torch.from_numpy(self.tokens[i * WINDOW : (i + 1) * WINDOW].astype(np.int64))
        return window[:-1], window[1:]

    def __getstate__(self):
        return self.path

    def __setstate__(self, path):
        self.__init__(path)


class Lines(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        info = get_worker_info()
        n, k = (info.num_workers, info.id) if info else (1, 0)
        with open(self.path) as file:
            for i, line in enumerate(file):
                if i % n == k:
                    row = json.loads(line)
                    yield torch.tensor(row["x"]), row["y"]


def make(kind, folder, photos):
    """The Dataset of a kind, over files that this makes."""
    rng = np.random.default_rng(5)
    if kind == "images":
        return Images(photos)
    if kind == "tokens":
        path = Path(folder, "tokens.bin")
        rng.integers(0, 50_000, 40_000 * WINDOW, dtype=np.uint16).tofile(path)
        return Tokens(path)
    path = Path(folder, "lines.jsonl")
    with open(path, "w") as file:
        for i in range(100_000):
            file.write(json.dumps({"x": rng.random(16).round(6).tolist(), "y": i}) + "\n")
    return Lines(path)


def loaders(kind):
    """name -> function that makes a loader."""
    from headrace.torch import DataLoader

    made = {
        "headrace": DataLoader,
        "torch": torch.utils.data.DataLoader,
        "torch, persistent_workers": functools.partial(torch.utils.data.DataLoader, persistent_workers=True),
    }
    try:
        from torchdata.stateful_dataloader import StatefulDataLoader

        made["StatefulDataLoader"] = StatefulDataLoader
    except ImportError:
        pass
    try:
        from spdl.dataloader import get_pytorch_dataloader

        if kind != "lines":
            made["SPDL"] = functools.partial(get_pytorch_dataloader, in_order=True)
    except ImportError:
        pass
    return made


def one_pass(loader):
    """(seconds to the first batch, seconds of the pass, batches, sum of the second column)"""
    begin, first, n, total = time.perf_counter(), None, 0, 0
    for _, y in loader:
        first = first or time.perf_counter() - begin
        n += 1
        total += int(y.sum())
    return first, time.perf_counter() - begin, n, total


def measure(kind, folder, args):
    dataset = make(kind, folder, args.photos)
    how = {"batch_size": BATCH[kind], "num_workers": args.workers}
    made = {name: new(dataset, **how) for name, new in loaders(kind).items()}
    seen = {name: [] for name in made}
    for _ in range(args.runs):
        for name, loader in made.items():
            seen[name].append(one_pass(loader))
    sums = {total for passes in seen.values() for *_, total in passes}
    if len(sums) != 1:
        raise SystemExit(f"{kind}: the loaders gave different rows: sums {sums}")
    for name, passes in seen.items():
        first, later = passes[0][0], statistics.median(p[0] for p in passes[1:])
        rate = statistics.median(n / seconds for _, seconds, n, _ in passes[1:])
        print(f"| {kind} | {name} | {first * 1e3:.0f} | {later * 1e3:.1f} | {rate:,.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", help="a folder of JPEG files, for images (bench/make_data.py photos)")
    parser.add_argument("--kind", action="append", choices=list(BATCH), help="(all of them)")
    parser.add_argument("--workers", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--runs", type=int, default=6, help="passes of each loader (%(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{cpu_name()}, {n_cpus()} cores, {args.workers} workers\n")
    print("| Dataset | loader | first batch of the first pass, ms | of a later pass, ms | batches/s |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.kind or [k for k in BATCH if k != "images" or args.photos]:
            measure(kind, folder, args)


if __name__ == "__main__":
    main()
