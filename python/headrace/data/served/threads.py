"""The threads that answer the engine's requests for filesystems: one waits always while there is such a
filesystem, and there are at most MOST.

A thread that takes a request starts another one when no thread waits: so a request never waits for the end of
another one, up to MOST of them.
"""

import os
import threading

from headrace import _core
from headrace.data.served.requests import Server

MOST = 32
IDLE_S = 10.0  # a thread that is not the only one ends after this time without requests
FOREVER_S = 1e6


class _Threads:
    def __init__(self):
        self.lock = threading.Lock()
        self.n = self.n_waiting = 0
        self.servers = {}  # number of the filesystem -> Server

    def start(self):
        """The caller has the lock."""
        self.n += 1
        self.n_waiting += 1
        try:
            threading.Thread(target=self.work, name="headrace-filesystem", daemon=True).start()
        except BaseException:
            self.n -= 1
            self.n_waiting -= 1
            if not self.n:
                raise

    def work(self):
        while True:
            with self.lock:
                only = self.n_waiting == 1 and bool(self.servers)
            found = _core.served_take(FOREVER_S if only else IDLE_S)
            if found is None:
                if self._ends():
                    return
            elif isinstance(found, int):
                self._forget(found)
            else:
                self._answer(found)
                del found  # the bytes of a part

    def _ends(self):
        with self.lock:
            for server in self.servers.values():
                server.adapter.close_idle()
            if self.n_waiting == 1 and self.servers:
                return False
            self.n -= 1
            self.n_waiting -= 1
            return True

    def _forget(self, number):
        with self.lock:
            server = self.servers.pop(number, None)
        if server is not None:
            server.close()

    def _answer(self, found):
        with self.lock:
            self.n_waiting -= 1
            server = self.servers.get(found[1])
            if self.n_waiting == 0 and self.n < MOST:
                self.start()
        try:
            if server is None:
                _core.served_refuse(found[0], "invalid", "the filesystem has gone", None)
            else:
                server.answer(*found)
        finally:
            with self.lock:
                self.n_waiting += 1


_threads = _Threads()


def serve(adapter):
    """Begins to serve the filesystem; returns its number. Its threads are those of the process."""
    number = _core.served_new()
    with _threads.lock:
        _threads.servers[number] = Server(adapter)
        if _threads.n_waiting == 0:
            _threads.start()
    return number


def _after_fork():
    """A child has none of the parent's threads. Its filesystems are those of the parent, as far as they
    survive forks.
    """
    global _threads
    servers, _threads = _threads.servers, _Threads()
    for server in servers.values():
        server.after_fork()
    _threads.servers = servers
    if servers:
        with _threads.lock:
            _threads.start()


os.register_at_fork(after_in_child=_after_fork)
