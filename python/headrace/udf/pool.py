"""Pools that run user functions: in worker processes, threads, or the consumer itself ("inline").

A Pool belongs to one operator of a plan and lives as long: its workers start when the first run begins, and
serve all epochs. They end when nothing refers to the operator, after a minute without a run, and at exit.
Instances of classes belong to one run (instances.py).
"""

import os
import threading
import time
import weakref

from headrace import _core
from headrace.udf import states
from headrace.udf.states import State

SLICE = 0.01  # seconds that the consumer runs a generator before it looks for results


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

    compute: "processes", "threads" or "inline". least, most: the number of workers; most None: the number of
    pool threads of the engine. initial: workers that start with a run. Further ones start when calls wait,
    and end when no call waited for a while. gpus, cpus: of each worker; cpus bounds `most` if that is None.
    depth: calls of a worker at a time; 0: the engine chooses by their duration. max_retries: how often the
    engine repeats a call whose worker died; -1: without limit.
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
        self.warned = False  # whether the warning of a resume was shown
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
        self._end.atexit = False  # states.py closes it and waits
        states.add(self._state)

    @property
    def inline(self):
        """(Calls, handler) for the thread that waits for results, if it runs the function; otherwise None."""
        return (self.calls, self._state.serve) if self.compute == "inline" else None

    def begin(self):
        """A run begins: starts workers if necessary. Returns at once."""
        self.know_code()
        self._state.begin()

    def know_code(self):
        """Gives the engine the hash of the function, for positions, before any call can change its state."""
        if not self._code_known:
            from headrace.udf.code import code_of

            self._code_known = True
            self.calls.set_code(code_of(*(self._spec.get(name) for name in _OF_THE_FUNCTION)))

    def end(self):
        """Ends the run of a begin()."""
        self._state.end()

    def deaths(self, text):
        """How the workers ended whose process ids are in `text`, for example 'process 12 was killed by
        SIGKILL'; '' if none of them ended.
        """
        return self._state.deaths(text)

    def failure(self):
        """The exception that kept the last worker from starting; None if it started."""
        return self._state.failure

    def pids(self):
        """Process ids of the workers that are alive."""
        return self._state.pids()

    def log_errored(self):
        """Logs the number of batches that failed since the last call, which the run left out, and the first
        error."""
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
        """Makes a thread of this process run an inline function: the consumers are other processes."""
        if self.compute == "inline":
            self._state.serve_in_thread()

    def close(self):
        """Ends the workers. Waiting calls fail."""
        self._end()


class _Server:
    """Serves calls in a thread of this process, with its own instances of the function."""

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
        """Drops paused generators whose results the engine dropped, and instances of runs that have ended."""
        for tag in [t for t in list(self.paused) if not self.state.calls.paused(t)]:
            if kept := self.paused.pop(tag, None):
                kept.steps.close()
        self.instances.prune(self.state.calls)


class _Sliced:
    """A Call whose stream() pauses it after SLICE seconds."""

    def __init__(self, call):
        self.call = call
        self.until = time.monotonic() + SLICE

    def __getattr__(self, name):
        return getattr(self.call, name)

    def stream(self, *args):
        go = self.call.stream(*args)
        return 1 if go == 0 and time.monotonic() > self.until else go


class _Inline(State):
    """Calls in the consumer's thread. A call seeds the random generators; they get their states back after
    it. Of several consumers, one at a time runs a function: instances and generators have one user."""

    server = None
    thread = None
    loop = None

    def serve(self, call):
        from headrace.udf import errors, inline_turns
        from headrace.udf.call import kept_generators

        if self.spec["async"]:
            self._serve_async(call)
            return
        try:
            inline_turns.begin(self.name)
        except Exception as e:
            call.fail(*errors.pack(e))
            return
        try:
            if self.server is None:
                self.server = _Server(self, 0)
            with kept_generators():
                self.server.serve(_Sliced(call))
                self.server.prune()
        finally:
            inline_turns.end()

    def _serve_async(self, call):
        """Serves an async function in a loop with its own thread: the consumer's thread may have a loop."""
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
                self._serve(call)
            else:
                self._prune()
            del call

    def _serve(self, call):
        """serve(); the thread outlives an error that is not the function's, which serve() raises."""
        try:
            self.serve(call)
        except Exception as e:
            from headrace.udf import errors

            call.fail(*errors.pack(e))

    def close(self):
        super().close()
        if self.server is not None and self.process == os.getpid():
            self.server.prune()
        if self.loop is not None and self.process == os.getpid():
            self.loop.end()


class _Threads(State):
    """Python threads, each with its own instance of the function. They do not seed the random generators,
    because all threads share them.
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
        """Waits for threads that end by themselves; a running function cannot be stopped."""
        for number, thread in enumerate(self.threads, 1):
            thread.join(0 if number in self.busy else max(0, until - time.monotonic()))


class _Held:
    """A Call in an event loop; it calls released() when the call ends or is paused."""

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
    """Replaces a paused call whose results the engine dropped."""

    def done(self):
        pass

    def fail(self, text, detail):
        pass


class _Loop:
    """An event loop in its own thread, for async functions in this process."""

    def __init__(self, state, number, at_a_time):
        import asyncio

        from headrace.udf.coroutines import AsyncRunner
        from headrace.udf.instances import Instances

        self.state = state
        self.waiting = {}  # shared with the runners
        self.instances = Instances(state.spec, lambda spec: AsyncRunner(spec, self.waiting))
        self.slots = threading.Semaphore(at_a_time)
        self.lock = threading.Lock()
        self.kept = set()  # tags of paused calls
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
        """Drops instances whose runs have ended."""
        if self.instances.known:
            try:
                self.loop.call_soon_threadsafe(self.instances.prune, self.state.calls)
            except RuntimeError:
                pass  # the loop has ended

    def _prune_paused(self):
        """Ends generators whose results the engine dropped. The thread that takes calls runs it between
        calls."""
        from headrace.udf.call import AWAY
        from headrace.udf.coroutines import go_on

        with self.lock:
            gone = [t for t in self.kept if not self.state.calls.paused(t)]
            self.kept.difference_update(gone)
        for tag in gone:
            self.loop.call_soon_threadsafe(go_on, self.waiting, tag, AWAY, _Gone())

    def start(self, call, released=lambda: None):
        """Begins or continues a call; waits first while the loop serves the most calls."""
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
        """Serves a call until it ends or is paused."""
        ended = threading.Event()
        self.start(call, ended.set)
        while not ended.wait(0.1):  # short waits, so that Python handles Ctrl-C
            pass

    def end(self):
        try:
            self.loop.call_soon_threadsafe(self.loop.stop)
        except RuntimeError:
            return  # the loop has ended
        self.thread.join(0.2)
