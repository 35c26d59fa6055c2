"""include/headrace.h keeps its own rules: structs of callers begin with their size, statuses have numbers."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = re.sub(r"/\*.*?\*/", "", (ROOT / "include" / "headrace.h").read_text(), flags=re.S)
OPEN = {name: body for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", TEXT, flags=re.S)}
CALLS = re.findall(r"HR_API[^;]*?\b(hr_\w+)\(([^;]*?)\)(?: HR_\w+(?:\(.*?\))?)?;", TEXT, flags=re.S)


def structs_of(arguments):
    """The open structs that a call takes, and those that they point to."""
    arguments = re.sub(r"\(\*\w+\)\([^)]*\)", "", arguments)  # what a callback gets is the library's own
    found = [s for s in re.findall(r"\b(hr_\w+) \*", arguments) if s in OPEN and s != "hr_error"]
    for name in found:
        found += [
            s for s in structs_of(re.sub(r"\(\*\w+\)\(.*?\)", "", OPEN[name], flags=re.S)) if s not in found
        ]
    return found


def test_structs_begin_with_their_size():
    sized = {s for _, arguments in CALLS for s in structs_of(arguments)}
    assert {"hr_feed_options", "hr_sort_key", "hr_aggregate_function", "hr_column_view"} <= sized
    assert sized | {"hr_error"} == set(OPEN), "a struct that no call takes"
    for name in sized:
        assert OPEN[name].split(";")[0].strip() == "size_t struct_bytes", name


def test_the_table_of_calls_is_complete():
    """tests/test_structs.c has a row for each struct of each call."""
    rows = set(re.findall(r"ROW\((hr_\w+), (hr_\w+),", (ROOT / "tests" / "test_structs.c").read_text()))
    wanted = {(s, name) for name, arguments in CALLS for s in structs_of(arguments)}
    assert rows == wanted - {("hr_text_view", "hr_text_at")}  # which reads what hr_table_text_view filled


def test_statuses_have_numbers():
    numbers = re.findall(r"X\((HR_\w+), (\d+), ", TEXT)
    assert numbers[0] == ("HR_OK", "0") and numbers[-1] == ("HR_BUG", "255")
    assert len({n for _, n in numbers}) == len(numbers) == 16


def test_every_out_is_checked():
    """tests/test_public_api.c calls each function that has an `out` with NULL in its place."""
    text = (ROOT / "tests" / "test_public_api.c").read_text()
    refused = set(re.findall(r'REFUSES\("out", (hr_\w+),', text))
    with_out = {name for name, arguments in CALLS if re.search(r"\bout(\[\d+\])?(,|$)", arguments.strip())}
    assert len(with_out) > 40 and refused == with_out
