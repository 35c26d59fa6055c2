"""The recommendation in words. No gain is stated beyond what the step allows: the floor of its own time.

Tests: test_tune.py.
"""

from __future__ import annotations

import math
import statistics

from headrace.tune.configurations import GAIN, GIVEN, HEADRACE, HEADRACE_LOADER, Target
from headrace.tune.results import FAILED, Result

BOUND = (
    (0.05, "the loader is not the limit"),
    (0.2, "the loader costs some time"),
    (1.01, "the loader is the limit"),
)
NO_STEP_S = 1e-5  # a shorter step is none: its rate is no bound worth naming
FULL, CROWDED = 0.8, 0.2  # shares of the cores: all of them in use, and by other programs
SLOWER_STEP = 1.1  # step beside the loader / step alone, from which on the loader disturbs it


def milliseconds(s: float) -> str:
    if not math.isfinite(s):
        return "-"
    if s >= 10:
        return f"{s:,.0f} s"
    if s >= 1:
        return f"{s:.2f} s"
    return f"{1e3 * s:.0f} ms" if s >= 0.01 or s == 0 else f"{1e3 * s:.2g} ms"


def rate(x: float) -> str:
    return "-" if not math.isfinite(x) else f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.2f} times"


def size(n: float) -> str:
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.0f} MB"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or share == 0 else "less than 1 %"


def best_of(results: list[Result]) -> Result | None:
    """The highest rate; of those within the noise of it the one with the least start-up and border, then the
    fewest busy cores.
    """
    able = [r for r in results if r.measured]
    if not able:
        return None
    most = max(r.samples_per_s for r in able)
    near = [r for r in able if r.samples_per_s * GAIN >= most]
    return min(near, key=lambda r: (round(_idle(r) / max(0.1, 0.1 * min(map(_idle, near)))), _cores(r)))


def _idle(r):
    """Seconds in which the step waits for the first batches of two epochs."""
    return (r.startup_s if math.isfinite(r.startup_s) else 0) + (
        r.border_s if math.isfinite(r.border_s) else 0
    )


def _cores(r):
    return r.cpu_cores if math.isfinite(r.cpu_cores) else 0.0


def start_of(results: list[Result]) -> Result | None:
    """What gains are measured from: the loader as given, else the first configuration that was measured."""
    able = [r for r in results if r.measured]
    given = [r for r in able if r.configuration.library == "given"]
    return (given or able or [None])[0]


def most_of(results: list[Result], floor_s: float) -> float:
    """Samples a second that the step alone allows."""
    able = [r for r in results if r.measured]
    if not able or not floor_s > NO_STEP_S:
        return math.inf
    rows = able[0].samples_per_s / able[0].batches_per_s
    return rows / floor_s


def words(target: Target | None, results: list[Result], floor_s: float) -> list[str]:
    """Sentences, the most important first."""
    start, best = start_of(results), best_of(results)
    if results and not any(r.n_batches or r.status in FAILED for r in results):
        return ["The loader gave no batch."]
    if not start or not best:
        return ["No configuration gave enough batches to compare."]
    most = most_of(results, floor_s)
    said = [_headline(start, best, most), _now(start)]
    if math.isfinite(most):
        said.append(_ceiling(start, most, floor_s))
    if not target or target.kind != "headrace":
        said.append(_ours(results, most))
    if _gains(start, best):
        how = _how(target, best)
        said.append(how.replace("To use it", "For the shorter start", 1) if _is_enough(start, best) else how)
    return [s for s in said if s]


def _gains(start, best):
    """Whether the best configuration has a higher rate, or a shorter start of epochs."""
    return best.samples_per_s >= GAIN * start.samples_per_s or _idle(best) < 0.8 * _idle(start)


def _called(r):
    return (
        "the loader as given" if r.configuration.library == GIVEN and not r.configuration.options else r.name
    )


def _sentence(text):
    return text[0].upper() + text[1:] if text.startswith("the ") else text


def _is_enough(start, best):
    """Whether the step hardly waits, and no configuration has a higher rate."""
    return start.wait_share < BOUND[0][0] and best.samples_per_s < GAIN * start.samples_per_s


def _headline(start, best, most):
    name = _called(start)
    if _is_enough(start, best):
        text = _sentence(f"{name} is enough: no other setting gains more")
        return text + (" than a shorter start of epochs." if _gains(start, best) else " than noise.")
    if best is start or best.samples_per_s < GAIN * start.samples_per_s:
        return _sentence(
            f"{name} is as fast as any configuration measured: {rate(start.samples_per_s)} samples/s."
        )
    gain = min(best.samples_per_s, most) / start.samples_per_s
    return (
        f"{_sentence(_called(best))}: {rate(best.samples_per_s)} samples/s, {times(gain)} the "
        f"{rate(start.samples_per_s)} of {name}."
    )


def _now(start):
    level = next(text for share, text in BOUND if start.wait_share < share)
    return (
        f"With {_called(start)} the step waits for {percent(start.wait_share)} of the time, "
        f"{milliseconds(start.wait_mean_s)} for each batch (99th percentile "
        f"{milliseconds(start.wait_p99_s)}): {level}."
    )


def _ceiling(start, most, floor_s):
    text = f"The step alone takes {milliseconds(floor_s)}: no loader can give it more than {rate(most)}"
    text += " samples/s"
    ratio = most / start.samples_per_s
    if ratio < 1.01:
        return f"{text}, which is the rate of {_called(start)}."
    return f"{text}, {times(ratio)} the rate of {_called(start)}."


def _ours(results, most):
    """Headrace beside the best other configuration."""
    ours = best_of([r for r in results if r.ours])
    others = best_of([r for r in results if not r.ours])
    if not ours or not others:
        return ""
    ratio = min(ours.samples_per_s, most) / min(others.samples_per_s, most)
    other = f"the best other configuration ({_called(others)})"
    if ratio > GAIN:
        text = f"{ours.name} gives {times(ratio)} the samples of {other}"
    elif ratio < 1 / GAIN:
        text = f"{ours.name} gives {percent(ratio)} of the samples of {other}"
    else:
        text = f"{ours.name} is as fast as {other}"
    text += f"; its first batch comes after {milliseconds(ours.startup_s)}"
    text += f" instead of {milliseconds(others.startup_s)}"
    if math.isfinite(ours.border_s) and math.isfinite(others.border_s):
        text += f", and between epochs the step waits {milliseconds(ours.border_s)} instead of "
        text += milliseconds(others.border_s)
    return text + "."


def _how(target, best):
    library, options = best.configuration.library, best.configuration.options
    text = ", ".join(f"{k}={v!r}" for k, v in options.items())
    env = " ".join(f"{k}={v}" for k, v in best.configuration.env.items())
    before = f", with the environment {env}" if env else ""
    if library == HEADRACE and target and target.is_torch:
        return (
            f"To use it: headrace.data.from_torch(dataset{text and ', ' + text}).iter_torch_batches("
            "batch_size=...). Batches are dicts of columns; tuples of the dataset become item_0, item_1, ..."
        )
    if library == HEADRACE:
        return f"To use it: iter_torch_batches({text})."
    if library == HEADRACE_LOADER:
        return f"To use it: from headrace.torch import DataLoader; DataLoader(dataset, ..., {text})."
    if not options:
        return ""
    where = "make_loader" if target and target.takes else "DataLoader"
    return f"To use it: {where}(..., {text}){before}."


def warnings(target: Target | None, results: list[Result], cores: int) -> list[str]:
    """What is wrong with single configurations."""
    said = [f"{r.name}: {r.error}" for r in results if r.status in FAILED]
    for r in results:
        if r.leaks:
            said.append(
                f"{r.name}: memory grew by {size(r.growth_bytes)} in the second half of the run and had not "
                "stopped: a leak, a cache without a limit, or Python objects of the dataset that each worker "
                "copies when it reads them"
            )
        if r.floor_s > 0 and r.step_s > SLOWER_STEP * r.floor_s + 1e-3:
            said.append(
                f"{r.name}: the step takes {milliseconds(r.step_s)} beside the loader and "
                f"{milliseconds(r.floor_s)} without it: the loader takes cores from the step; fewer "
                "workers may be faster"
            )
    said += _busy(results)
    said += _threads(target, results, cores)
    said += _doubled(target, results)
    return said


def _busy(results):
    """Other programs that use the cores: fewer are left, and shares of them are luck."""
    crowded = [r for r in results if r.per_core and sum(r.per_core) > FULL * len(r.per_core)]
    crowded = [r for r in crowded if r.other_cores > CROWDED * len(r.per_core)]
    if 2 * len(crowded) <= len([r for r in results if r.measured]):
        return []
    others, n = statistics.median(r.other_cores for r in crowded), len(crowded[0].per_core)
    return [
        f"other programs kept {others:.1f} of {n} cores busy: on an idle machine all rates are higher; "
        "compare the CPU for a row, and measure again when they have ended"
    ]


def _threads(target, results, cores):
    """Workers that each start a thread for each core."""
    hot = [r for r in results if r.oversubscribed and r.configuration.options.get("num_workers", 0) <= cores]
    if not hot:
        return []
    worst = max(hot, key=lambda r: r.running)
    text = f"{worst.name}: {worst.running:.0f} threads want to run on {cores} cores; "
    libraries = target.libraries if target else []
    if "dask" in libraries:
        text += "dask computes with a thread for each core in each worker: "
        return [text + "dask.config.set(scheduler='synchronous') ends that"]
    who = f"{', '.join(libraries)} may start" if libraries else "the dataset starts"
    return [text + f"{who} threads in each worker: give each worker one"]


def _doubled(target, results):
    """An IterableDataset that gives each worker all rows."""
    if not target or target.kind not in ("stream", "loader"):
        return []
    whole = [r for r in results if r.run and r.run.epochs and all(e["whole"] for e in r.run.epochs)]
    alone = [r for r in whole if r.configuration.options.get("num_workers") == 0]
    found = []
    for r in whole:
        n = r.configuration.options.get("num_workers", 0)
        if alone and n > 1 and r.epoch_rows >= n * alone[0].epoch_rows > 0:
            found.append(
                f"{r.name}: an epoch has {r.epoch_rows:,} rows, and {alone[0].epoch_rows:,} without workers: "
                "each worker gives all rows; the dataset has to divide them by get_worker_info()"
            )
    return found[:1]
