"""JPEG of 52 kB -> 224 x 224, normalised, float32, channels first: what an image model is trained on.

A batch is a tensor of 64 images. The peer is what its users write: Pillow opens and resizes, torch's
operators make a normalised tensor of it, DataLoader's worker processes do that for image after image. How
many workers are best differs from machine to machine, so each number is a participant.
"""

from pathlib import Path

TITLE = "JPEG, resized to 224 x 224"
DATA = "photos"
WHOLE = False
BATCH, SIDE = 64, 224
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CLOSE = 0.002  # relative: filters may differ by a step of 1/255 in a pixel


def sums(batch):
    return {name: float(column.double().abs().sum()) for name, column in batch.items()}


def headrace(data):
    from headrace.data.expressions import col

    return batches(data, col("bytes").image.decode("RGB").image.resize(SIDE, SIDE))


def batches(data, pixels):
    import torch  # noqa: F401

    import headrace.data

    images = (
        headrace.data.read_binary_files(str(data))
        .with_column("image", pixels.image.normalize(MEAN, STD))
        .select_columns(["image"])
    )
    return lambda: images.iter_torch_batches(batch_size=BATCH)


def resized(image):
    from PIL import Image

    return image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)


class Photos:
    """A torch Dataset: picture i as a normalised tensor."""

    def __init__(self, data, transform):
        import torch

        self.paths = sorted(str(p) for p in Path(data).iterdir())
        self.transform = transform
        self.mean, self.std = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, STD))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        import numpy as np
        import torch
        from PIL import Image

        with Image.open(self.paths[i]) as file:
            pixels = torch.from_numpy(np.array(self.transform(file.convert("RGB"))))
        pixels = pixels.permute(2, 0, 1).to(torch.float32, memory_format=torch.contiguous_format)
        return {"image": pixels.div_(255).sub_(self.mean).div_(self.std)}


def loader(data, n_workers, transform=resized):
    import torch.utils.data as td

    photos = Photos(data, transform)
    return lambda: td.DataLoader(photos, BATCH, num_workers=n_workers)


def torch_1(data):
    return loader(data, 1)


def torch_2(data):
    return loader(data, 2)


def torch_3(data):
    return loader(data, 3)


def torch_4(data):
    return loader(data, 4)
