"""Writes the tables of docs/ from those that the engine has: `make docs`.

Between `<!-- options NAME -->` (or `<!-- write options NAME -->`) and `<!-- end -->` it puts what
`headrace formats NAME` prints, after `<!-- functions -->` what `headrace functions` prints, and after
`<!-- formats -->` what `headrace formats` prints, with a link to each format's page.
`--check` changes nothing and fails where a page differs, which the tests do.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARKED = re.compile(r"(<!-- (write options|options) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

FORMATS = re.compile(r"(<!-- formats -->\n).*?(<!-- end -->)", re.DOTALL)
FUNCTIONS = re.compile(r"(<!-- functions -->\n).*?(<!-- end -->)", re.DOTALL)


def printed(command, name):
    """{"options": lines, "write options": lines} as the command prints them."""
    out = {}
    done = subprocess.run([command, "formats", name], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        if line.startswith(("options:", "write options:")):
            kind, rest = line.split(":", 1)
            out[kind] = []
            lines = out[kind]
        elif out:
            lines.append(line)
    return out


def table(lines):
    """Lines "name=default  doc" as a Markdown table."""
    if not lines:
        return "None.\n"
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for line in lines:
        setting, _, doc = line.partition("  ")
        name, _, value = setting.partition("=")
        cells = [f"`{name}`", f"`{value}`" if value else "", doc]
        rows.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(rows) + "\n"


def functions(command):
    """What `headrace functions` prints, as a Markdown table."""
    done = subprocess.run([command, "functions"], capture_output=True, text=True, check=True)
    rows = ["| function | written | gives |", "|---|---|---|"]
    for line in done.stdout.partition("\n\n")[0].splitlines():  # aggregates come after
        name, written, doc = re.split(r"  +", line, maxsplit=2)
        cells = [f"`{name}`", f"`{written}`", doc]
        rows.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(rows) + "\n"


def formats(command):
    """What `headrace formats` prints, as a Markdown table. A page is the one with the format's options."""
    done = subprocess.run([command, "formats"], capture_output=True, text=True, check=True)
    pages = {m[3]: p.name for p in HERE.glob("formats/*.md") for m in MARKED.finditer(p.read_text())}
    rows = ["| format | suffixes | contents |", "|---|---|---|"]
    for line in done.stdout.splitlines():
        name, *suffixes, doc = re.split(r"  +", line, maxsplit=2)
        cells = [
            f"`{name}`",
            *(suffixes or [""]),
            f"[{doc}](formats/{pages[name]})" if name in pages else doc,
        ]
        rows.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(rows) + "\n"


def rewritten(text, command):
    text = FORMATS.sub(lambda m: m[1] + formats(command) + m[2], text)
    text = FUNCTIONS.sub(lambda m: m[1] + functions(command) + m[2], text)
    return MARKED.sub(lambda m: m[1] + table(printed(command, m[3]).get(m[2], [])) + m[4], text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--command", default=HERE.parent / "build/release/src/cli/headrace", help="the headrace command"
    )
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = []
    for page in [HERE / "expressions.md", HERE / "reading.md", *sorted(HERE.glob("formats/*.md"))]:
        old = page.read_text()
        new = rewritten(old, args.command)
        if new != old:
            stale.append(page.name)
            if not args.check:
                page.write_text(new)
    if stale:
        print(
            ("differ from the option tables (make docs): " if args.check else "rewritten: ")
            + ", ".join(stale)
        )
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
