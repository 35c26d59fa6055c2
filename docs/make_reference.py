"""Writes docs/c-api.md from include/headrace.h: sections, declarations, and what their comments say.

`make docs` runs it; tests/python/test_reference.py compares. The header is the source: what is wrong here is
mended there.
"""

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^/\* -{3,} (.*?) \*/$", re.MULTILINE)
# A comment of its own lines, or a declaration with the comments in it and after it.
ITEM = re.compile(
    r"(?P<comment>^/\*.*?\*/)$"
    r"|(?P<define>^#define (?:[^\n]*\\\n)*[^\n]*)$"
    r"|(?P<skip>^#[^\n]*)$"
    r"|(?P<code>^(?:HR_API|typedef|struct)\b(?:[^;{]*\{.*?^\}[^;\n]*;|[^;{]*;)[^\n]*)$",
    re.MULTILINE | re.DOTALL,
)


def plain(comment):
    """A comment's paragraphs, without its signs; indented lines stay as they are."""
    body = re.sub(r"\s*\*/$", "", re.sub(r"^/\*\s*", "", comment))
    lines = [re.sub(r"^ ?\* ?", "", line) for line in body.split("\n")]
    parts, words, code = [], [], []

    def end():
        if words:
            parts.append(
                textwrap.fill(escape(" ".join(words)), 100, break_long_words=False, break_on_hyphens=False)
            )
            words.clear()
        if code:
            parts.append("\n".join(code))
            code.clear()

    for line in lines:
        if not line.strip():
            end()
        elif line.startswith("    "):
            if words:
                end()
            code.append(line)
        else:
            if code:
                end()
            words.append(line.strip())
    end()
    return "\n\n".join(parts)


def escape(text):
    """A pointer's star is not Markdown's; *word* is."""
    parts = re.split(r"(`[^`]*`|(?<!\w)\*\w+\*(?!\w))", text)
    return "".join(p if i % 2 else re.sub(r"([*<])", r"\\\1", p) for i, p in enumerate(parts))


def declaration(code):
    code = re.sub(r"\bHR_API |\bHR_MUST_USE ", "", code)
    code = re.sub(r" HR_PRINTF\([^)]*\)", "", code)
    return re.sub(r"\n {20,}", "\n        ", code).rstrip()


def pages(text):
    """(title, body of the header) of each section."""
    found = list(SECTION.finditer(text))
    for i, m in enumerate(found):
        end = found[i + 1].start() if i + 1 < len(found) else text.index("#ifdef __cplusplus\n}")
        yield m.group(1), text[m.end() : end]


def page(title, body):
    """One section; a comment belongs to the declarations after it, up to the next one."""
    out, code, said = [f"## {title[0].upper()}{title[1:]}"], [], ""

    def end():
        if code:
            out.append("```c\n" + "\n".join(code) + "\n```")
            code.clear()
        if said:
            out.append(said)

    for m in ITEM.finditer(body):
        if m.group("comment"):
            end()
            said = plain(m.group("comment"))
        elif m.group("define") and not m.group("define").startswith("#define ARROW_C_"):
            code.append(re.sub(r" +\\$", " \\\\", m.group("define"), flags=re.MULTILINE))
        elif m.group("code"):
            code.append(declaration(m.group("code")))
        if m.group("code") and body[m.end() : m.end() + 2] == "\n\n":
            end()
            said = ""
    end()
    return "\n\n".join(out)


def reference():
    text = (ROOT / "include" / "headrace.h").read_text(encoding="utf-8")
    head = re.match(r"/\*.*?\*/", text, flags=re.DOTALL).group(0)
    parts = [
        "# C API",
        "`make docs` writes this page from [include/headrace.h](../include/headrace.h). The\n"
        "[examples](../examples) are whole programs; `pkg-config --cflags --libs headrace` gives a\n"
        "compiler what it needs.",
        plain(head),
        *(page(title, body) for title, body in pages(text)),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    target = ROOT / "docs" / "c-api.md"
    if "--print" in sys.argv:
        print(reference())
    else:
        target.write_text(reference(), encoding="utf-8")
