"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path
from typing import Any

import headrace.data as hd
from headrace.data.aggregate import Count, Max, Mean, Quantile
from headrace.data.expressions import col


def main(folder: Path) -> None:
    ds = hd.range(10).with_column("k", col("id") % 2)
    groups = ds.groupby("k").aggregate(Count(), Max("id"), Mean("id", alias_name="mean"))
    assert groups.sort("k", descending=True).take(1)[0]["count()"] == 5
    totals: dict[str, Any] = ds.aggregate(Quantile("id", q=0.5))
    assert len(totals) == 1 and ds.sum("id") == 45
