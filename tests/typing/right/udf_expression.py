"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace.data as hd
from headrace.data.expressions import col, udf


@udf(return_dtype="int64")
def plus(x: Any, y: int) -> pa.Array:
    return pa.array([v + y for v in x.to_pylist()])


def main(folder: Path) -> None:
    assert hd.range(2).with_column("y", plus(col("id"), 2) * 2).take_all()[1]["y"] == 6
