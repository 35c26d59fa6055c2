"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import pyarrow as pa

import headrace.data as hd


def first(table: pa.Table) -> pa.Table:
    return table.slice(0, 1)


def main(folder: Path) -> None:
    ds = hd.range(8).map_batches(first, batch_format="pyarrow", batch_size=2)
    assert ds.to_arrow().num_rows == 4
