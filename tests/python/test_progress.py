"""The progress line: on a terminal, after a second, and gone at the end."""

import os
import pty
import sys
import textwrap

from headrace.data import progress

SLOW = """
    import time
    import headrace.data as hd
    from headrace.data import progress

    def wait(batch):
        time.sleep(0.4)
        return batch

    progress.FIRST_S = {first}
    hd.DataContext.get_current().enable_progress_bars = {on}
    ds = hd.range({rows}).map_batches(wait, batch_size=100, compute="threads", concurrency=1)
    {call}
    print("done")
"""


def on_a_terminal(tmp_path, first=progress.FIRST_S, **how):
    """The output of the script on a terminal. first: seconds until there is a line."""
    script = tmp_path / "slow.py"
    script.write_text(textwrap.dedent(SLOW.format(first=first, **how)))
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, str(script)])
    out = b""
    while True:
        try:
            more = os.read(fd, 4096)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        out += more
    assert os.waitpid(pid, 0)[1] == 0, out.decode()
    return out.decode()


def test_a_long_call_says_how_far_it_is(tmp_path):
    out = on_a_terminal(tmp_path, on=True, rows=800, call="ds.materialize()")
    assert " rows, " in out and "rows/s" in out
    assert out.endswith("\r\x1b[Kdone\r\n")


def test_a_short_call_says_nothing(tmp_path):
    assert progress.FIRST_S == 1.0  # and a minute where the machine may be busy
    assert on_a_terminal(tmp_path, first=60, on=True, rows=100, call="ds.materialize()") == "done\r\n"


def test_it_can_be_switched_off(tmp_path):
    assert on_a_terminal(tmp_path, on=False, rows=800, call="ds.count()") == "done\r\n"


def test_what_the_program_prints_stands_above(tmp_path):
    call = "import threading; threading.Timer(2.0, print, ['above']).start(); ds.materialize()"
    out = on_a_terminal(tmp_path, on=True, rows=800, call=call)
    assert "\r\x1b[Kabove" in out and out.endswith("\r\x1b[Kdone\r\n")
