"""CSV, 6 numeric columns of 10: the text of the others is passed over."""

from batches import ROWS, exact

from workloads.numeric import COLUMNS
from workloads.peers import arrow_columns, polars_columns

TITLE = "CSV, 6 numeric columns"
DATA = "csv"
WHOLE = False


def headrace(data, columns=COLUMNS):
    import headrace.data

    return lambda: headrace.data.read_csv(data, columns=columns).iter_batches(
        batch_size=ROWS, batch_format="numpy"
    )


def polars(data, columns=COLUMNS):
    import polars as pl

    def start():
        scan = pl.scan_csv(f"{data}/000.csv", try_parse_dates=True).select(columns)
        return exact(polars_columns(piece) for piece in scan.collect_batches(maintain_order=True))

    return start


def pyarrow(data, columns=COLUMNS):
    import pyarrow.csv

    def start():
        options = pyarrow.csv.ConvertOptions(include_columns=columns)
        table = pyarrow.csv.read_csv(f"{data}/000.csv", convert_options=options)
        return exact(arrow_columns(b) for b in table.to_batches())

    return start
