"""Joins of two datasets by equal keys: checks the arguments of Dataset.join and makes its plan node."""

from headrace._core import InvalidArgument
from headrace.data.plan import Node
from headrace.settings import hint

KINDS = ["inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"]  # as in hr_join_kind
SWAPPED = {"right_semi": "left_semi", "right_anti": "left_anti"}
SHORT = {  # pandas', Polars' and SQL's words
    "left": "left_outer",
    "right": "right_outer",
    "outer": "full_outer",
    "full": "full_outer",
    "semi": "left_semi",
    "anti": "left_anti",
}


def _names(on, where):
    names = [on] if isinstance(on, str) else list(on)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"join: {where}=: expected the name of a column, found {name!r}")
    if not names:
        raise InvalidArgument(f"join: {where}=: expected at least one column")
    return names


def join(left, right, join_type, on, right_on, left_suffix, right_suffix):
    """The dataset of pairs of rows with equal keys; see Dataset.join."""
    kind = getattr(join_type, "value", join_type)
    if kind not in KINDS and kind not in SWAPPED:
        known = [*KINDS, *sorted(SWAPPED)]
        near = f"; did you mean {SHORT[kind]!r}?" if kind in SHORT else hint(kind, known)
        raise InvalidArgument(f"join: join_type: expected one of {', '.join(known)}, found {kind!r}{near}")
    left_keys = _names(on, "on")
    right_keys = left_keys if right_on is None else _names(right_on, "right_on")
    if len(left_keys) != len(right_keys):
        raise InvalidArgument(f"join: on= names {len(left_keys)} columns, right_on= {len(right_keys)}")
    if kind in SWAPPED:
        left, right, left_keys, right_keys, kind = right, left, right_keys, left_keys, SWAPPED[kind]
    args = {
        "kind": KINDS.index(kind),
        "on": left_keys,
        "right_on": right_keys,
        "left_suffix": left_suffix,
        "right_suffix": right_suffix,
    }
    return left._plain(Node("join", args, (left._node, right._node)))
