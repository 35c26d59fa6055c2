"""Parquet, 3 M rows fully joined with 2 M others, of which half have partners; summed."""

from workloads.join_cases import in_parquet, shared

TITLE = "Parquet, 3 M rows fully joined with 2 M, summed"
DATA = "table"
WHOLE = False
globals().update(
    shared(
        lambda data: in_parquet(data, [0, 1, 2], ["id", "fare"]),
        lambda data: in_parquet(data, [2, 3], ["id", "dist"]),
        "full_outer",
        ["id"],
        ["fare", "dist"],
    )
)
