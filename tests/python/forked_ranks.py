"""Starts the ranks of PyTorch's elastic agent as forks of a process that has imported torch.

The agent starts each rank as a fresh interpreter, which spends two seconds of a core on imports. Inside
ranks_of(server) it forks them instead: each is a child of this process and leads a session, with the
command's arguments, environment, folder and output. Its command line in /proc is the server's, and libraries
have been imported. The tests of one process share a server, the fixture rank_server; Server.more() forks one
that imports further modules. Programs that start the agent themselves (test_train.py, test_launchers.py) get
real ranks.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37
MESSAGE_BYTES = 200_000
MODULES = ("torch.distributed.elastic.multiprocessing.errors", "headrace.train.torch", "numpy.random")
MODULES += ("torch._dynamo",)  # an optimizer's first step imports it


class Rank:
    """Those parts of subprocess.Popen that the agent uses."""

    started: list["Rank"] = []

    def __init__(self, server, args, env, stdout, stderr, drives=False):
        self.args, self.returncode = args, None
        files = [stdout.fileno() if stdout else 1, stderr.fileno() if stderr else 2]
        self.pid = server.fork(args, env, files, drives)
        Rank.started.append(self)

    def is_alive(self):
        """Whether the process runs; says so of one that nobody waits for, too."""
        if self.returncode is not None:
            return False
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def poll(self):
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=None):
        until = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.005)
        return self.returncode


class Server:
    """The socket to a process that forks on request, and that process's id."""

    def __init__(self, requests, pid):
        self.socket, self.pid, self.lock = requests, pid, threading.Lock()

    @classmethod
    def of(cls):
        """A server that has imported MODULES."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            fd = theirs.fileno()
            command = [sys.executable, __file__, str(fd), *MODULES]
            null = subprocess.DEVNULL
            process = subprocess.Popen(command, pass_fds=[fd], stdin=null, stdout=null)
        process.returncode = 0  # close() waits for it, and nobody else
        return cls(mine, process.pid)

    def more(self, *modules):
        """A fork of this server that imports modules."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, adopting():  # a child of this process, as its forks are to be
            return Server(mine, self._ask({"modules": modules}, [theirs.fileno(), 2]))

    def fork(self, args, env, files, drives):
        """The id of a new process."""
        return self._ask({"args": args, "env": env, "cwd": os.getcwd(), "drives": drives}, files)

    def _ask(self, request, files):
        message = pickle.dumps(request)
        with self.lock:
            socket.send_fds(self.socket, [message], files)
            return int(self.socket.recv(100))

    def start(self, args, env, stdout, stderr):
        """A program whose ranks are forks of it; args: what follows the interpreter in a command."""
        return Rank(self, list(map(str, args)), dict(env), stdout, stderr, drives=True)

    def run(self, args, folder, timeout):
        """What a program printed, after its end with status 0; `folder` keeps its output and its errors."""
        output, errors = Path(folder, "output"), Path(folder, "errors")
        with adopting(), open(output, "w") as out, open(errors, "w") as err:
            status = self.start(args, os.environ, out, err).wait(timeout)
        assert status == 0, output.read_text() + errors.read_text()
        return output.read_text()

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)  # also where a fork of this process holds it
        self.socket.close()
        os.waitpid(self.pid, 0)


@contextlib.contextmanager
def adopting():
    """In this block, forks of forks become this process's children when their parent ends."""
    prctl, before = ctypes.CDLL(None).prctl, ctypes.c_int()
    prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, before.value)


@contextlib.contextmanager
def ranks_of(server):
    """In this block, ranks of this process's agents are forks of the server."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    real = subprocess_handler.Popen

    def popen(args, env, stdout, stderr, start_new_session):
        assert args[0] == sys.executable and start_new_session
        return Rank(server, args[1:], env, stdout, stderr)

    subprocess_handler.Popen = popen
    try:
        with adopting():
            yield
    finally:
        subprocess_handler.Popen = real


# ------------------------------------------------------------ the server


def serve(fd):
    """Forks for each request. Returns the request in each fork, and None at the end of the tests."""
    requests = socket.socket(fileno=fd)
    while True:
        message, files, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 2)
        if not message:
            return None
        between = os.fork()
        if between == 0:
            between = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == between:  # the tests wait for their child
                time.sleep(0.0005)
            os.setsid()
            for target, source in enumerate(files, 1):
                os.dup2(source, target)
            requests.send(b"%d" % os.getpid())
            requests.close()
            for fd in files:
                os.close(fd)
            return pickle.loads(message)
        os.waitpid(between, 0)
        for fd in files:
            os.close(fd)


def become(request):
    """Makes this process what a fresh interpreter with the command's options is; returns its program."""
    import numpy as np
    import torch

    args = list(request["args"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    np.random.seed()
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if args[0] == "-u":
        args.pop(0)
        sys.stdout.reconfigure(write_through=True)
    if args[0] == "-m":
        sys.argv[:] = args[1:]
        sys.path[0] = os.getcwd()
        return lambda: runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.argv[:] = args
    sys.path[0] = os.path.dirname(os.path.abspath(args[0]))
    return lambda: runpy.run_path(args[0], run_name="__main__")


def load(modules):
    for name in modules:
        importlib.import_module(name)
    assert threading.active_count() == 1
    gc.freeze()  # keeps collections in forks from writing to the pages they share


def main(requests):
    request, server = serve(requests), None
    while request and "modules" in request:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fd = os.dup(1)
        with open(os.devnull, "w") as null:
            os.dup2(null.fileno(), 1)
        load(request["modules"])
        request = serve(fd)
    if request and request["drives"]:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if pid := os.fork():
            theirs.close()
            server = Server(mine, pid)
        else:
            mine.close()
            request = serve(theirs.detach())
    if request:
        program = become(request)
        with contextlib.nullcontext() if server is None else ranks_of(server):
            program()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load(sys.argv[2:])
    main(int(sys.argv[1]))
