"""Parquet, 8 M rows joined with 1 M others by two keys, an integer and a text; then a sum."""

from workloads.join_cases import in_parquet, shared

TITLE = "Parquet, 8 M rows joined with 1 M by two keys, summed"
DATA = "table"
WHOLE = False
globals().update(
    shared(
        lambda data: in_parquet(data, None, ["id", "city", "fare"]),
        lambda data: in_parquet(data, [3], ["id", "city", "dist"]),
        "inner",
        ["id", "city"],
        ["fare", "dist"],
    )
)
