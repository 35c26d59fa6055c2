"""The process of one configuration: `python -m headrace.tune.child FD`.

A pickled request comes on standard input; messages (lines of JSON) go to descriptor FD. Prints of the user's
code go to the log of the configuration.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
import traceback
from dataclasses import asdict
from typing import Any

from headrace import _core
from headrace.tune.configurations import Configuration


def main(fd: int, parent: int) -> int:
    request = pickle.load(sys.stdin.buffer)
    sys.path[:] = request["path"]
    sys.argv = [request["target"][0] or "headrace.tune"]
    if not _core.die_with_parent(parent):
        return 1

    def send(message: dict[str, Any]) -> None:
        data = (json.dumps(message) + "\n").encode()
        while data:
            data = data[os.write(fd, data) :]

    try:
        _run(request, send)
    except BaseException as e:
        traceback.print_exc()
        notes = sum(len(str(note).split("\n")) for note in getattr(e, "__notes__", ()))
        line = " ".join(traceback.format_exception_only(e)[-1 - notes].split())
        send({"event": "error", "text": line[:500], "time": time.monotonic()})
        return 1
    return 0


def _run(request, send):
    from headrace.tune.loop import Loop, step_of
    from headrace.tune.targets import Loaders, function_of

    begin = time.monotonic()
    target = function_of(request, "target")
    function = function_of(request, "step") if request["step"] else None
    send({"event": "loaded", "seconds": time.monotonic() - begin})
    loaders = Loaders(target, request["batches"], request["batch_size"], request["shuffle"])
    step = step_of(function, request["step_s"])
    loop = Loop(step, request["epochs"], request["batches"], request["seconds"], send)
    if request["look"]:
        described, loader = loaders.describe()
        send({"event": "target", "target": asdict(described)})
        if request["measure_step"]:
            loop.batches = 10
            loop.epochs = 1
            loop.run(lambda: (loader, False), keep=True)
            loop.replay()
        return
    configuration = Configuration(**request["configuration"])
    loop.run(lambda: loaders.make(configuration), keep=request["replay"])
    if request["replay"]:
        loop.replay()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
