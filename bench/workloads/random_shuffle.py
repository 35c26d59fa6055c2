"""Parquet, all 10 columns, all rows in a random order."""

from workloads.all_columns import COLUMNS
from workloads.peers import files, start_ray
from workloads.sort import tables

TITLE = "Parquet, all 10 columns, all rows shuffled"
DATA = "table"
WHOLE = False


def headrace(data):
    import headrace.data

    return lambda: tables(
        headrace.data.read_parquet(data, columns=COLUMNS)
        .random_shuffle(seed=1)
        .iter_batches(batch_size=None, batch_format="pyarrow")
    )


def polars(data):
    import polars as pl

    def start():
        frame = pl.read_parquet(files(data), columns=COLUMNS).sample(fraction=1.0, shuffle=True, seed=1)
        return ({s.name: s for s in part.iter_columns()} for part in frame.iter_slices(1 << 16))

    return start


def ray(data):
    ray = start_ray()
    return lambda: tables(
        ray.data.read_parquet(data)
        .select_columns(COLUMNS)
        .random_shuffle(seed=1)
        .iter_batches(batch_size=None, batch_format="pyarrow")
    )
