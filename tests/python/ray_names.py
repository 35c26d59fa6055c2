"""Compares Headrace's names, signatures and defaults with those of Ray (tests/ray_names.json).

`python tests/python/ray_names.py` prints what is missing; with --write it shortens tests/ray_missing.txt.

An entry is `ray.data.read_csv`, a parameter `ray.data.read_csv(filesystem)`, a member
`ray.data.dataset.Dataset.count`, an attribute of an instance `ray.data.context.DataContext{seed}`. Packages
that are not installed are replaced by empty classes, so that each module can be imported: it is a program.
"""

import enum
import importlib
import inspect
import json
import sys
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

from headrace.absent import ABSENT
from headrace.exceptions import UnsupportedError

TESTS = Path(__file__).resolve().parent.parent
NAMES = TESTS / "ray_names.json"
MISSING = TESTS / "ray_missing.txt"
PRESENT, GONE, OTHER, LACKING = "present", "deliberately absent", "different on purpose", "missing"

# Entry or pattern -> why it differs.
DIFFERENT = {
    "ray.data.context.DataContext(*)": "get_current() gives it; it is made without arguments",
    "ray.data.dataset.Dataset(*)": "readers make datasets",
    "ray.data.dataset.MaterializedDataset(*)": "materialize() makes them",
    "ray.data.dataset.Schema(*)": "schema() makes it",
    "ray.data.dataset.Dataset.copy(*)": "a static method in Ray that gets the dataset: `ds.copy(ds)`",
    "ray.data.dataset.Dataset.iter_batches(_collate_fn)": "private",
    "ray.data.dataset.Dataset.mix(stopping_condition)": "the same, as its text",
    "ray.data.ExecutionOptions(preserve_order)": "order is part of the result: True",
    "ray.data.context.DataContext{enable_arrow_backed_pandas_conversion}": "docs/ray.md: False",
    "ray.train.Result(*)": "fit() and from_path() make it",
    "ray.train.NCCLHangError(*)": "fit() raises it",
    "ray.train.WorkerGroupError(*)": "fit() raises it",
    "*.__eq__(*)": "the name of its argument",
}


def ours(name):
    return "headrace" + name.removeprefix("ray")


def text_of(value):
    """As make_ray_names.py writes defaults; `...` for those without a short text."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return text if len(text) < 80 and " object at " not in text and not text.startswith("<") else "..."


def keys_of(name):
    """The keys of ABSENT that speak of a name: its own, or that of its module or class."""
    parts = ours(name).split(".")
    return [key for end in range(len(parts), 1, -1) if (key := ".".join(parts[:end])) in ABSENT]


def sentence(name, error):
    """Whether the error says why `name` is absent, with the sentence of ABSENT."""
    return any(ABSENT[key] in str(error) for key in keys_of(name))


def get(owner, name, full):
    """(value, state): the attribute, or why it is not there."""
    try:
        return getattr(owner, name), PRESENT
    except (AttributeError, UnsupportedError) as e:
        return None, GONE if sentence(full, e) else LACKING


def positional(parameters):
    return [
        p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name not in ("self", "cls")
    ]


def read(call):
    """(name, default, by place) of each parameter of Ray's, and whether it takes *args and **options."""
    by_place = True
    for text in call:
        name, given, default = text.partition("=")
        if name.startswith("*"):
            by_place = False
            if name != "*":
                yield name, "", False
        elif name != "/":
            yield name, default if given else "", by_place


def differences(call, fn):
    """Names of the parameters that a call written for Ray cannot use in the same way."""
    try:
        found = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return
    kinds = {p.kind for p in found.values()}
    places = positional(found.values())
    takes_more = inspect.Parameter.VAR_KEYWORD in kinds
    known = []
    for name, default, by_place in read(call):
        if name.startswith("*"):
            wanted = inspect.Parameter.VAR_KEYWORD if name[1] == "*" else inspect.Parameter.VAR_POSITIONAL
            if wanted not in kinds:
                yield name
            continue
        if by_place:
            known.append(name)
        has = found.get(name)
        if has is None:
            if not takes_more or by_place:
                yield name
        elif by_place and places[: len(known)] != known and inspect.Parameter.VAR_POSITIONAL not in kinds:
            yield name
        elif default and default != "..." and text_of(has.default) != default:
            yield name
    for p in found.values():
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            if p.name not in {name for name, _, _ in read(call)} | {"self", "cls"}:
                yield p.name


def check_call(full, call, fn):
    if call is not None:
        for name in differences(call, fn):
            yield f"{full}({name})", LACKING


def instance_of(cls):
    try:
        return cls()
    except Exception:
        return None


def has_field(cls, of, name):
    if of is not None:
        return hasattr(of, name)
    return hasattr(cls, name) or name in getattr(cls, "__annotations__", {}) or name in parameters_of(cls)


def parameters_of(cls):
    try:
        return inspect.signature(cls).parameters
    except (TypeError, ValueError):
        return {}


def check_fields(full, fields, cls):
    of = instance_of(cls) if fields else None
    for name, default in fields.items():
        same = has_field(cls, of, name)
        if same and of is not None and default != "..." and not default.startswith(("{", "[")):
            same = text_of(getattr(of, name)) == default
        yield f"{full}{{{name}}}", PRESENT if same else LACKING


def check_member(full, entry, cls):
    name = full.rpartition(".")[2]
    value, state = get(cls, name, full)
    if state == LACKING and entry["kind"] in ("property", "value") and has_field(cls, instance_of(cls), name):
        state = PRESENT
    yield full, state
    if state != PRESENT or value is None:
        return
    if isinstance(value, enum.Enum):
        if repr(value.value) != entry.get("is"):
            yield f"{full}(value)", LACKING
    elif entry.get("call") is not None and callable(value):
        yield from check_call(full, entry["call"], value)
    elif entry.get("call") is not None:
        yield f"{full}(call)", LACKING


def check_class(full, entry, cls):
    yield from check_call(full, entry["call"], cls.__init__)
    for base in entry["bases"]:
        same = base in {c.__name__ for c in cls.__mro__}
        yield f"{full}(is a {base})", PRESENT if same else LACKING
    for name, member in entry["members"].items():
        yield from check_member(f"{full}.{name}", member, cls)
    yield from check_fields(full, entry.get("fields", {}), cls)


def check_name(module, name, entry, home):
    full = f"{module}.{name}"
    value, state = get(home, name, full)
    yield full, state
    if state != PRESENT:
        return
    if entry["kind"] == "class" and isinstance(value, type):
        yield from check_class(full, entry, value)
    elif entry["kind"] == "class" and not callable(value):
        yield f"{full}(class)", LACKING
    elif entry["kind"] == "function":
        yield from check_call(full, entry["call"], value)


def check_module(module, names):
    try:
        home = importlib.import_module(ours(module))
    except (ImportError, UnsupportedError) as e:
        for name in names:
            yield f"{module}.{name}", GONE if sentence(f"{module}.{name}", e) else LACKING
        return
    for name, entry in names.items():
        yield from check_name(module, name, entry, home)


def states():
    """{entry: PRESENT, GONE or LACKING} of all of Ray's names."""
    modules = json.loads(NAMES.read_text(encoding="utf-8"))["modules"]
    found = dict(pair for module, names in modules.items() for pair in check_module(module, names))
    for name, state in found.items():
        if state == LACKING and any(matches(name, pattern) for pattern in DIFFERENT):
            found[name] = OTHER
    return found


def matches(name, pattern):
    return name == pattern or fnmatchcase(name, pattern.replace("[", "[[]"))


def listed():
    return [line for line in MISSING.read_text(encoding="utf-8").splitlines() if line]


def counts(found):
    count = Counter(found.values())
    return ", ".join(f"{count[state]:,} {state}" for state in (PRESENT, GONE, OTHER, LACKING))


def main():
    sys.meta_path.append(stand_ins())
    found = states()
    missing = sorted(name for name, state in found.items() if state == LACKING)
    if sys.argv[1:] == ["--json"]:
        print(json.dumps(found))
        return
    print("\n".join(missing))
    print(counts(found), file=sys.stderr)
    if sys.argv[1:] == ["--write"]:
        MISSING.write_text("".join(f"{name}\n" for name in missing), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    from make_ray_names import stand_ins

    main()
