"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import torch

import headrace.data as hd


def main(folder: Path) -> None:
    ds = hd.range(8)
    total = torch.zeros((), dtype=torch.int64)
    for batch in ds.iter_torch_batches(batch_size=4, dtypes={"id": torch.int64}, device="cpu"):
        total += batch["id"].sum()
    assert total.item() == 28
