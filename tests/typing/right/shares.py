"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from threading import Thread

import headrace.data as hd


def read(share: hd.DataIterator, out: list[int]) -> None:
    out.extend(len(batch["id"]) for batch in share.iter_batches(batch_size=2))


def main(folder: Path) -> None:
    shares = hd.range(8).streaming_split(2, equal=True)
    found: list[int] = []
    threads = [Thread(target=read, args=(share, found)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(found) == 8
