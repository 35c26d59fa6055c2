"""One worker of a trainer: `python -m headrace.train._worker PAYLOAD DRIVER`, started by torch's elastic
agent (launch.py).

A worker must never outlive the driver: the kernel kills it when the thread that started it ends
(PR_SET_PDEATHSIG). Before the process ends, it reports over the control channel how it ended, so that the
driver knows which worker was first.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import sys
import traceback

PR_SET_PDEATHSIG = 1


def die_with(driver_pid: int) -> None:
    """Makes the kernel SIGKILL this process when its parent ends; exits at once if the parent has ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != driver_pid:
        os._exit(1)


def users_traceback(e: BaseException) -> str:
    """The traceback without this package's frames at its top."""
    tb = e.__traceback__
    while tb is not None and os.path.dirname(tb.tb_frame.f_code.co_filename) == os.path.dirname(__file__):
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(e), e, tb or e.__traceback__))


def leave_trace_to_driver(rank: int) -> None:
    """The driver writes the file that HEADRACE_TRACE names. The engine gives names of their own to all ranks
    but the first, which may be a launcher's only process.
    """
    path = os.environ.get("HEADRACE_TRACE")
    if path and rank == 0:
        folder, name = os.path.split(path)
        stem, dot, suffix = (name or "trace.json.gz").partition(".")
        os.environ["HEADRACE_TRACE"] = os.path.join(folder, f"{stem}-rank0{dot}{suffix}")


def run(payload: dict, channel, rank: int):
    from headrace.data.iterator import SplitIterator
    from headrace.places import checked
    from headrace.train import context, watch
    from headrace.train.reports import rank_of
    from headrace.train.shards import open_shards
    from headrace.udf import sending

    session = context.Session(
        channel=channel,
        world_size=int(os.environ["WORLD_SIZE"]),
        world_rank=rank,
        local_rank=int(os.environ["LOCAL_RANK"]),
        local_world_size=int(os.environ["LOCAL_WORLD_SIZE"]),
        storage=context.StorageContext(
            *payload["storage"], checked("storage_options", channel.storage_options)
        ),
        metadata=payload["metadata"],
        use_gpu=payload["use_gpu"],
        checkpoint=channel.first,
        validates=payload["validates"],
    )
    context.set_session(session)
    try:
        session.shards = open_shards(payload["shards"][rank])
        backend = pickle.loads(payload["backend"])
        backend.start(session)
        loop, config = pickle.loads(payload["loop"])
        watch.answer(*payload["watch"], rank)
        value = call(loop, config)
        session.finish()
    except BaseException as e:
        # before the shards close: the first failure is the cause
        channel.failed(users_traceback(e), sending.dumps_if_possible(e), rank_of(e))
        e._headrace_reported = True  # the driver shows it
        raise
    channel.done(sending.dumps_if_possible(value))
    for shard in session.shards.values():
        if isinstance(shard, SplitIterator):
            shard.close()
    backend.stop()


def call(loop, config):
    try:
        return loop() if config is None else loop(config)
    except SystemExit as e:
        if e.code:
            raise
        return None  # sys.exit() is one way to return


def main() -> None:
    path, driver_pid = sys.argv[1], int(sys.argv[2])
    die_with(driver_pid)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker; the driver reports it
    sys.stdout.reconfigure(line_buffering=True)
    sys.stderr.reconfigure(line_buffering=True)
    with open(path, "rb") as f:
        payload = pickle.load(f)
    os.chdir(payload["cwd"])
    sys.path[:] = payload["sys_path"]
    sys.argv[:] = payload["argv"]
    from headrace.train.control import Channel

    rank = int(os.environ["RANK"])
    leave_trace_to_driver(rank)
    channel = Channel(payload["address"], payload["token"], rank)
    code = 0
    try:
        run(payload, channel, rank)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException as e:
        if not getattr(e, "_headrace_reported", False):
            print(users_traceback(e), file=sys.stderr, end="", flush=True)
        code = 1
    shares = sys.modules.get("headrace.data.shares")
    if shares is not None:
        shares.at_exit()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # does not wait for threads of the train loop or for a dead process group


if __name__ == "__main__":
    main()
