"""python -m headrace.udf.worker FD DRIVER IDLE: the fork server, and in each child of it a worker process.

A worker runs one user function for one driver. It ends when the driver says so, closes the socket, or dies
(it is killed then), whichever comes first.
"""

import os
import signal
import sys

CALL, MORE, DROP = 1, 2, 3


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    from headrace import _core
    from headrace.udf import forkserver

    found = forkserver.serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
    if found is None or not _core.die_with_parent(found[1]):
        return  # the server, at its end, or a child that has lost it
    worker = _core.Worker(found[0])
    try:
        serve(worker)
    except (_core.PeerError, _core.CancelledError):
        pass  # the driver is gone or has closed the run


def load(init):
    """The spec that the init bytes describe."""
    import pickle

    head = pickle.loads(init)
    sys.path[:] = head["sys_path"]
    for name, value in head["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    return pickle.loads(head["spec"])


class Call:
    """A call of this worker's, with the methods that _core.Call has in the driver."""

    def __init__(self, worker, work):
        self.worker = worker
        _, self.tag, self.table, self.place, self.parts = work
        self.build = worker.build

    def result(self, table, part=0, counts=None):
        self.worker.result(self.tag, table, part, counts)

    def stream(self, table, part=0, counts=None):
        return self.worker.stream(self.tag, table, part, counts)

    def pause(self):
        """The driver knows already."""

    def done(self):
        self.table = None  # before the driver can know that nobody reads it
        self.worker.done(self.tag)

    def fail(self, text, detail):
        self.table = None
        self.worker.fail(self.tag, text, detail)


def serve(worker):
    from headrace.udf import errors

    init = worker.init()
    spec, runner, broken = {}, None, None
    try:
        spec = load(init)
        from headrace.data import convert
        from headrace.udf.call import Runner, here

        here.seeds = True
        convert.allowed = spec["objects"]
        runner = None if spec["async"] else Runner(spec)
    except BaseException as e:  # told to whoever calls
        broken = errors.pack(e)
    if spec.get("async") and not broken:
        serve_async(worker, spec)
    else:
        serve_calls(worker, runner, broken)


def serve_calls(worker, runner, broken):
    from headrace.udf.call import Paused

    paused = {}
    while (work := worker.next()) is not None:
        kind, tag = work[:2]
        if kind == DROP:
            paused.pop(tag)[0].steps.close()
            worker.done(tag)
            continue
        if kind == MORE:
            kept, call = paused.pop(tag)
            steps = kept.go_on()
        else:
            call = Call(worker, work)
            if broken:
                call.fail(*broken)
                continue
            steps = runner(call)
        del work
        if not run(steps, call):
            paused[tag] = Paused(steps), call
        del steps, call


def run(steps, call):
    from headrace.udf.call import advance

    try:
        return advance(steps, call)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        return True  # of the function's: the driver was told, and the worker goes on


def serve_async(worker, spec):
    import asyncio

    asyncio.run(_serve_async(worker, spec))


async def _serve_async(worker, spec):
    import asyncio

    from headrace.udf import errors
    from headrace.udf.call import AWAY, GO
    from headrace.udf.coroutines import AsyncRunner

    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    broken = runner = None
    try:
        runner = AsyncRunner(spec)
    except Exception as e:
        broken = errors.pack(e)
    tasks = set()

    class Streaming(Call):
        def stream(self, table, part=0, counts=None):
            loop.call_soon(listen)  # for what is received meanwhile: the socket will not tell
            return super().stream(table, part, counts)

    def listen():
        try:
            while (work := worker.next(0)) is not False:
                if work is None:
                    ended.done() or ended.set_result(None)
                    return
                kind, tag = work[:2]
                if kind != CALL:
                    runner.go_on(tag, GO if kind == MORE else AWAY)
                elif broken:
                    Streaming(worker, work).fail(*broken)
                else:
                    task = loop.create_task(runner.run(Streaming(worker, work)))
                    tasks.add(task)
                    task.add_done_callback(finished)
        except BaseException as e:
            ended.done() or ended.set_exception(e)

    def finished(task):
        tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and not ended.done():
            ended.set_exception(task.exception())

    loop.add_reader(worker.fileno(), listen)
    try:
        listen()
        await ended
    finally:
        loop.remove_reader(worker.fileno())
        for task in list(tasks):
            task.cancel()


if __name__ == "__main__":
    main()
