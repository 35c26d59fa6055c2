"""The report of a run: one page with the time line of its trace, its statistics, and what limited it.

`python -m headrace.observe trace.json.gz` writes it, and so does report(). src/exec/trace.c writes traces,
and says what their tracks are.

Tests: tests/python/test_trace.py, test_tune_page.py
"""

from __future__ import annotations

import gzip
import json
import os
from array import array
from collections import defaultdict
from pathlib import Path
from typing import Any

from headrace._core import DataError, __version__, span_bins
from headrace.data import run_stats
from headrace.observe.page import page

HERE = Path(__file__).parent
MOST_SPANS, PAGE_SPANS = 100_000, 400_000  # of one track on the page, and bins of one level; of all tracks
FEW_SPANS = 2_000  # of one track, which the page draws one by one at each zoom
FIRST_BINS, MORE_BINS, MOST_BINS = 512, 4, 1 << 23  # levels of bins: of the first, the next has times as many
MOST_POINTS = 2_000  # of a curve
COLOURS = 8  # of operations; further ones share the last
CONSUMER = 0
RANKS = 50_000  # tracks from here on are the ranks' of a split
OF_RANKS = ("step", "wait", "report")  # what they do
LANES = 100_000  # tracks from here on are tickets that wait


def read_trace(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON of a trace. DataError: the file is none."""
    name = os.fspath(path)
    try:
        opened = gzip.open if Path(name).read_bytes()[:2] == b"\x1f\x8b" else open
        with opened(name, "rt", encoding="utf-8") as f:
            found = json.load(f)
        if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
            what = "other JSON"
        elif not isinstance(other := found.get("otherData"), dict) or "stats" not in other:
            what = "one of another program"
        else:
            return found
    except (ValueError, EOFError, OSError) as e:
        if isinstance(e, OSError) and not isinstance(e, gzip.BadGzipFile):
            raise
        what = f"{type(e).__name__}: {e}"
    raise DataError(f"{name}: expected a trace of Headrace, found {what}")


def report(trace: str | os.PathLike[str], to: str | os.PathLike[str] | None = None) -> Path:
    """Writes the page of a trace, and returns its path.

    trace: a file of HEADRACE_TRACE or DataContext.trace_path. to: the page; default: the name of the trace
    with the suffix .html. DataError: the file is no trace.
    """
    path = Path(trace)
    target = Path(to) if to is not None else path.with_name(_stem(path.name) + ".html")
    target.write_text(_text(read_trace(path), path.name), encoding="utf-8")
    return target


def _stem(name):
    return name.removesuffix(".gz").removesuffix(".json") or name


def _text(trace, name):
    return page(f"Run: {name}", _data(trace, name), [HERE / "run_report.js"])


def _data(trace, name):
    other = trace.get("otherData") or {}
    stats = other.get("stats") or {}
    tracks, counters, names = _sorted(trace["traceEvents"])
    operations = _operations(stats, tracks)
    end = max((s[1] for spans in tracks.values() for s in spans), default=0.0)
    return {
        "name": name,
        "headrace": __version__,
        "lost": other.get("spans_lost", 0),
        "verdict": verdict_lines(stats),
        "stats": run_stats.shown(stats) if "taken_rows" in stats else "",
        "end": end,
        "operations": operations,
        "rows": _rows(tracks, names, operations, end),
        "curves": [_curve(name, points) for name, points in counters.items() if any(v for _, v in points)],
        "limit": stats.get("limit_bytes", 0),
    }


def _sorted(events):
    """({track: [(begin, end, name)]}, {counter: [(time, value)]}, {track: name}), times in seconds."""
    tracks, counters, names = defaultdict(list), defaultdict(list), {}
    for e in events:
        if e["ph"] == "X":
            tracks[e["tid"]].append((e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e["name"]))
        elif e["ph"] == "C":
            counters[e["name"]].append((e["ts"] / 1e6, float(next(iter(e["args"].values())))))
        elif e["ph"] == "M" and e["name"] == "thread_name":
            names[e["tid"]] = e["args"]["name"]
    for spans in tracks.values():
        spans.sort()
    return dict(sorted(tracks.items())), counters, names


def _operations(stats, tracks):
    """Names of what threads do, in the order of the plan, each once."""
    found = ["read", *(o["name"] for o in stats.get("operators", []))]
    found += [
        name
        for track, spans in tracks.items()
        if track != CONSUMER and not RANKS <= track < LANES
        for _, _, name in spans
    ]
    return list(dict.fromkeys(found))


def _rows(tracks, names, operations, end):
    number = {name: i for i, name in enumerate(operations)}
    most = min(MOST_SPANS, PAGE_SPANS // max(1, len(tracks)))
    rows = []
    for track, spans in tracks.items():
        if track == CONSUMER:
            row = _spans("consumer", [(b, e, 0) for b, e, _ in spans], end, most)
            row["wait"] = True
            row["sum"] = round(sum(e - b for b, e, _ in spans), 6)
        elif RANKS <= track < LANES:
            known = [(b, e, OF_RANKS.index(n)) for b, e, n in spans if n in OF_RANKS]
            row = _spans(names.get(track, f"rank {track - RANKS}"), known, end, most)
            row["rank"] = True
        else:
            row = _spans(
                names.get(track, f"track {track}"), [(b, e, number[n]) for b, e, n in spans], end, most
            )
            row["waits"] = track >= LANES
        rows.append(row)
    return rows


def _spans(name, spans, end, most):
    """A row of timeline.js, of spans (begin, end, what): all of them if they are not too many, and levels of
    bins, coarse ones first, for views that show many.
    """
    row = {"name": name, "levels": _levels(spans, end, most) if len(spans) > FEW_SPANS else []}
    row["whole"] = len(spans) <= most or not row["levels"]
    shown = spans if row["whole"] else []
    return row | {
        "begin": [round(s[0], 6) for s in shown],
        "end": [round(s[1], 6) for s in shown],
        "what": [s[2] for s in shown],
    }


def _levels(spans, end, most):
    numbers = array("d", (x for s in spans for x in s))
    levels, n = [], FIRST_BINS
    while n <= MOST_BINS and (bins := span_bins(numbers, end / n, most)) is not None:
        levels.append(
            {
                "width": end / n,
                "index": [b[0] for b in bins],
                "what": [b[1] for b in bins],
                "share": [round(b[2], 4) for b in bins],
                "many": [b[3] for b in bins],
            }
        )
        n *= MORE_BINS
    return levels


def _curve(name, points):
    points.sort()
    step = -(-len(points) // MOST_POINTS)
    kept = [max(points[i : i + step], key=lambda p: p[1]) for i in range(0, len(points), step)]
    return {
        "name": name,
        "times": [round(t, 6) for t, _ in kept],
        "values": [v / 1e6 for _, v in kept],
        "unit": "MB",
    }


def verdict_lines(stats: dict[str, Any]) -> list[str]:
    """The engine's sentences on what limited the run; [] for traces without them."""
    found = stats.get("verdict")
    if isinstance(found, str):
        return [found]
    if isinstance(found, dict):
        return [str(found[k]) for k in ("text", "evidence", "advice") if found.get(k)]
    return []
