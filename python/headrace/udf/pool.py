"""Who runs a user function: worker processes, threads, or the consumer itself ("inline").

A Pool belongs to one operator of a plan and lives as long as it: workers are started once, when the first
run begins, and serve all epochs. They end when the operator is no longer referenced, when nobody needed them
for a minute, and at exit. Instances of classes belong to one run (instances.py).
"""

import os
import threading
import time
import weakref

from headrace import _core
from headrace.udf import states
from headrace.udf.states import State

SLICE = 0.01  # seconds for which the consumer runs a generator before it looks whether there is something


_OF_THE_FUNCTION = (
    "fn",
    "fn_args",
    "fn_kwargs",
    "constructor_args",
    "constructor_kwargs",
    "kind",
    "batch_format",
    "column",
)


class Pool:
    """Runs spec's function for `calls`.

    compute: "processes", "threads" or "inline". least, most: how many workers; most None: as many as there
    are pool threads. initial: how many are started with a run. The others come when calls wait, and go when
    none did for a while. gpus: of each worker. cpus: likewise; they bound `most` where that is None.
    depth: calls that a worker has at a time; 0: by what they take. max_retries: how often a call is done
    again whose worker died; -1: always.
    """

    def __init__(
        self,
        spec,
        compute="processes",
        least=1,
        most=None,
        *,
        initial=None,
        gpus=0,
        cpus=1,
        depth=0,
        max_retries=0,
    ):
        self.name = spec["name"]
        self.spec = spec
        self.compute = compute
        self.single = compute == "inline" or most == 1
        self.warned = False  # of what a resume means for it
        self.calls = _core.Calls(self.name)
        if compute == "processes":
            from headrace.udf.processes import Processes

            self.calls.configure(depth, max_retries)
            self._state = Processes(spec, self.calls, least, most, initial or least, gpus, cpus)
        else:
            self._state = {"threads": _Threads, "inline": _Inline}[compute](spec, self.calls, least, most)
        self._spec = spec
        self._code_known = False
        self._end = weakref.finalize(self, self._state.close)
        self._end.atexit = False  # states.py does it, and waits
        states.add(self._state)

    @property
    def inline(self):
        """(Calls, handler) for whoever waits for results, if the function is to run there; else None."""
        return (self.calls, self._state.serve) if self.compute == "inline" else None

    def begin(self):
        """A run begins: workers may be started. Returns at once."""
        self.know_code()
        self._state.begin()

    def know_code(self):
        """Tells the engine, for positions, what the function is: as it is now, before any call of it."""
        if not self._code_known:
            from headrace.udf.code import code_of

            self._code_known = True
            self.calls.set_code(code_of(*(self._spec.get(name) for name in _OF_THE_FUNCTION)))

    def end(self):
        """The run of a begin() has ended."""
        self._state.end()

    def deaths(self, text):
        """How the workers ended whose process ids are in `text`, e.g. 'process 12 was killed by SIGKILL'; ''
        if none of them did.
        """
        return self._state.deaths(text)

    def failure(self):
        """The exception that kept the last worker from starting; None: it started."""
        return self._state.failure

    def pids(self):
        """Process ids of the workers that are alive."""
        return self._state.pids()

    def log_errored(self):
        """Says once how many batches failed and were left out since the last time, and how the first did."""
        n, text, detail = self.calls.errored()
        if n:
            import logging

            from headrace.udf import errors

            log = logging.getLogger("headrace.data")
            found = errors.rebuild(detail, f"{self.name}: {text}") if detail else None
            log.error(
                "%s: %d failed %s left out (DataContext.max_errored_blocks); the first: %s",
                self.name,
                n,
                "batch was" if n == 1 else "batches were",
                text,
                exc_info=found,
            )

    def serve_in_thread(self):
        """Lets a thread of this process serve an inline function: the consumers are other processes."""
        if self.compute == "inline":
            self._state.serve_in_thread()

    def close(self):
        """Ends the workers. Calls that wait fail."""
        self._end()


class _Server:
    """Serves calls in a thread of this process, by function objects of its own."""

    def __init__(self, state, number):
        from headrace.udf.call import Runner
        from headrace.udf.instances import Instances

        self.state = state
        self.number = number
        self.instances = Instances(state.spec, Runner)
        self.paused = {}  # tag -> Paused

    def serve(self, call):
        from headrace.udf.call import Paused, advance
        from headrace.udf.instances import RUN

        tag = call.tag
        if kept := self.paused.pop(tag, None):
            steps = kept.go_on()
        else:
            runner, why = self.instances.get(call.place[RUN], call)
            if why:
                call.fail(*why)
                return
            steps = runner(call)
        if not advance(steps, call):
            self.paused[tag] = Paused(steps)
            call.pause()

    def prune(self):
        """Forgets generators that nobody wants more of, and instances whose runs have ended."""
        for tag in [t for t in list(self.paused) if not self.state.calls.paused(t)]:
            if kept := self.paused.pop(tag, None):
                kept.steps.close()
        self.instances.prune(self.state.calls)


class _Sliced:
    """A Call that is paused after SLICE seconds."""

    def __init__(self, call):
        self.call = call
        self.until = time.monotonic() + SLICE

    def __getattr__(self, name):
        return getattr(self.call, name)

    def stream(self, *args):
        go = self.call.stream(*args)
        return 1 if go == 0 and time.monotonic() > self.until else go


class _Inline(State):
    """The consumer's thread. Its random generators are seeded for the call and restored after it."""

    server = None
    thread = None
    loop = None

    def serve(self, call):
        from headrace.udf.call import kept_generators

        if self.spec["async"]:
            self._serve_async(call)
            return
        if self.server is None:
            self.server = _Server(self, 0)
        with kept_generators():
            self.server.serve(_Sliced(call))
            self.server.prune()

    def _serve_async(self, call):
        """In a loop of its own thread: the consumer's may have one already."""
        if self.loop is None:
            self.loop = _Loop(self, 0, 1)
        self.loop.run(call)

    def end(self):
        super().end()
        self._prune()

    def _prune(self):
        server, loop = self.server, self.loop
        if server is not None:
            server.prune()
        if loop is not None:
            loop.prune()

    def serve_in_thread(self):
        with self.lock:
            if self.thread is None and not self.closed:
                self.thread = threading.Thread(target=self._loop, name=f"headrace {self.name}", daemon=True)
                self.thread.start()

    def _loop(self):
        while (call := self.calls.take(0, 100)) is not False:
            if call is not None:
                self.serve(call)
            else:
                self._prune()
            del call

    def close(self):
        super().close()
        if self.server is not None and self.process == os.getpid():
            self.server.prune()
        if self.loop is not None and self.process == os.getpid():
            self.loop.end()


class _Threads(State):
    """Python threads, each with a function object of its own. Random generators are left alone: all threads
    share them.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self.threads = []
        self.busy = set()

    def start(self):
        with self.lock:
            while not self.closed and len(self.threads) < self.limit():
                number = len(self.threads) + 1
                thread = threading.Thread(
                    target=self._async_loop if self.spec["async"] else self._loop,
                    args=(number,),
                    name=f"headrace {self.name} {number}",
                    daemon=True,
                )
                self.threads.append(thread)
                thread.start()

    def _loop(self, number):
        server = _Server(self, number)
        while (call := self.calls.take(number, 100)) is not False:
            if call is not None:
                self.busy.add(number)
                server.serve(call)
                self.busy.discard(number)
            if call is None or server.paused:
                server.prune()
            del call

    def _async_loop(self, number):
        from headrace.udf.call import BATCHES_AT_A_TIME

        loop = _Loop(self, number, BATCHES_AT_A_TIME)
        while (call := self.calls.take(number, 100)) is not False:
            if call is not None:
                loop.start(call)
            else:
                loop.prune()
            del call
        loop.end()

    def join(self, until):
        """Waits for those that will come back by themselves; a function cannot be stopped."""
        for number, thread in enumerate(self.threads, 1):
            thread.join(0 if number in self.busy else max(0, until - time.monotonic()))


class _Held:
    """A Call while an event loop has it; released() is called when it ends or is paused."""

    def __init__(self, call, loop, released):
        self.call = call
        self.loop = loop
        self.released = released

    def __getattr__(self, name):
        return getattr(self.call, name)

    def _end(self, method, *args):
        try:
            method(*args)
        finally:
            self.released()

    def pause(self):
        tag = self.call.tag
        with self.loop.lock:
            self.loop.kept.add(tag)
            self._end(self.call.pause)

    def done(self):
        self._end(self.call.done)

    def fail(self, text, detail):
        self._end(self.call.fail, text, detail)


class _Gone:
    """In place of a paused call that nobody wants more of."""

    def done(self):
        pass

    def fail(self, text, detail):
        pass


class _Loop:
    """An event loop in a thread of its own, for asynchronous functions in this process."""

    def __init__(self, state, number, at_a_time):
        import asyncio

        from headrace.udf.coroutines import AsyncRunner
        from headrace.udf.instances import Instances

        self.state = state
        self.waiting = {}  # of the runners
        self.instances = Instances(state.spec, lambda spec: AsyncRunner(spec, self.waiting))
        self.slots = threading.Semaphore(at_a_time)
        self.lock = threading.Lock()
        self.kept = set()  # tags of calls that were paused and did not come back
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(
            target=self._run, name=f"headrace {state.name} loop {number}", daemon=True
        )
        self.thread.start()

    def _run(self):
        import asyncio

        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.instances.clear()
        self.loop.close()

    def _begin(self, call, tag):
        from headrace.udf.call import GO
        from headrace.udf.coroutines import go_on
        from headrace.udf.instances import RUN

        if tag in self.waiting:
            go_on(self.waiting, tag, GO, call)
            return
        runner, why = self.instances.get(call.place[RUN], call)
        if why:
            call.fail(*why)
            return
        task = self.loop.create_task(runner.run(call))
        runner.tasks.add(task)
        task.add_done_callback(runner.tasks.discard)

    def prune(self):
        """Lets go of instances whose runs have ended."""
        if self.instances.known:
            try:
                self.loop.call_soon_threadsafe(self.instances.prune, self.state.calls)
            except RuntimeError:
                pass  # it has ended

    def _prune_paused(self):
        """Ends generators that nobody wants more of. Called by whoever takes calls, with none in hand."""
        from headrace.udf.call import AWAY
        from headrace.udf.coroutines import go_on

        with self.lock:
            gone = [t for t in self.kept if not self.state.calls.paused(t)]
            self.kept.difference_update(gone)
        for tag in gone:
            self.loop.call_soon_threadsafe(go_on, self.waiting, tag, AWAY, _Gone())

    def start(self, call, released=lambda: None):
        """Begins a call, or goes on with one; waits first while enough are being served."""
        tag = call.tag
        with self.lock:
            self.kept.discard(tag)
        self._prune_paused()
        self.slots.acquire()

        def end():
            self.slots.release()
            released()

        self.loop.call_soon_threadsafe(self._begin, _Held(call, self, end), tag)

    def run(self, call):
        """Serves a call to its end, or until it is paused."""
        ended = threading.Event()
        self.start(call, ended.set)
        while not ended.wait(0.1):  # in slices, so that Ctrl-C is heard
            pass

    def end(self):
        try:
            self.loop.call_soon_threadsafe(self.loop.stop)
        except RuntimeError:
            return  # it has ended
        self.thread.join(0.2)
