"""Joins rows of several datasets by place: zip() side by side, mix() by weights. Keys: see joining.py."""

import enum
from numbers import Real

from headrace._core import InvalidArgument, TypeMismatchError
from headrace.data.plan import Node


class MixStoppingCondition(enum.Enum):
    """When a mix ends. STOP_ON_SHORTEST: after the last row of the first dataset that has no more rows.
    STOP_ON_LONGEST_DROP: when no dataset has more rows; the mix goes on without the ones that ended.
    STOP_ON_LONGEST_REPEAT: when each dataset has given all its rows; one that ended earlier begins again.
    """

    STOP_ON_SHORTEST = "stop_on_shortest"
    STOP_ON_LONGEST_DROP = "stop_on_longest_drop"
    STOP_ON_LONGEST_REPEAT = "stop_on_longest_repeat"

    @classmethod
    def _missing_(cls, value):
        """The names of interleave_datasets() in Hugging Face's datasets."""
        return {
            "first_exhausted": cls.STOP_ON_SHORTEST,
            "all_exhausted": cls.STOP_ON_LONGEST_REPEAT,
            "all_exhausted_without_replacement": cls.STOP_ON_LONGEST_DROP,
        }.get(value)


def _nodes(where, dataset, others):
    for other in others:
        if not hasattr(other, "_node"):
            raise TypeMismatchError(f"{where}: expected a Dataset, found {type(other).__name__}")
    return [dataset._node, *(other._node for other in others)]


def zip(dataset, *others):
    """See Dataset.zip."""
    nodes = _nodes("zip", dataset, others)
    return dataset if not others else type(dataset)._plain(Node("zip", {}, nodes))


def mix(dataset, *others, weights=None, stopping_condition=MixStoppingCondition.STOP_ON_LONGEST_DROP):
    """See Dataset.mix."""
    nodes = _nodes("mix", dataset, others)
    weights = [1.0] * len(nodes) if weights is None else list(weights)
    if len(weights) != len(nodes):
        raise InvalidArgument(f"mix: {len(weights)} weights for {len(nodes)} datasets")
    for weight in weights:
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 < weight < float("inf"):
            raise InvalidArgument(f"mix: weight: expected a finite number above 0, found {weight!r}")
    try:
        condition = MixStoppingCondition(stopping_condition)
    except ValueError:
        raise InvalidArgument(
            f"mix: stopping_condition: expected one of "
            f"{', '.join(c.value for c in MixStoppingCondition)}, found {stopping_condition!r}"
        ) from None
    args = {
        "weights": [float(w) for w in weights],
        "drop": condition is not MixStoppingCondition.STOP_ON_SHORTEST,
    }
    if condition is MixStoppingCondition.STOP_ON_LONGEST_REPEAT:
        args["n_rows"] = [one.count() for one in (dataset, *others)]
    return type(dataset)._plain(Node("mix", args, nodes))


__all__ = ["MixStoppingCondition", "mix", "zip"]
