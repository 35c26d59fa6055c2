"""Parquet, of 8 M rows those that have a partner among 1 M others; summed."""

from workloads.join_cases import in_parquet, shared

TITLE = "Parquet, 8 M rows that are among 1 M, summed"
DATA = "table"
WHOLE = False
globals().update(
    shared(
        lambda data: in_parquet(data, None, ["id", "fare"]),
        lambda data: in_parquet(data, [3], ["id"]),
        "left_semi",
        ["id"],
        ["fare"],
    )
)
