"""Worker processes of a pool, and the one thread that starts (through starter.py), watches and ends them.

Workers are forks of a process that never ran users' code, not of the driver. They get the function as
cloudpickle over their socket, so functions of notebooks, and of scripts without a __main__ guard, work. The
driver prints a worker's output on stderr, with the operator's name before each line.
"""

import os
import pickle
import re
import selectors
import signal
import socket
import sys
import threading
import time
from pathlib import Path

from headrace import _core, events
from headrace.udf import errors, gpus, starter
from headrace.udf.preload import BATCHES, imports_of
from headrace.udf.states import GRACE, State, default_workers, live, moves_workers
from headrace.udf.waiting import Waiting

PAUSE = 0.02  # seconds between checks of the queue while more workers may start
MEASURE = 0.5  # seconds between measurements of the workers' memory
QUIET = 5.0  # seconds without a waiting call, after which a run ends one worker
BUSY_GRACE = 0.2  # seconds that a running function has to return when its pool ends
IDLE = 60.0  # seconds without a run, after which all workers end


class Processes(State):
    """The processes of a Pool; see Pool for the arguments."""

    def __init__(self, spec, calls, least, most, initial, worker_gpus, cpus):
        super().__init__(spec, calls, least, most)
        self.initial = initial
        self.gpus = worker_gpus
        self.cpus = cpus
        self.thread = None
        self.wake_read, self.wake_write = None, None
        self.workers = []
        self.dead = []
        self.busy = set()  # process ids of workers that ran a function when the pool closed
        self.payload = None
        self.waited = self.quiet = time.monotonic()
        self.modules = BATCHES.get(spec.get("batch_format"), ())
        self.waiting = Waiting() if most is None and not worker_gpus and (cpus or 1) <= 1 else None
        self.private = 0  # bytes of each worker
        starter.warm_up(self.modules)

    # --- any thread

    def limit(self):
        """The most workers now. Without an explicit `most`, those of all functions together must fit on the
        CPUs, but for workers that wait.
        """
        n = self.most
        if n is None:
            n = self._on_cpus() + self._extra()
        if self.gpus:
            n = min(n, gpus.capacity(self.gpus))
        return max(self.least, n)

    def _on_cpus(self):
        others = sum(max(0, len(s.workers) - s._extra()) for s in live() if s is not self and _runs(s))
        return max(1, int(default_workers() / (self.cpus or 1)) - others)

    def _extra(self):
        return self.waiting.extra if self.waiting and moves_workers() else 0

    def begin(self):
        if self.calls.n_workers == 0 and self.calls.n_expected == 0:
            self.calls.expect()  # announces a worker, even if the death of earlier ones is not yet known
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
        self.wake()

    def wake(self):
        """Wakes the manager's thread."""
        try:
            if self.wake_write is not None:
                os.write(self.wake_write, b"\0")
        except OSError:
            pass  # full: the thread wakes anyway; closed: it has ended

    def end(self):
        super().end()
        self.wake()

    def close(self):
        if self.process == os.getpid() and not self.closed:
            self.busy = set(self.calls.busy())
        super().close()
        if self.process == os.getpid():
            self.wake()

    def join(self, until):
        if (
            self.process == os.getpid()
            and self.thread is not None
            and self.thread is not threading.current_thread()
        ):
            self.thread.join(max(0, until - time.monotonic()))

    def pids(self):
        return [w.process.pid for w in list(self.workers)]

    def deaths(self, text):
        named = set(re.findall(r"\bprocess (\d+)", text))
        until = time.monotonic() + 5.0  # a death shows on the socket first: the fork server may be importing
        while True:
            found = [how for pid, how in list(self.dead) if str(pid) in named]
            if found or not named or time.monotonic() > until or self.thread is None:
                return "; ".join(found)
            self.wake()
            time.sleep(0.01)

    def _payload(self):
        from headrace.udf import sending

        try:
            spec = sending.dumps(self.spec)
        except Exception as e:
            raise errors.unsendable(self.spec, e) from None
        self.modules += imports_of(spec)
        return pickle.dumps(
            {
                "sys_path": list(sys.path),
                "environment": {name: os.environ.get(name) for name in ("PYTHONPATH", *starter.ALLOCATOR)},
                "spec": spec,
            }
        )

    # --- the manager's thread

    def _manage(self):
        selector = selectors.DefaultSelector()
        selector.register(self.wake_read, selectors.EVENT_READ, None)
        measured = 0.0
        try:
            while not self.closed:
                now = time.monotonic()
                self._reap(selector)
                if self.runs > 0:
                    self.idle = now
                    self._tune(now)
                    self._grow(selector, now)
                self._shrink(now)
                if now - measured > MEASURE and self.workers:
                    self._measure()
                    measured = now
                self._listen(selector, self._pause())
        finally:
            self._finish(selector)

    def _pause(self):
        if self.runs <= 0:
            return IDLE / 4 if self.workers else None
        return PAUSE if len(self.workers) < self.limit() or self.calls.n_expected else MEASURE

    def _tune(self, now):
        """Moves the most workers where the function waits."""
        if not self.waiting or not moves_workers():
            return
        n, base = len(self.workers), self._on_cpus()
        if self.waiting.look(now, self.calls, n, base, self.private):
            events.tell(events.UDF, "%s: %d workers at most, it waits", self.name, base + self.waiting.extra)

    def _grow(self, selector, now):
        """Starts workers: the initial ones at once, and one more when calls have waited for a while."""
        at_once = self.initial if not self.workers else self.least
        while (self.calls.n_expected or len(self.workers) < at_once) and not self.closed:
            if not self._try_spawn(selector):
                return
            self.waited = now
        if self.calls.n_waiting == 0:
            self.waited = now
        elif now - self.waited > 2 * PAUSE and len(self.workers) < self.limit():
            self._try_spawn(selector)
            self.waited = now

    def _shrink(self, now):
        """Ends one worker if calls did not wait for a while, all workers after a longer time without a
        run.
        """
        if self.runs <= 0:
            if now - self.idle > IDLE:
                self.end_idle()
            return
        if self.calls.n_waiting:
            self.quiet = now
        n = self.calls.n_workers  # not len(self.workers), which has those that end, too
        if now - self.quiet > QUIET and n > max(self.least, 1):
            self.quiet = now
            self.calls.end_idle()

    def idle_bytes(self):
        return sum(worker.charged for worker in list(self.workers)) if self.runs <= 0 else 0

    def end_idle(self):
        """Ends the workers without calls; the next run starts new ones."""
        while self.calls.end_idle():
            pass

    def _try_spawn(self, selector):
        """Starts a worker. If that fails and there is no worker, all waiting calls get the error."""
        from headrace.udf import errors

        devices = []
        if self.gpus and (devices := self._devices()) is None:
            return False  # other workers have them; the next round tries again
        try:
            self._spawn(selector, devices)
            self.failure = None
            return True
        except Exception as e:
            self.failure = e
            gpus.give_back(devices, self.gpus)
            while not self.workers and (call := self.calls.take(0, 0)):
                call.fail(*errors.pack(e))
            if self.calls.n_expected:
                self.calls.expect(-self.calls.n_expected, f"{type(e).__name__}: {e}")
            return False

    def _devices(self):
        devices = gpus.take(self.gpus)
        if devices is None:
            for other in live():
                if other is not self and getattr(other, "gpus", 0) and other.runs <= 0:
                    other.end_idle()
                    other.wake()  # to notice that its workers have ended
        return devices

    def _spawn(self, selector, devices):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        theirs.setblocking(False)
        with theirs:
            process = starter.start(theirs, devices, self.modules)
        worker = _Worker(process, devices)
        selector.register(process.stdout, selectors.EVENT_READ, worker)
        selector.register(process.end, selectors.EVENT_READ, None)
        self.workers.append(worker)
        self.calls.add_worker(ours.detach(), process.pid, self.payload)
        events.tell(events.UDF, "%s: process %d starts", self.name, process.pid)

    def _listen(self, selector, timeout):
        for key, _ in selector.select(timeout):
            if key.fileobj == self.wake_read:
                os.read(self.wake_read, 4096)
            elif key.data is not None:
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
                pass  # stderr is missing or cannot be written

    def _reap(self, selector):
        for worker in list(self.workers):
            code = worker.process.poll()
            if code is None:
                continue
            self._drop(selector, worker)
            if not self.closed:
                pid = worker.process.pid
                self.dead = [*self.dead[-99:], (pid, f"process {pid} {how(code)}")]
                events.tell(events.UDF, "%s: process %d %s", self.name, pid, how(code))

    def _drop(self, selector, worker):
        if not worker.silent:
            self._forward(selector, worker)
        if not worker.silent:
            selector.unregister(worker.process.stdout)
        selector.unregister(worker.process.end)
        worker.process.close()
        _core.charge(-worker.charged)
        gpus.give_back(worker.devices, self.gpus)
        self.workers.remove(worker)

    def _measure(self):
        """Charges the workers' own memory (resident, not shared) to this process's budget."""
        page = os.sysconf("SC_PAGE_SIZE")
        total = 0
        for worker in self.workers:
            try:
                fields = Path(f"/proc/{worker.process.pid}/statm").read_text().split()
            except OSError:
                continue
            private = (int(fields[1]) - int(fields[2])) * page
            _core.charge(private - worker.charged)
            worker.charged = private
            total += private
        self.calls.measured(total)
        self.private = total // len(self.workers)

    def _finish(self, selector):
        begin = time.monotonic()
        while self.workers and time.monotonic() < begin + GRACE:
            self._listen(selector, PAUSE)
            self._reap(selector)
            if time.monotonic() > begin + BUSY_GRACE:
                for worker in self.workers:
                    if worker.process.pid in self.busy:  # its result is not needed
                        worker.process.kill()
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
    def __init__(self, process, devices):
        self.process = process
        self.devices = devices
        self.line = b""
        self.silent = False
        self.charged = 0


def _runs(state):
    return isinstance(state, Processes) and state.runs > 0


def how(code):
    """A process's exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
