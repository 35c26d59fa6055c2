"""The fork server: a process that has imported what workers need, and forks itself to make them.

The driver (starter.py) starts `python -m headrace.udf.worker`, which calls serve(). For each worker the
driver sends the worker's descriptors, and the server answers with the process id. The server never runs
users' code and has no threads, so a fork of it is as good as a fresh interpreter. It imports the libraries
that earlier workers imported (preload.py). It ends when it has had no workers for a while. When the driver
ends or is killed, the server kills its workers and ends; if the server dies, the kernel kills its workers.

An import of torch takes seconds. Where the driver has imported it, forked() makes a fork of the driver a
server, for the workers that are needed until another server has imported it, too (starter.fork_for()).

    driver -> "import pandas"                                    imports a library, for the next workers
    driver -> "worker" + [socket, output, end, folder]          requests a worker
           -> "worker sees 0,1" + ...                           requests one with that CUDA_VISIBLE_DEVICES
           -> "for MODULE worker" + ...                         requests one that runs MODULE.serve(socket)
           <- its process id as text, or -errno
           -> "end"                                             the server ends when its workers have ended
    end    <- a worker's status as waitpid gives it, four bytes, when the worker has ended
"""

import atexit
import gc
import importlib
import io
import os
import select
import signal
import socket
import stat
import sys
import threading
import time

from headrace.udf.preload import Learner, Reporter, leave_a_removed_folder

WORKER, SEES, FOR, IMPORT, END = b"worker", b"worker sees ", b"for ", b"import ", b"end"
STATUS_BYTES = 4
MESSAGE_BYTES = 4096
DEVICES = "CUDA_VISIBLE_DEVICES"
LOOK = 0.2  # seconds between checks of the driver, if the kernel cannot report its end


def serve(fd, driver, idle):
    """Returns (its socket's descriptor, the server's process id, its Reporter, the module that serves it or
    "") in each worker, and None in the server at its end.
    """
    server = _Server(fd, driver, idle)
    gc.disable()
    _import()
    gc.freeze()  # keeps collections in workers from writing to the pages they share
    gc.enable()
    return server.run()


def forked(sock, driver, idle, environment, output, live):
    """The life of a fork of the driver as a server; does not return. live: worker.live()."""

    def serve():
        _forget_driver(sock, environment, output)
        server = _Server(sock.detach(), driver, idle)
        gc.freeze()
        live(server.run())

    end_after(serve)


def end_after(life):
    """Calls life() and ends this process with its exit code, after what users' code registered in `atexit`
    and left in buffers of files. Python's own end would clear each module, and so copy each page that a fork
    shares: 0.1 s with pandas.
    """
    code = 1
    try:
        life()
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:  # no `finally` block of a driver whose fork this is runs here
        try:
            threading._shutdown()  # waits for threads, as each process does
            atexit._run_exitfuncs()
        finally:
            _flush()
            os._exit(code)


def _flush():
    """Writes what open files hold; those of the server, or of the driver that it is a fork of, are frozen."""
    opened = [one for one in gc.get_objects() if issubclass(type(one), io.IOBase)]
    for file in (*opened, sys.stdout, sys.stderr):
        try:
            file.flush()
        except Exception:
            pass  # it is closed, or cannot be written


def _forget_driver(sock, environment, output):
    """Ends what the fork does with the driver's pipes, sockets, signals, tracers and functions at exit."""
    os.setpgid(0, 0)
    atexit._clear()
    sys.settrace(None)
    sys.setprofile(None)
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    os.dup2(output, 2)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)  # who reads at the other end waits for the driver's end of it, not for this one
        if fd > 2 and fd not in (sock.fileno(), nothing) and _is_pipe(fd):
            os.dup2(nothing, fd, inheritable=False)
    sys.stdin, sys.stdout, sys.stderr = open(0), _unbuffered(1), _unbuffered(2)
    os.environ.clear()
    os.environ.update(environment)
    sys.modules["torch"].set_num_threads(1)  # see starter._may_fork()


def _unbuffered(fd):
    return io.TextIOWrapper(open(fd, "wb", 0), "utf-8", "backslashreplace", write_through=True)


def _is_pipe(fd):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False  # it listed the folder
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _import():
    """Imports what every worker needs."""
    import cloudpickle  # noqa: F401
    import numpy.random  # noqa: F401

    import headrace.data.convert
    import headrace.udf.call
    import headrace.udf.errors  # noqa: F401


class _Server:
    def __init__(self, fd, driver, idle):
        self.socket = socket.socket(fileno=fd)
        os.set_inheritable(fd, False)
        self.process = os.getpid()
        self.driver = driver
        self.idle = idle
        self.retired = False
        self.children = {}  # process id -> descriptor for its status
        self.learner = Learner()
        self.read, self.write = os.pipe()  # a byte for each child that has ended
        os.set_blocking(self.read, False)
        os.set_blocking(self.write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.write, warn_on_full_buffer=False)
        try:
            self.pidfd = os.pidfd_open(driver)  # readable when the driver has ended
        except OSError:
            self.pidfd = None

    def run(self):
        self.used = time.monotonic()
        while True:
            ready = self._wait()
            if os.getppid() != self.driver or self.pidfd in ready:
                self._kill()
            self._reap()
            if self.socket in ready and (worker := self._request()) is not None:
                return worker, self.process, Reporter(self.learner.write), self.serves
            self._learn(ready)
            if not self.children and (self.retired or not ready and self._idles()):
                return None

    def _idles(self):
        return time.monotonic() > self.used + self.idle

    def _wait(self):
        seconds = LOOK if self.pidfd is None else None if self.children else self.idle
        watched = [self.read, None if self.retired else self.socket, self.pidfd]
        watched += [] if self.retired else self.learner.files()
        poll = select.poll()  # select() knows no descriptors from 1024 on
        for f in watched:
            if f is not None:
                poll.register(f, select.POLLIN)
        found = {fd for fd, _ in poll.poll(None if seconds is None else 1000 * seconds)}
        return [f for f in watched if f is not None and (f if isinstance(f, int) else f.fileno()) in found]

    def _import(self, name):
        leave_a_removed_folder()
        try:
            importlib.import_module(name)
        except BaseException:
            pass  # the function that needs it reports the error
        gc.freeze()

    def _learn(self, ready):
        if not self.retired and self.learner.ready(ready, self._fork_trial):
            gc.freeze()

    def _fork_trial(self):
        pid = _fork()
        if pid == 0:
            self._leave()
        return pid

    def _reap(self):
        try:
            while os.read(self.read, 4096):
                pass
        except BlockingIOError:
            pass
        for pid in list(self.children):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self.used = time.monotonic()
                end = self.children.pop(pid)
                try:
                    os.write(end, status.to_bytes(STATUS_BYTES, sys.byteorder))
                except BrokenPipeError:
                    pass  # the driver has closed its end
                os.close(end)

    def _kill(self):
        """Kills all workers and ends: the driver has ended."""
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        raise SystemExit(0)

    def _request(self):
        """The worker's socket descriptor in a new worker; None in the server."""
        request, given, _, _ = socket.recv_fds(self.socket, MESSAGE_BYTES, 4)
        if not request:
            self._kill()
        if request == END:
            self.retired = True
            return None
        if request.startswith(IMPORT):
            self._import(request.removeprefix(IMPORT).decode())
            return None
        self.serves = ""
        if request.startswith(FOR):
            name, _, request = request.removeprefix(FOR).partition(b" ")
            self.serves = name.decode()
        worker, output, end, folder = given
        try:
            pid = _fork()
        except OSError as e:
            answer = -e.errno
            os.close(end)
        else:
            if pid == 0:
                self._leave()
                _become_worker(request, *given)
                return worker
            answer = pid
            self.children[pid] = end
        for fd in (worker, output, folder):
            os.close(fd)
        try:
            self.socket.send(b"%d" % answer)
        except BrokenPipeError:
            self._kill()
        return None

    def _leave(self):
        """In a child: closes what belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.socket.close()
        self.learner.close()
        for fd in (self.read, self.write, self.pidfd, *self.children.values()):
            if fd is not None:
                os.close(fd)


def _fork():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads: there are none, except numpy's, which survive a fork
        return os.fork()


def _become_worker(request, worker, output, end, folder):
    os.setpgid(0, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.fchdir(folder)
    for fd in (output, end, folder):
        os.close(fd)
    os.set_inheritable(worker, False)
    if request.startswith(SEES):
        os.environ[DEVICES] = os.fsdecode(request.removeprefix(SEES))
    sys.modules["numpy"].random.seed()  # a different state in each worker
