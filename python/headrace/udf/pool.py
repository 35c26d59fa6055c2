"""Who runs a user function: worker processes, threads, or the consumer itself ("inline").

A Pool belongs to one operator of a plan and lives as long as it: workers are started once, when the first
run begins, and serve all epochs. They end when the operator is no longer referenced, and at exit. Nothing
is forked: a worker is a fresh `python -m headrace.udf.worker` with the function as cloudpickle on its
socket, so functions of notebooks and of scripts without a __main__ guard work. What a worker prints appears
on the driver's stderr, each line with the operator's name before it.
"""

import atexit
import os
import pickle
import re
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

from headrace import _core

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PAUSE = 0.02  # between two looks at the queue while there may be more workers
GRACE = 1.0  # what a worker may still take when its pool ends
MEASURE = 0.5  # between two looks at the workers' memory


class Pool:
    """Runs spec's function for `calls`.

    compute: "processes", "threads" or "inline". least, most: how many workers; most None: as many as there
    are pool threads. The first worker starts with the first run, further ones when calls wait.
    """

    def __init__(self, spec, compute="processes", least=1, most=None):
        self.name = spec["name"]
        self.compute = compute
        self.calls = _core.Calls(self.name)
        kind = {"processes": _Processes, "threads": _Threads, "inline": _Inline}[compute]
        self._state = kind(spec, self.calls, least, most)
        self._end = weakref.finalize(self, self._state.close)
        self._end.atexit = False  # _at_exit does it, and waits
        _live.add(self._state)

    @property
    def inline(self):
        """(Calls, handler) for whoever waits for results, if the function is to run there; else None."""
        return (self.calls, self._state.serve) if self.compute == "inline" else None

    def begin(self):
        """A run begins: workers may be started. Returns at once."""
        self._state.begin()

    def end(self):
        """The run of a begin() has ended."""
        self._state.end()

    def deaths(self, text):
        """How the workers ended whose process ids are in `text`, e.g. 'process 12 was killed by SIGKILL'; ''
        if none of them did.
        """
        return self._state.deaths(text)

    def pids(self):
        """Process ids of the workers that are alive."""
        return self._state.pids()

    def serve_in_thread(self):
        """Lets a thread of this process serve an inline function: the consumers are other processes."""
        if self.compute == "inline":
            self._state.serve_in_thread()

    def close(self):
        """Ends the workers. Calls that wait fail."""
        self._end()


_live = weakref.WeakSet()


@atexit.register
def _at_exit():
    states = list(_live)
    for state in states:
        state.close()
    for state in states:
        state.join(2 * GRACE)


class _State:
    def __init__(self, spec, calls, least, most):
        self.spec = spec
        self.name = spec["name"]
        self.calls = calls
        self.least = max(1, least)
        self.most = most
        self.lock = threading.Lock()
        self.runs = 0
        self.closed = False
        self.process = os.getpid()

    def limit(self):
        return max(self.least, self.most or _core.num_threads())

    def begin(self):
        with self.lock:
            self.runs += 1
        self.start()

    def end(self):
        with self.lock:
            self.runs -= 1

    def start(self):
        pass

    def deaths(self, text):
        return ""

    def pids(self):
        return []

    def close(self):
        if self.process != os.getpid():
            return  # a forked child: the workers are its parent's
        with self.lock:
            if self.closed:
                return
            self.closed = True
        self.calls.close()

    def join(self, timeout):
        pass


def _run_call(call, runner):
    """Runs one Call to its end; an exception of the function goes into it."""
    from headrace.udf import errors

    try:
        for made in runner(call.table, call.build):
            call.result(made)
    except Exception as e:
        call.fail(*errors.pack(e))
    except BaseException as e:  # KeyboardInterrupt: the run fails, and the consumer sees the interrupt itself
        call.fail(*errors.pack(e))
        raise
    else:
        call.done()


class _Inline(_State):
    """The consumer's thread. Its random generators are seeded for the call and restored after it."""

    runner = None
    thread = None

    def serve(self, call):
        from headrace.udf import errors
        from headrace.udf.call import Runner, kept_generators, seed

        with kept_generators():
            seed(call.place)
            if self.runner is None:
                try:
                    self.runner = Runner(self.spec)
                except Exception as e:
                    call.fail(*errors.pack(e))
                    return
            _run_call(call, self.runner)

    def serve_in_thread(self):
        with self.lock:
            if self.thread is None and not self.closed:
                self.thread = threading.Thread(target=self._loop, name=f"headrace {self.name}", daemon=True)
                self.thread.start()

    def _loop(self):
        while (call := self.calls.take(100)) is not False:
            if call is not None:
                self.serve(call)


class _Threads(_State):
    """Python threads, each with a function object of its own. Random generators are left alone: all threads
    share them.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self.threads = []

    def start(self):
        with self.lock:
            while not self.closed and len(self.threads) < self.limit():
                number = len(self.threads) + 1
                thread = threading.Thread(
                    target=self._loop, name=f"headrace {self.name} {number}", daemon=True
                )
                self.threads.append(thread)
                thread.start()

    def _loop(self):
        from headrace.udf import errors
        from headrace.udf.call import Runner

        runner = broken = None
        while (call := self.calls.take(100)) is not False:
            if call is None:
                continue
            if runner is None and broken is None:
                try:
                    runner = Runner(self.spec)
                except Exception as e:
                    broken = errors.pack(e)
            if broken:
                call.fail(*broken)
            else:
                _run_call(call, runner)
            del call

    def join(self, timeout):
        for thread in self.threads:
            thread.join(timeout)


class _Processes(_State):
    """Worker processes, and the one thread that starts, watches and ends them.

    That thread lives as long as the pool, because a worker dies with the thread that started it
    (PR_SET_PDEATHSIG).
    """

    def __init__(self, *args):
        super().__init__(*args)
        self.thread = None
        self.wake_read, self.wake_write = None, None
        self.workers = []
        self.dead = []
        self.payload = None

    # --- any thread

    def begin(self):
        if self.calls.n_workers == 0:
            self.calls.expect()  # a worker to come, however late the death of those before is noticed
        super().begin()

    def start(self):
        with self.lock:
            if self.closed:
                return
            if self.payload is None:
                self.payload = self._payload()
            if self.thread is None:
                self.wake_read, self.wake_write = os.pipe()
                os.set_blocking(self.wake_write, False)
                self.thread = threading.Thread(target=self._manage, name=f"headrace {self.name}", daemon=True)
                self.thread.start()
        self._wake()

    def _wake(self):
        try:
            if self.wake_write is not None:
                os.write(self.wake_write, b"\0")
        except OSError:
            pass  # full: it will wake anyway; closed: it has ended

    def end(self):
        super().end()
        self._wake()

    def close(self):
        super().close()
        if self.process == os.getpid():
            self._wake()

    def join(self, timeout):
        if (
            self.process == os.getpid()
            and self.thread is not None
            and self.thread is not threading.current_thread()
        ):
            self.thread.join(timeout)

    def pids(self):
        return [w.process.pid for w in list(self.workers)]

    def deaths(self, text):
        named = set(re.findall(r"\bprocess (\d+)", text))
        until = time.monotonic() + 1.0  # the socket may have told before the system does
        while True:
            found = [how for pid, how in list(self.dead) if str(pid) in named]
            if found or not named or time.monotonic() > until or self.thread is None:
                return "; ".join(found)
            self._wake()
            time.sleep(0.01)

    def _payload(self):
        import cloudpickle

        return pickle.dumps(
            {
                "sys_path": list(sys.path),
                "environment": {"PYTHONPATH": os.environ.get("PYTHONPATH")},
                "spec": cloudpickle.dumps(self.spec),
            }
        )

    # --- the manager's thread

    def _manage(self):
        selector = selectors.DefaultSelector()
        selector.register(self.wake_read, selectors.EVENT_READ, None)
        started = measured = 0.0
        try:
            while not self.closed:
                now = time.monotonic()
                self._reap(selector)
                if self.runs > 0 and self._wants_more(now - started):
                    self._try_spawn(selector)
                    started = now
                if now - measured > MEASURE:
                    self._measure()
                    measured = now
                self._listen(selector, self._pause())
        finally:
            self._finish(selector)

    def _pause(self):
        if self.runs <= 0:
            return None
        return PAUSE if len(self.workers) < self.limit() else MEASURE

    def _wants_more(self, since):
        n = len(self.workers)
        if n < self.least:
            return True
        return n < self.limit() and since > 2 * PAUSE and self.calls.n_waiting > 0

    def _try_spawn(self, selector):
        """A worker more; if that fails, and there is none, whoever waits is told."""
        from headrace.udf import errors

        try:
            self._spawn(selector)
        except Exception as e:
            while not self.workers and (call := self.calls.take(0)):
                call.fail(*errors.pack(e))

    def _spawn(self, selector):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        theirs.setblocking(False)
        environment = dict(os.environ, PYTHONUNBUFFERED="1")
        for name in THREAD_VARIABLES:
            environment.setdefault(name, "1")
        package = os.path.dirname(os.path.dirname(os.path.abspath(_core.__file__)))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "headrace.udf.worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env=environment,
                process_group=0,  # Ctrl-C goes to the driver alone
            )
        worker = _Worker(process)
        os.set_blocking(process.stdout.fileno(), False)
        selector.register(process.stdout, selectors.EVENT_READ, worker)
        self.workers.append(worker)
        self.calls.add_worker(ours.detach(), process.pid, self.payload)

    def _listen(self, selector, timeout):
        for key, _ in selector.select(timeout):
            if key.data is None:
                os.read(self.wake_read, 4096)
            else:
                self._forward(selector, key.data)

    def _forward(self, selector, worker):
        try:
            data = os.read(worker.process.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return
        if not data and not worker.silent:
            selector.unregister(worker.process.stdout)
            worker.silent = True
        *lines, worker.line = (worker.line + data).split(b"\n")
        if not data and worker.line:
            lines.append(worker.line)
            worker.line = b""
        if lines:
            head = f"({self.name}, pid {worker.process.pid}) "
            text = "".join(f"{head}{line.decode(errors='replace')}\n" for line in lines)
            try:
                sys.stderr.write(text)
                sys.stderr.flush()
            except Exception:
                pass  # no stderr, or none that can be written to

    def _reap(self, selector):
        for worker in list(self.workers):
            code = worker.process.poll()
            if code is None:
                continue
            self._drop(selector, worker)
            if not self.closed:
                self.dead = [
                    *self.dead[-99:],
                    (worker.process.pid, f"process {worker.process.pid} {_how(code)}"),
                ]

    def _drop(self, selector, worker):
        if not worker.silent:
            self._forward(selector, worker)
        if not worker.silent:
            selector.unregister(worker.process.stdout)
        worker.process.stdout.close()
        _core.charge(-worker.charged)
        self.workers.remove(worker)

    def _measure(self):
        """Counts the workers' own memory (resident, not shared) as ours."""
        page = os.sysconf("SC_PAGE_SIZE")
        for worker in self.workers:
            try:
                fields = Path(f"/proc/{worker.process.pid}/statm").read_text().split()
            except OSError:
                continue
            private = (int(fields[1]) - int(fields[2])) * page
            _core.charge(private - worker.charged)
            worker.charged = private

    def _finish(self, selector):
        until = time.monotonic() + GRACE
        while self.workers and time.monotonic() < until:
            self._listen(selector, PAUSE)
            self._reap(selector)
        for worker in self.workers:
            worker.process.kill()
        for worker in list(self.workers):
            worker.process.wait()
            self._drop(selector, worker)
        selector.close()
        with self.lock:
            os.close(self.wake_read)
            os.close(self.wake_write)
            self.wake_write = None


class _Worker:
    def __init__(self, process):
        self.process = process
        self.line = b""
        self.silent = False
        self.charged = 0


def _how(code):
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
