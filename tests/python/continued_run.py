"""A trainer that fails, and a new one that goes on from its checkpoints: for the tests of each store."""

import tempfile

import pytest

from headrace import train
from headrace.train.torch import TorchTrainer


def _loop(config):
    start = train.get_checkpoint()
    first = int(start.get_metadata()["i"]) + 1 if start else 0
    for i in range(first, 3):
        with tempfile.TemporaryDirectory() as folder:
            made = train.Checkpoint.from_directory(folder)
            made.set_metadata({"i": i})
            train.report({"i": i}, made)
        if i == 1 and not start:
            raise KeyError("stop")


def check(url, **settings):
    """Runs below `url` stop after the second of three checkpoints, and end with the third. settings: of the
    RunConfig.
    """

    def trainer():
        run = train.RunConfig(name="run", storage_path=url, **settings)
        return TorchTrainer(_loop, scaling_config=train.ScalingConfig(num_workers=0), run_config=run)

    with pytest.raises(Exception, match="stop"):
        trainer().fit()
    result = trainer().fit()
    assert result.metrics == {"i": 2}
    assert result.checkpoint.path == f"{url}/run/checkpoint_000002"
    assert result.checkpoint.get_metadata() == {"i": 2}
