"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import numpy as np
import torch

import headrace.data as hd


def collate(batch: dict[str, np.ndarray]) -> tuple[torch.Tensor, int]:
    return torch.as_tensor(batch["id"].copy()), len(batch["id"])


def main(folder: Path) -> None:
    for ids, n in hd.range(8).iter_torch_batches(batch_size=4, collate_fn=collate):
        assert ids.shape == (n,)
