"""Workers that are stopped, asleep, or gone in silence: the right one is named and fails."""

import io
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import pytest

import headrace.data as hd
from headrace import train
from headrace.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError

torch = pytest.importorskip("torch")
from headrace.train import watch  # noqa: E402
from headrace.train.torch import TorchTrainer  # noqa: E402
from headrace.train.watch import describe  # noqa: E402

pytestmark = pytest.mark.usefixtures("forked_ranks")


@pytest.fixture
def storage(tmp_path):
    return RunConfig(storage_path=tmp_path, name="run")


@pytest.fixture
def soon(monkeypatch):
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "stall_warning_s", 1.0)
    monkeypatch.setattr(context, "stall_timeout_s", 3.0)
    monkeypatch.setattr(watch, "ANSWER_S", 0.5)


def fit(loop, storage, n=2, **more):
    scaling = ScalingConfig(num_workers=n)
    return TorchTrainer(loop, scaling_config=scaling, run_config=storage, **more).fit()


def rank():
    return train.get_context().get_world_rank()


def test_a_worker_that_is_stopped(storage, soon, capfd):
    """The story: SIGSTOP on one rank left the others in all_reduce for half an hour, and then blamed them."""

    def loop():
        it = train.get_dataset_shard("train").iter_batches(batch_size=10)
        for i, _ in enumerate(it):
            if i == 3 and rank() == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
            torch.distributed.all_reduce(torch.ones(1))

    with pytest.raises(TrainingFailedError) as e:
        fit(loop, storage, datasets={"train": hd.range(100_000)})
    said = str(e.value)
    assert re.match(
        r"rank 1 \(pid \d+\) has made no progress for \d+ s: it is stopped \(SIGSTOP\) "
        r"\(step 4 of epoch 0 of dataset 'train'\); rank 0 waits in all_reduce\(\) at "
        r".*test_train_stalls.py:\d+ in loop\(\)",
        said,
    ), said
    line = next(line for line in capfd.readouterr().err.splitlines() if line.startswith("headrace: rank 1"))
    assert "it is stopped (SIGSTOP)" in line and "rank 0 waits in all_reduce()" in line


def test_a_worker_that_is_stopped_in_a_set_of_its_own(storage, soon):
    """The story: ranks of a set that is not split have one share each, and the watch looked for a second."""

    def loop():
        for i, _ in enumerate(train.get_dataset_shard("val").iter_batches(batch_size=10)):
            if i == 3 and rank() == 1:
                os.kill(os.getpid(), signal.SIGSTOP)
        torch.distributed.barrier()

    with pytest.raises(TrainingFailedError) as e:
        config = train.DataConfig(datasets_to_split=[])
        fit(loop, storage, datasets={"val": hd.range(1000)}, dataset_config=config)
    assert re.match(
        r"rank 1 \(pid \d+\) has made no progress for \d+ s: it is stopped \(SIGSTOP\) "
        r"\(step 4 of epoch 0 of dataset 'val'\); rank 0 waits in barrier\(\)",
        str(e.value),
    ), str(e.value)


def test_a_worker_asleep_counts_as_a_failure(storage, soon, tmp_path):
    storage.failure_config = FailureConfig(max_failures=1)
    flag = tmp_path / "slept"

    def loop():
        for i, _ in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
            if i == 3 and rank() == 0 and not flag.exists():
                flag.touch()
                time.sleep(600)  # here
        return "done"

    assert fit(loop, storage, datasets={"train": hd.range(1000)}).return_value == "done"


class Slow(train.UserCallback):
    """Returns when the driver has said where it is."""

    def __init__(self, errors):
        self.errors = errors

    def after_report(self, *_):
        until = time.monotonic() + 60
        while "headrace: the driver" not in self.errors.getvalue() and time.monotonic() < until:
            time.sleep(0.02)


def test_a_driver_that_does_not_answer(storage, soon, monkeypatch):
    """The story: a driver stood still in the write of a report, and nobody knew where."""
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    storage.callbacks = [Slow(errors)]

    def loop():
        train.report({"x": 1})

    fit(loop, storage)
    lines = [line for line in errors.getvalue().splitlines() if line.startswith("headrace: the driver")]
    assert len(lines) == 1 and re.fullmatch(
        rf"headrace: the driver \(pid {os.getpid()}\) has not answered rank [01] for 1 s: it is at "
        r".*test_train_stalls.py:\d+ in after_report\(\)",
        lines[0],
    ), lines


def test_a_set_that_one_worker_reads_alone(storage, soon):
    """The story: a split evaluation set under `if rank == 0` waits for the others for ever."""

    def loop():
        if rank() == 0:
            for _ in train.get_dataset_shard("val").iter_batches():
                pass
        torch.distributed.barrier()

    with pytest.raises(TrainingFailedError) as e:
        fit(loop, storage, datasets={"val": hd.range(1000)})
    said = str(e.value)
    assert (
        said.startswith("rank 1 (pid ")
        and "rank 0 waits for rows of epoch 0 of dataset 'val' to begin" in said
    )
    assert "dataset 'val' is split, so all workers must iterate over it" in said
    assert "DataConfig(datasets_to_split=[...])" in said
    assert "has returned" not in said  # no train loop has


def test_long_steps_are_no_stall(storage, monkeypatch, capfd):
    context = hd.DataContext.get_current()
    monkeypatch.setattr(context, "stall_warning_s", 0.3)
    monkeypatch.setattr(context, "stall_timeout_s", 0.6)

    def loop():
        for i, _ in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
            if i == 1:
                time.sleep(3)  # on both

    fit(loop, storage, datasets={"train": hd.range(60)})
    assert "no progress" not in capfd.readouterr().err


@pytest.mark.parametrize("code", [0, 3])
def test_a_worker_that_ends_in_silence(storage, code):
    def loop():
        for i, _ in enumerate(train.get_dataset_shard("train").iter_batches(batch_size=10)):
            if i == 3 and rank() == 1:
                os._exit(code)
            torch.distributed.all_reduce(torch.ones(1))

    began = time.monotonic()
    with pytest.raises(
        TrainingFailedError, match=r"^rank 1 \(pid \d+\) ended .*before its train loop returned"
    ):
        fit(loop, storage, datasets={"train": hd.range(10_000_000)})
    assert time.monotonic() - began < 60


def test_all_workers_end_in_silence(storage):
    with pytest.raises(TrainingFailedError, match="rank 0 .* ended with exit code 0 before its train loop"):
        fit(lambda: os._exit(0), storage, n=1)


def test_an_early_return(storage):
    """The one that returned is named, not only the one whose collective failed."""

    def loop():
        for i in range(10):
            if i == 3 and rank() == 1:
                return
            torch.distributed.all_reduce(torch.ones(1))

    with pytest.raises(TrainingFailedError) as e:
        fit(loop, storage)
    assert str(e.value).startswith(
        "rank 0 failed in a collective, after the train loop of rank 1 had returned: "
    )


def test_left_alone_in_a_collective(storage, soon, tmp_path, capfd):
    """The story: rank 1 returned, and rank 0 waited in LightGBM for ever without a line."""
    library = tmp_path / "lightgbm"
    library.mkdir()
    (library / "__init__.py").write_text("import time\n\ndef update():\n    time.sleep(600)\n")

    def loop(config):
        if rank() == 0:
            sys.path.insert(0, config["folder"])
            sys.modules.pop("lightgbm", None)
            import lightgbm

            lightgbm.update()

    text = (
        r"rank 0 \(pid \d+\) has made no progress for \d+ s: it waits in update\(\) at .* in loop\(\); the "
        r"train loop of rank 1 has returned: all must call it equally often"
    )
    with pytest.raises(TrainingFailedError, match=text):
        fit(loop, storage, train_loop_config={"folder": str(tmp_path)})
    assert re.search(text, capfd.readouterr().err)


def test_fewer_rows_than_ranks():
    share = hd.range(1).streaming_split(2, equal=True)
    import threading

    other = threading.Thread(target=lambda: list(share[1].iter_batches()))
    other.start()
    with pytest.warns(
        RuntimeWarning, match="no rank got a row: the 1 rows of the epoch are too few .* 2 ranks"
    ):
        assert list(share[0].iter_batches()) == []
    other.join()


@pytest.mark.parametrize("rows, few", [(1, True), (2, False), (0, False)])
def test_a_rank_that_gets_no_row_says_so(rows, few):
    """Where ranks may get unequal numbers of rows. An epoch of no rows is nobody's fault."""
    first, second = hd.range(rows).streaming_split(2, equal=False)
    other = threading.Thread(target=lambda: list(first.iter_batches(batch_size=1)))
    other.start()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        n = len(list(second.iter_batches(batch_size=1)))
    other.join()
    named = [
        w for w in said if "rank 1 got no row: the epoch has fewer batches than its 2 ranks" in str(w.message)
    ]
    assert (n, len(named)) == (max(rows - 1, 0), int(few))


def test_a_users_line_is_shown_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from headrace import train
            from headrace.train import RunConfig, ScalingConfig
            from headrace.train.torch import TorchTrainer

            def loop():
                if train.get_context().get_world_rank() == 1:
                    print("a printed line")
                    raise ValueError("it broke")  # the raising line

            config = RunConfig(storage_path=sys.argv[1])
            TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=config).fit()
            """
        )
    )
    found = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    text = found.stdout + found.stderr
    assert found.returncode == 1
    assert text.count("# the raising line") == 1 and text.count("a printed line") == 1, text


def test_places():
    frame = sys._getframe()
    found = describe(frame)
    assert found["kind"] == "user" and found["at"].endswith("in test_places()")
