"""A torch Dataset that reads chunked files and transforms in Python, as many programs have one.

    python -m headrace.tune examples/chunked_dataset.py:make_loader

measures its loader with other settings, and Headrace beside it (docs/tune.md). The first call writes the
files, 140 MB, into the folder of the environment variable CHUNKS, or a temporary one.

A file is a chunk of 96 fields of the weather, compressed as a chunk of Zarr is: reading one field
decompresses the chunk. The Dataset keeps the latest chunk, which is what a careful program does. A field is
cropped, filled where it has no value, scaled, and gets its gradients as channels.
"""

import os
import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

FIELDS, SIDE, CROP = 96, 256, 240
FILES = 16
FOLDER = Path(os.environ.get("CHUNKS") or Path(tempfile.gettempdir()) / "headrace-chunks")


def write_chunks(folder=FOLDER, files=FILES):
    """Writes smooth fields with gaps; what is there already stays."""
    folder.mkdir(parents=True, exist_ok=True)
    x = np.linspace(0, 6, SIDE, dtype=np.float32)
    for k in range(files):
        path = folder / f"chunk-{k:03d}.zlib"
        if path.exists():
            continue
        random = np.random.default_rng(k)
        phase = random.random((FIELDS, 2, 1, 1), dtype=np.float32) * 6
        fields = np.sin(x[:, None] + phase[:, 0]) * np.cos(x + phase[:, 1])
        fields = np.round(fields + random.normal(0, 0.02, fields.shape), 2).astype(np.float32)
        fields[random.random(fields.shape, dtype=np.float32) < 0.01] = np.nan
        written = path.with_suffix(".part")
        written.write_bytes(zlib.compress(fields.tobytes(), 1))
        written.rename(path)


class Fields(Dataset):
    """(4, 240, 240) float32 and its number, for each field."""

    def __init__(self, folder=FOLDER):
        self.files = sorted(Path(folder).glob("*.zlib"))
        self.chunk = (-1, None)

    def __len__(self):
        return FIELDS * len(self.files)

    def __getitem__(self, i):
        number, at = divmod(i, FIELDS)
        if self.chunk[0] != number:
            data = zlib.decompress(self.files[number].read_bytes())
            self.chunk = number, np.frombuffer(data, np.float32).reshape(FIELDS, SIDE, SIDE)
        return transform(self.chunk[1][at]), i


def transform(field):
    """The field and what a model wants beside it."""
    edge = (SIDE - CROP) // 2
    field = field[edge : edge + CROP, edge : edge + CROP]
    known = np.isfinite(field)
    field = np.where(known, field, field[known].mean())
    field = (field - field.mean()) / field.std()
    down, across = np.gradient(field)
    return torch.from_numpy(np.stack([field, down, across, known]).astype(np.float32))


def make_loader():
    """The loader as such programs begin: no workers."""
    write_chunks()
    return DataLoader(Fields(), batch_size=64)
