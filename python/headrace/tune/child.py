"""The process of one configuration: `python -m headrace.tune.child FD`.

A pickled request comes on standard input; messages (lines of JSON) go to descriptor FD. Prints of the user's
code go to the log of the configuration.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import sys
import time
import traceback
from dataclasses import asdict
from typing import Any

from headrace import _core
from headrace.exceptions import HeadraceError
from headrace.tune import targets
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
        frames = _frames_of_user(e)
        text = line_of(e, frames)
        if frames is None and not isinstance(e, SyntaxError):
            print(text, file=sys.stderr)
        else:
            traceback.print_exception(type(e), e, frames)
        send({"event": "error", "text": text[:500], "time": time.monotonic()})
        return 1
    return 0


def _frames_of_user(error):
    """The traceback from the first frame of the user's code on. None: the text alone says what is wrong."""
    frames, by = error.__traceback__, ""
    while frames and _is_ours(frames.tb_frame.f_code.co_filename):
        frames, by = frames.tb_next, frames.tb_frame.f_code.co_name
    expected = isinstance(error, (HeadraceError, ImportError, SyntaxError))
    if frames is None and not expected and by != targets.called.__name__:  # which calls make_loader
        return error.__traceback__  # a mistake of ours
    return frames


def _is_ours(file):
    ours = os.path.dirname(file) == os.path.dirname(__file__)
    return ours or file == importlib.__file__ or file.startswith("<frozen ")


def line_of(error: BaseException, frames: Any) -> str:
    """The error as one line that a terminal may show. Of an error in a worker of torch its last lines, which
    the error itself has below the worker's traceback.
    """
    notes = sum(len(str(note).split("\n")) for note in getattr(error, "__notes__", ()))
    text = traceback.format_exception_only(error)[-1 - notes].rstrip()
    if "Original Traceback (most recent call last)" in text:
        lines = text.split("\n")
        indented = [i for i, line in enumerate(lines) if line.startswith(" ")]
        text = "in a worker: " + " ".join(lines[indented[-1] + 1 :] if indented else lines)
    elif isinstance(error, HeadraceError):
        text = str(error) if frames is None else f"{type(error).__name__}: {error}"
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


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
