"""Parquet, 6 numeric columns of 10: what decoding and handing out alone cost."""

from batches import ROWS, exact

from workloads.peers import arrow_columns, files, polars_columns, start_ray

TITLE = "Parquet, 6 numeric columns"
DATA = "table"
WHOLE = False
COLUMNS = ["vendor", "dist", "fare", "f0", "f1", "f2"]


def headrace(data, columns=COLUMNS):
    import headrace.data

    return lambda: headrace.data.read_parquet(data, columns=columns).iter_batches(
        batch_size=ROWS, batch_format="numpy"
    )


def polars(data, columns=COLUMNS):
    """Its streaming engine, handing out pieces as they come: quicker than whole files or the whole table."""
    import polars as pl

    def start():
        pieces = pl.scan_parquet(files(data)).select(columns).collect_batches(maintain_order=True)
        return exact(polars_columns(piece) for piece in pieces)

    return start


def pyarrow(data, columns=COLUMNS):
    import pyarrow.dataset

    def start():
        scanner = pyarrow.dataset.dataset(files(data)).scanner(columns=columns)
        return exact(arrow_columns(b) for b in scanner.to_batches() if b.num_rows)

    return start


def ray(data, columns=COLUMNS):
    ray = start_ray()
    return lambda: (
        ray.data.read_parquet(data)
        .select_columns(columns)
        .iter_batches(batch_size=ROWS, batch_format="numpy")
    )


def ray_blocks(data, columns=COLUMNS):
    """Not what its manual shows, but quicker: blocks as they come, cut into batches by our own code."""
    ray = start_ray()
    return lambda: exact(
        ray.data.read_parquet(data)
        .select_columns(columns)
        .iter_batches(batch_size=None, batch_format="numpy")
    )
