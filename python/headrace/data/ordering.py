"""Other order or other blocks for all rows: checks the arguments of sort, random_shuffle and repartition."""

from __future__ import annotations

import warnings
from typing import ClassVar

from headrace import lazy_module
from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.context import accept_cluster_arguments, check_seed, is_whole
from headrace.data.plan import Node
from headrace.settings import OnlyKnown, hinted

expressions = lazy_module("headrace.data.expressions")  # imports numpy


@hinted
class RandomSeedConfig(OnlyKnown):
    """The seed of a random step, and whether each epoch has its own order.

    seed: None for DataContext.seed. reseed_after_execution: True gives epoch n its own order, the same in
    each run; False gives all epochs one order. use_timestamp_as_default has no effect; no seed comes from the
    clock.
    """

    _names = ("seed", "reseed_after_execution", "use_timestamp_as_default")

    def __init__(
        self,
        seed: int | None = None,
        reseed_after_execution: bool = True,
        use_timestamp_as_default: bool = False,
    ) -> None:
        check_seed("RandomSeedConfig: seed", seed)
        self.seed = seed
        self.reseed_after_execution = reseed_after_execution
        self.use_timestamp_as_default = use_timestamp_as_default

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RandomSeedConfig(seed={self.seed}, reseed_after_execution={self.reseed_after_execution})"


def seed_and_once(where, seed):
    """(seed or None for the context's seed, whether all epochs are alike) of a `seed` argument: None, an
    integer (all epochs are alike, as in Ray), or a RandomSeedConfig.
    """
    if isinstance(seed, RandomSeedConfig):
        return seed.seed, seed.seed is not None and not seed.reseed_after_execution
    check_seed(f"{where}: seed", seed)
    return (None, False) if seed is None else (int(seed), True)


def _per_key(what, given, n, choices):
    """One value per key: `given` for all of them, or a list with one for each."""
    values = given if isinstance(given, (list, tuple)) else [given] * n
    if len(values) != n:
        raise InvalidArgument(f"sort: {what}: expected {n} values, one per key, found {len(values)}")
    for value in values:
        if value not in choices:
            raise InvalidArgument(
                f"sort: {what}: expected one of {', '.join(map(repr, choices))}, found {value!r}"
            )
    return values


def sort_keys(key, descending, null_placement):
    """[(column or _core.Expr, descending, nulls first)] from the arguments of sort."""
    if key is None:
        raise InvalidArgument("sort: the 'key' parameter cannot be None")
    keys = key if isinstance(key, (list, tuple)) else [key]
    if not keys:
        raise InvalidArgument("sort: expected at least one key")
    for k in keys:
        if not isinstance(k, str) and not isinstance(k, expressions.Expr):
            raise TypeMismatchError(f"sort: key: expected a column's name or an expression, found {k!r}")
    down = _per_key("descending", descending, len(keys), (False, True))
    nulls = _per_key("null_placement", null_placement, len(keys), ("at_end", "at_start"))
    return [
        (k if isinstance(k, str) else k._core, bool(d), p == "at_start")
        for k, d, p in zip(keys, down, nulls, strict=True)
    ]


def sort(dataset, key, descending=False, boundaries=None, *, null_placement="at_end"):
    if boundaries is not None and not isinstance(boundaries, (list, tuple)):
        raise TypeMismatchError(f"sort: boundaries: expected a list of numbers, found {boundaries!r}")
    keys = sort_keys(key, descending, null_placement)
    called = [k for k in (key if isinstance(key, (list, tuple)) else [key]) if not isinstance(k, str)]
    return dataset._computed([], called, lambda node, _: Node("sort", {"keys": keys}, [node]))


def random_shuffle(dataset, seed=None, num_blocks=None, **ray_remote_args):
    accept_cluster_arguments("random_shuffle", ray_remote_args)
    if num_blocks is not None and not is_whole(num_blocks, 1):
        raise InvalidArgument(
            f"random_shuffle: num_blocks: expected a number of at least 1 or None, found {num_blocks!r}"
        )
    own, once = seed_and_once("random_shuffle", seed)
    return Node("random_shuffle", {"seed": own, "once": once}, [dataset._node])


def repartition(dataset, num_blocks, target_num_rows_per_block, *, strict, shuffle, keys, sort):
    if (num_blocks is None) == (target_num_rows_per_block is None):
        raise InvalidArgument("repartition: expected either num_blocks or target_num_rows_per_block")
    given = num_blocks if target_num_rows_per_block is None else target_num_rows_per_block
    if not is_whole(given, 1):
        name = "num_blocks" if target_num_rows_per_block is None else "target_num_rows_per_block"
        raise InvalidArgument(f"repartition: {name}: expected a number of at least 1, found {given!r}")
    if target_num_rows_per_block is not None:
        if shuffle:
            raise InvalidArgument("repartition: shuffle must be False when target_num_rows_per_block is set")
        if keys is not None or sort:
            warnings.warn(
                "repartition: keys and sort have no effect with target_num_rows_per_block", stacklevel=3
            )
        return Node("rebatch", {"n_rows": int(given)}, [dataset._node])
    if strict:
        warnings.warn("repartition: strict has no effect without target_num_rows_per_block", stacklevel=3)
    keys = [keys] if isinstance(keys, str) else keys
    if keys is not None and not (keys and all(isinstance(k, str) for k in keys)):
        raise TypeMismatchError(f"repartition: keys: expected names of columns, found {keys!r}")
    args = {
        "n_blocks": int(given),
        "shuffle": bool(shuffle),
        "keys": list(keys) if keys else None,
        "sort": bool(sort),
    }
    return Node("repartition", args, [dataset._node])
