"""Libraries that the fork server imports, so that new workers have them.

The driver knows some of them (BATCHES) and sends an import request to the server. Others come from workers: a
worker reports the libraries that its function imported. The server first imports these in a fork of its own,
the trial. It does not import a library that starts threads, fails or does not return there, because a process
with threads cannot fork safely. Only installed libraries and the standard library count: modules of the user
may have state, and their files may change.

    worker  -> server   lines "module TAB file", at most PIPE_BUF bytes a write, so that each arrives whole
    trial   -> server   a byte when the imports have succeeded without a new thread
"""

import importlib
import importlib.util
import os
import select
import sys
import sysconfig

PIPE_BUF = select.PIPE_BUF
TRIAL_SECONDS = 60  # that a trial may take
TRIAL_NAME = "import trial"  # of its process


# What batches of a format need. pyarrow's only thread is jemalloc's: jemalloc starts it again after a fork.
BATCHES = {"pandas": ("pandas",), "pyarrow": ("pyarrow",)}
HARMLESS = "jemalloc_bg_thd"
SLOW = ("torch",)  # take seconds to import, and start no thread


def imports_of(pickled):
    """The slow libraries that a function needs: those that its pickled form names, and that this process has
    imported. The fork server imports them once; else each of its first workers would.
    """
    return tuple(name for name in SLOW if name in sys.modules and name.encode() in pickled)


def n_threads():
    """The threads of this process that a fork would lose."""
    n = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            n += file.read().strip() != HARMLESS
    return n


# ---------------------------------------------------------------------------------------------- in a worker


class Reporter:
    """Reports modules to the server through the pipe `fd`. Made right after the fork."""

    def __init__(self, fd):
        self.fd = fd
        self.known = set(sys.modules)
        self.n = len(sys.modules)

    def report(self):
        """Reports the libraries that were imported since the last call."""
        if len(sys.modules) == self.n:
            return
        self.n = len(sys.modules)
        new = [name for name in list(sys.modules) if name not in self.known]
        self.known.update(new)
        text = b""
        for name in new:
            line = f"{name}\t{_library_file(sys.modules.get(name), name) or ''}\n".encode()
            if line.endswith(b"\t\n") or len(line) > PIPE_BUF:
                continue
            if len(text) + len(line) > PIPE_BUF:
                if not self._write(text):
                    return
                text = b""
            text += line
        if text:
            self._write(text)

    def _write(self, text):
        try:
            return os.write(self.fd, text) == len(text)
        except OSError:
            return False  # the pipe is full, or the server has ended: the next workers import again


def _library_file(module, name):
    """The file of an installed module of that name; None for modules of the user and for names without a
    module."""
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    if getattr(spec, "name", None) != name or not isinstance(origin, str):
        return None
    return origin if origin.startswith(_LIBRARIES) and "\n" not in origin else None


_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


# ---------------------------------------------------------------------------------------------- in the server


class Learner:
    """The server's side: reads reports, tries the imports in a fork, and imports."""

    def __init__(self):
        self.reports, self.write = os.pipe()
        os.set_blocking(self.reports, False)
        os.set_blocking(self.write, False)
        self.wanted = {}  # module -> file
        self.tried = set()
        self.trial = None  # (process id, the pipe on which it succeeds, its modules)

    def files(self):
        """Descriptors to wait for."""
        return [self.reports] if self.trial is None else [self.reports, self.trial[1]]

    def ready(self, files, fork):
        """Handles the descriptors that are ready. True after imports. fork: makes the trial."""
        if self.reports in files:
            self._read()
        imported = False
        if self.trial is not None and self.trial[1] in files:
            imported = self._end_trial()
        if self.trial is None and self.wanted:
            self._begin_trial(fork)
        return imported

    def _read(self):
        try:
            text = os.read(self.reports, 1 << 16)
        except BlockingIOError:
            return
        for line in text.decode(errors="replace").splitlines():
            name, _, file = line.partition("\t")
            if name not in sys.modules and name not in self.tried:
                self.wanted[name] = file

    def _begin_trial(self, fork):
        leave_a_removed_folder()
        modules, self.wanted = self.wanted, {}
        self.tried.update(modules)
        succeeded, write = os.pipe()
        try:
            pid = fork()
        except OSError:
            os.close(succeeded)
            os.close(write)
            return
        if pid == 0:
            _try(modules, write)
        os.close(write)
        self.trial = pid, succeeded, modules

    def _end_trial(self):
        pid, succeeded, modules = self.trial
        self.trial = None
        leave_a_removed_folder()
        good = os.read(succeeded, 1) == b"\1"
        os.close(succeeded)
        os.waitpid(pid, 0)
        if good:
            _import_all(modules)
        return good

    def close(self):
        """In a worker: closes all but the end that reports."""
        os.close(self.reports)
        if self.trial is not None:
            os.close(self.trial[1])


def leave_a_removed_folder():
    """Libraries need a folder that exists. MKL ends a process that has none when torch is imported."""
    try:
        os.getcwd()
    except FileNotFoundError:
        os.chdir("/")


def _try(modules, fd):
    """In the trial: imports and ends."""
    import signal

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(TRIAL_SECONDS)
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(TRIAL_NAME)
        before = n_threads()
        _import_all(modules)
        if n_threads() == before:
            os.write(fd, b"\1")
    finally:
        os._exit(0)


def _import_all(modules):
    """Imports each module that is still found at its file; leaves out those that fail."""
    for name, file in modules.items():
        parent = name.rpartition(".")[0]
        if name in sys.modules or (parent and parent not in sys.modules):
            continue
        try:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin == file:
                importlib.import_module(name)
        except BaseException:  # some modules raise SystemExit; workers that import them see the error
            pass
