"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import headrace.data as hd
from headrace.data import SaveMode


def main(folder: Path) -> None:
    ds = hd.range(10)
    files: list[dict[str, Any]] = ds.write_parquet(
        str(folder / "p"), compression="zstd", mode=SaveMode.CREATE
    )
    ds.write_csv(folder / "c", header=True)
    ds.write_json(folder / "j", max_rows_per_file=5)
    assert len(files) == 1 and hd.read_csv([folder / "c"], dtypes={"id": "int32"}).count() == 10
