"""TPC-H Q1: a filter by date, two computed columns in pandas batches, aggregates by two keys, a sort."""

import json
import os
import sys
from datetime import date, timedelta

import numpy as np
import pandas as pd
import ray
from ray.data.aggregate import Count, Mean, Sum


def make(folder, n):
    os.makedirs(folder)
    rng = np.random.default_rng(1)
    first = date(1992, 1, 1)
    for part in range(4):
        frame = pd.DataFrame(
            {
                "l_quantity": rng.integers(1, 51, n).astype(float),
                "l_extendedprice": rng.integers(90_000, 10_000_000, n) / 100,
                "l_discount": rng.integers(0, 11, n) / 100,
                "l_tax": rng.integers(0, 9, n) / 100,
                "l_returnflag": rng.choice(list("ANR"), n),
                "l_linestatus": rng.choice(list("FO"), n),
                "l_shipdate": pd.to_datetime(
                    [first + timedelta(days=int(d)) for d in rng.integers(0, 2520, n)]
                ),
            }
        )
        frame.to_parquet(os.path.join(folder, f"part{part}.parquet"))


def prices(batch: pd.DataFrame) -> pd.DataFrame:
    batch["disc_price"] = batch["l_extendedprice"] * (1 - batch["l_discount"])
    batch["charge"] = batch["disc_price"] * (1 + batch["l_tax"])
    return batch


def main(folder):
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    make(os.path.join(folder, "lineitem"), 5000)
    ds = ray.data.read_parquet(os.path.join(folder, "lineitem"))
    last = pd.Timestamp("1998-09-02")
    ds = ds.map_batches(lambda b: b[b["l_shipdate"] <= last], batch_format="pandas")
    ds = ds.map_batches(prices, batch_format="pandas")
    answer = (
        ds.groupby(["l_returnflag", "l_linestatus"])
        .aggregate(
            Sum("l_quantity", alias_name="sum_qty"),
            Sum("l_extendedprice", alias_name="sum_base_price"),
            Sum("disc_price", alias_name="sum_disc_price"),
            Sum("charge", alias_name="sum_charge"),
            Mean("l_quantity", alias_name="avg_qty"),
            Mean("l_extendedprice", alias_name="avg_price"),
            Mean("l_discount", alias_name="avg_disc"),
            Count(alias_name="count_order"),
        )
        .sort(["l_returnflag", "l_linestatus"])
    )
    rows = [
        {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in answer.take_all()
    ]
    print(json.dumps(rows))


if __name__ == "__main__":
    main(sys.argv[1])
