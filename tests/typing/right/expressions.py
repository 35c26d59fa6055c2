"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import headrace.data as hd
from headrace.data.expressions import Expr, coalesce, col, if_else, lit, vector


def main(folder: Path) -> None:
    ratio: Expr = (col("id") + 1) / (10 - col("id") % 3)
    ds = hd.range(10).with_columns(
        {
            "ratio": ratio.round(2),
            "text": col("id").cast("string").str.zfill(3),
            "kind": if_else(col("id").is_in([1, 2]), "few", lit("many")),
            "known": coalesce(col("id"), 0),
            "both": vector(col("id"), ratio),
        }
    )
    assert ds.with_column("year", lit("2024-01-02").cast("timestamp[s]").dt.year()).columns() is not None
