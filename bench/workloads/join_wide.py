"""In memory, 4 M rows joined with 4 M others by integers that lie far apart, each about once."""

from workloads.join_cases import in_memory, shared

TITLE = "memory, 4 M rows joined with 4 M, keys far apart, summed"
DATA = "table"
WHOLE = False
ROWS = 4_000_000
globals().update(
    shared(
        lambda data: in_memory(1, ROWS, ROWS, 7_919_333, "x"),
        lambda data: in_memory(2, ROWS, ROWS, 7_919_333, "y"),
        "inner",
        ["k"],
        ["x", "y"],
    )
)
