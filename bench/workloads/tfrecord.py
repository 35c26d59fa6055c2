"""TFRecords of tf.train.Example, all features: tokens and an embedding as arrays, numbers, bytes."""

import numpy as np
from batches import ROWS

from workloads.webdataset import objects

TITLE = "TFRecord, all features"
DATA = "tfrecord"
WHOLE = False
EMBEDDING = 64


def files(data):
    from pathlib import Path

    return [str(path) for path in sorted(Path(data).glob("*.tfrecord"))]


def headrace(data):
    import headrace.data

    return lambda: headrace.data.read_tfrecords(data).iter_batches(batch_size=ROWS, batch_format="numpy")


def tensorflow(data):
    """tf.data, as its guide has it, but with numbers where that has AUTOTUNE, which on two cores was up
    to ten times slower: records in batches, parsed a batch at a time by two threads, four batches ahead.
    """
    import os

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    features = {
        "doc": tf.io.FixedLenFeature([], tf.int64),
        "embedding": tf.io.FixedLenFeature([EMBEDDING], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "tokens": tf.io.RaggedFeature(tf.int64),
        "url": tf.io.FixedLenFeature([], tf.string),
    }

    def batch_of(parsed):
        tokens = parsed.pop("tokens")
        out = {name: value.numpy() for name, value in parsed.items()}
        values, edges = tokens.values.numpy(), tokens.row_splits.numpy().tolist()
        out["tokens"] = objects([values[a:b] for a, b in zip(edges, edges[1:], strict=False)])
        return out

    def start():
        options = tf.data.Options()
        options.autotune.enabled = False
        options.threading.max_intra_op_parallelism = 1
        batches = (
            tf.data.TFRecordDataset(files(data))
            .batch(ROWS)
            .map(lambda records: tf.io.parse_example(records, features), num_parallel_calls=2)
            .prefetch(4)
            .with_options(options)
        )
        return map(batch_of, batches)

    return start


def tfrecord(data):
    """The package of that name, in a DataLoader with two workers, a file after the other in each."""
    import torch.utils.data
    from tfrecord.reader import tfrecord_loader

    kinds = {"doc": "int", "embedding": "float", "label": "int", "tokens": "int", "url": "byte"}

    class Records(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info()
            for path in files(data)[worker.id :: worker.num_workers]:
                yield from tfrecord_loader(path, None, kinds)

    def columns(rows):
        out = {name: np.concatenate([row[name] for row in rows]) for name in ("doc", "label")}
        out["embedding"] = np.stack([row["embedding"] for row in rows])
        out["tokens"] = objects([row["tokens"] for row in rows])
        out["url"] = objects([bytes(row["url"]) for row in rows])
        return out

    def start():
        return iter(
            torch.utils.data.DataLoader(Records(), batch_size=ROWS, num_workers=2, collate_fn=columns)
        )

    return start
