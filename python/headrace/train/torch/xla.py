"""Ray's module of XLA devices, which is not here: importing it says what to use."""

from headrace import absent

raise absent.module("headrace.train.torch.xla")
