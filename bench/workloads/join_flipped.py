"""Parquet, 1 M rows joined with 8 M others by an integer key: the right side is the larger one."""

from workloads.join_cases import in_parquet, shared

TITLE = "Parquet, 1 M rows joined with 8 M, summed"
DATA = "table"
WHOLE = False
globals().update(
    shared(
        lambda data: in_parquet(data, [3], ["id", "fare"]),
        lambda data: in_parquet(data, None, ["id", "dist"]),
        "inner",
        ["id"],
        ["fare", "dist"],
    )
)
