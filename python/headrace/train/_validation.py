"""One validation of a checkpoint: `python -m headrace.train._validation SOCKET DRIVER`, started by
validation.py.

It reads the function and its arguments from the socket, and writes (metrics, "") or (None, traceback). It
dies with the driver.

Tests: tests/python/test_train_validation.py
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from multiprocessing.connection import Connection

from headrace.train._worker import die_with


def outcome(payload: dict) -> bytes:
    from headrace import places
    from headrace.train.validation import called
    from headrace.udf import sending

    places.use(payload["storage_options"])
    try:
        metrics = called(*pickle.loads(payload["call"]))
        data = sending.dumps((metrics, ""))
        pickle.loads(data)
        return data
    except BaseException as e:
        tb = e.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename.startswith(os.path.dirname(__file__)):
            tb = tb.tb_next
        text = "".join(traceback.format_exception(type(e), e, tb or e.__traceback__))
        return pickle.dumps((None, text))


def main() -> None:
    die_with(int(sys.argv[2]))
    conn = Connection(int(sys.argv[1]))
    payload = pickle.loads(conn.recv_bytes())
    os.chdir(payload["cwd"])
    sys.path[:] = payload["sys_path"]
    sys.argv[:] = payload["argv"]
    sys.stdout.reconfigure(line_buffering=True)
    data = outcome(payload)
    sys.stdout.flush()
    sys.stderr.flush()
    conn.send_bytes(data)
    os._exit(0)  # does not wait for threads of the function


if __name__ == "__main__":
    main()
