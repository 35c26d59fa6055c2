"""The counters of runs as Prometheus reads them: its text format, version 0.0.4.

Names follow Prometheus: counters end in _total, times are seconds, sizes are bytes. Text of users, such as
the names of functions, is in labels alone, where it is escaped.

Tests: tests/python/test_metrics.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.observe.live import Record

TYPE = "text/plain; version=0.0.4; charset=utf-8"
_WAIT_CLASSES = range(6, 28, 2)  # of by_log2_us: from 64 us to 67 s

Labels = Mapping[str, object]


class _Families:
    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, name: str, kind: str, text: str, value: float, labels: Labels, part: str = "") -> None:
        """One sample; a part of a histogram is '_bucket', '_sum' or '_count'."""
        lines = self._lines.setdefault(name, [f"# HELP {name} {text}", f"# TYPE {name} {kind}"])
        shown = ",".join(f'{key}="{_escaped(str(of))}"' for key, of in labels.items())
        lines.append(f"{name}{part}{{{shown}}} {value!r}")

    def counter(self, name: str, text: str, value: float, labels: Labels) -> None:
        self.add(f"headrace_{name}_total", "counter", text, value, labels)

    def gauge(self, name: str, text: str, value: float, labels: Labels) -> None:
        self.add(f"headrace_{name}", "gauge", text, value, labels)

    def text(self) -> str:
        return "".join(f"{line}\n" for lines in self._lines.values() for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def metrics(records: Iterable[Record]) -> str:
    """The text for these runs, of which each has the label `run`."""
    out = _Families()
    for record in records:
        run = {"run": record.number}
        out.gauge("run_info", "A run or a split, and its steps.", 1, run | {"plan": record.title})
        out.gauge("run_active", "1: it goes on.", int(record.works), run)
        if record.stats:
            _of_run(out, record, run)
            _of_steps(out, record, run)
            _of_verdict(out, record.stats.get("verdict"), run)
        for i, operator in enumerate(record.engine.get("operators", [])):
            _of_operator(out, operator, run | {"operator": operator["name"], "index": i})
        for i, stage in enumerate(record.engine.get("stages", [])):
            _of_stage(out, stage, run | {"stage": i})
    return out.text()


def _of_run(out: _Families, record: Record, run: Labels) -> None:
    s = record.engine
    out.counter("rows_taken", "Rows that the consumers took.", record.rows, run)
    if not s:
        return
    out.gauge("run_seconds", "Time since the run began.", s["seconds"], run)
    out.gauge("epoch", "The epoch, from 0.", record.stats["epoch"], run)
    out.gauge("done_ratio", "An estimate of how much of the epoch is done.", s["done"], run)
    out.counter("rows_read", "Rows that the sources gave.", s["rows_read"], run)
    out.counter("files_opened", "Files that were opened.", s["files_opened"], run)
    out.counter("read_seconds", "Time of threads that read.", s["read_ns"] / 1e9, run)
    out.gauge("ready_tables", "Batches that wait for the consumer.", s["ready_tables"], run)
    out.gauge("memory_used_bytes", "Bytes that the run holds.", s["used_bytes"], run)
    out.gauge("memory_peak_bytes", "The most bytes that the run held.", s["peak_bytes"], run)
    out.gauge("memory_limit_bytes", "The run's memory limit.", s["limit_bytes"], run)
    out.gauge("process_memory_bytes", "Bytes that all runs hold.", s["process_bytes"], run)
    out.counter("spill_written_bytes", "Bytes written to spill files.", s["spill_written_bytes"], run)
    out.counter("spill_read_bytes", "Bytes read from spill files.", s["spill_read_bytes"], run)
    for name in ("disk", "requests"):
        if io := s.get(name):
            of = run | {"of": "network" if name == "requests" else "disk"}
            out.counter("io_requests", "Reads of files, or requests to networks.", io["requests"], of)
            out.counter("io_bytes", "Bytes that these brought.", io["bytes"], of)
            out.counter("io_seconds", "Time of these.", io["ns"] / 1e9, of)


def _of_operator(out: _Families, o: Mapping[str, Any], labels: Labels) -> None:
    for name, text in (
        ("rows_in", "Rows that went into an operation."),
        ("rows_out", "Rows that came out of an operation."),
        ("calls", "Calls of an operation."),
    ):
        if name in o:
            out.counter(f"operator_{name}", text, o[name], labels)
    if "bytes_out" in o:
        out.counter("operator_out_bytes", "Bytes that came out of an operation.", o["bytes_out"], labels)
    for name, text in (
        ("busy", "Time of threads in an operation."),
        ("cpu", "Time on CPUs of threads in an operation, estimated from samples."),
        ("wait", "Time that work waited for the result of a function."),
    ):
        if f"{name}_ns" in o:
            out.counter(f"operator_{name}_seconds", text, o[f"{name}_ns"] / 1e9, labels)
    if "used_bytes" in o:
        out.gauge("operator_memory_bytes", "Bytes on the account of an operation.", o["used_bytes"], labels)
    if "peak_bytes" in o:
        out.gauge("operator_memory_peak_bytes", "The most bytes on its account.", o["peak_bytes"], labels)


def _of_stage(out: _Families, stage: Mapping[str, Any], labels: Labels) -> None:
    for does, ns in stage["does_ns"].items():
        text = "What the operations between two serial ones do, or wait for."
        out.counter("stage_seconds", text, ns / 1e9, {**labels, "does": does})
    for cause, ns in stage["consumer_waited_ns"].items():
        text = "Time that the consumer waited for a stage, by cause."
        out.counter("consumer_waited_seconds", text, ns / 1e9, {**labels, "cause": cause})
    out.gauge("stage_queue_tables", "Tables that wait before a stage.", stage["queue"], labels)
    out.gauge("stage_window_tickets", "Pieces of work under way.", stage["window"], labels)
    out.gauge("stage_window_limit_tickets", "The most of these.", stage["window_limit"], labels)


def _of_steps(out: _Families, record: Record, run: Labels) -> None:
    ranks = record.stats.get("rank_steps") or [record.stats.get("steps")]
    for rank, steps in enumerate(ranks):
        if not steps:
            continue
        labels = run | {"rank": rank}
        first = steps["first_wait_ns"] / 1e9
        out.gauge("first_wait_seconds", "The wait for the epoch's first batch.", first, labels)
        text = "Waits for a batch, of each step."
        _histogram(out, "headrace_step_wait_seconds", text, "wait", steps, labels)
        text = "Times between a batch and the next call, of each step."
        _histogram(out, "headrace_step_seconds", text, "step", steps, labels)


def _histogram(out, name, text, what, steps, labels):
    """Class k of the engine counts what took less than 2^k us."""
    classes = steps[f"{what}s_by_log2_us"]
    for k in _WAIT_CLASSES:
        of = {**labels, "le": repr(2**k / 1e6)}
        out.add(name, "histogram", text, sum(classes[: k + 1]), of, "_bucket")
    out.add(name, "histogram", text, sum(classes), {**labels, "le": "+Inf"}, "_bucket")
    out.add(name, "histogram", text, steps[f"{what}_ns"] / 1e9, labels, "_sum")
    out.add(name, "histogram", text, sum(classes), labels, "_count")


def _of_verdict(out: _Families, verdict: Mapping[str, Any] | None, run: Labels) -> None:
    if not verdict:
        return
    starved = str(verdict["starved"]).lower()
    text = "What limits the run: docs/waiting.md."
    out.gauge("verdict_info", text, 1, run | {"kind": verdict["kind"], "starved": starved})
    out.gauge("verdict_wait_ratio", "Waits for data, of the time.", verdict["wait_share"], run)
    out.gauge("verdict_gain_ratio", "Times as fast without the limit.", verdict["gain"], run)
