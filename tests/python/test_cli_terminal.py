"""What a person at a terminal sees beside the results: progress, colours, the completion of words."""

import os
import pty
import re
import shutil
import subprocess
import time

import pytest
from command import COMMAND, COMMANDS, MISSING, environment, headrace

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

pytestmark = pytest.mark.skipif(MISSING, reason="needs build/release (make lib)")


def at_terminal(words, given=None, stdout_too=False, **env):
    """(status, what the terminal got, standard output) of a command whose standard error is a terminal."""
    ours, its = pty.openpty()
    job = subprocess.Popen(
        [str(w) for w in words],
        stdin=subprocess.PIPE if given else subprocess.DEVNULL,
        stdout=its if stdout_too else subprocess.PIPE,
        stderr=its,
        env=environment(TERM="xterm", **env),
    )
    os.close(its)
    if given:
        given(job.stdin)
        job.stdin.close()
    out = b"" if stdout_too else job.stdout.read()
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the terminal's last user is gone
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    return job.wait(60), seen.decode(), out.decode()


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Words of a run of more than a second: a sort of many rows in little memory."""
    path = tmp_path_factory.mktemp("slow") / "a.parquet"
    n = 1_000_000
    pq.write_table(
        pa.table({"k": [i * 7919 % n for i in range(n)], "t": [f"{i:030}" for i in range(n)]}), path
    )
    return ["sort", "-k", "k", "-m", "16MiB", *[path] * 5]


def test_progress_of_a_long_run(slow, tmp_path):
    status, seen, out = at_terminal([COMMAND, *slow, tmp_path / "o.parquet"])
    assert status == 0 and "5000000 rows" in out
    shown = re.findall(
        r"\r(\d+) s: (\d+) %, ([\d,]+) rows read(?:, ([\d,]+) out(?: \([\d.]+ \w+\))?)?"
        r", [\d.e+-]+ million rows/s(?:, \d+ s left)?, slowest: \w+, [\d.]+ \w+ in memory",
        seen,
    )
    assert shown, seen
    rows = [int(r.replace(",", "")) for _, _, r, _ in shown]
    merged = [int(r.replace(",", "")) for *_, r in shown if r]
    done = [int(part) for _, part, *_ in shown]
    assert len(set(merged)) > 1 and merged == sorted(merged)  # the rows read stand still meanwhile
    assert rows == sorted(rows) and max(rows) <= 5_000_000
    assert done == sorted(done) and 0 < done[0] <= done[-1] <= 100
    assert seen.endswith("\r\x1b[K")  # the line is taken away


def test_no_progress_when_it_is_not_wanted(slow, tmp_path):
    assert at_terminal([COMMAND, *slow, "-q", tmp_path / "o.parquet"])[1] == ""
    start = time.monotonic()
    assert headrace(*slow, "--overwrite", tmp_path / "o.parquet")[1] == ""  # standard error is a pipe
    assert time.monotonic() - start > 1  # else the tests above show nothing
    assert at_terminal([COMMAND, "count", slow[-1]])[1:] == ("", "1000000\n")  # short
    words = [COMMAND, *slow, "--overwrite", tmp_path / "o.parquet"]
    assert at_terminal(words, HEADRACE_PROGRESS="off")[1] == ""
    env = environment(HEADRACE_PROGRESS="1")
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=env, check=True)
    lines = done.stderr.splitlines()
    assert lines and all(re.match(r"headrace: \d+ s: \d+ %, [\d,]+ rows read", line) for line in lines)


def test_colours(slow, tmp_path):
    words = [COMMAND, "head", "-n", 1, slow[-1]]
    bold = "\x1b[1m"
    assert bold in at_terminal(words, stdout_too=True)[1]
    assert bold not in at_terminal(words, stdout_too=True, NO_COLOR="1")[1]
    assert bold not in headrace(*words[1:])[0]
    assert bold in headrace(*words[1:], CLICOLOR_FORCE="1")[0]
    assert at_terminal([COMMAND, "count", tmp_path / "x"])[1].startswith("\x1b[1;31mheadrace:\x1b[0m ")
    assert at_terminal([COMMAND, "count", tmp_path / "x"], NO_COLOR="1")[1].startswith("headrace: ")


def test_binary_does_not_go_to_a_terminal(slow):
    status, seen, _ = at_terminal([COMMAND, "convert", slow[-1], "-", "--to", "parquet"], stdout_too=True)
    assert status == 1 and "standard output is a terminal" in seen and "PAR1" not in seen


def complete_in_bash(*words):
    script = headrace("completion", "bash")[0] + (
        f"COMP_WORDS=(headrace {' '.join(repr(w) for w in words)})\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_headrace\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_completion_in_bash():
    assert complete_in_bash("so") == ["sort"]
    assert set(complete_in_bash("")) == {*COMMANDS, "--help", "--version"}
    assert complete_in_bash("head", "--r") == ["--rows"]
    assert complete_in_bash("group", "--ag") == ["--agg"]
    assert complete_in_bash("convert", "--to", "par") == ["parquet"]
    assert "text" not in complete_in_bash("convert", "--to", "") and "text" in complete_in_bash(
        "head", "-f", ""
    )
    assert complete_in_bash("formats", "web") == ["webdataset"]
    assert complete_in_bash("functions", "str_to") == [] and "str_len" in complete_in_bash(
        "functions", "str_l"
    )
    assert complete_in_bash("completion", "z") == ["zsh"]
    assert complete_in_bash("head", "file") == []  # bash's own names of files


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_know_every_option(shell):
    """Also of shells that are not installed: every command and each of its options is in the script."""
    script = headrace("completion", shell)[0]
    for name in COMMANDS:
        assert name in script
        for option in re.findall(r"--([a-z-]+)", headrace(name, "--help")[0].split("\n\n", 2)[2]):
            assert f"--{option}" in script or f"-l {option}" in script, (name, option)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=300)
    assert "bash, zsh or fish" in headrace("completion", "tcsh", status=2)[1]
