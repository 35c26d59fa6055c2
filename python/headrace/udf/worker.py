"""python -m headrace.udf.worker FD PARENT: a process that runs one user function for one driver.

It ends when the driver says so, closes the socket, or dies (the kernel kills it then), whichever comes
first.
"""

import os
import signal
import sys


def main():
    fd, parent = int(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's
    from headrace import _core

    if not _core.die_with_parent(parent):
        return
    import numpy  # noqa: F401 - while the driver still prepares the function

    worker = _core.Worker(fd)
    try:
        serve(worker)
    except (_core.PeerError, _core.CancelledError):
        pass  # the driver is gone or has closed the run


def load(init):
    """The Runner that the init bytes describe."""
    import pickle

    head = pickle.loads(init)
    sys.path[:] = head["sys_path"]
    for name, value in head["environment"].items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    from headrace.udf.call import Runner

    return Runner(pickle.loads(head["spec"]))


def serve(worker):
    from headrace.udf import errors

    init = worker.init()
    broken = runner = None
    try:
        runner = load(init)
    except BaseException as e:  # told to whoever calls
        broken = errors.pack(e)
    from headrace.udf.call import seed

    while True:
        call = worker.next()
        if call is None:
            return
        table, place = call
        del call
        if broken:
            worker.fail(*broken)
            continue
        try:
            seed(place)
            for made in runner(table, worker.build):
                worker.result(made)
                del made
        except BaseException as e:
            packed = errors.pack(e)
            del e, table
            worker.fail(*packed)
        else:
            del table
            worker.done()


if __name__ == "__main__":
    main()
