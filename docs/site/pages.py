"""Hooks of MkDocs: pages that are made of other files of the repository, when the site is built.

The reference of Python is made of the names in the __all__ of modules, that of the command of its man page.
Files of the root (README, CHANGELOG, ...) become pages; links to source files become their names.
"""

import ast
import os
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
OF_ROOT = {"README.md": "index.md"} | {n: n for n in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
DATASET = ["dataset.Dataset", "dataset.MaterializedDataset", "schema.Schema", "summary.DatasetSummary"]
ITERATOR = ["iterator.DataIterator", "iterator.SplitIterator", "iterator.DatasetIterator"]
DATASOURCE = ["Datasource", "ReadTask", "FileBasedDatasource", "Datasink", "RowBasedFileDatasink"]
DATASOURCE += ["BlockBasedFileDatasink", "WriteResult", "FilenameProvider"]
ELSEWHERE = {"Dataset", "MaterializedDataset", "Schema", "DatasetSummary", "DataIterator", "SplitIterator"}
ELSEWHERE |= {"DatasetIterator", "NodeIdStr", "Preprocessor", *DATASOURCE}


def public(module):
    """The names in __all__ of a module."""
    path = ROOT / "python" / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.startswith("_")]
    raise ValueError(f"{file}: expected a list __all__")


def of(module, names=None):
    return [f"{module}.{name}" for name in (names or public(module))]


def python_pages():
    """name of a page -> (title, the names that it documents)"""
    data = public("headrace.data")
    readers = [n for n in data if n.startswith(("read_", "from_", "range"))]
    others = [n for n in data if n not in readers and n not in ELSEWHERE]
    frameworks = ["headrace.train.torch", "headrace.train.lightning", "headrace.train.xgboost"]
    frameworks += ["headrace.train.lightgbm"]
    return {
        "headrace": ("headrace", of("headrace.session", [n for n in public("headrace") if n in SESSION])),
        "reading": ("Making datasets", of("headrace.data", readers)),
        "dataset": ("Dataset", of("headrace.data", DATASET)),
        "iterator": ("DataIterator", of("headrace.data", ITERATOR)),
        "grouped": ("GroupedData", ["headrace.data.grouped_data.GroupedData"]),
        "aggregate": ("Aggregates", of("headrace.data.aggregate")),
        "expressions": ("Expressions", of("headrace.data.expressions")),
        "preprocessors": (
            "Preprocessors",
            ["headrace.data.preprocessor.Preprocessor"] + of("headrace.data.preprocessors"),
        ),
        "datasource": ("Sources and sinks", of("headrace.data", DATASOURCE)),
        "data": ("Settings and arguments", of("headrace.data", others)),
        "train": ("headrace.train", of("headrace.train") + [n for m in frameworks for n in of(m)]),
        "torch": ("headrace.torch", of("headrace.torch")),
        "tune": ("headrace.tune", of("headrace.tune")),
        "exceptions": ("Exceptions", of("headrace.exceptions")),
    }


SESSION = {"init", "shutdown", "is_initialized", "put", "get", "wait", "remote", "get_gpu_ids"}
SESSION |= {"cluster_resources", "available_resources"}


def python_page(title, names):
    return f"# {title}\n\n" + "\n\n".join(f"::: {name}" for name in names) + "\n"


# -------------------------------------------------------------------------------- the man page


def plain(text):
    return re.sub(r"\\f[BIRP]", "", text).replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "")


def words(line):
    """The arguments of a macro."""
    return [plain(quoted or bare) for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', line)]


def inline(macro, rest):
    """The Markdown of .B, .I and of those that alternate, as .BR."""
    if len(macro) == 1:
        parts = [(macro, plain(rest.replace('"', "")))]
    else:
        parts = [(macro[i % 2], word) for i, word in enumerate(words(rest))]
    signs = {"B": "**", "I": "*", "R": ""}
    return "".join(marked(text, signs[kind]) for kind, text in parts)


def marked(text, sign):
    """Spaces stay outside of the signs, where Markdown wants them."""
    inner = text.strip()
    return text.replace(inner, sign + escaped(inner) + sign, 1) if inner else text


def escaped(text):
    return re.sub(r"([*_<>\[\]`])", r"\\\1", text)


def code_of(macro, rest):
    """An option as code: no part of it is emphasized."""
    return "`" + ("".join(words(rest)) if len(macro) > 1 else plain(rest.replace('"', ""))) + "`"


def markdown_of_man(text):
    """The macros that docs/man/headrace.1 uses."""
    out, term, code = [], False, False
    for line in text.splitlines():
        macro, _, rest = line[1:].partition(" ") if line.startswith(".") else ("", "", line)
        if macro in ("nf", "fi"):
            code = macro == "nf"
            out.append("\n```sh" if code else "```\n")
        elif code:
            out.append(plain(line))
        elif macro == "SH":
            out.append(f"\n## {rest.capitalize()}\n")
        elif macro == "TP":
            term = True
        elif macro == "PP":
            out.append("")
        elif macro == "br":
            out[-1] += "  "
        elif macro != "TH":
            if term:
                out.append(f"\n{code_of(macro, rest)}\n:   ")
            elif macro:
                out.append(inline(macro, rest))
            else:
                out.append(escaped(plain(line)))
            term = False
    return "# The command\n" + joined(out)


def joined(lines):
    """Lines of a definition go on behind its colon."""
    text, inside = "", False
    for line in lines:
        if inside and line and not line.startswith("\n"):
            text = text.rstrip("\n") + ("" if text.endswith(":   ") else " ") + line + "\n"
            continue
        inside = line.endswith(":   ")
        text += line if inside else line + "\n"
    return text


# -------------------------------------------------------------------------------- hooks


def rooted(text):
    """Links of a file of the root, as from docs/."""
    return re.sub(r"\]\((?!\w+:|#)(docs/)?", lambda m: "](" if m[1] else "](../", text)


def on_files(files, config):
    made = {f"api/{name}.md": python_page(*page) for name, page in python_pages().items()}
    made["command.md"] = markdown_of_man((ROOT / "docs/man/headrace.1").read_text())
    made |= {page: rooted((ROOT / name).read_text()) for name, page in OF_ROOT.items()}
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links that leave docs/ lead to the page of that file, or become text."""
    folder = os.path.dirname(page.file.src_uri)

    def link(found):
        path, _, anchor = found[2].partition("#")
        target = os.path.normpath(os.path.join("docs", folder, path))
        inside = os.path.relpath(target, "docs")
        if target in OF_ROOT:
            back = os.path.relpath(OF_ROOT[target], folder or ".")
            return f"[{found[1]}]({back}{'#' + anchor if anchor else ''})"
        if inside == "man/headrace.1":
            return f"[{found[1]}]({os.path.relpath('command.md', folder or '.')})"
        if path and not files.get_file_from_path(inside) and (ROOT / target).exists():
            return found[1] if found[1].strip("`") in (target, path) else f"{found[1]} (`{target}`)"
        return found[0]

    return re.sub(r"(?<!!)\[([^\]]+)\]\((?!\w+:)([^)\s]+)\)", link, markdown)
