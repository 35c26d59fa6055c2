"""The command: python -m headrace.tune script.py:make_loader."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from typing import Any

from headrace.exceptions import HeadraceError
from headrace.settings import line_of
from headrace.tune.tuning import tune


def _arguments(argv):
    parser = argparse.ArgumentParser(
        prog="python -m headrace.tune",
        description="Measures a loader beside a training step, with other settings and with Headrace, and "
        "says what to change. Each configuration runs in its own process. Ctrl-C keeps what was measured.",
    )
    add = parser.add_argument
    add(
        "make_loader",
        help="FILE.py:NAME or MODULE:NAME: a function that returns a torch Dataset or DataLoader, a Headrace "
        "Dataset, or an iterable of batches",
    )
    add("--train-step-time", type=float, default=0.1, metavar="S", help="seconds of a simulated step (0.1)")
    add(
        "--step",
        metavar="FILE.py:NAME",
        help="the program's own step, a function of a batch, instead of a simulated one",
    )
    add("--measure-step", action="store_true", help="times --step on ten batches first, and simulates it")
    add("--epochs", type=int, default=2, metavar="N", help="epochs of each configuration (2)")
    add("--batches", type=int, default=100, metavar="N", help="batches of an epoch (100); 0 for all")
    add("--batch-size", type=int, metavar="N", help="of a Dataset without a DataLoader (32)")
    add("--shuffle", action="store_true", help="shuffles a Dataset without a DataLoader")
    add("--seconds", type=float, default=60, metavar="S", help="a configuration ends after so long (60)")
    add(
        "--silence",
        type=float,
        default=120,
        metavar="S",
        help="one without a batch for so long has failed (120)",
    )
    add("--thorough", action="store_true", help="measures also what cannot gain any more")
    add(
        "--out",
        default="headrace-tune",
        metavar="FOLDER",
        help="where the report and the logs go (headrace-tune)",
    )
    return parser.parse_args(argv)


class _Shown:
    """Lines on standard error; on a terminal also one line that follows the configuration that runs."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()

    def __call__(self, line: str) -> None:
        if self.live:
            sys.stderr.write("\r\x1b[K")
        print(line, file=sys.stderr, flush=True)

    def update(self, name: str, run: Any) -> None:
        if self.live:
            text = f"{name}: {len(run.batches)} batches"
            sys.stderr.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
            sys.stderr.flush()


def main(argv: list[str] | None = None) -> int:
    """Runs the command with these arguments, or those of the process. Returns its exit status."""
    given = _arguments(argv)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was measured stays, and no process does
    try:
        report = tune(
            given.make_loader,
            step=given.step,
            measure_step=given.measure_step,
            train_step_time=given.train_step_time,
            epochs=given.epochs,
            batches=given.batches or None,
            batch_size=given.batch_size,
            shuffle=given.shuffle,
            seconds=given.seconds,
            silence=given.silence,
            thorough=given.thorough,
            folder=given.out,
            show=_Shown(),
        )
    except (HeadraceError, OSError) as e:
        print(f"headrace.tune: {line_of(e).removeprefix('tune: ')}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("headrace.tune: stopped before anything was measured", file=sys.stderr)
        return 130
    print(report.text(), flush=True)
    if report.folder:
        print(f"\nPage: {report.folder}/report.html", flush=True)
    if not report.complete:
        return 130
    return 0 if report.folder and report.best else 1


if __name__ == "__main__":
    sys.exit(main())
