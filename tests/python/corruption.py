"""Damages files and compares the results of two readers.

    data, what = damage(data, seed, kind)              one damaged copy, and a sentence on the damage
    report = run_cases(read_ours, read_theirs, data, n)    reads n copies and judges the results
    report.check()                                     raises if a verdict is not allowed

`read_ours` and `read_theirs` take a file's bytes and return its rows, or raise. The verdict of a case:

    same      our reader returns the rows of the undamaged file
    refused   our reader raises a HeadraceError
    shared    our reader returns other rows, and so does the other reader
    silent    our reader returns other rows; the other refuses the file or returns the undamaged rows
    crash     our reader raises something that is not a HeadraceError

`silent` and `crash` are never allowed, `shared` only where no checksum covers the damage.
The damage depends only on (seed, kind, the file's length), so that a case can be repeated by its number.
"""

import os
import random
from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.exceptions import HeadraceError

KINDS = ("bit", "byte", "bytes4", "ones", "zeros", "cut", "hole", "splice")
THOROUGH = bool(os.environ.get("HEADRACE_THOROUGH"))


def cases(default, thorough=None):
    """Number of cases of a test: `default`; with HEADRACE_THOROUGH=1 `thorough` (20 times the default)."""
    return default if not THOROUGH else thorough or 20 * default


# ---------------------------------------------------------------------------------------------- damage


def damage(data, seed, kind=None, within=None):
    """Returns (a damaged copy of `data`, a sentence). The copy differs from `data`.
    kind: one of KINDS; None: a random one. within: (begin, end), the bytes that may change; default: all."""
    rng = random.Random(f"{seed} {kind} {len(data)}")
    kind = kind or rng.choice(KINDS)
    begin, end = within or (0, len(data))
    for _ in range(64):
        out, what = CHANGES[kind](rng, bytearray(data), begin, end)
        if bytes(out) != data:
            return bytes(out), f"{kind}: {what}"
    # The damage changed nothing (zeros among zeros): flip one bit.
    out, what = flip_bit(rng, bytearray(data), begin, end)
    return bytes(out), f"bit: {what}"


def flip_bit(rng, data, begin, end):
    at, bit = rng.randrange(begin, end), rng.randrange(8)
    data[at] ^= 1 << bit
    return data, f"bit {bit} of byte {at} is flipped"


def change_byte(rng, data, begin, end):
    at = rng.randrange(begin, end)
    data[at] ^= rng.randrange(1, 256)
    return data, f"byte {at} becomes {data[at]:#04x}"


def change_bytes4(rng, data, begin, end):
    at = rng.randrange(begin, max(begin + 1, end - 3))
    n = min(4, end - at)
    data[at : at + n] = rng.randbytes(n)
    return data, f"bytes {at} to {at + n} become {data[at : at + n].hex()}"


def fill(value):
    def change(rng, data, begin, end):
        at = rng.randrange(begin, end)
        n = min(rng.choice([1, 2, 8, 50, 500]), end - at)
        data[at : at + n] = bytes([value]) * n
        return data, f"bytes {at} to {at + n} become {value:#04x}"

    return change


def cut(rng, data, begin, end):
    """Cuts the end off, as a download that stopped."""
    at = rng.randrange(begin, end)
    return data[:at], f"the file ends at byte {at}"


def hole(rng, data, begin, end):
    """Removes bytes in the middle; the rest moves."""
    at = rng.randrange(begin, end)
    n = min(rng.choice([1, 4, 64, 512]), end - at)
    return data[:at] + data[at + n :], f"{n} bytes at {at} are missing"


def splice(rng, data, begin, end):
    """Overwrites bytes with those of another place, as a write to the wrong address."""
    n = min(rng.choice([4, 16, 100, 1000]), max(1, (end - begin) // 2))
    source, at = rng.randrange(begin, end - n + 1), rng.randrange(begin, end - n + 1)
    data[at : at + n] = data[source : source + n]
    return data, f"bytes {source} to {source + n} stand at {at} as well"


CHANGES = {
    "bit": flip_bit,
    "byte": change_byte,
    "bytes4": change_bytes4,
    "ones": fill(0xFF),
    "zeros": fill(0x00),
    "cut": cut,
    "hole": hole,
    "splice": splice,
}


# ---------------------------------------------------------------------------------------------- verdicts


def same_rows(a, b):
    """Whether two results are equal: pyarrow tables by schema and values (NaN equals NaN), others by ==."""
    if not isinstance(a, pa.Table) or not isinstance(b, pa.Table):
        return a == b
    if not a.schema.equals(b.schema) or a.num_rows != b.num_rows:
        return False
    return all(same_column(x, y) for x, y in zip(a.columns, b.columns, strict=True))


def same_column(a, b):
    if a.equals(b):
        return True
    # Arrow's NaN equals nothing. Column types have their parts' names in their text.
    return any(t in str(a.type) for t in ("float", "double")) and repr(a.to_pylist()) == repr(b.to_pylist())


def attempt(read, data):
    """Returns (the result of `read`, None) or (None, its exception)."""
    try:
        return read(data), None
    except Exception as error:  # readers of other projects raise any class
        return None, error


VERDICTS = ("same", "refused", "shared", "silent", "crash")


@dataclass
class Case:
    seed: object
    verdict: str
    damage: str
    detail: str


@dataclass
class Report:
    name: str
    counts: Counter = field(default_factory=Counter)
    bad: list = field(default_factory=list)
    shared: list = field(default_factory=list)

    @property
    def total(self):
        return sum(self.counts.values())

    def add(self, other):
        self.counts += other.counts
        self.bad += other.bad
        self.shared += other.shared

    def line(self):
        parts = [f"{n} {self.counts[n]}" for n in VERDICTS if self.counts[n]]
        return f"{self.name}: {self.total} cases: {', '.join(parts)}"

    def check(self, covered=False, most=10):
        """Raises if a case is silent or a crash; covered: or shared, because checksums cover the damage."""
        bad = self.bad + (self.shared if covered else [])
        assert not bad, "\n".join(
            [self.line()] + [f"  seed {c.seed!r}: {c.verdict}: {c.damage}: {c.detail}" for c in bad[:most]]
        )


def judge(read_ours, read_theirs, data, rows, their_rows, same=same_rows):
    """Returns (verdict, detail) of one damaged file."""
    ours, error = attempt(read_ours, data)
    if error is not None:
        return (
            "refused" if isinstance(error, HeadraceError) else "crash"
        ), f"{type(error).__name__}: {error}"
    if same(ours, rows):
        return "same", ""
    if read_theirs is None:
        return "shared", "we give other rows"
    theirs, error = attempt(read_theirs, data)
    if error is not None:
        return "silent", f"we give other rows, the other reader says {type(error).__name__}: {error}"
    try:
        if same(theirs, their_rows):
            return "silent", "we give other rows, the other reader the undamaged ones"
    except Exception as error:  # its result cannot be compared
        return (
            "silent",
            f"we give other rows, the other reader's are malformed: {type(error).__name__}: {error}",
        )
    return "shared", "we give other rows, the other reader as well"


def run_cases(
    read_ours,
    read_theirs,
    data,
    n,
    *,
    name="",
    seed=0,
    kinds=KINDS,
    within=None,
    same=same_rows,
):
    """Reads n damaged copies of the file `data`, kind after kind. Returns a Report.
    read_theirs None: there is no other reader; rows that differ count as `shared`.
    same: compares two results of one reader."""
    rows, error = attempt(read_ours, data)
    assert error is None, f"{name}: the undamaged file is refused: {error}"
    their_rows = read_theirs(data) if read_theirs else None
    report = Report(name)
    for i in range(n):
        kind, number = kinds[i % len(kinds)], f"{seed}/{i}"
        damaged, what = damage(data, number, kind, within)
        verdict, detail = judge(read_ours, read_theirs, damaged, rows, their_rows, same)
        report.counts[verdict] += 1
        if verdict in ("silent", "crash"):
            report.bad.append(Case(number, verdict, f"{name}: {what}", detail))
        elif verdict == "shared":
            report.shared.append(Case(number, verdict, f"{name}: {what}", detail))
    return report


def reader_of_paths(read, path):
    """Turns a reader of paths into a reader of bytes, which it writes to `path`."""

    def read_bytes(data):
        with open(path, "wb") as f:
            f.write(data)
        return read(path)

    return read_bytes
