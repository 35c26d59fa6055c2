"""States of torchdata's StatefulDataLoader over a map-style dataset: where a pass is, and its order.

Such a state has the number of batches that were given. With torchdata's RandomSampler it also has the state
in which the generator drew the epoch's order, which is another order than torch's own sampler draws from it.
Both together give the rest of the epoch exactly.

Tests: tests/python/test_torch_dataloader.py
"""

import itertools

import torch
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler

from headrace._core import InvalidArgument, MismatchError

KEYS = {"_snapshot", "_sampler_iter_yielded"}  # of states with workers, and without
CHUNK = 32  # numbers that their sampler draws at once with replacement
ADVICE = "End that epoch with StatefulDataLoader, and begin the next one here"


def is_one(state):
    return isinstance(state, dict) and not KEYS.isdisjoint(state)


def taken(loader, state):
    """(batches that were given, the generator's state or None), of a state that fits the loader.

    Raises:
        InvalidArgument: the state does not say which batches come next. MismatchError: another batch_size, or
            another kind of sampler.
    """
    try:
        main, n, parts = _read(state)
        sampler_state = main["_sampler_iter_state"] or {}
        if state["_iterator_finished"]:
            return 0, None
        if any(part.get(name) is not None for part in parts for name in ("dataset_state", "fetcher_state")):
            raise _refused("a state of its dataset, which is iterable or has state_dict()")
    except (KeyError, TypeError, AttributeError):
        raise _refused("keys of another version") from None
    sampler = _sampler(loader)
    if type(sampler) not in (SequentialSampler, RandomSampler, DistributedSampler):
        raise _refused(f"a place in the order of a {type(sampler).__name__}")
    inner = sampler_state.get("sampler_iter_state") or sampler_state
    generator = inner.get("generator")
    if isinstance(sampler, RandomSampler) != (generator is not None):
        raise MismatchError(
            "DataLoader.load_state_dict: shuffle was "
            f"{generator is not None} when the state was taken, and is {generator is None}"
        )
    _check_size(loader, sampler, main, sampler_state)
    return n, generator


def _read(state):
    """(the part about the sampler, batches that were given, the parts about the dataset)"""
    if "_snapshot" not in state:
        return state, state["_num_yielded"], [state]
    shot = state["_snapshot"]
    n = shot["_snapshot_step"] + state["_steps_since_snapshot"]
    return shot["_main_snapshot"], n, list(shot["_worker_snapshots"].values())


def _refused(what):
    return InvalidArgument(
        f"DataLoader.load_state_dict: this state of torchdata's StatefulDataLoader has {what}: it cannot go "
        f"on here. {ADVICE}"
    )


def _sampler(loader):
    """What gives single indices; the batch sampler if the user has given one."""
    one = loader.batch_sampler
    return (
        loader.sampler if one is None or type(one) is BatchSampler and one.sampler is loader.sampler else one
    )


def _check_size(loader, sampler, main, sampler_state):
    batches, samples = main["_sampler_iter_yielded"], sampler_state.get("samples_yielded")
    size = 1 if loader.batch_size is None else loader.batch_size
    if (samples is None) != (loader.batch_size is None) or (
        samples is not None and samples != min(batches * size, len(sampler))
    ):
        was = f"{batches} batches of {samples} rows" if samples is not None else "rows that are no batches"
        raise MismatchError(
            f"DataLoader.load_state_dict: the state is that after {was}; found batch_size "
            f"{loader.batch_size} of {len(sampler)} rows"
        )


def order(loader, state):
    """The indices of the epoch, or lists of these, as torchdata's RandomSampler gives them."""
    sampler = _sampler(loader)
    rows = itertools.islice(_rows(len(sampler.data_source), sampler.replacement, state), len(sampler))
    return (
        rows if loader.batch_size is None else iter(BatchSampler(rows, loader.batch_size, loader.drop_last))
    )


def _rows(n, replacement, state):
    generator = torch.Generator()
    generator.set_state(state)
    while True:
        if replacement:
            yield from torch.randint(high=n, size=(CHUNK,), generator=generator).tolist()
        else:
            yield from torch.randperm(n, generator=generator).tolist()
