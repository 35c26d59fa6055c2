"""A NumPy function over the table, 3 columns in, 2 out: a transform as a user writes it for training."""

import numpy as np
from batches import ROWS, exact

from workloads.peers import arrow_columns, files, polars_columns, start_ray

TITLE = "NumPy function, 3 columns to 2"
DATA = "table"
WHOLE = False
COLUMNS = ["dist", "fare", "f0"]
CALL_ROWS = 65_536  # rows a call of the function sees, where one may choose


def features(batch):
    """Fare per distance on a logarithmic scale, and a bounded, squashed value; both float32."""
    rate = np.log1p(batch["fare"] / (batch["dist"] + 0.5)).astype(np.float32)
    return {"rate": rate, "squashed": np.clip(batch["f0"], -3, 3) * rate}


def headrace(data, **more):
    """In worker processes, as always when nothing is said."""
    import headrace.data

    return lambda: (
        headrace.data.read_parquet(data, columns=COLUMNS)
        .map_batches(features, batch_size=CALL_ROWS, batch_format="numpy", **more)
        .iter_batches(batch_size=ROWS, batch_format="numpy")
    )


def headrace_threads(data):
    """In threads of this process: good for functions that, like NumPy's, let go of Python's lock."""
    return headrace(data, compute="threads")


def polars(data):
    """The function runs in this thread, on pieces as they come: it has no other place for such a one."""
    import polars as pl

    def start():
        pieces = pl.scan_parquet(files(data)).select(COLUMNS).collect_batches(maintain_order=True)
        return exact(features(polars_columns(piece)) for piece in pieces)

    return start


def pyarrow(data):
    import pyarrow.dataset

    def start():
        scanner = pyarrow.dataset.dataset(files(data)).scanner(columns=COLUMNS)
        return exact(features(arrow_columns(b)) for b in scanner.to_batches() if b.num_rows)

    return start


def daft(data):
    """In its own threads, with this interpreter's lock."""
    import daft
    import pyarrow as pa

    kinds = {"rate": daft.DataType.float32(), "squashed": daft.DataType.float32()}

    @daft.func.batch(return_dtype=daft.DataType.struct(kinds), unnest=True)
    def function(dist, fare, f0):
        given = zip(COLUMNS, (dist, fare, f0), strict=True)
        out = features({name: series.to_arrow().to_numpy() for name, series in given})
        return daft.Series.from_arrow(
            pa.StructArray.from_arrays([pa.array(out[k]) for k in kinds], list(kinds))
        )

    def start():
        frame = daft.read_parquet(files(data)).select(function(*(daft.col(c) for c in COLUMNS)))
        return exact(arrow_columns(piece) for piece in frame.to_arrow_iter() if piece.num_rows)

    return start


def torch(data):
    """A DataLoader with two workers, each of which reads its files by pyarrow, as users of torch do."""
    import torch.utils.data as td

    class Trips(td.IterableDataset):
        def __iter__(self):
            import pyarrow as pa
            import pyarrow.dataset

            pa.set_cpu_count(1)
            worker = td.get_worker_info()
            mine = files(data)[worker.id :: worker.num_workers]
            for piece in (
                pyarrow.dataset.dataset(mine).scanner(columns=COLUMNS, batch_size=CALL_ROWS).to_batches()
            ):
                if piece.num_rows:
                    yield {k: torch.from_numpy(v) for k, v in features(arrow_columns(piece)).items()}

    import torch

    loader = td.DataLoader(
        Trips(), batch_size=None, num_workers=2, prefetch_factor=4, persistent_workers=True
    )
    return lambda: exact({k: v.numpy() for k, v in chunk.items()} for chunk in loader)


def ray(data):
    ray = start_ray()
    return lambda: (
        ray.data.read_parquet(data)
        .select_columns(COLUMNS)
        .map_batches(features, batch_size=CALL_ROWS, batch_format="numpy", zero_copy_batch=True)
        .iter_batches(batch_size=ROWS, batch_format="numpy")
    )
