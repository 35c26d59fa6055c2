"""Which rank of which run this process is, by the environment that its launcher made.

torchrun, accelerate launch, DeepSpeed, Lightning's own launcher, mpirun (Open MPI, MPICH, Intel MPI,
MVAPICH) and srun are known; docs/launchers.md lists the variables. HEADRACE_RANK, HEADRACE_WORLD_SIZE,
HEADRACE_LOCAL_WORLD_SIZE, HEADRACE_NODE_RANK and HEADRACE_RUN_ID are for any other launcher and come before
all; HEADRACE_LAUNCHER=none turns the recognition off.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace

from headrace._core import InvalidArgument
from headrace.optional import imported

_ignored: ContextVar[bool] = ContextVar("launcher_ignored", default=False)


@dataclass(frozen=True)
class Place:
    """This process among the ranks of a run.

    here: number of ranks on this host. run: a text that the ranks of this host and this start have in common,
    and that no other run of this user has at the same time. launcher: its name, for texts. hosts: their
    number; None: not known.
    """

    rank: int
    world_size: int
    here: int
    run: str
    launcher: str
    hosts: int | None = None

    @property
    def n_hosts(self) -> int:
        """The number of hosts, which have equally many ranks if the launcher does not say otherwise."""
        if self.here == self.world_size:
            return 1
        return self.hosts or -(-self.world_size // self.here)


@contextlib.contextmanager
def ignored():
    """In this block current() returns None: the process drives ranks of its own."""
    token = _ignored.set(True)
    try:
        yield
    finally:
        _ignored.reset(token)


def current(env: Mapping[str, str] | None = None) -> Place | None:
    """The Place of this process; None if no launcher started it."""
    real = env is None
    env = os.environ if env is None else env
    if env.get("HEADRACE_LAUNCHER", "").lower() == "none" or (real and _ignored.get()):
        return None
    place = None
    for find in (_by_headrace, _by_torch_process_group if real else _nowhere, _by_torch, _by_mpi, _by_slurm):
        place = find(env)
        if place is not None:
            break
    if place is None:
        return None
    here = _number(env, "HEADRACE_LOCAL_WORLD_SIZE")
    run = env.get("HEADRACE_RUN_ID")
    node = env.get("HEADRACE_NODE_RANK", "")
    if not 0 <= place.rank < place.world_size:
        raise InvalidArgument(
            f"{place.launcher}: expected a rank of 0 to {place.world_size - 1}, found {place.rank}"
        )
    hosts = None if here else place.hosts  # by hand: the launcher's number may be another one
    place = replace(place, here=here or place.here, hosts=hosts, run=f"{run or place.run} {node}".rstrip())
    return replace(place, here=min(max(place.here, 1), place.world_size))


def by_hand(rank: int, world_size: int) -> Place:
    """The Place of a rank that the program numbers itself: the ranks are children of one process."""
    found = current()
    if found is not None and found.world_size == world_size:
        return replace(found, rank=rank)
    env = os.environ
    run = env.get("HEADRACE_RUN_ID") or _torch_run(env)
    here = _number(env, "HEADRACE_LOCAL_WORLD_SIZE") or world_size
    return Place(rank, world_size, min(here, world_size), run, "shard(rank, world_size)")


def _nowhere(env):
    return None


def _number(env: Mapping[str, str], *names: str) -> int | None:
    """The number that the first of these variables has."""
    for name in names:
        text = env.get(name, "").strip()
        if text:
            if not text.isdigit():
                raise InvalidArgument(f"environment variable {name}: expected a number, found {text!r:.50}")
            return int(text)
    return None


MOST_WRAPPERS = 16  # processes between a launcher and a rank
LAUNCHERS = ("hydra_pmi_proxy", "hydra_bstrap_proxy", "mpiexec.hydra", "mpirun", "mpispawn", "prted", "orted")


def _process(pid: int) -> tuple[int, str]:
    """The parent of a process, and the time when it started; (0, ""): not known."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return int(fields[1]), fields[19]
    except (OSError, IndexError, ValueError):
        return 0, ""


def _is_wrapper(pid: int, variables: set[bytes]) -> bool:
    """Whether a launcher started this process as a rank: it began with all these variables. A launcher that
    is itself below a rank may have them, too.
    """
    try:
        with open(f"/proc/{pid}/comm") as f:
            if f.read().strip() in {name[:15] for name in LAUNCHERS}:
                return False
        with open(f"/proc/{pid}/environ", "rb") as f:
            return variables <= set(f.read().split(b"\0"))
    except OSError:
        return False


def _parent(env: Mapping[str, str] | None = None, *names: str) -> str:
    """A name of the process that started this one: its children are one run. names: variables that a launcher
    sets for each rank. Processes between the launcher and this one, such as a shell that runs a script, have
    them, too, and do not count.
    """
    variables = {f"{name}={(env or {}).get(name)}".encode() for name in names}
    pid = os.getppid()
    for _ in range(MOST_WRAPPERS):
        parent, _ = _process(pid)
        if not names or not parent or not _is_wrapper(pid, variables):
            break
        pid = parent
    return f"parent {pid} {_process(pid)[1]}".rstrip()


def _torch_run(env: Mapping[str, str]) -> str:
    names = (
        "TORCHELASTIC_RUN_ID",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TORCHELASTIC_RESTART_COUNT",
        "GROUP_RANK",
        "NODE_RANK",
    )
    if not env.get("MASTER_PORT"):
        return " ".join([_parent(), *(env.get(n, "") for n in names[3:])])
    return " ".join(f"{n}={env.get(n, '')}" for n in names)


def _by_headrace(env):
    rank, size = _number(env, "HEADRACE_RANK"), _number(env, "HEADRACE_WORLD_SIZE")
    if rank is None and size is None:
        return None
    if rank is None or size is None:
        raise InvalidArgument(
            "environment: expected HEADRACE_RANK and HEADRACE_WORLD_SIZE, found one of them"
        )
    return Place(rank, size, size, _torch_run(env), "HEADRACE_RANK")


def _by_torch_process_group(env):
    """torch.distributed, where the program has begun it without a launcher's variables."""
    dist = imported("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    rank, size = dist.get_rank(), dist.get_world_size()
    return Place(rank, size, _torch_here(env, size), _torch_run(env), "torch.distributed")


def _torch_here(env, size):
    return _number(env, "LOCAL_WORLD_SIZE", "LOCAL_SIZE") or _slurm_here(env, size) or size


def _by_torch(env):
    """torchrun, accelerate launch, DeepSpeed; Lightning's launcher sets no RANK."""
    size, rank = _number(env, "WORLD_SIZE"), _number(env, "RANK")
    if size is None:
        return None
    here = _torch_here(env, size)
    if rank is None:
        local, node = _number(env, "LOCAL_RANK"), _number(env, "NODE_RANK", "GROUP_RANK")
        if local is None:
            return None
        rank = local + (node or 0) * here
        if rank >= size:  # the number of processes of a node is not known
            raise InvalidArgument(
                f"environment: WORLD_SIZE={size}, NODE_RANK={node} and LOCAL_RANK={local} do not say "
                "which rank this is: set LOCAL_WORLD_SIZE, or call shard(rank, world_size)"
            )
    launcher = "torchrun" if "TORCHELASTIC_RUN_ID" in env else "RANK"
    hosts = _number(env, "GROUP_WORLD_SIZE") if launcher == "torchrun" else None
    return Place(rank, size, here, _torch_run(env), launcher, hosts)


_MPI = (  # (rank, size, ranks of this host, name of the job)
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"),
    ),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", ("MPISPAWN_MPIRUN_ID",)),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", ("PMI_JOBID",)),
)


def _by_mpi(env):
    for rank_name, size_name, here_name, job_names in _MPI:
        rank, size = _number(env, rank_name), _number(env, size_name)
        if rank is not None and size is not None:
            job = next((f"{n}={env[n]}" for n in job_names if env.get(n)), None)
            here = _number(env, here_name) or _slurm_here(env, size) or size
            return Place(rank, size, here, job or _parent(env, rank_name, size_name), "mpirun")
    return None


def _slurm_here(env, size):
    """Tasks of a job step of `size` tasks on this node: SLURM_STEP_TASKS_PER_NODE is '4(x2),3'."""
    if _slurm_size(env) != size:
        return None
    text, node = (
        env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE"),
        env.get("SLURM_NODEID"),
    )
    if not text or not (node or "").isdigit():
        return size if env.get("SLURM_STEP_NUM_NODES", env.get("SLURM_NNODES")) == "1" else None
    counts = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if not found:
            return None
        counts += [int(found[1])] * int(found[2] or 1)
    return counts[int(node)] if int(node) < len(counts) else None


def _slurm_size(env):
    """The size of a job step. In a batch script SLURM_NTASKS counts processes that srun has yet to start."""
    size = _number(env, "SLURM_STEP_NUM_TASKS")
    return size if size is not None or "SLURM_STEP_ID" not in env else _number(env, "SLURM_NTASKS")


def _by_slurm(env):
    rank, size = _number(env, "SLURM_PROCID"), _slurm_size(env)
    if rank is None or size is None:
        return None
    names = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURM_NODEID")
    run = " ".join(f"{n}={env.get(n, '')}" for n in names)
    hosts = _number(env, "SLURM_STEP_NUM_NODES")
    return Place(rank, size, _slurm_here(env, size) or size, run, "srun", hosts)


__all__ = ["Place", "by_hand", "current", "ignored"]
