"""Compares Headrace's names, signatures and defaults with those of Ray (tests/ray_names.json).

`python tests/python/ray_names.py` prints what is missing; with --write it shortens tests/ray_missing.txt.

An entry is `ray.data.read_csv`, a parameter `ray.data.read_csv(filesystem)`, a member
`ray.data.dataset.Dataset.count`, an attribute of an instance `ray.data.context.DataContext{seed}`. Packages
that are not installed are replaced by empty classes, so that each module can be imported: it is a program.
"""

import enum
import functools
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
    "ray.data.block.BlockMetadata(*)": "its arguments have defaults; `schema` is one of them",
    "ray.data.block.BlockMetadata.to_stats": "BlockStats belongs to Ray's scheduler",
    "ray.data.block.BatchFormat.CUDF": "there are no batches in the memory of GPUs",
    "ray.data.util.data_batch_conversion.BatchFormat.*": "the names that map_batches takes",
    "ray.data.grouped_data.GroupedData(*)": "groupby() makes it",
    "ray.data.stats.DatasetSummary(*)": "summary() makes it",
    "ray.data.expressions.Expr(*)": "col(), lit() and operators make expressions",
    "ray.data.expressions.*Expr.get_type": "an expression has a type when it is bound to columns",
    "ray.data.expressions.*Expr.nullable": "Ray's planner calls it",
    "ray.data.expressions.*Expr.to_field": "Ray's planner calls it",
    "ray.data.expressions.RandomExpr(_instance_id)": "private",
    "ray.data.expressions.*Expr{data_type}": "an expression has a type when it is bound to columns",
    "ray.data.preprocessor.SerializablePreprocessorBase.*": "serialize() writes JSON text",
    "ray.data.preprocessors.encoder.OneHotEncoder.safe_get": "a function of its own implementation",
    "ray.data.aggregate.*.output_field": "the engine binds aggregates to columns, and has their types",
    "ray.data.aggregate.*(is a VectorizedAggregateFnV2)": "the engine computes it",
    "ray.data.aggregate.ValueCounter.combine(*)": "the engine computes it",
    "ray.data.aggregate.Unique.ListEncodingMode": "lists are not encoded",
    "ray.data.aggregate.CountDistinct(is a Unique)": "the engine counts",
    "ray.data.aggregate.Approximate*.zero": "the engine computes it, exactly",
    "ray.data.expressions._*Namespace*(*": "further options of pyarrow's functions",
    "ray.data.datasource.datasource.Datasource.*_pushdown": "Ray's planner calls it",
    "ray.data.datasource.datasource.Datasource.apply_*": "Ray's planner calls it",
    "ray.data.datasource.datasource.Datasource.get_*_*": "Ray's planner calls it",
    "ray.data.datasource.datasource.Datasource.*_reader": "get_read_tasks(parallelism) is here",
    "ray.data.datasource.datasource.Datasource.prepare_read": "get_read_tasks(parallelism) is here",
    "ray.data.datasource.file_based_datasource.FileBasedDatasource.*_p*": "Ray's planner calls it",
    "ray.data.checkpoint.interfaces.CheckpointConfig.CHECKPOINT_ACTOR_*": "there are no actors",
    "ray.data.ExecutionResources.*memory_str": "a text of Ray's logs",
    "ray.data.datasource.*.FileShuffleConfig.get_seed": "a method of Ray's readers",
    "ray.data.RandomSeedConfig.*": "a method of Ray's operators",
    "ray.data.datasource.partitioning.Partitioning.*": "a method of Ray's readers",
    "ray.data.datasource.partitioning.PathPartitionParser.evaluate*": "a method of Ray's readers",
    "ray.train.*.RayTrainReportCallback(filename)": "CHECKPOINT_NAME, which it is in Ray",
    "ray.train.ScalingConfig(*)": "num_workers is first; trainer_resources, use_tpu, topology are errors",
    "ray.train.RunConfig(*_config)": "the same; left out, they are made",
    "ray.train.*.backend_cls": "start(session) and stop() of the config, which each worker calls",
    "ray.train.*.framework": "Ray's statistics of use",
    "ray.train.*.train_func_context": "start(session) and stop() of the config, which each worker calls",
    "ray.train.RunConfig.storage_context": "it belongs to Ray's controller",
    "ray.train.Result.config": "Ray's Tune has it",
    "ray.train.*TrainContext.get_trial_resources": "Ray's Tune has it",
    "ray.train.*Trainer(is a BaseTrainer)": "a DataParallelTrainer has its own fit()",
    "ray.train.base_trainer.BaseTrainer.*restore": "fit() goes on with the run of the same RunConfig",
    "ray.train.base_trainer.BaseTrainer.as_trainable": "Ray's Tune has it",
    "ray.train.base_trainer.BaseTrainer.preprocess_datasets": "an error in Ray",
    "ray.train.*.DataParallelTrainer.get_dataset_config": "it belongs to Ray's controller",
    "ray.train.data_parallel_trainer.DataParallelTrainer.training_loop": "it belongs to Ray's controller",
    "ray.train.*GBMTrainer(*)": "trainers without a train loop are an error",
    "ray.train.*XGBoostTrainer(*)": "trainers without a train loop are an error",
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
    """The keys of ABSENT that speak of a name: its own, those of its module or class, or the name in a
    package of its module.
    """
    parts = ours(name).split(".")
    ends = [parts[:end] for end in range(len(parts), 1, -1)]
    ends += [[*parts[:end], parts[-1]] for end in range(2, len(parts) - 1)]
    return [key for end in ends if (key := ".".join(end)) in ABSENT]


def sentence(name, error):
    """Whether the error says why `name` is absent, with the sentence of ABSENT."""
    return any(ABSENT[key] in str(error) for key in keys_of(name))


def has_hook(cls):
    return any("__getattr__" in vars(base) for base in cls.__mro__)


def get(owner, name, full):
    """(value, state): the attribute, or why it is not there. An object of a class has the sentence of a
    method that is not there.
    """
    try:
        if isinstance(owner, type) and not hasattr(owner, name) and has_hook(owner):
            return owner.__getattr__(object.__new__(owner), name), PRESENT
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


@functools.cache
def taken_by_name():
    """What functions with **options take: arguments of files, of functions, and those without effect here."""
    annotations = importlib.import_module("headrace.data.annotations")
    files = importlib.import_module("headrace.data.files").FileArguments
    named = [value for value in vars(annotations).values() if hasattr(value, "__total__")]
    names = {name for one in (files, *named) for name in one.__annotations__}
    names |= {*importlib.import_module("headrace.data.write")._FILE_ARGUMENTS}
    return names | {*importlib.import_module("headrace.data.context")._CLUSTER_ONLY}


def differences(call, fn):
    """Names of the parameters that a call written for Ray cannot use in the same way."""
    try:
        found = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return
    kinds = {p.kind for p in found.values()}
    places = positional(found.values())
    takes_all = getattr(fn, "__module__", None) == "headrace.session"  # `ignored`, and init's own list
    takes_more = inspect.Parameter.VAR_KEYWORD in kinds
    known = []
    more = taken_by_name()
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
            if not takes_more or by_place or not (takes_all or name in more):
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


def maker(cls):
    """The first __init__ that names its parameters."""
    for base in cls.__mro__:
        fn = vars(base).get("__init__")
        if fn is not None and str(inspect.signature(fn)).find("*args") < 0:
            return fn
    return cls.__init__


def check_class(full, entry, cls):
    yield from check_call(full, entry["call"], maker(cls))
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
