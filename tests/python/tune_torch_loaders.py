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
