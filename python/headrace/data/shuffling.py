"""Random choices over whole datasets: samples, random splits, the order of blocks."""

from numbers import Real

from headrace._core import InvalidArgument
from headrace.data.context import DataContext, check_seed
from headrace.data.ordering import seed_and_once
from headrace.data.plan import Node


def _fraction(where, value):
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value <= 1:
        raise InvalidArgument(f"{where}: expected a number from 0 to 1, found {value!r}")
    return float(value)


def randomize_block_order(dataset, *, seed=None):
    """See Dataset.randomize_block_order."""
    own, once = seed_and_once("randomize_block_order", seed)
    return type(dataset)._plain(Node("randomize_block_order", {"seed": own, "once": once}, [dataset._node]))


def random_sample(dataset, fraction, *, seed=None):
    """See Dataset.random_sample."""
    fraction = _fraction("random_sample: fraction", fraction)
    own, once = seed_and_once("random_sample", seed)
    args = {"begin": 0.0, "end": fraction, "seed": own, "once": once, "column": None}
    return type(dataset)._plain(Node("sample", args, [dataset._node]))


def streaming_train_test_split(dataset, test_size, *, split_type="random", hash_column=None, seed=None):
    """See Dataset.streaming_train_test_split."""
    where = "streaming_train_test_split"
    test_size = _fraction(f"{where}: test_size", test_size)
    if not 0 < test_size < 1:
        raise InvalidArgument(f"{where}: test_size: expected a number between 0 and 1, found {test_size}")
    if split_type not in ("random", "hash"):
        raise InvalidArgument(f"{where}: split_type: expected 'random' or 'hash', found {split_type!r}")
    if split_type == "hash" and seed is not None:
        raise InvalidArgument(f"{where}: expected no seed with split_type='hash'")
    if split_type == "random" and hash_column is not None:
        raise InvalidArgument(f"{where}: expected no hash_column with split_type='random'")
    if split_type == "hash" and hash_column is None:
        raise InvalidArgument(f"{where}: expected a hash_column with split_type='hash'")
    check_seed(f"{where}: seed", seed)
    if seed is None and split_type == "random":
        seed = DataContext.get_current().seed  # read now, so that both parts and all epochs agree
    border = 1.0 - test_size
    common = {"seed": seed, "once": True, "column": hash_column}
    return tuple(
        type(dataset)._plain(Node("sample", {"begin": begin, "end": end} | common, [dataset._node]))
        for begin, end in ((0.0, border), (border, 1.0))
    )


__all__ = ["random_sample", "randomize_block_order", "streaming_train_test_split"]
