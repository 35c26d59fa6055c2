"""Trainings that are killed anywhere and started again by a new driver, until they end.

One case is a dict of plain values, drawn from a number by draw(). A server process (this file as a
program) has
imported torch and forks one driver per line of its input, because the import takes seconds. run_case()
starts a
training, kills what the case says, starts it again, and compares all that is left with the undisturbed
run: the
weights, the rows, the reports, the checkpoints.

    python tests/python/train_torture.py FIRST N     N cases from number FIRST on; see CONTRIBUTING.md
"""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import headrace.data as hd
from headrace import train

LINE = 96  # bytes of a line of a rank's log
PLANS = ["map", "shuffle", "filter", "local_shuffle", "parquet"]
CALLS = {"rename": os, "replace": os, "fsync": os, "mkdir": os, "unlink": os, "rmdir": os, "copy2": shutil}


# ------------------------------------------------------------ one training


def noisy(batch):
    return {"id": batch["id"], "x": np.random.rand(len(batch["id"]), 4).astype(np.float32)}


def dataset(case):
    n = case["rows"]
    if case["plan"] == "parquet":
        folder = Path(case["folder"], "data")
        if not folder.exists():
            made = Path(tempfile.mkdtemp(dir=case["folder"]))
            hd.range(n).write_parquet(str(made), max_rows_per_file=n // 3 + 1)
            made.rename(folder)
        return hd.read_parquet(str(folder)).map_batches(noisy, compute="inline", batch_size=50)
    ds = hd.range(n)
    if case["plan"] == "filter":
        ds = ds.filter(expr="id % 3 != 1")
    ds = ds.map_batches(noisy, compute="inline", batch_size=case["batch"])
    return ds.random_shuffle() if case["plan"] == "shuffle" else ds


def average(model):
    """Sums the gradients in the order of the ranks. DDP does not from three ranks on: weights of a restarted
    run then differ from the undisturbed one's in the last bits.
    """
    import torch

    if not torch.distributed.is_initialized():
        return
    n = torch.distributed.get_world_size()
    for p in model.parameters():
        every = [torch.empty_like(p.grad) for _ in range(n)]
        torch.distributed.all_gather(every, p.grad)
        p.grad = sum(every[1:], every[0]) / n


def loop(case):
    import torch

    rank = train.get_context().get_world_rank()
    torch.manual_seed(case["seed"])
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1, bias=False))
    momentum = [torch.zeros_like(p) for p in model.parameters()]  # torch.optim imports torch._dynamo: 1 s
    epoch, step, sha = 0, 0, ""
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, f"rank{rank}.pt"))
        model.load_state_dict(saved["model"])
        momentum = saved["momentum"]
        epoch, step, sha = saved["epoch"], saved["step"], saved["sha"]

    def save(next_epoch):
        folder = tempfile.mkdtemp(dir=case["folder"])
        state = {
            "model": model.state_dict(),
            "momentum": momentum,
            "epoch": next_epoch,
            "step": step,
            "sha": sha,
            "loss": loss,
        }
        torch.save(state, Path(folder, f"rank{rank}.pt"))
        die_in_calls(case, "rank")
        train.report(
            {"step": step, "loss": loss.item()},
            checkpoint=train.Checkpoint(folder),
            checkpoint_upload_mode=train.CheckpointUploadMode[case["upload"]],
            delete_local_checkpoint_after_upload=True,
        )

    shuffle = {"local_shuffle_buffer_size": 64} if case["plan"] == "local_shuffle" else {}
    shard = train.get_dataset_shard("train")
    batches = shard.iter_torch_batches(batch_size=case["batch"], drop_last=case["drop_last"], **shuffle)
    log = os.open(Path(case["log"], f"{rank}-{os.getpid()}"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    loss = saved["loss"] if checkpoint else torch.zeros(())
    for e in range(epoch, case["epochs"]):
        for batch in batches:
            loss = (model(batch["x"]) - batch["id"][:, None] / case["rows"]).square().mean()
            model.zero_grad()
            loss.backward()
            average(model)
            with torch.no_grad():
                for p, m in zip(model.parameters(), momentum, strict=True):
                    p -= m.mul_(0.9).add_(p.grad, alpha=0.05)
            rows = batch["id"].numpy().tobytes() + batch["x"].numpy().tobytes()
            sha = hashlib.sha256(sha.encode() + rows).hexdigest()
            step += 1
            os.write(log, f"{rank} {step} {sha}".ljust(LINE - 1).encode() + b"\n")
            time.sleep(case["pause"])
            if step % case["every"] == 0:
                save(e)
            elif step % 7 == 0:
                train.report({"step": step, "loss": loss.item()})
        if case["save_at_end"]:
            save(e + 1)
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    mine = {"sha": sha, "weights": hashlib.sha256(weights).hexdigest()}
    if not torch.distributed.is_initialized():
        return [mine]
    every = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(every, mine)
    return every


def die_in_calls(case, who):
    """This process is killed by its n-th call of a function that changes files; a rank, once for each driver:
    where the first checkpoint takes more calls, no restart would come further.
    """
    n = case["die"].get(who)
    died = Path(case["folder"], f"died-{case.get('driver', 'driver')}")
    if n is None or (
        who == "rank" and (died.exists() or train.get_context().get_world_rank() != case["ranks"] // 2)
    ):
        return
    case["die"] = {}
    left = [n]

    def counting(function):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                died.touch()
                if function.__name__ == "copy2":
                    Path(args[1]).write_bytes(Path(args[0]).read_bytes()[:100])
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name, module in CALLS.items():
        setattr(module, name, counting(getattr(module, name)))


def drive(case):
    """The driver: writes what is left of the run to the file `result`."""
    from headrace.train.torch import TorchTrainer

    folder = Path(case["folder"])
    die_in_calls(case, "driver")
    trainer = TorchTrainer(
        loop,
        train_loop_config={
            **case,
            "die": case["die"] if "rank" in case["die"] else {},
            "driver": os.getpid(),
        },
        datasets={"train": dataset(case)},
        scaling_config=train.ScalingConfig(num_workers=case["ranks"]),
        run_config=train.RunConfig(
            name="run",
            storage_path=folder,
            failure_config=train.FailureConfig(max_failures=case["max_failures"]),
            checkpoint_config=train.CheckpointConfig(
                num_to_keep=case["keep"], checkpoint_score_attribute=case["score"]
            ),
        ),
    )
    result = trainer.fit()
    left = {
        "value": result.return_value,
        "history": result.history,
        "metrics": result.metrics,
        "kept": [[os.path.basename(c.path), m] for c, m in result.best_checkpoints],
        "files": sorted(p.name for p in (folder / "run").iterdir()),
    }
    text = folder / "result.part"
    text.write_text(json.dumps(left))
    text.rename(folder / "result")


# ------------------------------------------------------------ the server


def serve():
    """A line of input is a case; prints the id of its driver, later "id status"."""
    import torch.distributed.launcher.api  # noqa: F401

    import headrace.train.torch  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            fd = os.open(Path(case["folder"], "output"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            try:
                drive(case)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(status, flush=True)


class Server:
    """A context manager; start() gives a driver's id, wait() its status once it has ended."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)

    def start(self, case):
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def wait(self):
        return int(self.process.stdout.readline())


# ------------------------------------------------------------ one case


def draw(number, ranks=None):
    """The case of a number. ranks: fixed; 0 is local mode."""
    r = random.Random(number)
    drawn = r.choice([0, 0, 1, 2, 3])
    case = {
        "number": number,
        "seed": number % 1000,
        "ranks": drawn if ranks is None else ranks,
        "plan": r.choice(PLANS),
        "batch": r.choice([5, 8, 16]),
        "epochs": r.choice([1, 2, 3]),
        "every": r.choice([3, 4, 10]),
        "keep": r.choice([None, 1, 2, 3]),
        "score": r.choice([None, "loss"]),
        "drop_last": r.random() < 0.3,
        "save_at_end": r.random() < 0.7,
        "pause": r.choice([0, 0.001, 0.003]),
        "max_failures": r.choice([0, 0, -1]),
    }
    steps = r.randint(10, 30)  # of an epoch
    case["rows"] = case["batch"] * max(case["ranks"], 1) * steps + r.randint(0, 30)
    case["steps"] = steps * case["epochs"] * max(case["ranks"], 1)  # lines of all logs, about
    kinds = ["driver", "driver", "all", "calls"] if case["ranks"] == 0 else ["driver", "rank", "all", "calls"]
    many = r.randint(3, 6) if case["ranks"] == 0 else r.randint(1, 3)
    case["kills"] = [
        {
            "kind": r.choice(kinds),
            "after": r.random() * 0.6,  # of the steps, counted from the start of this driver
            "later": r.random() * 0.02,
            "rank": r.randrange(3),
            "call": r.randint(1, 60),
            "who": r.choice(["driver", "rank"]),
        }
        for _ in range(many)
    ]
    case["upload"] = r.choice(["SYNC", "ASYNC"])
    return case


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += [int(c) for c in (task / "children").read_text().split()]
        except OSError:
            pass
    return found


def below(pid):
    return [d for c in children(pid) for d in [c, *below(c)]]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def strike(pid, how):
    """Kills what a kill says. The order of the processes of a machine does not matter."""
    ranks = children(pid)
    if how["kind"] == "rank" and ranks:
        kill(ranks[how["rank"] % len(ranks)])
    elif how["kind"] == "all":
        for p in sorted([pid, *below(pid)], key=lambda p: hash((p, how["rank"]))):
            kill(p)
    else:
        kill(pid)


def lines(case):
    return sum(p.stat().st_size for p in Path(case["log"]).iterdir()) // LINE


def launch(server, case, how):
    """One driver, from its start to its end. Returns whether it ended well."""
    die = {how["who"]: how["call"]} if how and how["kind"] == "calls" else {}
    if die and case["ranks"] == 0:
        die = {"driver": how["call"]}
    before = lines(case)
    pid = server.start({**case, "die": die})
    if how and not die:
        wanted = before + how["after"] * case["steps"]
        until = time.monotonic() + 120
        while is_alive(pid) and lines(case) < wanted:
            assert time.monotonic() < until, "the training does not go on"
            time.sleep(0.001)
        time.sleep(how["later"])
        if is_alive(pid):
            strike(pid, how)
    return server.wait() == 0


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def digests(case):
    """(rank, step) -> digests of the rows up to there, in all attempts."""
    found = {}
    for log in Path(case["log"]).iterdir():
        for line in log.read_text().splitlines():
            rank, step, sha = line.split()
            found.setdefault((int(rank), int(step)), set()).add(sha)
    return found


def prepared(case, folder):
    folder = Path(folder)
    (folder / "log").mkdir(parents=True)
    return {**case, "folder": str(folder), "log": str(folder / "log")}


def run_case(server, case, folder):
    """Returns the number of drivers. Raises AssertionError if anything differs from the undisturbed run."""
    undisturbed = prepared(case, Path(folder, "undisturbed"))
    assert launch(server, undisturbed, None), Path(undisturbed["folder"], "output").read_text()
    case = prepared(case, Path(folder, "killed"))
    drivers = 0
    for how in [*case["kills"], None]:
        drivers += 1
        ended = launch(server, case, how)
        if ended:
            break
    output = Path(case["folder"], "output").read_text()
    assert ended, output
    whole, left = (json.loads(Path(c["folder"], "result").read_text()) for c in (undisturbed, case))
    for what in whole:
        assert left[what] == whole[what], (what, case, left[what], whole[what], output)
    there, known = digests(case), digests(undisturbed)
    assert set(there) == set(known), "other steps than the undisturbed run"
    wrong = {place: shas for place, shas in there.items() if shas != known[place]}
    assert not wrong, (wrong, case)
    return drivers


def main():
    first, n = int(sys.argv[1]), int(sys.argv[2])
    drivers = 0
    with Server() as server:
        for number in range(first, first + n):
            with tempfile.TemporaryDirectory() as folder:
                began = time.monotonic()
                case = draw(number)
                started = run_case(server, case, folder)
                drivers += started
                print(
                    f"{number}: {case['ranks']} ranks, {case['plan']}, {started} drivers, "
                    f"{time.monotonic() - began:.1f} s",
                    flush=True,
                )
    print(f"{n} cases, {drivers} drivers: all equal")


if __name__ == "__main__":
    serve() if sys.argv[1] == "--serve" else main()
