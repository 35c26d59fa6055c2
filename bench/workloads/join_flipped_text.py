"""Parquet, 2 M rows joined with 12 M others by a text key: the right side is the larger one."""

from workloads.join_cases import in_parquet, shared

TITLE = "Parquet, 2 M rows joined with 12 M by text, summed"
DATA = "users"
WHOLE = False
globals().update(
    shared(
        lambda data: in_parquet(data, [3], ["user", "x"]),
        lambda data: in_parquet(data, None, ["user", "n"]),
        "inner",
        ["user"],
        ["x", "n"],
    )
)
