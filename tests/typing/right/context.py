"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

import headrace.data as hd


def main(folder: Path) -> None:
    context = hd.DataContext.get_current().copy()
    context.seed = 7
    context.max_errored_blocks = 2
    context.enable_progress_bars = False
    context.set_config("mine", 3)
    assert context.get_config("mine") == 3
    with hd.DataContext.current(context):
        assert hd.DataContext.get_current().seed == 7
