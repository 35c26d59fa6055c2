"""The progress bar: on a terminal, after a second, and gone at the end."""

import json
import os
import pty
import re
import subprocess
import sys
import textwrap
import threading
import types

import pytest

import headrace.data as hd
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
        os.chdir(tmp_path)
        os.execve(sys.executable, [sys.executable, str(script)], os.environ | {"COLUMNS": "200"})
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


BAR = r"\r([\w ]+): +(\d+)%\|[^|]*\| [\d:]+<[\d:?]+, ([\d,]+)(?: of ([\d,]+))? rows"


def bars(out):
    """(title, per cent, rows, total or "") of each bar."""
    return [
        (title, int(part), int(n.replace(",", "")), total) for title, part, n, total in re.findall(BAR, out)
    ]


@pytest.mark.parametrize(
    "title, call", [("materialize", "ds.materialize()"), ("write_csv", "ds.write_csv('out')")]
)
def test_a_long_call_says_how_far_it_is(tmp_path, title, call):
    out = on_a_terminal(tmp_path, on=True, rows=800, call=call)
    found = bars(out)
    assert found and {f[0] for f in found} == {title}
    assert "rows/s" in out and "slowest: map_batches(wait)" in out
    done = [f[1] for f in found]
    assert done == sorted(done) and 0 < done[0] < 100  # one fragment, all of it read at once
    assert all(abs(part - n / 8) < 26 for _, part, n, _ in found)
    assert out.endswith("\rdone\r\n")  # the bar is taken away


def test_a_limit_after_a_function(tmp_path):
    """The story: 0 % until the end, since the limit leaves most of the input unread."""
    out = on_a_terminal(tmp_path, on=True, rows=1_000_000, call="ds.limit(800).materialize()")
    found = bars(out)
    assert found and found[-1][1] >= 50, out
    assert all(abs(part - n / 8) < 26 for _, part, n, _ in found if n), found


@pytest.mark.parametrize("call", ["ds.sum('id')", "ds.unique('id')"])
def test_aggregates_have_their_own_title(tmp_path, call):
    """It was "take"."""
    found = bars(on_a_terminal(tmp_path, on=True, rows=800, call=call))
    assert {f[0] for f in found} == {call[3:].partition("(")[0]}


def test_narrow_terminals():
    """The story: the line was cut in the middle of the time that is left."""
    text = "1,234 of 5,000 rows, 567 rows/s, slowest: map(f), 1.0 MB"
    whole = progress._fitted("materialize", text, 30.0, 0.5, 200)
    assert whole == (progress.BAR, text)
    sizes = {
        width: progress._fitted("materialize", text, 30.0, 0.5, width)
        for width in (100, 80, 60, 50, 40, 30, 20)
    }
    for width, (form, left) in sizes.items():
        times = len(" 00:30<00:30") if "elapsed" in form else 0
        line = len("materialize: 100%") + times + len("|" + 12 * "#" + "|") * ("bar" in form)
        assert line + len(f", {left}" if left else "") <= width and text.startswith(left)
    assert sizes[80][1].startswith("1,234 of 5,000 rows, 567 rows/s") and "remaining" in sizes[80][0]
    assert sizes[50] == (progress.NARROW, "1,234 of 5,000 rows") and sizes[20] == (progress.NARROWEST, "")
    assert progress._fitted("x", "1 rows", 3.0, 0.0, 200) == (progress.BAR, "1 rows")


class Widget:
    """What the bar of a notebook has of tqdm's."""

    def __init__(self, stream, title, form, begin, place):
        self.total, self.n, self.closed_at, self.form = 1.0, 0.0, None, form

    def set_postfix_str(self, text, refresh):
        self.text = text

    def set_description_str(self, text, refresh):
        self.text = text

    def refresh(self, nolock):
        assert self.ncols is None

    def close(self):
        self.closed_at = self.n


def test_a_notebook(monkeypatch):
    """The story: a bar that ended before its total stayed, in red; and its text had a second bar."""
    made = []
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr(progress, "_bar", lambda *args: made.append(Widget(*args)) or made[-1])
    monkeypatch.setattr(progress, "FIRST_S", 0.01)
    seen = threading.Event()
    text = "1,234 of 5,000 rows, 567 rows/s, slowest: map_batches(a_function_with_a_long_name), 1,234.0 MB"

    def look(seconds):
        seen.set()
        return progress.Look(0.3, text, ["  map: 1 rows in"])

    with progress.Progress("materialize", look):
        assert seen.wait(60)
    top, line = made
    assert top.form == top.bar_format == progress.NOTEBOOK and top.text == text
    assert line.form == progress.LINE and [b.closed_at for b in made] == [1.0, 1.0]


def test_in_a_real_notebook():
    """The bars are widgets, and are gone at the end."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel"), pytest.importorskip("ipywidgets")
    notebook = nbformat.v4.new_notebook()
    code = textwrap.dedent(SLOW.format(first=0.1, on=True, rows=800, call="ds.materialize()"))
    notebook.cells = [nbformat.v4.new_code_cell(code)]
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    kinds = [o["output_type"] for o in notebook.cells[0].outputs]
    assert kinds == ["display_data", "stream"], kinds
    state = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    bars = [w["state"] for w in state.values() if w["model_name"] == "FloatProgressModel"]
    assert len(bars) == 1 and bars[0]["bar_style"] == ""
    boxes = [w["state"] for w in state.values() if w["model_name"] == "HBoxModel"]
    assert [state[b["layout"].removeprefix("IPY_MODEL_")]["state"]["visibility"] for b in boxes] == ["hidden"]


def test_a_fit_has_the_total_of_its_rows():
    """The story: 0 % until most rows were taken, since a file is read at once."""
    from headrace.train.progress import training_progress

    class Split:
        rows = [0, 0]

        def stats(self):
            return json.dumps({"epoch": 1, "rows": self.rows, "run": {"done": 0.0}})

    split, ds = Split(), hd.range(1000)
    look = training_progress([split], 2, [ds._node]).look
    split.rows = [100, 150]
    assert look(1.0) == progress.Look(0.25, "epoch 2, 2 workers, 250 of 1,000 rows")
    split.rows = [1000, 1000]  # replicas: each row twice
    assert look(2.0).text.startswith("epoch 2, 2 workers, 2,000 rows") and look(2.0).done == 0
    assert training_progress([split], 2).look(1.0).done == 0


def test_the_total_is_shown_where_it_is_known():
    ds = hd.range(700)
    with ds._run(ds._node) as run:
        look = progress.of_run(run, "take", ds._node).look
        while run.next() is not None:
            pass
        assert "700 of 700 rows" in look(1.0).text and look(1.0).done == 1
        assert "700 rows" in progress.of_run(run, "take").look(1.0).text
    assert look(1.0) is None or look(1.0).done == 1  # closed meanwhile


class FakeRun:
    """Statistics one after the other, each with what differs from a run that has done nothing."""

    def __init__(self, *looks):
        self.looks = list(looks)

    def stats(self):
        plain = {"done": 0.0, "taken_rows": 0, "rows_read": 0, "read_ns": 1, "operators": []}
        return json.dumps(plain | self.looks.pop(0))


def operation(name, rows, **more):
    return {"name": name, "rows_out": rows, "bytes_out": 8 * rows, "busy_ns": 0, "wait_ns": 0} | more


def test_rows_before_a_function_are_not_its_own():
    """The story: "0%, 400,000 rows" before the function had returned once, and later 15,000 rows."""
    cut = operation("rebatch(1000)", 4000)
    run = FakeRun(
        {"rows_read": 4000, "operators": [cut, operation("map_batches(f)", 0, served={})]},
        {"rows_read": 4000, "operators": [cut, operation("map_batches(f)", 15, served={})]},
        {
            "rows_read": 4000,
            "operators": [cut, operation("map_batches(f)", 15, served={}), operation("sort", 0)],
        },
    )
    look = progress.of_run(run, "materialize").look
    assert look(1.0).text.startswith("4,000 rows read")
    assert look(2.0).text.startswith("15 rows, ") and look(3.0).text.startswith("15 rows, ")


def test_rows_that_go_into_a_sort_are_not_the_end():
    """The story: with a known total, all rows before a sort were 100 %, and the first ones after it 1 %."""
    ds = hd.range(400)
    half = {"done": 0.5, "rows_read": 400}
    run = FakeRun(
        half | {"operators": [operation("map", 400), operation("sort", 0)]},
        half | {"operators": [operation("map", 400), operation("sort", 100)], "taken_rows": 100},
        half | {"operators": [operation("map", 400), operation("sort", 400)], "taken_rows": 400},
    )
    look = progress.of_run(run, "materialize", ds._node).look
    assert look(1.0).done == 0.5
    second, third = look(2.0), look(3.0)
    assert second.text.startswith("100 of 400 rows") and second.done == 0.625
    assert third.text.startswith("400 of 400 rows") and third.done == 1


def test_passes_show_it_on_request(tmp_path):
    call = "hd.DataContext.get_current().enable_iteration_progress_bars = {}; [b for b in ds.iter_batches()]"
    assert bars(on_a_terminal(tmp_path, on=True, rows=800, call=call.format(True)))[0][0] == "epoch 1"
    assert on_a_terminal(tmp_path, on=True, rows=400, call=call.format(False)) == "done\r\n"


def test_a_line_for_each_operation(tmp_path):
    call = "hd.DataContext.get_current().execution_options.verbose_progress = True; ds.materialize()"
    out = on_a_terminal(tmp_path, on=True, rows=800, call=call)
    assert re.search(r"map_batches\(wait\): [\d,]+ rows in, [\d,]+ out", out)


def test_a_short_call_says_nothing(tmp_path):
    assert progress.FIRST_S == 1.0  # and a minute where the machine may be busy
    assert on_a_terminal(tmp_path, first=60, on=True, rows=100, call="ds.materialize()") == "done\r\n"


def test_it_can_be_switched_off(tmp_path, monkeypatch):
    assert on_a_terminal(tmp_path, on=False, rows=800, call="ds.count()") == "done\r\n"
    monkeypatch.setenv("HEADRACE_PROGRESS", "off")
    assert on_a_terminal(tmp_path, on=True, rows=800, call="ds.materialize()") == "done\r\n"


def test_what_the_program_prints_stands_above(tmp_path):
    call = "import threading; threading.Timer(2.0, print, ['above']).start(); ds.materialize()"
    out = on_a_terminal(tmp_path, on=True, rows=1200, call=call)
    assert re.search(r"\r *\rabove", out) and out.endswith("\rdone\r\n")


def test_pipes_get_lines_on_request_alone(tmp_path):
    script = tmp_path / "slow.py"
    script.write_text(textwrap.dedent(SLOW.format(first=1.0, on=True, rows=800, call="ds.materialize()")))

    def errors(**env):
        words = [sys.executable, str(script)]
        return subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | env).stderr

    assert errors() == ""
    lines = errors(HEADRACE_PROGRESS="1").splitlines()
    assert lines and all(re.match(r"headrace: materialize, \d+ s: \d+%, [\d,]+ rows", ln) for ln in lines)


def test_in_a_notebook(monkeypatch, capsys):
    """There is no terminal; the bar is the notebook's, which falls back to text without ipywidgets."""
    kernel = types.SimpleNamespace(get_ipython=lambda: type("ZMQInteractiveShell", (), {})())
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    seen = threading.Event()
    looks = []

    def look(seconds):
        looks.append(seconds)
        seen.set()
        return progress.Look(0.5, "12 rows")

    monkeypatch.setattr(progress, "FIRST_S", 0.01)
    monkeypatch.setattr(progress, "_bar", lambda *words: drawn.append(words) or FakeBar())
    drawn = []
    with progress.Progress("materialize", look):
        assert seen.wait(60)
    assert looks and drawn[0][1] == "materialize"


class FakeBar:
    def __getattr__(self, name):
        return lambda *words, **named: None
