"""In memory, 1 M rows joined with 1 M others, each key about four times on either side: 4 M rows."""

from workloads.join_cases import in_memory, shared

TITLE = "memory, 1 M rows joined with 1 M, 4 M pairs, summed"
DATA = "table"
WHOLE = False
ROWS, KEYS = 1_000_000, 250_000
globals().update(
    shared(
        lambda data: in_memory(1, ROWS, KEYS, 1, "x"),
        lambda data: in_memory(2, ROWS, KEYS, 1, "y"),
        "inner",
        ["k"],
        ["x", "y"],
    )
)
