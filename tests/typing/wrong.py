"""Mistakes that type checkers mark: each in the line that ends with `# wrong`, and in no other."""

from typing import Any

import numpy as np

import headrace.data as hd
from headrace import train
from headrace.data.aggregate import Max, Quantile
from headrace.data.expressions import col
from headrace.data.preprocessors import StandardScaler
from headrace.train.torch import TorchTrainer

ds = hd.range(10)


def number(row: dict[str, Any]) -> int:
    return 3


def of_text(batch: str) -> dict[str, np.ndarray]:
    return {}


def loop(config: dict[str, Any]) -> None: ...


ds.mapp(number)  # wrong
ds.map(number)  # wrong
ds.map(3)  # wrong
ds.map("double")  # wrong
ds.map_batches(of_text)  # wrong
ds.map_batches(lambda batch: batch, batch_format="polars")  # wrong
ds.map_batches(lambda batch: batch, batch_sise=3)  # wrong
ds.map_batches(lambda batch: batch, batch_size="3")  # wrong
ds.map(lambda row: row, concurrency="many")  # wrong
ds.map(lambda row: row, compute="thread")  # wrong
ds.filter(expr=3)  # wrong
ds.flat_map(number)  # wrong
ds.limit("3")  # wrong
ds.select_columns(3)  # wrong
ds.sort(3)  # wrong
ds.join(ds)  # wrong
ds.union([ds])  # wrong
ds.groupby("id").aggregate("max")  # wrong
ds.groupby("id").maximum("id")  # wrong
ds.aggregate(Max(3))  # wrong
ds.aggregate(Quantile("id", q="half"))  # wrong
ds.write_parquet()  # wrong
ds.write_csv(3)  # wrong
ds.streaming_split()  # wrong
ds.shard(tail="short")  # wrong
ds.pack("2048")  # wrong
len(ds)  # wrong
ds[0]  # wrong
list(ds)  # wrong
hd.read_parquet(3)  # wrong
hd.read_parquet("a", column=["x"])  # wrong
hd.read_csv("a", delimiter=3)  # wrong
hd.read_images("a", size=224)  # wrong
hd.range("10")  # wrong
hd.read_parqet("a").count()  # wrong
col(3)  # wrong
col("x").strr.upper()  # wrong
col("x").str.uper()  # wrong
hd.DataContext.get_current().sed = 3  # wrong
hd.DataContext.get_current().seed = "x"  # wrong
ds.iter_batches(batch_format="torch")  # wrong
ds.iter_rows().load_state("x")  # wrong
StandardScaler()  # wrong
train.ScalingConfig(num_worker=3)  # wrong
train.ScalingConfig(use_gpu="yes")  # wrong
train.RunConfig(storage_path=3)  # wrong
train.report(3)  # wrong
train.Checkpoint(3)  # wrong
TorchTrainer(loop, dataset={"train": ds})  # wrong
TorchTrainer(3)  # wrong

for batch in ds.iter_batches():
    batch.to_numpy()  # wrong
for frame in ds.iter_batches(batch_format="numpy"):
    rows: str = frame["id"]  # wrong
for row in ds.iter_rows():
    row.identity()  # wrong
