"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import headrace.data as hd


def main(folder: Path) -> None:
    batches = hd.range(8).iter_batches(batch_size=2)
    state: dict[str, Any] = {}
    for _ in batches:
        state = batches.state_dict()
        break
    batches.load_state_dict(state, strict=True)
    assert sum(len(batch["id"]) for batch in batches) == 6
    with hd.range(4).iter_rows().repeat(2) as rows:
        assert len(list(rows)) == 8
