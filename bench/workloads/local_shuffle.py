"""Parquet, all 10 columns, in a random order within windows of 100,000 rows; compare with all_columns."""

from batches import ROWS

from workloads.all_columns import COLUMNS
from workloads.peers import start_ray

TITLE = "Parquet, all 10 columns, local shuffle of 100,000 rows"
DATA = "table"
WHOLE = False
WINDOW = 100_000


def headrace(data):
    import headrace.data

    return lambda: headrace.data.read_parquet(data, columns=COLUMNS).iter_batches(
        batch_size=ROWS, batch_format="numpy", local_shuffle_buffer_size=WINDOW, local_shuffle_seed=1
    )


def ray(data):
    ray = start_ray()
    return lambda: (
        ray.data.read_parquet(data)
        .select_columns(COLUMNS)
        .iter_batches(
            batch_size=ROWS,
            batch_format="numpy",
            local_shuffle_buffer_size=WINDOW,
            local_shuffle_seed=1,
        )
    )
