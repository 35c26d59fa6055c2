"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import headrace
import headrace.data as hd


def main(folder: Path) -> None:
    headrace.init(num_cpus=2, ignore_reinit_error=True)
    n: int = headrace.put(3)
    assert headrace.is_initialized() and n == 3
    assert hd.from_items([1, 2, n]).count() == 3
    headrace.shutdown()
