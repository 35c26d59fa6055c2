"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import headrace.data as hd
from headrace.data.preprocessors import Chain, OneHotEncoder, StandardScaler


def main(folder: Path) -> None:
    ds = hd.from_items([{"x": 1.0, "k": "a"}, {"x": 3.0, "k": "b"}])
    chain = Chain(StandardScaler(columns=["x"]), OneHotEncoder(columns=["k"]))
    made: hd.Dataset = chain.fit_transform(ds)
    assert made.count() == 2
