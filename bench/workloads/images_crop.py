"""The same photos, a random part of each resized, and mirrored or not: what training starts with.

What is drawn differs between the participants, so only the number of values can agree.
"""

import math

from workloads.images import BATCH, DATA, SIDE, WHOLE, batches, loader  # noqa: F401

TITLE = "JPEG, random part of, 224 x 224"


def sums(batch):
    return {name: column.numel() for name, column in batch.items()}


def headrace(data):
    from headrace.data.expressions import col

    pixels = col("bytes").image.decode("RGB").image.random_resized_crop(SIDE, SIDE)
    return batches(data, pixels.image.random_flip(0.5))


def random_part(image):
    """As torchvision's RandomResizedCrop and RandomHorizontalFlip; Pillow cuts out and resizes in one go."""
    import torch
    from PIL import Image

    width, height = image.size
    area = width * height
    box = (0, 0, width, height)
    for _ in range(10):
        part = area * float(torch.empty(1).uniform_(0.08, 1))
        ratio = math.exp(float(torch.empty(1).uniform_(math.log(3 / 4), math.log(4 / 3))))
        w, h = round(math.sqrt(part * ratio)), round(math.sqrt(part / ratio))
        if 0 < w <= width and 0 < h <= height:
            x = int(torch.randint(0, width - w + 1, (1,)))
            y = int(torch.randint(0, height - h + 1, (1,)))
            box = (x, y, x + w, y + h)
            break
    image = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box)
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if float(torch.rand(1)) < 0.5 else image


def torch_1(data):
    return loader(data, 1, random_part)


def torch_2(data):
    return loader(data, 2, random_part)


def torch_3(data):
    return loader(data, 3, random_part)


def torch_4(data):
    return loader(data, 4, random_part)
