"""Names that a Dataset does not have: the error says which one to use."""

import copy
import pickle
import re

import pytest

import headrace.data as hd
from headrace.data import hints
from headrace.data.expressions import col


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("drop", "'Dataset' object has no attribute 'drop': use drop_columns()"),
        ("map_batch", "'Dataset' object has no attribute 'map_batch': did you mean 'map_batches'?"),
        ("xyzzy", "'Dataset' object has no attribute 'xyzzy'"),
    ],
)
def test_attributes(name, text):
    ds = hd.range(3)
    with pytest.raises(AttributeError, match=f"^{re.escape(text)}$"):
        getattr(ds, name)
    assert not hasattr(ds, name) and getattr(ds, name, 5) == 5
    assert pickle.loads(pickle.dumps(ds)).count() == copy.copy(ds).count() == 3


def test_hints_name_what_exists():
    ds = hd.range(3)
    for name, hint in hints.ELSEWHERE.items():
        assert not hasattr(hd.Dataset, name), name
        used = re.findall(r"(?<![.\w])(\w+)\(", hint)
        assert used or hint.startswith("preprocessors.")
        for method in used:
            assert hasattr(ds, method) or method in ("col", "aggregate"), (name, method)
    assert ds.filter(col("id").is_not_null()).count() == 3
