"""The shape of the tree: includes and calls point up, file names are unique, only hr_* leaves the library.

Includes are read from the sources, calls from the objects of the library (by nm), since a function may be
declared in one folder and lie in another. Runs under pytest, and as a script where there is no pytest yet.
"""

import ast
import collections
import graphlib
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = [
    "base",
    "data",
    "share",
    "io",
    "codec",
    "image",
    "expr",
    "format",
    "op",
    "plan",
    "exec",
    "feed",
    "cli",
]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
PUBLIC = {"headrace.h", "headrace_config.h"}


def sources():
    """Every C file that ends in the library, the command or the Python module."""
    for top in ("src", "python/src"):
        yield from sorted(p for p in (ROOT / top).rglob("*") if p.suffix in {".c", ".h"})


def layer_of(path):
    """The folder of src/ that holds `path`; 'python' for the module; None beside the folders."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "python":
        return "python"
    return parts[1] if len(parts) > 2 else None


# What sub-folders see beside themselves and their parent.
NEIGHBOURS = {
    "io/http/hdfs": {"io/http"},
    "io/http/multi": set(),
    "io/http/pace": set(),
    "io/http/s3": {"io/http"},
    "io/http/served": {"io/http"},
    "op/group": {"op/store"},
    "op/join": {"op/store"},
    "op/order": {"op/store"},
    "op/write": {"op/store"},
    "format/scan": {"format/spill"},
    "format/parquet": {"format/arrow"},  # the Arrow schema in a footer is a message of Arrow's
}
# Files that see the sub-folders of theirs: lists of all there are; rules of casts; one line for all of data.
SEE_BELOW = {
    "src/format/formats.c",
    "src/expr/functions.c",
    "src/expr/bind.c",
    "src/data/data.h",
    "src/io/glob.c",  # a list of files has those of URLs
    "src/io/http/http.h",  # what is known of a host has its measurements
    "src/io/http/hosts.c",
    "src/io/http/http_thread.c",
    "src/io/http/store_kind.c",  # the list of kinds of stores
    "src/io/sink.c",  # a file that is written can be one of a store
    "src/io/http/gs.c",  # Google's XML API has the queries of S3
    "src/io/http/aws_credentials.c",  # the domain of a region
    "src/io/http/store.c",  # a store keeps its filesystem, and forgets the sessions of S3
    "src/io/http/store_commit.c",  # directory buckets list otherwise
    "src/io/http/url.c",  # the schemes of all kinds
}
SEAM = "src/op/task.h"  # its functions are the scheduler's: operators may call them


def folder_of(path):
    """'op/join' for src/op/join/join.c."""
    return "/".join(path.relative_to(ROOT).parts[1:-1])


def may_see(path, target):
    """Whether the file may include or call what lies in the other one."""
    mine, theirs = layer_of(path), layer_of(target)
    if (
        mine == "python" or theirs == "python"
    ):  # cli and python are both the end of the list: neither sees the other
        return mine == theirs or theirs in LAYERS and theirs != "cli"
    if mine != theirs:
        return mine in LAYERS and theirs in LAYERS and LAYERS.index(theirs) < LAYERS.index(mine)
    here, there = folder_of(path), folder_of(target)
    if here == there or there == mine or there in NEIGHBOURS.get(here, ()):
        return True
    return there.startswith(here + "/") and str(path.relative_to(ROOT)) in SEE_BELOW


def target_of(name, path, by_name):
    """The file that `#include "name"` in `path` means; None for what is not ours."""
    for base in (path.parent, ROOT / "src", ROOT / "include", ROOT / "python" / "src"):
        candidate = (base / name).resolve()
        if candidate.is_file():
            return candidate
    return by_name.get(Path(name).name)


def wrong_includes():
    by_name = {p.name: p for p in sources()}
    for path in sources():
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
            where = f'{path.relative_to(ROOT)}: #include "{name}"'
            if Path(name).name in PUBLIC:
                continue
            target = target_of(name, path, by_name)
            if target is None:
                yield f"{where}: no such file in the tree (a library's header goes in <>)"
            elif not may_see(path, target):
                yield f"{where}: src/{folder_of(path)} does not see src/{folder_of(target)}"


def wrong_names():
    seen = {}
    for path in sources():
        here = path.relative_to(ROOT)
        if path.stem.startswith("util"):
            yield f"{here}: says nothing about what is in it"
        if layer_of(path) not in [*LAYERS, "python"]:
            yield f"{here}: not in one of {' '.join(LAYERS)}"
        if path.name in seen:
            yield f"{here}: there is {seen[path.name]} already"
        seen[path.name] = here


def wrong_command(build):
    """The command is a user of the library: it sees headrace.h, its own headers, and no hr__ symbol."""
    for path in sources():
        if layer_of(path) == "cli":
            for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if name != "cli/cli.h":
                    yield f'{path.relative_to(ROOT)}: #include "{name}": the command sees <headrace.h> alone'
    objects = sorted((build / "src" / "cli" / "headrace.p").glob("*.o")) if build else []
    for path in objects:
        source = ROOT / "src" / "cli" / path.stem
        if not source.exists() or source.stat().st_mtime > path.stat().st_mtime:
            continue  # of an older build
        text = subprocess.run(["nm", "-u", str(path)], check=True, capture_output=True, text=True).stdout
        for name in text.split():
            if name.startswith("hr__"):
                yield f"src/cli/{path.stem}: {name}: the command calls what headrace.h declares"


def symbols(library):
    """(file -> names that it defines, file -> names that it takes from others) of the library's objects."""
    by_object = {str(p.relative_to(ROOT)).replace("/", "_") + ".o": p for p in sources()}
    text = subprocess.run(["nm", str(library)], check=True, capture_output=True, text=True).stdout
    defined, taken, path = {}, {}, None
    for line in text.splitlines():
        words = line.split()
        if line.endswith(".o:"):
            path = by_object.get(Path(line[:-1]).name)  # None: an older build's, whose source went away
        elif path and len(words) == 3 and words[1].isupper():
            defined[words[2]] = path
        elif path and len(words) == 2 and words[0] == "U":
            taken.setdefault(path, []).append(words[1])
    return defined, taken


def is_stale(library):
    """It is older than the sources: it says how the calls went before."""
    return max(p.stat().st_mtime for p in sources()) > library.stat().st_mtime


def wrong_calls(library):
    if is_stale(library):
        return
    defined, taken = symbols(library)
    seam = set(re.findall(r"\b(hr_\w+)\(", (ROOT / SEAM).read_text(encoding="utf-8")))
    for path, names in taken.items():
        for name in names:
            target = defined.get(name)
            if target is None or may_see(path, target) or (name in seam and layer_of(path) == "op"):
                continue
            where = target.relative_to(ROOT)
            yield f"{path.relative_to(ROOT)}: {name} is in {where}, which src/{folder_of(path)} does not see"


# Folders whose files call each other in one direction only: of two files at most one calls the other.
ONE_WAY = {"exec", "feed", "share"}


# Pairs of files of which each calls the other, and why.
BOTH_WAYS = {
    ("build.c", "run.c"),  # a run builds its stages; what was built halfway is freed as the run's is
    ("build.c", "row_leaf.c"),  # a leaf of cached rows builds the plan below it
    ("counters.c", "row_leaf.c"),  # and counts what that does
    ("interleave.c", "open_ahead.c"),  # the order of files, and their opening before their turn
    ("observe.c", "sched.c"),  # the dispatcher reports events; a look asks what it would do
    ("row_leaf.c", "run.c"),
    ("row_leaf.c", "ticket.c"),
}


def wrong_circles(library):
    if is_stale(library):
        return
    defined, taken = symbols(library)
    calls = {}
    for path, names in taken.items():
        for name in names:
            target = defined.get(name)
            if target not in (None, path) and folder_of(path) == folder_of(target) in ONE_WAY:
                calls.setdefault((path, target), name)
    for (path, target), name in calls.items():
        back = calls.get((target, path))
        if back and path < target and (path.name, target.name) not in BOTH_WAYS:
            yield f"{path.relative_to(ROOT)} calls {name} of {target.name}, which calls back: {back}"


PACKAGE = ROOT / "python" / "headrace"
# Imports that may lead back, and why.
LATE_NAMES = {
    # Ray has udf, download and others among its expressions: the module looks them up on demand.
    ("headrace.data.expressions", "headrace.data.function_expressions"),
    ("headrace.data.expressions", "headrace.data.downloading"),
}


def imported(tree, modules):
    """The modules of the package that a module imports anywhere, also in functions and by lazy_module()."""
    if isinstance(tree, ast.If) and ast.unparse(tree.test) == "TYPE_CHECKING":
        return
    if isinstance(tree, ast.Import):
        yield from (name.name for name in tree.names)
    elif isinstance(tree, ast.ImportFrom):
        names = {f"{tree.module}.{name.name}" for name in tree.names}
        yield from names & modules or {tree.module}
    elif isinstance(tree, ast.Call) and ast.unparse(tree.func) in {"lazy_module", "importlib.import_module"}:
        yield from (arg.value for arg in tree.args if isinstance(arg, ast.Constant))
    for child in ast.iter_child_nodes(tree):
        yield from imported(child, modules)


def wrong_imports(late=LATE_NAMES):
    """A circle of the package's modules, if there is one."""
    paths = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {
        name: {
            target
            for target in imported(ast.parse(path.read_text()), set(paths))
            if target in paths and target != name and (name, target) not in late
        }
        for name, path in paths.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as circle:
        yield "modules import each other: " + " <- ".join(circle.args[1])


MOST_FILES = 32


def wrong_module():
    """module.c calls the files of types; none of them calls module.c, and py_base.c calls no type."""
    folder = ROOT / "python" / "src"
    texts = {p.name: p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.c"))}
    defined = {}
    for name, text in texts.items():
        for found in re.finditer(r"^(?!static)[A-Za-z_][\w *]*?\b(pyhr_\w+)\(", text, re.MULTILINE):
            defined[found[1]] = name
    for name, text in texts.items():
        for function in sorted(set(re.findall(r"\bpyhr_\w+(?=\()", text)) & set(defined)):
            to = defined[function]
            if to == "module.c" and name != to:
                yield f"python/src/{name} calls {function} of module.c"
            if name == "py_base.c" and to not in (name, "py_error.c"):
                yield f"python/src/{name} calls {function} of {to}"


# Functions of src/ that only tests call: each shows what nothing else shows, or makes what only a test needs.
# The comment of each prototype begins "For tests: ". Lint refuses any other function that only tests call.
FOR_TESTS = {
    "hr__arena_bytes",
    "hr__cache_forget",
    "hr__fault_arm",
    "hr__fault_disarm",
    "hr__identities_forget",
    "hr__live_blocks",
    "hr__origin_stretches",
    "hr__poller_stop",
    "hr__sorter_counts",
    "hr__source_new_memory",
}
SHARED = r"(?:hr__|pyhr_)\w+"
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
SHARED_DEFINED = re.compile(
    rf"^(?!static|extern|typedef|return)\w[^;={{}}()\n]*?\b({SHARED})\s*[(=\[]", re.MULTILINE
)


def c_code(*tops):
    """File -> its text without comments."""
    paths = [p for top in tops for p in sorted((ROOT / top).rglob("*")) if p.suffix in {".c", ".h"}]
    return {p: COMMENT.sub(" ", p.read_text(encoding="utf-8")) for p in paths}


def wrong_functions(for_tests=FOR_TESTS):
    """What could be static, and what nobody but a test calls."""
    code, users = c_code("src", "python/src"), c_code("tests", "fuzz", "examples", "bench")
    by_file = {path: collections.Counter(re.findall(rf"\b{SHARED}", text)) for path, text in code.items()}
    in_tests = {name for text in users.values() for name in re.findall(rf"\b{SHARED}", text)}
    listed = {f"hr__format_{name}" for text in code.values() for name in re.findall(r"FORMAT\((\w+)\)", text)}
    for path, text in code.items():
        if path.suffix == ".h":
            continue
        where = path.relative_to(ROOT)
        for name in sorted(set(SHARED_DEFINED.findall(text)) - listed):
            # A header that names it more than once uses it; in its own file the first name is the definition.
            least = {p: 1 if p.suffix == ".h" or p == path else 0 for p in by_file}
            used = {p for p, names in by_file.items() if names[name] > least[p]}
            if not used and name not in for_tests:
                yield f"{where}: {name}: {'only tests use it' if name in in_tests else 'nothing uses it'}"
            elif used and name in for_tests:
                yield f"{where}: {name} has a caller: it leaves FOR_TESTS"
            elif used == {path} and name not in in_tests:
                yield f"{where}: {name}: only its own file uses it, so it is static"
    headers = "".join(p.read_text(encoding="utf-8") for p in code if p.suffix == ".h")
    for name in sorted(for_tests):
        before = rf"/\* For tests: (?:(?!\*/).)*\*/\s[^;/]*\b{name}\("
        if not re.search(rf"{before}|\b{name}\([^;]*;\s*/\* For tests: ", headers, re.DOTALL):
            yield f"{name}: no prototype with a comment that begins 'For tests: '"


def wrong_folders():
    for folder in {p.parent for p in sources()}:
        n = len([p for p in folder.iterdir() if p.suffix in {".c", ".h"}])
        if n > MOST_FILES:
            yield f"{folder.relative_to(ROOT)}: {n} files, {MOST_FILES} at most"


def prose(text):
    """(number, line) of a page, without code, tables and what is no prose."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("    ") and not line.lstrip().startswith("|"):
            yield number, line


def wrong_lines():
    """C has 120 columns, pages 100; Python's lines are ruff's."""
    for top in ("include", "src", "python/src", "tests", "fuzz", "examples", "bench"):
        for path in sorted(p for p in (ROOT / top).rglob("*") if p.suffix in {".c", ".h"}):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if len(line) > 120:
                    yield f"{path.relative_to(ROOT)}:{number}: {len(line)} columns, 120 at most"
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]):
        for number, line in prose(path.read_text(encoding="utf-8")):
            if len(line) > 100:
                yield f"{path.relative_to(ROOT)}:{number}: {len(line)} columns, 100 at most"


# Words of the glossary's last table that are gone, with the one to write (docs/glossary.md).
NOT_USED = {
    "mourners?": "fork watch",
    "bury|buried": "reap",
    "cargo": "payload",
    "trash": "pending_free",
    "crews?": "parallel call",
    "how manieth": "the index",
}


def wrong_words():
    """Private metaphors, in sentences as in names."""
    word = re.compile(rf"(?<![a-z])({'|'.join(NOT_USED)})(?![a-z])", re.IGNORECASE)
    here = {Path(__file__).resolve(), ROOT / "docs" / "glossary.md"}
    pages = [*ROOT.glob("*.md")]
    for top in (
        "include",
        "src",
        "python/src",
        "python/headrace",
        "tests",
        "fuzz",
        "examples",
        "bench",
        "docs",
    ):
        pages += [p for p in (ROOT / top).rglob("*") if p.suffix in {".c", ".h", ".py", ".md"}]
    for path in sorted(set(pages) - here):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for found in word.findall(line):
                better = next(new for old, new in NOT_USED.items() if re.fullmatch(old, found, re.IGNORECASE))
                yield f"{path.relative_to(ROOT)}:{number}: '{found}' is not used; write {better}"


def wrong_exports(library):
    text = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    for line in text.splitlines():
        name = line.split()[-1].split("@")[0]
        if not name.startswith("hr_") or name.startswith("hr__"):
            yield f"{library.name} exports {name}"


def built(name):
    """What `make lib` left, or the same beside HEADRACE_LIB; None when nothing is built."""
    library = Path(os.environ.get("HEADRACE_LIB", ROOT / "build" / "release" / "libheadrace.so"))
    path = library.parent / name
    return path if path.exists() else None


def test_includes_point_up():
    assert list(wrong_includes()) == []


def test_file_names():
    assert list(wrong_names()) == []


def test_lines():
    assert list(wrong_lines()) == []


def test_words():
    assert list(wrong_words()) == []


def test_functions():
    assert list(wrong_functions()) == []
    assert any("hr__fault_arm: only tests use it" in line for line in wrong_functions(for_tests=set()))


def test_folders():
    assert list(wrong_folders()) == []


def test_calls_point_up():
    library = built("libheadrace_engine.a")
    if library is None:
        import pytest

        pytest.skip("no library is built")
    assert list(wrong_calls(library)) == []


def test_no_circles():
    library = built("libheadrace_engine.a")
    if library is None:
        import pytest

        pytest.skip("no library is built")
    assert list(wrong_circles(library)) == []


def test_the_command_lives_on_the_public_header():
    library = built("libheadrace_engine.a")
    assert list(wrong_command(library and library.parent)) == []


def test_modules_have_no_circles():
    assert list(wrong_imports()) == []
    assert "headrace.data.expressions" in "".join(wrong_imports(late=()))


def test_the_module_calls_one_way():
    assert not list(wrong_module())


def test_only_hr_is_exported():
    library = built("libheadrace.so")
    if library is None:
        import pytest

        pytest.skip("no shared library is built")
    assert list(wrong_exports(library)) == []


def main():
    wrong = [
        *wrong_includes(),
        *wrong_names(),
        *wrong_folders(),
        *wrong_functions(),
        *wrong_lines(),
        *wrong_words(),
        *wrong_imports(),
        *wrong_module(),
    ]
    library = built("libheadrace_engine.a")
    wrong += wrong_command(library and library.parent)
    if built("libheadrace.so"):
        wrong += wrong_exports(built("libheadrace.so"))
    if built("libheadrace_engine.a"):
        wrong += wrong_calls(built("libheadrace_engine.a"))
        wrong += wrong_circles(built("libheadrace_engine.a"))
    for line in wrong:
        print(line)
    print(f"layers: {len(list(sources()))} files, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
