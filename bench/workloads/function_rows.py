"""A Python function over rows, one at a time: a transform as users write their first one."""

from batches import ROWS, exact

from workloads.peers import arrow_columns, files, start_ray

TITLE = "Python function over rows, 3 columns to 2"
DATA = "table"
WHOLE = False
COLUMNS = ["dist", "fare", "f0"]
LIMIT = 1_000_000  # rows of the table: Ray takes some 3 s for them


def features(row):
    return {"rate": row["fare"] / (row["dist"] + 0.5), "sign": 1 if row["f0"] > 0 else -1}


def headrace(data, **more):
    """In worker processes, as always when nothing is said."""
    import headrace.data

    return lambda: (
        headrace.data.read_parquet(data, columns=COLUMNS)
        .limit(LIMIT)
        .map(features, **more)
        .iter_batches(batch_size=ROWS, batch_format="numpy")
    )


def headrace_threads(data):
    return headrace(data, compute="threads")


def pyarrow(data):
    """The function runs in this thread, over rows of each piece."""
    import numpy as np
    import pyarrow.dataset

    def start():
        left = LIMIT
        for piece in pyarrow.dataset.dataset(files(data)).scanner(columns=COLUMNS).to_batches():
            piece = piece.slice(0, left)
            left -= piece.num_rows
            columns = {name: values.tolist() for name, values in arrow_columns(piece).items()}
            rows = [
                features(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
            ]
            if rows:
                yield {name: np.array([row[name] for row in rows]) for name in rows[0]}

    return lambda: exact(start())


def ray(data):
    ray = start_ray()
    ray.data.DataContext.get_current().execution_options.preserve_order = True  # for the same first rows
    return lambda: (
        ray.data.read_parquet(data)
        .select_columns(COLUMNS)
        .limit(LIMIT)
        .map(features)
        .iter_batches(batch_size=ROWS, batch_format="numpy")
    )
