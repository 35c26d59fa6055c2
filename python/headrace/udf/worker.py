"""python -m headrace.udf.worker FD DRIVER IDLE: the fork server, and in each of its children a worker
process.

A worker runs one user function for one driver. It ends when the driver requests it or closes the socket; the
kernel kills it when the driver dies.
"""

import functools
import importlib
import os
import signal
import sys

CALL, MORE, DROP, RUN, RUN_END = 1, 2, 3, 4, 5


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    from headrace.udf import forkserver

    forkserver.end_after(
        lambda: live(forkserver.serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
    )


def live(found):
    """The life of a worker; found: what forkserver.serve() returns."""
    from headrace import _core

    if found is None or not _core.die_with_parent(found[1]):
        return  # the server at its end, or a child whose server has died
    if found[3]:
        importlib.import_module(found[3]).serve(found[0])
        return
    worker = _core.Worker(found[0])
    try:
        serve(worker, found[2])
    except (_core.PeerError, _core.CancelledError):
        pass  # the driver has ended or has closed the run


def load(init):
    """(the spec in the init bytes, a function that loads a fresh copy if it has a callable object, or
    None)
    """
    import pickle

    head = pickle.loads(init)
    sys.path[:] = head["sys_path"]
    for name, value in head["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    spec = pickle.loads(head["spec"])
    return spec, functools.partial(pickle.loads, head["spec"]) if spec.get("fresh") == "object" else None


class Call:
    """A call of this worker, with the methods of the driver's _core.Call."""

    def __init__(self, worker, work):
        self.worker = worker
        _, self.tag, self.table, self.place, self.batches, self.state = work
        self.build = worker.build

    def result(self, table, batch=0, counts=None):
        self.worker.result(self.tag, table, batch, counts)

    def stream(self, table, batch=0, counts=None):
        return self.worker.stream(self.tag, table, batch, counts)

    def save(self, text):
        self.worker.save(self.tag, text)

    def begins(self):
        """No effect: the driver itself excludes the first call of a run from its measurements."""

    def pause(self):
        """No effect: the driver knows that the call is paused."""

    def done(self):
        self.table = None  # before the driver learns that it may reuse the memory
        self.worker.done(self.tag)

    def fail(self, text, detail):
        self.table = None
        self.worker.fail(self.tag, text, detail)


def serve(worker, reporter):
    from headrace.udf import errors

    init = worker.init()
    spec, known, broken = {}, None, None
    try:
        spec, again = load(init)
        from headrace.data import convert
        from headrace.udf.call import Runner, here
        from headrace.udf.instances import WorkerInstances

        here.seeds = True
        convert.allowed = spec["objects"]
        known = WorkerInstances(spec, Runner, again, BaseException)
    except BaseException as e:  # each call reports it
        broken = errors.pack(e)
    if spec.get("async") and not broken:
        serve_async(worker, known, reporter)
    else:
        serve_calls(worker, known, broken, reporter)


def serve_calls(worker, known, broken, reporter):
    from headrace.udf.call import Paused
    from headrace.udf.instances import RUN as OF_RUN

    paused = {}
    while (work := worker.next()) is not None:
        kind, tag = work[:2]
        if kind in (RUN, RUN_END):
            if not broken:
                known.get(tag) if kind == RUN else known.end(tag)
            continue
        if kind == DROP:
            paused.pop(tag)[0].steps.close()
            worker.done(tag)
            continue
        if kind == MORE:
            kept, call = paused.pop(tag)
            steps = kept.go_on()
            del kept
        else:
            call = Call(worker, work)
            runner, why = (None, broken) if broken else known.get(call.place[OF_RUN], call)
            if why:
                call.fail(*why)
                continue
            steps = runner(call)
            del runner
        del work
        if not run(steps, call):
            paused[tag] = Paused(steps), call
        del steps, call
        reporter.report()
    if known is not None:
        known.clear()


def run(steps, call):
    from headrace.udf.call import advance

    try:
        return advance(steps, call)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        return True  # raised by the function: the driver has the error, and the worker goes on


def serve_async(worker, known, reporter):
    import asyncio

    asyncio.run(_serve_async(worker, known, reporter))


async def _serve_async(worker, known, reporter):
    import asyncio

    from headrace.udf.call import AWAY, GO
    from headrace.udf.coroutines import AsyncRunner, go_on
    from headrace.udf.instances import RUN as OF_RUN

    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    tasks, waiting = set(), {}
    known.make = lambda spec: AsyncRunner(spec, waiting)
    known.caught = Exception

    class Streaming(Call):
        def stream(self, table, batch=0, counts=None):
            loop.call_soon(listen)  # for messages received meanwhile: the socket is not readable for them
            return super().stream(table, batch, counts)

    def begin(kind, tag, *work):
        if kind == RUN:
            known.get(tag)
        elif kind == RUN_END:
            known.end(tag)
        elif kind != CALL:
            go_on(waiting, tag, GO if kind == MORE else AWAY)
        else:
            call = Streaming(worker, (kind, tag, *work))
            runner, why = known.get(call.place[OF_RUN], call)
            if why:
                call.fail(*why)
                return
            task = loop.create_task(runner.run(call))
            tasks.add(task)
            task.add_done_callback(finished)

    def listen():
        try:
            while (work := worker.next(0)) is not False:
                if work is None:
                    known.clear()
                    ended.done() or ended.set_result(None)
                    return
                begin(*work)
        except BaseException as e:
            ended.done() or ended.set_exception(e)

    def finished(task):
        tasks.discard(task)
        reporter.report()
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
