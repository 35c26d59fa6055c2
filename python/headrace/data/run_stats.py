"""The statistics of a run as people read them: stats() of datasets, iterables and shares.

The engine counts, and gives JSON. Times of operations are sums over threads.

Tests: tests/python/test_run_stats.py
"""

import json

from headrace._core import InvalidArgument

FORMATS = ("text", "json", "dict")
ONLY_WAITS = 0.98  # a consumer that waits this share of its time is no trainer
NONE_YET = "no run yet"
_COLUMNS = ("operation", "rows in", "rows out", "busy", "CPU", "waits", "bytes out", "peak memory")


def in_format(text, format):
    """The JSON text of the engine ('{}': no run yet) as `format`: one of FORMATS."""
    if format not in FORMATS:
        raise InvalidArgument(f"stats: format: expected 'text', 'json' or 'dict', found {format!r}")
    if format == "json":
        return text
    found = json.loads(text)
    return found if format == "dict" else shown(found)


def shown(stats):
    """The text for people."""
    if not stats:
        return NONE_YET
    if set(stats) == {"error"}:
        return f"no run yet: {_of_error(stats)}"
    if "ranks" in stats:
        run = shown(stats["run"]) if stats["run"] else NONE_YET
        lines = [*_of_ranks(stats), _of_error(stats), run, *_judged(stats)]
        return "\n".join(line for line in lines if line)
    lines = [
        _of_run(stats),
        _of_error(stats),
        _of_reading(stats),
        *_table(stats["operators"]),
        _of_memory(stats),
    ]
    lines += [_of_cache(o) for o in stats["operators"] if "cached_rows" in o]
    if "network" in stats:
        lines.append(_of_network(stats["network"]))
    lines += _judged(stats)
    return "\n".join(line for line in lines if line)


def _of_error(s):
    """The first line of the error that ended the run, or kept it from beginning."""
    return f"Error: {s['error'].splitlines()[0]}" if s.get("error") else ""


def written_rows(s):
    """Rows that a write has taken; its last operations count pieces of files. None: it is no write."""
    operators = s["operators"]
    if not operators or not operators[-1]["name"].startswith("write_"):
        return None
    return next((o["rows_in"] for o in reversed(operators) if o["name"].startswith("cut(")), None)


def _of_run(s):
    seconds = s["seconds"]
    written = written_rows(s)
    rows = s["taken_rows"] if written is None else written
    rate = f", {_count(rows / seconds)} rows/s" if seconds > 0 and rows else ""
    first = s["first_table_seconds"]
    return (
        f"Run, epoch {s['epoch']}: {rows:,} row{'' if rows == 1 else 's'} in {_time(seconds)}{rate}; "
        + (f"first rows after {_time(first)}; " if first else "")
        + f"the consumer waited {_time(s['consumer_wait_seconds'])}"
    )


def _judged(s):
    """The findings on files, and the verdict as the last line."""
    if "verdict" not in s:
        return []
    found = s["verdict"].get("files", [])
    files = [
        f"Files: {f['text']}. Advice: {f['advice']} (about {f['gain']:.1f} times as fast)" for f in found
    ]
    return [*files, _of_verdict(s["verdict"])]


def _of_verdict(v):
    """What limits the run, and what to change."""
    if v["kind"] == "short":
        return ""
    if not v["starved"]:
        return f"Verdict: {v['text']}"
    text = f"Verdict: {v['text']}"
    if v["kind"] != "collate":
        text = f"Verdict: waits for data are {100 * v['wait_share']:.0f} % of the time: {v['text']}"
    if v["advice"]:
        text += f". Advice: {v['advice']}"
    if v["gain"] >= 1.05:
        never = f"; {v['most_gain']:.1f} times if the trainer never waited"
        text += f" (about {v['gain']:.1f} times as fast{never if v['wait_share'] < ONLY_WAITS else ''})"
    return text


def _of_reading(s):
    left_out = [
        f"{s[name]:,} {what}"
        for name, what in (
            ("fragments_skipped", "fragments"),
            ("pages_skipped", "pages"),
            ("rows_skipped", "rows"),
        )
        if s.get(name)
    ]
    text = f"Read: {s['rows_read']:,} rows of {_files(s['files_opened'])} in {_time(s['read_ns'] / 1e9)}"
    text += f"; ruled out: {', '.join(left_out)}" if left_out else ""
    return text + (f"; bad rows left out: {s['bad_rows']:,}" if s.get("bad_rows") else "")


def _files(n):
    return f"{n:,} file" + ("" if n == 1 else "s")


def _table(operators):
    """A line for each operation, aligned; names are cut."""
    rows = [_COLUMNS] + [
        (
            o["name"] if len(o["name"]) <= 40 else o["name"][:39] + "…",
            f"{o['rows_in']:,}",
            f"{o['rows_out']:,}",
            _time(o["busy_ns"] / 1e9),
            _time(o["cpu_ns"] / 1e9),
            _time(o["wait_ns"] / 1e9),
            bytes_text(o["bytes_out"]),
            _peak(o),
        )
        for o in operators
    ]
    if len(rows) == 1:
        return []
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def _peak(o):
    text = bytes_text(o["peak_bytes"])
    if o.get("workers"):
        text += f" + {bytes_text(o['workers_peak_bytes'])} in {o['workers']} workers"
    return text


def _of_memory(s):
    text = f"Memory: at most {bytes_text(s['peak_bytes'])} of {bytes_text(s['limit_bytes'])}"
    if s["spill_written_bytes"]:
        written, read = bytes_text(s["spill_written_bytes"]), bytes_text(s["spill_read_bytes"])
        return f"{text}; spilled {written}, read back {read}"
    return text


def _of_cache(o):
    read, written = bytes_text(o["cache_read_bytes"]), bytes_text(o["cache_written_bytes"])
    text = f"Cache: {o['cached_rows']:,} rows from {read}; {o['computed_rows']:,} computed, {written} written"
    return text + (f"; {o['cache_damaged']:,} damaged files removed" if o["cache_damaged"] else "")


def _of_network(n):
    cached = f"{bytes_text(n['cached_bytes'])} from the cache, " if n["cached_bytes"] else ""
    received, outside = bytes_text(n["received_bytes"]), n["outside"]
    if not n["requests"] and not n["cached_bytes"]:  # of a reader in Python, which asks by the engine
        received = bytes_text(outside["received_bytes"])
        cached = f"{bytes_text(outside['cached_bytes'])} from the cache, " if outside["cached_bytes"] else ""
        return f"Network: {_many(outside['requests'], 'request')}, {received}, {cached}outside the run"
    asked, again = _many(n["requests"], "request"), _many(n["retries"], "retry", "retries")
    return f"Network: {asked}, {received}, {cached}{again}"


def _many(n, one, more=""):
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def _of_ranks(s):
    """What a split says beside its run."""
    yield f"Split for {s['ranks']} ranks, epoch {s['epoch']}: {s['steps']:,} steps"
    for rank, (rows, wait_ns) in enumerate(zip(s["rows"], s["wait_ns"], strict=True)):
        yield f"Rank {rank}: {rows:,} rows; waited {_time(wait_ns / 1e9)}"
    if s["dropped_rows"] or s["padded_rows"]:
        yield f"Dropped rows: {s['dropped_rows']:,}; padded rows: {s['padded_rows']:,}"


def _time(seconds):
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def _count(n):
    for unit, size in (("million", 1e6), ("thousand", 1e3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n:.0f}"


def bytes_text(n):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} B"
