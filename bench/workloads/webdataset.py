"""WebDataset shards, decoded: photos to pixels, JSON to dicts, classes to numbers, in batches of 64 samples.

Batches of 1,024, as elsewhere, would be 600 MB each.
"""

import numpy as np

TITLE = "WebDataset, decoded"
DATA = "webdataset"
WHOLE = False
BATCH = 64
COLUMNS = ["__key__", "cls", "jpg", "json"]
WORKERS = 2  # of 0 to 4; more than the two cores cost more than they bring


def headrace(data, decoder="rgb"):
    import headrace.data

    return lambda: (
        headrace.data.read_webdataset(data, decoder=decoder)
        .select_columns(COLUMNS)
        .iter_batches(batch_size=BATCH, batch_format="numpy")
    )


def objects(values):
    """An array of these objects, whatever they are; numbers are themselves."""
    if isinstance(values[0], int):
        return np.array(values)
    out = np.empty(len(values), object)
    out[:] = values
    return out


def columns(samples):
    """A batch of what to_tuple() gave."""
    return {name: objects(values) for name, values in zip(COLUMNS, zip(*samples, strict=True), strict=True)}


def webdataset(data, decoder="rgb8", workers=WORKERS):
    """The package with torch's DataLoader around it, batches made in the workers."""
    from pathlib import Path

    import torch.utils.data
    import webdataset as wds

    def start():
        shards = [str(path) for path in sorted(Path(data).glob("*.tar"))]
        samples = wds.WebDataset(shards, shardshuffle=False)
        if decoder:
            samples = samples.decode(decoder)
        samples = samples.to_tuple(*COLUMNS).batched(BATCH, collation_fn=columns)
        return iter(torch.utils.data.DataLoader(samples, batch_size=None, num_workers=workers))

    return start
