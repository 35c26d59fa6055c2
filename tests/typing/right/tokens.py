"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import headrace.data as hd


def main(folder: Path) -> None:
    ds = hd.from_items([{"tokens": [1, 2, 3]}, {"tokens": [4]}])
    packed = ds.pack(4, "best_fit", pad_token_id=0, loss_mask="mask")
    assert packed.count() == 1
    for batch in ds.batch_by_length("tokens", max_tokens=8).iter_batches(batch_size=None, padding=True):
        assert batch["tokens"].ndim == 2
