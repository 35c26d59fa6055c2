"""A program as users write it: checkers find no mistake, and it runs."""

from pathlib import Path

from headrace import train
from headrace.train import Checkpoint


def main(folder: Path) -> None:
    (folder / "saved").mkdir()
    (folder / "saved" / "weights").write_text("1")
    checkpoint = Checkpoint.from_directory(folder / "saved")
    checkpoint.set_metadata({"step": 1})
    with checkpoint.as_directory() as place:
        assert (Path(place) / "weights").read_text() == "1"
    assert train.CheckpointConfig(num_to_keep=2).num_to_keep == 2
