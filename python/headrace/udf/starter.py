"""Starts worker processes in milliseconds: the driver's side of the fork server (forkserver.py).

A process inherits environment, limits and CPUs, which the driver may change later. The driver uses a server
only while its own are the same as at the server's start; otherwise it starts a new server. Adding a function
to a plan starts the first server in the background.

A server that imports torch is ready after seconds. fork_for() forks this process, if it has imported torch
and may be forked, as torch's own DataLoader forks it: the fork starts workers until the server is ready. A
server ends when it was idle for a minute, also beside a fork with workers; the next server imports again, and
the fork, or a new one, starts workers meanwhile. Workers of a loader come from a fork of their own, where
that may be: as with torch's, modules have the state that the program gave them. The import begins with the
first batch of these workers, which would otherwise share the CPUs with it.
"""

import fcntl
import multiprocessing
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import warnings

from headrace import _core
from headrace.udf import forkserver, worker
from headrace.udf.forkserver import DEVICES, END, FOR, IMPORT, MESSAGE_BYTES, SEES, STATUS_BYTES, WORKER

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# glibc's allocator after a free() of 32 MiB: the arrays of a call reuse the pages of the call before, which
# would otherwise go back to the system each time.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
IDLE = 60.0  # seconds without a worker, after which a server ends
PATIENCE = 120.0  # seconds that the driver waits for an answer of a server
OF_TORCH = {"torch", "headrace.torch.worker"}  # modules of workers that a fork of this process starts
# Their threads do not survive a fork: what waits for one in a fork hangs.
NEVER_FORKED = (
    *("jax", "tensorflow", "grpc", "ray", "polars", "duckdb"),
    *("cv2", "sklearn", "xgboost", "lightgbm", "numba", "faiss"),
)
LIMITS = [getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]


class Process:
    """A worker, with those parts of subprocess.Popen that processes.py uses. It is a child of the fork
    server.
    """

    def __init__(self, pid, stdout, end):
        self.pid = pid
        self.stdout = stdout  # raw file: the worker's output and errors
        self.end = end  # raw file: readable when the worker has ended
        self.code = None

    def poll(self):
        """The exit code, negative if a signal killed the worker; None while it is alive."""
        if self.code is None:
            status = self.end.read(STATUS_BYTES)
            if status == b"":
                self.code = -signal.SIGKILL  # the server has died, and the kernel killed its workers
            elif status is not None:
                self.code = os.waitstatus_to_exitcode(int.from_bytes(status, sys.byteorder))
        return self.code

    def wait(self):
        poll = select.poll()
        poll.register(self.end, select.POLLIN)
        while self.poll() is None:
            poll.poll()
        return self.code

    def kill(self):
        if self.poll() is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # the server is about to report its end

    def close(self):
        self.stdout.close()
        self.end.close()


class _Fork:
    """A fork of this process, with those parts of subprocess.Popen that a server needs."""

    def __init__(self, pid):
        self.pid = pid
        self.returncode = None

    def poll(self, how=os.WNOHANG):
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, how)
            except ChildProcessError:  # somebody else has waited for it
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self):
        return self.poll(0)

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class _Server:
    """The driver's end of a fork server."""

    def __init__(self, inherited):
        self.inherited = inherited
        self.imported = set()
        self.messages = os.memfd_create("headrace fork server")
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self.process = self._start(theirs)
        except BaseException:
            self.close()
            raise
        self.socket.settimeout(PATIENCE)

    def _start(self, theirs):
        executable, environment = self.inherited[:2]
        arguments = [str(theirs.fileno()), str(os.getpid()), str(IDLE)]
        return subprocess.Popen(
            [executable, "-P", "-m", "headrace.udf.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.messages,
            pass_fds=[theirs.fileno()],
            env=dict(environment),
            process_group=0,  # Ctrl-C goes to the driver alone
        )

    def busy(self):
        """Whether it still imports what imports() sent: requests lie in its socket, unread."""
        try:
            found = fcntl.ioctl(self.socket.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        except OSError:
            return True
        return int.from_bytes(found, sys.byteorder) > 0

    def close(self):
        self.socket.close()
        os.close(self.messages)

    def said(self):
        """The server's output since the last call."""
        text = b""
        while more := os.pread(self.messages, 1 << 16, len(text)):
            text += more
        os.ftruncate(self.messages, 0)
        return text.decode(errors="replace")

    def worker(self, cuda, serves, *descriptors):
        """The process id of a new worker. OSError: the fork failed; EOFError: the server has ended."""
        try:
            request = WORKER if cuda is None else SEES + os.fsencode(cuda)
            request = FOR + serves.encode() + b" " + request if serves else request
            socket.send_fds(self.socket, [request], descriptors)
            answer = self.socket.recv(MESSAGE_BYTES)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        except TimeoutError:
            self.process.kill()
            answer = b""
        if not answer:
            raise EOFError
        found = int(answer)
        if found < 0:
            raise OSError(-found, f"cannot start a worker process: {os.strerror(-found)}")
        return found

    def imports(self, modules):
        """Makes the server import libraries before it starts the next worker."""
        for name in modules:
            if name not in self.imported:
                self.imported.add(name)
                try:
                    self.socket.send(IMPORT + name.encode())
                    self.socket.send(IMPORT + b"os")  # lies there as long as the import lasts: see busy()
                except OSError:
                    pass  # it has ended; the start of a worker notices

    def retire(self):
        """Makes the server end when its workers have ended."""
        try:
            self.socket.send(END)
        except OSError:
            pass  # it has ended already


class _ForkedServer(_Server):
    """The same of a fork of this process. It imports nothing. `beside`: the server that was not ready, or
    None; `waits`: a server is needed after import_now().
    """

    def __init__(self, inherited, beside):
        super().__init__(inherited)
        self.beside = beside
        self.waits = beside is None

    def _start(self, theirs):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()  # the fork must not write it again
            except Exception:
                pass  # it is closed, or nobody reads it
        driver, environment = os.getpid(), dict(self.inherited[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads of libraries
            pid = os.fork()
        if pid == 0:
            forkserver.forked(theirs, driver, IDLE, environment, self.messages, worker.live)
        return _Fork(pid)

    def imports(self, modules):
        pass


_lock = threading.Lock()
_servers = []  # forks are in front, new ones first; behind them is the server in use, unless that has ended
_fork = None  # the fork in use; all other servers and forks wait for the end of their workers


def _forked():
    """In a forked child of the driver: closes its copies of the servers, which belong to the parent. A
    server that is being made is not among them.
    """
    global _lock, _fork
    _lock = threading.Lock()
    for server in _servers:
        server.process.returncode = 0  # the child must not wait for it
        server.close()
    _servers.clear()
    _fork = None


os.register_at_fork(after_in_child=_forked)


def _environment():
    """The environment of a server: the driver's, with one thread per worker and the allocator's settings."""
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    for name in THREAD_VARIABLES:
        environment.setdefault(name, "1")
    for name, value in ALLOCATOR.items():
        environment.setdefault(name, value)
    environment.pop(DEVICES, None)
    environment.pop("PYTEST_CURRENT_TEST", None)  # changes in each test, which would need a new server each
    package = os.path.dirname(os.path.dirname(os.path.abspath(_core.__file__)))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
    return environment


def _umask():
    with open("/proc/self/status") as file:
        return next((line for line in file if line.startswith("Umask")), None)


def _inherited():
    """Everything that a process inherits and that may have changed since the last server started."""
    return (
        sys.executable,
        sorted(_environment().items()),
        [resource.getrlimit(limit) for limit in LIMITS],
        sorted(os.sched_getaffinity(0)),
        os.getpriority(os.PRIO_PROCESS, 0),
        (os.getresuid(), os.getresgid(), os.getgroups()),
        _umask(),
    )


def _current():
    """The server in use. The caller holds _lock."""
    inherited = _inherited()
    for server in _servers[:]:
        if server.process.poll() is not None:
            _servers.remove(server)
            server.close()
    last = _servers[-1] if _servers and not isinstance(_servers[-1], _ForkedServer) else None
    if last and last.inherited != inherited:
        last.retire()
        last.inherited = None
    if not last or last.inherited is None:
        _servers.append(_Server(inherited))
    return _servers[-1]


def _may_fork(environment):
    """Whether a fork of this process is as good as torch's forks of it. Those use one thread: where this
    process has used several, a fork of it that does hangs, since OpenMP's threads are not there.
    """
    torch = sys.modules.get("torch")
    return (
        torch is not None
        and all(environment[name] == "1" for name in THREAD_VARIABLES)
        and multiprocessing.get_start_method(allow_none=True) in (None, "fork")
        and threading.active_count() == 1
        and threading.current_thread() is threading.main_thread()
        and not any(name in sys.modules for name in NEVER_FORKED)
        and not torch.cuda.is_initialized()
    )


def may_fork():
    """Whether fork_for() forks this process."""
    return _may_fork(_environment())


def fork_for(modules, now=False):
    """Makes workers with torch start at once: forks this process, unless it is not safe, or a server has
    imported these modules. The caller has imported what the workers need. now: forks in any case, so that
    workers have the state that modules have now; a server imports them after import_now().
    """
    try:
        with _lock:
            inherited = _inherited() if now else None
            if now and _may_fork(dict(inherited[1])):
                _make_fork(_ForkedServer(inherited, None))
                return
            server = _current()
            known = _fork in _servers and (_fork.waits or _fork.beside is server)
            ready = server.imported.issuperset(modules) and not server.busy()
            if not known and not ready and _may_fork(dict(server.inherited[1])):
                _make_fork(_ForkedServer(server.inherited, server))
            server.imports(modules)
    except OSError:
        pass


def _make_fork(made):
    """The caller holds _lock."""
    global _fork
    _servers.insert(0, made)
    if _fork is not None:
        _fork.retire()
    _fork = made


def import_now(modules):
    """What fork_for(now=True) has put off: all workers that need its fork have started."""
    if _fork is not None and _fork.waits:
        _fork.waits = False
        warm_up(modules)


def _server_for(modules):
    """The server that starts a worker with these modules. The caller holds _lock."""
    global _fork
    if _fork is not None and _fork not in _servers:
        _fork = None  # it has ended
    of_fork = _fork is not None and bool(OF_TORCH.intersection(modules))
    if of_fork and _fork.waits and _fork.inherited == _inherited():
        return _fork
    server = _current()
    server.imports(modules)
    if _fork is not None and (_fork.inherited != server.inherited or not (_fork.waits or server.busy())):
        _fork.retire()
        _fork = None
        of_fork = False
    return _fork if of_fork else server


def warm_up(modules=()):
    """Starts a server in the background, for workers that will be needed soon and use these libraries."""
    try:
        with _lock:
            _current().imports(modules)
    except OSError:
        pass  # the start of a worker reports it


def start(worker_socket, devices, modules=(), serves=""):
    """A Process that serves calls at the other end of `worker_socket`; devices: its GPUs, or none for all;
    modules: libraries that it imports in any case; serves: a module whose serve() it runs, instead of
    functions.
    """
    cuda = ",".join(devices) if devices else os.environ.get(DEVICES)
    read_output, output = os.pipe()
    read_end, end = os.pipe()
    folder = -1
    try:
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY)
        pid = _worker(modules, cuda, serves, worker_socket.fileno(), output, end, folder)
    except BaseException:
        os.close(read_output)
        os.close(read_end)
        raise
    finally:
        os.close(output)
        os.close(end)
        if folder >= 0:
            os.close(folder)
    os.set_blocking(read_output, False)
    os.set_blocking(read_end, False)
    return Process(pid, open(read_output, "rb", buffering=0), open(read_end, "rb", buffering=0))


def _worker(modules, cuda, serves, *descriptors):
    with _lock:
        for last in (False, True):
            server = _server_for(modules)
            try:
                pid = server.worker(cuda, serves, *descriptors)
                break
            except EOFError:  # the server has ended, perhaps because it was idle
                code = server.process.wait()
                _servers.remove(server)
                text = server.said().strip()
                server.close()
                if last:
                    raise RuntimeError(
                        f"cannot start a worker process: the fork server ended with code {code}: {text}"
                    ) from None
        if text := server.said():
            _print(text)
        return pid


def _print(text):
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except Exception:
        pass  # stderr is missing or cannot be written


def end():
    """Ends the servers, at the exit of this process, after all pools have closed."""
    if not _lock.acquire(timeout=1):
        return  # a server is starting; it will notice that this process has ended
    try:
        for server in _servers:
            server.process.kill()
            server.process.wait()
            server.close()
        _servers.clear()
    finally:
        _lock.release()
