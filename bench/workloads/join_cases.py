"""Joins as all can state them, for the workloads join_*. Each workload sums a column of each side."""

import numpy as np

from workloads.group import CLOSE, sums  # noqa: F401
from workloads.peers import files

POLARS = {"inner": "inner", "left_outer": "left", "full_outer": "full", "left_semi": "semi"}
DUCKDB = {"inner": "INNER", "left_outer": "LEFT", "full_outer": "FULL", "left_semi": "SEMI"}


def in_parquet(data, numbers, columns):
    """Files of a folder, by their numbers (None: all), and the columns that are read."""
    return [f for i, f in enumerate(files(data)) if numbers is None or i in numbers], columns


def in_memory(seed, rows, keys, spread, value):
    """A table of integer keys below `keys`, times `spread`, in no order, and a float column."""
    import pyarrow as pa

    random = np.random.default_rng(seed)
    return pa.table({"k": random.integers(0, keys, rows) * spread, value: random.standard_normal(rows)})


def shared(left, right, kind, on, values):
    """Everyone of a workload. left and right: functions of `data` by one of those above."""

    def headrace(data):
        import headrace.data

        sides = [side(data) for side in (left, right)]

        def start():
            a, b = (
                headrace.data.read_parquet(s[0], columns=s[1])
                if isinstance(s, tuple)
                else headrace.data.from_arrow(s)
                for s in sides
            )
            both = a.join(b, kind, on=on)
            found = both.sum(values)
            if len(values) == 1:
                found = {f"sum({values[0]})": found}
            return [{name: [value] for name, value in found.items()}]

        return start

    def polars(data):
        import polars as pl

        sides = [side(data) for side in (left, right)]
        sides = [s if isinstance(s, tuple) else pl.from_arrow(s).lazy() for s in sides]

        def start():
            a, b = (pl.scan_parquet(s[0]).select(s[1]) if isinstance(s, tuple) else s for s in sides)
            both = a.join(b, on=on, how=POLARS[kind]).select(pl.col(values).sum()).collect(engine="streaming")
            return [{f"sum({s.name})": s.to_list() for s in both.iter_columns()}]

        return start

    def duckdb(data):
        import duckdb

        sides = [side(data) for side in (left, right)]

        def start():
            connection = duckdb.connect()
            texts = []
            for i, s in enumerate(sides):
                if isinstance(s, tuple):
                    names = ", ".join(f'"{c}"' for c in s[1])
                    texts.append(f"(SELECT {names} FROM read_parquet({s[0]}))")
                else:
                    connection.register(f"t{i}", s)
                    texts.append(f"t{i}")
            names = ", ".join(f'sum("{v}")' for v in values)
            using = ", ".join(f'"{k}"' for k in on)
            query = f"SELECT {names} FROM {texts[0]} {DUCKDB[kind]} JOIN {texts[1]} USING ({using})"
            found = connection.sql(query).fetchall()[0]
            return [{f"sum({v})": [x] for v, x in zip(values, found, strict=True)}]

        return start

    return {"headrace": headrace, "polars": polars, "duckdb": duckdb, "CLOSE": CLOSE, "sums": sums}
