"""Loaders of torch for the tests of headrace.tune; the processes that measure import this file."""

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __init__(self, n=400):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.full((8,), float(i)), i


def dataset():
    return Rows()


def loader():
    return DataLoader(Rows(), batch_size=4)


class Bad(Rows):
    def __getitem__(self, i):
        if i == 28:
            raise ValueError("row 28 is bad\nand its neighbour")
        return super().__getitem__(i)


def bad():
    return DataLoader(Bad(), batch_size=4, num_workers=1)
