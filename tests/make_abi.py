"""Writes tests/abi/headrace.txt: the ABI of include/headrace.h as a 64-bit compiler lays it out.

Every exported function with its prototype, every open struct with its size and the places of its
fields, every value of an enumeration. tests/python/test_abi.py compares. A difference is a question:
a new function, or a field at the end of a struct, is fine; whatever goes or moves breaks programs
that were compiled before, and needs another soversion in meson.build.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "headrace.h"
TARGET = ROOT / "tests" / "abi" / "headrace.txt"


def source():
    """The header without comments."""
    return re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)


def functions(text):
    """name -> prototype."""
    found = {}
    for m in re.finditer(r"^HR_API\b([^;]*);", text, flags=re.MULTILINE):
        prototype = re.sub(r"\bHR_MUST_USE |\bHR_PRINTF\(.*?\)", "", " ".join(m.group(1).split())).strip()
        found[re.search(r"\b(hr_\w+)\(", prototype).group(1)] = prototype
    return found


def fields(body):
    """The names of a struct's fields; a function pointer's is in parentheses."""
    for declaration in body.split(";"):
        declaration = " ".join(declaration.split())
        if m := re.search(r"\(\*(\w+)\)\(", declaration):
            yield m.group(1)
        elif declaration:
            for part in declaration.split(","):
                yield re.search(r"(\w+)(?:\[\w*\])?$", part.strip()).group(1)


def program(text):
    """A C program that prints sizes, places and values."""
    lines = ["#include <headrace.h>", "#include <stdio.h>", "int main(void)", "{"]
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, flags=re.DOTALL):
        lines.append(f'    printf("struct {name} %zu\\n", sizeof({name}));')
        for field in fields(body):
            lines.append(f'    printf("    {field} %zu\\n", offsetof({name}, {field}));')
    for body, name in re.findall(r"typedef enum \w+ \{(.*?)\} (\w+);", text, flags=re.DOTALL):
        values = re.findall(r"\bHR_\w+", body)
        if "HR_STATUS_LIST" in values:
            values = re.findall(r"X\((HR_\w+), \d+", text)
        lines.append(f'    printf("enum {name} %zu\\n", sizeof({name}));')
        lines += [f'    printf("    {v} %d\\n", (int){v});' for v in values]
    return "\n".join([*lines, "    return 0;", "}", ""])


def abi(cc="cc"):
    text = source()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "abi.c"
        path.write_text(program(text), encoding="utf-8")
        binary = Path(folder) / "abi"
        subprocess.run([cc, "-std=gnu11", "-I", str(HEADER.parent), str(path), "-o", str(binary)], check=True)
        laid_out = subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout
    prototypes = functions(text)
    return "".join(f"function {prototypes[name]}\n" for name in sorted(prototypes)) + laid_out


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(abi(), end="")
    else:
        TARGET.write_text(abi(), encoding="utf-8")
