"""headrace.tune: what it measures, what it says, and what becomes of loaders that fail, hang or leak.

The loaders are in tune_loaders.py and tune_torch_loaders.py. Figures of the clock are compared only where a
loader or a step sleeps for much longer than a slow machine is slow.
"""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

import headrace.data as hd
from headrace.exceptions import CallbackError, InvalidArgument, TypeMismatchError
from headrace.tune import (
    Configuration,
    Machine,
    Result,
    Target,
    advice,
    configurations,
    machine,
    results,
    tune,
    tuning,
    watching,
)

HERE = Path(__file__).parent
FAST = {"train_step_time": 0.0, "batches": 12, "epochs": 2}


def at(name, file="tune_loaders"):
    return f"{HERE / file}.py:{name}"


@pytest.fixture
def only(monkeypatch):
    """Measures only the configurations of these names."""

    def choose(*names):
        def plan(*arguments):
            todo = configurations.plan(*arguments)
            result = None
            while True:
                try:
                    made = todo.send(result)
                except StopIteration:
                    return
                result = (yield made) if made.name in names else Result(made, "error")

        monkeypatch.setattr(tuning, "plan", plan)

    return choose


def figures(wait, step=0.1, rows=10, name="num_workers=0", library="torch", **more):
    """A Result of a loader for which each step waits so long."""
    number = name.partition("num_workers=")[2].partition(",")[0]
    options = {"num_workers": int(number)} if number else {}
    made = Result(Configuration(name, library, options), "done", step_s=step, n_batches=50)
    made.batches_per_s = 1 / (wait + step)
    made.samples_per_s = rows / (wait + step)
    made.wait_share = wait / (wait + step)
    made.wait_mean_s = made.wait_median_s = made.wait_p99_s = wait
    made.startup_s, made.border_s, made.cpu_cores = 1.0, 0.5, 1.0
    for key, value in more.items():
        setattr(made, key, value)
    return made


# ------------------------------------------------------------------------------------------ whole runs


def test_a_slow_loader(tmp_path):
    """Eight milliseconds for a batch, and a step of as many: the step waits, and workers help."""
    lines = []
    out = tmp_path / "out"
    report = tune(at("slow"), train_step_time=0.008, batches=25, folder=out, show=lines.append)
    by_name = {r.name: r for r in report.results}
    given, alone, four = (by_name[n] for n in ("as given", "num_workers=0", f"num_workers={2 * os_cores()}"))
    assert list(by_name)[:2] == ["as given", "num_workers=0"] and report.target.takes == ["num_workers"]
    assert report.complete and all(r.status == "done" and r.n_batches == 50 for r in report.results)
    assert all(r.n_epochs == 2 and r.n_rows == 200 for r in report.results)
    assert (
        0.3 < alone.wait_share < 1 and alone.wait_mean_s >= 0.008 and alone.wait_p99_s >= alone.wait_median_s
    )
    assert alone.step_s >= 0.008 and alone.samples_per_s < 4 / 0.016
    assert four.wait_mean_s < alone.wait_mean_s and 0 < four.border_s < 60 and four.startup_s > 0
    assert report.floor_s == min(r.step_s for r in report.results) >= 0.008
    assert report.most_samples_per_s == pytest.approx(4 / report.floor_s) and report.most_samples_per_s <= 500
    assert given.epoch_estimated and given.epoch_s > 30 * 0.016 and report.target.batches == 30
    assert all(r.memory_peak > 1 << 20 and not r.cpu_cores < 0 for r in report.results)
    assert len(lines) == len(report.results) and lines[0].startswith("as given: ")
    logs = sorted(p.name for p in out.glob("*.log"))
    assert logs[:3] == ["00-look.log", "01-as-given.log", "02-num-workers-0.log"]
    assert Path(four.log).read_text() == f"made with {2 * os_cores()}\n"
    saved = json.loads((out / "summary.json").read_text())
    assert [r["n_rows"] for r in saved["results"]] == [200] * len(lines) and saved["floor_s"] >= 0.008
    with open(out / "summary.csv") as f:
        rows = list(csv.DictReader(f))
    assert [r["name"] for r in rows] == list(by_name)
    assert float(rows[1]["samples_per_s"]) == alone.samples_per_s
    assert json.loads(rows[1]["options"]) == {"num_workers": 0}
    assert "no loader can give it more than" in report.text()
    assert len(report.table().splitlines()) == 1 + len(lines)
    assert (out / "report.html").read_text().startswith("<!DOCTYPE html>")


def os_cores():
    return machine.this_machine().cores


def test_torch_beside_headrace(only):
    pytest.importorskip("torch")
    only("num_workers=0", "Headrace: from_torch")
    report = tune(at("dataset", "tune_torch_loaders"), batch_size=4, **FAST)
    assert [r.configuration.library for r in report.results] == ["torch", "headrace"]
    assert all((r.status, r.n_batches, r.n_rows) == ("done", 24, 96) for r in report.results), report.text()
    assert "its first batch comes after" in report.text() and all(r.log == "" for r in report.results)


def test_a_step_that_is_measured(only):
    only("num_workers=0")
    report = tune(at("slow"), step=at("step"), measure_step=True, batches=5, epochs=1)
    assert 0.004 <= report.step_s < 1 and report.floor_s >= report.step_s
    assert report.results[0].step_s >= report.step_s
    report = tune(at("slow"), step=at("step"), batches=5, epochs=1)
    (one,) = report.results
    assert report.step_s is None and one.floor_s >= 0.004 and one.step_s >= 0.004
    assert report.floor_s == min(one.floor_s, one.step_s)


def test_an_iterator():
    """It serves one epoch: the next one has a new one."""
    report = tune(at("once"), **FAST)
    (one,) = report.results
    assert (one.name, report.target.kind) == ("as given", "iterable")
    assert (one.status, one.n_batches, one.n_rows, one.n_epochs) == ("done", 24, 120, 2), one.error


def test_a_function_of_the_program():
    """It travels by value, with what it names."""
    rows = [[1, 2, 3]] * 5
    report = tune(lambda: rows, **FAST)
    assert [(r.name, r.n_rows) for r in report.results] == [("as given", 30)]


# ------------------------------------------------------------------------------------------ torch's loaders


@pytest.fixture
def batches():
    """The batches of a configuration, in this process."""
    pytest.importorskip("torch")
    from headrace.tune.targets import Loaders

    def made(loader, configuration, limit=3, **options):
        loaders = Loaders(lambda: loader, limit, **{"batch_size": 4, "shuffle": False} | options)
        iterable, ends = loaders.make(configuration)
        return list(iterable), ends

    return made


def test_a_loader_is_rebuilt(batches):
    """The rows of its dataset, sampler and functions, as many as are measured."""
    import torch
    from torch.utils.data import DataLoader, RandomSampler
    from tune_torch_loaders import Rows

    rows = Rows(20)
    given = Configuration("as given", "given")
    plain = Configuration("num_workers=0", "torch", {"num_workers": 0})
    ours = Configuration("headrace.torch.DataLoader", "headrace.torch", {"num_workers": 0})
    for configuration in (given, plain, ours):
        found, ends = batches(DataLoader(rows, batch_size=4), configuration)
        assert ends and [b[1].tolist() for b in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        found, _ = batches(DataLoader(rows, batch_size=3, drop_last=True), configuration, limit=None)
        assert [len(b[1]) for b in found] == [3] * 6
        found, _ = batches(DataLoader(rows, batch_size=4, collate_fn=len), configuration)
        assert found == [4, 4, 4]
        found, _ = batches(DataLoader(rows, batch_size=None), configuration)
        assert [int(b[1]) for b in found] == [0, 1, 2]
        found, _ = batches(DataLoader(rows, batch_sampler=[[7, 8], [1], [2], [3]]), configuration)
        assert [b[1].tolist() for b in found] == [[7, 8], [1], [2]]
        order = RandomSampler(rows, generator=torch.Generator().manual_seed(3))
        expected = list(RandomSampler(rows, generator=torch.Generator().manual_seed(3)))
        found, _ = batches(DataLoader(rows, batch_size=4, sampler=order), configuration)
        assert sum((b[1].tolist() for b in found), []) == expected[:12]


def test_a_loader_is_converted(batches):
    """Once the step got dicts, and failed where it took the loader's own batches."""
    import torch
    from torch.utils.data import DataLoader
    from tune_torch_loaders import Rows

    ours = Configuration("Headrace: from_torch", "headrace")
    found, ends = batches(DataLoader(Rows(20), batch_size=4), ours)
    assert ends and [b[1].tolist() for b in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert type(found[0]) is type(next(iter(DataLoader(Rows(20), batch_size=4))))
    found, _ = batches(DataLoader(Rows(6), batch_size=None), ours, limit=None)
    assert [int(b[1]) for b in found] == list(range(6)) and found[2][0].tolist() == [2.0] * 8
    found, _ = batches(DataLoader(Rows(20), batch_size=4, shuffle=True), ours, limit=None)
    order = [int(x) for b in found for x in b[1]]
    assert sorted(order) == list(range(20)) != order
    for rows in (
        torch.arange(8.0),
        [{"x": i, "y": float(i)} for i in range(8)],
        [{"item": i} for i in range(8)],
    ):
        wanted = list(DataLoader(rows, batch_size=4))
        found, _ = batches(DataLoader(rows, batch_size=4), ours, limit=None)
        assert str(found) == str(wanted)


def test_a_dataset_of_headrace(batches):
    given = Configuration("Headrace, as given", "given")
    found, ends = batches(hd.range(10), given)
    assert not ends and [b["id"].tolist() for b in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    deeper = Configuration("Headrace, prefetch_batches=4", "headrace", {"prefetch_batches": 4})
    found, _ = batches(hd.range(10), deeper, shuffle=True)
    assert sorted(int(i) for b in found for i in b["id"]) == list(range(10))


class ByIndex:
    """No subclass of torch's Dataset; DataLoader takes it all the same."""

    def __len__(self):
        return 20

    def __getitem__(self, i):
        return [float(i)]


def test_a_dataset_by_index_alone(batches):
    """The story: it was no Dataset, DataLoader or iterable."""
    pytest.importorskip("torch")
    from headrace.tune.targets import kind_of

    assert kind_of(ByIndex()) == "dataset" and kind_of(ByIndex) == kind_of(len) == kind_of(3) == ""
    assert kind_of([1]) == "iterable"
    found, _ = batches(ByIndex(), Configuration("num_workers=0", "torch", {"num_workers": 0}))
    assert [len(b[0]) for b in found] == [4, 4, 4]
    found, _ = batches(ByIndex(), Configuration("Headrace: from_torch", "headrace"))
    assert len(found) == 3


def test_what_from_torch_cannot_replace():
    pytest.importorskip("torch")
    from torch.utils.data import DataLoader, WeightedRandomSampler
    from tune_torch_loaders import Rows

    from headrace.tune.targets import Loaders

    def why(**options):
        return Loaders(DataLoader(Rows(), **options), 10, None, False).describe()[0].why_not

    assert why(batch_size=4, shuffle=True) == why(batch_size=None) == ""
    assert "collate_fn" in why(collate_fn=list) and "worker_init_fn" in why(worker_init_fn=print)
    assert "a batch_sampler" in why(batch_sampler=[[1]])
    assert "a sampler" in why(sampler=WeightedRandomSampler([1.0] * 400, 10))


# ------------------------------------------------------------------------------------------ what goes wrong


def test_rows_that_fail(tmp_path):
    report = tune(at("broken_later"), folder=tmp_path, train_step_time=0, batches=None)
    (one,) = report.results
    assert one.status == "error" and "row <b>nine</b> is bad" in one.error and one.n_batches == 30
    assert "in broken_later" in Path(one.log).read_text()
    assert report.warnings[0] == f"as given: {one.error}"
    one = Result(one.configuration, "error", "why")
    report.results = [one]
    assert report.best is None
    assert report.recommendation == ["No configuration gave enough batches to compare."]


def is_of_tune(process):
    """Whether it runs; one that has ended may be looked at before it is waited for."""
    try:
        return "headrace.tune.child" in " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def test_a_loader_that_hangs_or_dies_is_a_row(only):
    only("num_workers=0", "num_workers=1")
    report = tune(at("hangs"), train_step_time=0, batches=None, epochs=1, silence=5)
    assert (report.results[0].status, report.results[0].n_batches) == ("done", 30)
    assert report.results[1].status == "silent" and "no batch for 5 s" in report.results[1].error
    assert report.results[1].n_batches <= 6
    only("as given", "num_workers=1")
    report = tune(at("dies"), **FAST)
    assert [r.status for r in report.results] == ["died", "done"]
    assert "SIGKILL" in report.results[0].error
    left = psutil.Process().children(recursive=True)
    assert [c for c in left if is_of_tune(c)] == []


def test_a_configuration_ends_when_its_time_is_up(only):
    only("as given")
    report = tune(at("slow"), train_step_time=0.05, batches=None, epochs=50, seconds=0.5)
    (one,) = report.results
    assert one.status == "stopped" and 2 < one.n_batches < 100 and one.measured


def test_no_loader():
    with pytest.raises(CallbackError, match="there are no files in <b>nowhere</b>"):
        tune(at("broken"))
    with pytest.raises(CallbackError, match="expected a torch Dataset or DataLoader.* found int"):
        tune(at("number"))
    with pytest.raises(CallbackError, match="has no 'slowly'; did you mean 'slow'"):
        tune(at("slowly"))
    with pytest.raises(CallbackError, match="the step is broken"):
        tune(at("slow"), step=at("bad_step"), measure_step=True)


def test_errors_name_the_users_lines_alone(tmp_path):
    """The story: a wrong name or a syntax error was a page of frames of importlib and ours."""
    (tmp_path / "syntax.py").write_text("def make_loader(:\n    pass\n")
    for where, lines in {
        at("slowly"): 1,
        at("number"): 1,
        at("takes_one"): 1,
        f"{tmp_path}/none.py:make": 1,
        "no_such_module_here:make": 1,
        f"{tmp_path}/syntax.py:make_loader": 5,
        at("broken"): 5,  # in Python 3.13 one more
    }.items():
        with pytest.raises(CallbackError) as caught:
            tune(where)
        text = str(caught.value)
        assert lines <= text.count("\n") + 1 <= lines + 1, text
        assert "importlib" not in text and "child.py" not in text and "headrace.exceptions" not in text


def test_a_loader_without_batches(tmp_path):
    """The story: seven configurations ran, and none had enough batches to compare."""
    with command(at("empty"), "--train-step-time", "0", "--out", tmp_path / "out") as run:
        out, errors = run.communicate(timeout=300)
    assert run.returncode == 1 and errors == "as given: no batch\n"
    assert "The loader gave no batch." in out


def test_errors_are_lines_that_a_terminal_may_show(only, tmp_path):
    """The story: colours in a user's error reached the terminal, and a lone surrogate lost the report."""
    report = tune(at("colours"), folder=tmp_path, train_step_time=0)
    assert "KeyError" in report.results[0].error and report.results[0].error.isprintable()
    only("as given")
    report = tune(at("bad", "tune_torch_loaders"), train_step_time=0, epochs=1)
    assert report.results[0].error == "in a worker: ValueError: row 28 is bad and its neighbour"


def test_a_loader_that_is_not_made_in_time():
    """The story: it was told to have given no batch."""
    with pytest.raises(CallbackError, match="no loader for 3 s; its processes were ended"):
        tune(at("slow_to_make"), silence=3)


def test_a_report_that_cannot_be_written_is_told(only, tmp_path):
    """The story: an OSError at the end, such as of a full disk, lost what was measured in many minutes."""
    only("as given")
    (tmp_path / "report.html").mkdir()
    report = tune(at("slow"), folder=tmp_path, **FAST)
    assert report.best and report.folder is None
    assert "the report is not written: " in report.text() and "report.html" in report.notes[-1]


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"epochs": 0}, InvalidArgument),
        ({"batches": 1.5}, TypeMismatchError),
        ({"seconds": -1}, InvalidArgument),
        ({"measure_step": True}, InvalidArgument),
        ({"train_step_time": "1"}, TypeMismatchError),
        ({"train_step_time": math.nan}, InvalidArgument),
        ({"silence": math.inf}, InvalidArgument),
        ({"step": 3}, TypeMismatchError),
        ({"shuffle": "yes"}, TypeMismatchError),
        ({"folder": 3}, TypeMismatchError),
        ({"show": "all"}, TypeMismatchError),
    ],
)
def test_wrong_arguments(arguments, error):
    """The story: a step that is no function failed in each configuration, a wrong `show` after the first."""
    with pytest.raises(error, match=f"^tune: {next(iter(arguments))}: expected "):
        tune(at("slow"), **arguments)


def test_what_does_not_pickle():
    lock = threading.Lock()
    with pytest.raises(TypeMismatchError, match="make_loader: cannot be pickled"):
        tune(lambda: [lock])


# ------------------------------------------------------------------------------------------ the command


def command(*arguments, **options):
    run = [sys.executable, "-m", "headrace.tune", *map(str, arguments)]
    return subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_the_command_that_is_stopped(tmp_path, name):
    """In the second configuration: the first one's figures are there, and no process is left. The story:
    SIGTERM left the workers of a DataLoader.
    """
    arguments = ["--train-step-time", "0.01", "--batches", "20", "--epochs", "1", "--out", tmp_path / "out"]
    with command(at("slow"), *arguments) as run:
        assert run.stderr.readline().startswith("as given: ")
        children = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(name)
        out, errors = run.communicate(timeout=300)
    assert run.returncode == 130, errors
    assert "as given" in out and "report.html" in out and "Traceback" not in errors
    assert "Stopped before the end" in out
    saved = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert not saved["complete"] and saved["results"][0]["n_batches"] == 20
    assert psutil.wait_procs(children, timeout=60)[1] == []


def test_the_command_with_wrong_input(tmp_path):
    with command("nowhere.py:make", cwd=tmp_path) as run:
        out, errors = run.communicate(timeout=300)
    assert (run.returncode, out) == (1, "") and "nowhere.py: no such file" in errors
    assert list(tmp_path.iterdir()) == []  # it left a folder with a log of this line
    with command(at("slow"), "--out", Path(__file__) / "out") as run:
        out, errors = run.communicate(timeout=300)
    assert (run.returncode, out) == (1, "") and errors == f"headrace.tune: {__file__}/out: Not a directory\n"


# ------------------------------------------------------------------------------------------ what is seen


def test_a_leak_is_seen(only, monkeypatch):
    monkeypatch.setattr(watching, "MEMORY_EVERY_S", 0.1)
    monkeypatch.setattr(watching, "EVERY_S", 0.1)
    only("as given")
    report = tune(at("leak"), train_step_time=0, batches=None, epochs=1)
    (one,) = report.results
    assert one.leaks and one.growth_bytes > 50e6 and one.memory_peak > 200e6, one
    assert any("a leak" in w for w in report.warnings)


def test_the_error_of_a_function_of_rows(tmp_path):
    """It was the last of its notes, which names the columns that the function got."""
    script = tmp_path / "script.py"
    script.write_text(
        "import headrace.data as hd\n"
        "def f(row):\n"
        "    raise KeyError('row 3 is bad')\n"
        "def make_loader():\n"
        "    return hd.range(10).map(f, compute='threads').iter_batches()\n"
    )
    report = tune(f"{script}:make_loader", train_step_time=0.0, batches=2, epochs=1)
    assert "KeyError: 'row 3 is bad'" in report.results[0].error


def test_growth():
    mb = 1 << 20
    assert results.growth([100 * mb] * 20) == (0, False)
    assert results.growth([mb * n for n in range(100, 300, 10)]) == (100 * mb, True)
    assert results.growth([mb * min(200, n) for n in range(100, 400, 15)])[1] is False  # a cache that is full
    slows = [int(mb * (500 - 400 * 0.8**n)) for n in range(20)]  # a heap that finds its size
    assert results.growth(slows)[0] > 64 * mb and not results.growth(slows)[1]
    assert results.growth([mb * n for n in range(100, 900, 100)])[1]  # a run of eight seconds
    assert results.growth([mb, 900 * mb]) == (0, False)


def test_threads_beyond_the_cores_are_seen(only, monkeypatch):
    """Eight threads on two cores: the default is tried with one thread, too."""
    monkeypatch.setattr(tuning, "this_machine", lambda: Machine(cores=2, gpus=0))
    monkeypatch.setattr(watching, "EVERY_S", 0.05)
    only("num_workers=1", "num_workers=1, one thread a worker")
    report = tune(at("hot"), train_step_time=0, batches=None, epochs=1)
    default, alone = report.results
    assert default.oversubscribed and default.running >= 4 and default.most_threads > 8, default
    assert alone.configuration.env["OMP_NUM_THREADS"] == "1" and not alone.oversubscribed
    (said,) = (w for w in report.warnings if "threads want to run on 2 cores" in w)
    assert "the dataset starts threads" in said
    report.target.libraries = ["dask"]
    assert any("dask.config.set(scheduler='synchronous')" in w for w in report.warnings)


def test_an_iterable_dataset_that_repeats_its_rows():
    alone, two = (figures(0.1, name=f"num_workers={n}", epoch_rows=40 * max(1, n)) for n in (0, 2))
    for one in (alone, two):
        one.run = watching.Run(epochs=[{"epoch": 0, "whole": True, "batches": 10}])
    (said,) = advice.warnings(Target("stream"), [alone, two], 8)
    assert said.startswith(
        "num_workers=2: an epoch has 80 rows, and 40 without workers: each worker gives all"
    )
    two.epoch_rows = 40
    assert advice.warnings(Target("stream"), [alone, two], 8) == []


def test_gpus_by_nvidia_smi(tmp_path, monkeypatch, only):
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\nwhile :; do echo "0, 40, 1000"; echo "1, 60, 3000"; sleep 0.05; done\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    only("as given")
    report = tune(at("slow"), train_step_time=0.01, batches=30, epochs=1)
    (one,) = report.results
    assert one.gpu_share == pytest.approx(0.5, abs=0.11) and one.gpu_bytes == 3000 << 20
    assert "GPU" in report.table().splitlines()[0]


# ------------------------------------------------------------------------------------------ the plan


def names(target, cores=8, gpus=0, thorough=False, wait=lambda options: 0.1, busy=8.0):
    """The configurations of a plan, and its notes; wait: of each step, by the options; busy: cores."""
    notes, found = [], []
    todo = configurations.plan(target, Machine(cores, gpus), thorough, notes)
    try:
        made = next(todo)
        while True:
            found.append(made.name)
            shown = figures(wait(made.options), name=made.name, library=made.library, cpu_cores=busy)
            made = todo.send(shown)
    except StopIteration:
        return found, notes


def test_the_plan():
    target = Target("loader", converts=True, batches=100)
    found, notes = names(target)
    assert found[:5] == [
        "as given",
        "num_workers=0",
        "num_workers=6, persistent_workers=True",
        "Headrace: from_torch",
        "headrace.torch.DataLoader num_workers=6",
    ]
    assert [n for n in found if "prefetch" not in n][5:] == [
        f"num_workers={n}, persistent_workers=True" for n in (1, 3, 8, 16)
    ]  # none is better than the first one, so its other options stay
    found, notes = names(target, wait=lambda o: 1 / (1 + o.get("num_workers", 0)))
    assert "num_workers=16, prefetch_factor=4, persistent_workers=True" in found and not notes
    assert "num_workers=16, persistent_workers=False" in found
    assert "num_workers=16, persistent_workers=True, multiprocessing_context=spawn" in found
    assert not any("pin_memory" in n for n in found)


def test_the_plan_of_a_dataset_that_waits():
    """The story: torch was measured with twice as many workers as cores, and Headrace was not: the best
    loader of a dataset that reads from a store was always torch's.
    """
    more, target = "Headrace: from_torch, concurrency=16", Target("loader", converts=True, batches=100)
    assert more in names(target, busy=0.5)[0] and more in names(target, busy=math.nan)[0]
    assert (
        more not in names(target, busy=6.0)[0] and more not in names(target, busy=0.5, wait=lambda o: 0.0)[0]
    )
    best = figures(0.0, name=more, library="headrace")
    best.configuration.options["concurrency"] = 16
    (how,) = [s for s in said(figures(0.3), best) if s.startswith("To use it")]
    assert "from_torch(dataset, concurrency=16).iter_torch_batches(" in how


def test_the_plan_of_a_step_that_is_fed():
    target = Target("loader", converts=True, batches=100)
    found, notes = names(target, wait=lambda o: 0.0 if o.get("num_workers", 0) >= 3 else 0.1)
    assert not any("num_workers=8" in n or "prefetch_factor=4" in n for n in found)
    assert any("num_workers=8" in n and "already waits for less than 2%" in n for n in notes)
    found, _ = names(target, thorough=True, wait=lambda o: 0.0 if o.get("num_workers", 0) >= 3 else 0.1)
    assert any("num_workers=8" in n for n in found)


def test_the_plan_on_gpus():
    """A trainer for each GPU, which keeps one core of its share, or two."""
    assert [Machine(c, g).workers for c, g in ((1, 0), (2, 0), (8, 0), (16, 4), (64, 4), (4, 8))] == [
        *(1, 1, 6, 3),
        *(14, 1),
    ]
    target = Target("loader", converts=False, why_not="it has a sampler", pins=True, spawns=False)
    found, notes = names(target, cores=16, gpus=4, wait=lambda o: 1 / (1 + o.get("num_workers", 0)))
    assert "num_workers=3, persistent_workers=True, pin_memory=True" in found
    assert "num_workers=8, persistent_workers=True, pin_memory=False" in found
    assert "Headrace: from_torch" not in found and "from_torch is left out: it has a sampler" in notes
    assert not any("spawn" in n for n in found) and any("__main__" in n for n in notes)


# ------------------------------------------------------------------------------------------ the words


def said(*all_results, floor=0.1):
    return advice.words(Target("loader"), list(all_results), floor)


def test_no_gain_beyond_the_step():
    """A figure above what the step allows is noise, and no gain."""
    given = figures(0.1, name="as given", library="given")
    better = figures(-0.02, name="num_workers=4")
    assert said(given, better)[0] == "num_workers=4: 125 samples/s, 2.00 times the 50 of the loader as given."
    assert said(given, better)[2].endswith(
        "more than 100 samples/s, 2.00 times the rate of the loader as given."
    )


def test_a_step_that_does_not_wait():
    given = figures(0.002, name="as given", library="given")
    other = figures(0.0, name="num_workers=4")
    assert said(given, other)[0] == "The loader as given is enough: no other setting gains more than noise."
    assert not any("To use it" in text for text in said(given, other))
    other.startup_s = other.border_s = 0.1
    assert said(given, other)[0].endswith("gains more than a shorter start of epochs.")
    assert said(given, other)[-1] == "For the shorter start: DataLoader(..., num_workers=4)."
    assert "the loader is not the limit" in said(given, other)[1]


def test_the_best_is_the_cheapest_of_equals():
    many = figures(0.0, name="num_workers=16", cpu_cores=9.0)
    few = figures(0.001, name="num_workers=4", cpu_cores=4.0)
    quick = figures(0.001, name="num_workers=8", cpu_cores=6.0, startup_s=0.2, border_s=0.1)
    slow = figures(0.1, name="num_workers=0", cpu_cores=1.0, startup_s=0.0, border_s=0.0)
    assert advice.best_of([slow, many, few]) is few
    assert advice.best_of([slow, many, few, quick]) is quick
    assert advice.best_of([Result(slow.configuration, "error")]) is None


def test_a_loader_that_disturbs_the_step():
    one = figures(0.0, step=0.13, name="num_workers=2", floor_s=0.1)
    (text,) = advice.warnings(Target("loader"), [one], 2)
    assert "the step takes 130 ms beside the loader and 100 ms without it" in text
    assert advice.warnings(Target("loader"), [figures(0.0, step=0.105, floor_s=0.1)], 2) == []


def test_other_programs_on_the_cores():
    alone = figures(0.1, per_core=[1.0, 0.9], other_cores=0.1)
    crowded = figures(0.1, per_core=[1.0, 0.9], other_cores=1.2)
    assert advice.warnings(Target("loader"), [alone, alone], 2) == []
    (text,) = advice.warnings(Target("loader"), [crowded, crowded], 2)
    assert text.startswith("other programs kept 1.2 of 2 cores busy")
    idle = figures(0.1, per_core=[1.0, *[0.0] * 7], other_cores=0.9)
    assert advice.warnings(Target("loader"), [idle, idle], 8) == []


def test_start_and_borders_are_not_the_steady_state():
    """A first batch of five seconds, an epoch border of two, steps of 0.1 s that wait for 0.1 s."""
    run = watching.Run(begin=100.0, made=100.5, ended=140.0)
    now = 105.0
    for epoch in range(2):
        for i in range(50):
            asked = now
            came = asked if i == 0 else asked + (3.0 if i < 5 else 0.1)
            run.batches.append((epoch, asked, came, came + 0.1, 8))
            now = came + 0.1
        now += 2.0
    made = results.result_of(Configuration("x", "torch"), run, Machine(2, 0), 50, "")
    assert made.startup_s == pytest.approx(5.0) and made.border_s == pytest.approx(2.0)
    assert made.wait_mean_s == pytest.approx(0.1) == made.wait_p99_s
    assert made.samples_per_s == pytest.approx(40.0) and made.wait_share == pytest.approx(0.5)
    assert made.epoch_estimated and made.epoch_s == pytest.approx(2.0 + 50 * 0.2)
    assert (made.n_batches, made.n_rows, made.n_epochs) == (100, 800, 2)
    run.epochs = [{"epoch": e, "whole": True, "batches": 50} for e in range(2)]
    made = results.result_of(Configuration("x", "torch"), run, Machine(2, 0), 50, "")
    assert not made.epoch_estimated and made.epoch_s == pytest.approx(45 * 0.2 + 4 * 3.1 + 0.1)


@pytest.mark.parametrize("status", ["error", "died", "silent"])
def test_what_failed_is_not_recommended(status):
    """The story: from_torch failed after some batches, and was recommended by the rate of these."""
    failed = figures(
        0.0, name="Headrace: from_torch", library="headrace", status=status, error="ValueError: x"
    )
    slow = figures(0.2)
    assert not failed.measured and advice.best_of([slow, failed]) is slow
    said = advice.words(Target("dataset", converts=True), [slow, failed], 0.1)
    assert "from_torch" not in " ".join(said), said
    assert advice.warnings(None, [slow, failed], 2) == ["Headrace: from_torch: ValueError: x"]
    assert advice.start_of([figures(0.0, library="given", status=status), slow]) is slow


def test_figures_that_were_not_measured_are_none():
    values = Result(Configuration("x", "torch"), "error", "why").as_dict()
    assert values["samples_per_s"] is None and values["error"] == "why" and "run" not in values
    assert not any(isinstance(v, float) and math.isnan(v) for v in values.values())


def test_cores_of_the_machine():
    busy = machine.cores_busy()
    assert set(busy) == os.sched_getaffinity(0) and all(0 < a <= b for a, b in busy.values())
    assert machine.this_machine().cores <= (os.cpu_count() or 1)
