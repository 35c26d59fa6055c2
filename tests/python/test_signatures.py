"""Names, keyword arguments and defaults are those of Ray Data 2.60, so that programs need no change.

The tables come from inspect.signature there, except for the differences in docs/ray.md. `@cluster` marks
arguments with a meaning only on a cluster: a signature may lack them, but calls must accept them. `...` is a
default without a short text.
"""

import inspect

import pytest

import headrace.data as hd
from headrace.data import aggregate as aggregates
from headrace.data import expressions, functions
from headrace.data.context import _CLUSTER_ONLY
from headrace.data.grouping import GroupedData

CLUSTER = (
    "num_cpus=None num_gpus=None memory=None label_selector=None fallback_strategy=None max_calls=None "
    "resources=None accelerator_type=None runtime_env=None"
)

DATASET = """
add_column: col fn * batch_format='pandas' compute=None concurrency=None @cluster
aggregate: *aggs
columns: fetch_if_missing=True
count:
drop_columns: cols * compute=None concurrency=None @cluster
explain:
filter: fn=None expr=None * compute=None fn_args=None fn_kwargs=None fn_constructor_args=None
    fn_constructor_kwargs=None concurrency=None @cluster ray_remote_args_fn=None
flat_map: fn * compute=None fn_args=None fn_kwargs=None fn_constructor_args=None fn_constructor_kwargs=None
    concurrency=None @cluster ray_remote_args_fn=None
groupby: key num_partitions=None
input_files:
iter_batches: * prefetch_batches=1 batch_size=256 batch_format='default' drop_last=False
    local_shuffle_buffer_size=None local_shuffle_seed=None
iter_jax_batches: * prefetch_batches=1 batch_size=256 dtypes=None collate_fn=None drop_last=False
    local_shuffle_buffer_size=None local_shuffle_seed=None synchronize_batches=False paddings=None
iter_rows:
iter_tf_batches: * prefetch_batches=1 batch_size=256 dtypes=None drop_last=False
    local_shuffle_buffer_size=None local_shuffle_seed=None
iter_torch_batches: * prefetch_batches=1 batch_size=256 dtypes=None device='auto' collate_fn=None
    drop_last=False local_shuffle_buffer_size=None local_shuffle_seed=None pin_memory=False
iterator:
join: ds join_type num_partitions on=... right_on=None left_suffix=None right_suffix=None *
    partition_size_hint=None aggregator_ray_remote_args=None validate_schemas=False
limit: limit
map: fn * compute=None fn_args=None fn_kwargs=None fn_constructor_args=None fn_constructor_kwargs=None
    concurrency=None @cluster ray_remote_args_fn=None
map_batches: fn * batch_size=None compute=None batch_format='default' zero_copy_batch=True fn_args=None
    fn_kwargs=None fn_constructor_args=None fn_constructor_kwargs=None num_cpus=None num_gpus=None
    memory=None concurrency=None udf_modifying_row_count=True label_selector=None fallback_strategy=None
    max_calls=None resources=None accelerator_type=None runtime_env=None ray_remote_args_fn=None
materialize:
max: on=None ignore_nulls=True
mean: on=None ignore_nulls=True
min: on=None ignore_nulls=True
mix: *other weights=None stopping_condition=...
num_blocks:
random_sample: fraction * seed=None
random_shuffle: * seed=None num_blocks=None
randomize_block_order: * seed=None
rename_columns: names * concurrency=None @cluster
repartition: num_blocks=None target_num_rows_per_block=None * strict=False shuffle=False keys=None
    sort=False
schema: fetch_if_missing=True
select_columns: cols * compute=None concurrency=None @cluster
set_name: name
show: limit=20
size_bytes:
sort: key descending=False boundaries=None
split: n * equal=False locality_hints=None
split_at_indices: indices
split_proportionately: proportions
stats:
std: on=None ddof=1 ignore_nulls=True
streaming_split: n * equal=False locality_hints=None
streaming_train_test_split: test_size * split_type='random' hash_column=None seed=None
sum: on=None ignore_nulls=True
summary: columns=None override_dtype_agg_mapping=None
take: limit=20
take_all: limit=None
take_batch: batch_size=20 * batch_format='default'
to_arrow_refs:
to_numpy_refs: * column=None
to_pandas: limit=None
to_pandas_refs:
train_test_split: test_size * shuffle=False seed=None stratify=None
union: *other
unique: column ignore_nulls=False
with_column: column_name expr * compute=None @cluster
with_columns: exprs=None *more_exprs compute=None @cluster
zip: *other
"""

GROUPEDDATA = """
aggregate: *aggs
count:
map_groups: fn * zero_copy_batch=True compute=None batch_format='default' fn_args=None fn_kwargs=None
    fn_constructor_args=None fn_constructor_kwargs=None num_cpus=None num_gpus=None memory=None
    concurrency=None ray_remote_args_fn=None
max: on=None ignore_nulls=True
mean: on=None ignore_nulls=True
min: on=None ignore_nulls=True
std: on=None ddof=1 ignore_nulls=True
sum: on=None ignore_nulls=True
"""

DATAITERATOR = """
iter_batches: * prefetch_batches=1 batch_size=256 batch_format='default' drop_last=False
    local_shuffle_buffer_size=None local_shuffle_seed=None
iter_jax_batches: * prefetch_batches=1 batch_size=256 dtypes=None collate_fn=None drop_last=False
    local_shuffle_buffer_size=None local_shuffle_seed=None synchronize_batches=False paddings=None
iter_rows:
iter_tf_batches: * prefetch_batches=1 batch_size=256 dtypes=None drop_last=False
    local_shuffle_buffer_size=None local_shuffle_seed=None
iter_torch_batches: * prefetch_batches=1 batch_size=256 dtypes=None device='auto' collate_fn=None
    drop_last=False local_shuffle_buffer_size=None local_shuffle_seed=None pin_memory=False
materialize:
schema:
stats:
to_tf: feature_columns label_columns * additional_columns=None prefetch_batches=1 batch_size=1
    drop_last=False local_shuffle_buffer_size=None local_shuffle_seed=None feature_type_spec=None
    label_type_spec=None additional_type_spec=None
to_torch: * label_column=None feature_columns=None label_column_dtype=None feature_column_dtypes=None
    batch_size=1 prefetch_batches=1 drop_last=False local_shuffle_buffer_size=None local_shuffle_seed=None
    unsqueeze_label_tensor=True unsqueeze_feature_tensors=True
"""

STRATEGIES = """
ActorPoolStrategy: * size=None min_size=None max_size=None initial_size=None
    max_tasks_in_flight_per_actor=None max_concurrent_calls_per_actor=None enable_true_multi_threading=None
TaskPoolStrategy: size=None
"""

AGGREGATE = """
AbsMax: on=None ignore_nulls=True alias_name=None zero_factory=...
AggregateFn: init merge name accumulate_row=None accumulate_block=None finalize=None
AggregateFnV2: name zero_factory * on ignore_nulls
ApproximateQuantile: on quantiles quantile_precision=800 alias_name=None
ApproximateTopK: on k log_capacity=15 alias_name=None encode_lists=False
AsList: on alias_name=None ignore_nulls=False
Count: on=None ignore_nulls=False alias_name=None
CountDistinct: on ignore_nulls=True alias_name=None
Max: on=None ignore_nulls=True alias_name=None zero_factory=...
Mean: on=None ignore_nulls=True alias_name=None
Min: on=None ignore_nulls=True alias_name=None zero_factory=...
MissingValuePercentage: on alias_name=None
Quantile: on=None q=0.5 ignore_nulls=True alias_name=None
Std: on=None ddof=1 ignore_nulls=True alias_name=None
Sum: on=None ignore_nulls=True alias_name=None
Unique: on=None ignore_nulls=False alias_name=None encode_lists=None
ValueCounter: on alias_name=None
ZeroPercentage: on ignore_nulls=True alias_name=None
"""

EXPR = """
abs:
acos:
alias: name
arr.to_list:
asin:
atan:
cast: target_type * safe=True
ceil:
cos:
dt.ceil: unit
dt.day:
dt.floor: unit
dt.hour:
dt.minute:
dt.month:
dt.round: unit
dt.second:
dt.strftime: fmt
dt.year:
exp:
floor:
is_in: values
is_not_null:
is_null:
list.flatten:
list.get: index
list.len:
list.slice: start=None stop=None step=None
list.sort: order='ascending' null_placement='at_end'
ln:
log10:
log2:
map.keys:
map.values:
negate:
not_in: values
power: exponent
round:
sign:
sin:
str.byte_len:
str.capitalize:
str.center: width padding=...
str.contains: pattern
str.count: pattern
str.count_regex: pattern
str.ends_with: pattern
str.extract: pattern
str.find: pattern
str.find_regex: pattern
str.is_alnum:
str.is_alpha:
str.is_ascii:
str.is_decimal:
str.is_digit:
str.is_lower:
str.is_numeric:
str.is_printable:
str.is_space:
str.is_title:
str.is_upper:
str.len:
str.lower:
str.lpad: width padding=...
str.lstrip: characters=None
str.match: pattern
str.match_regex: pattern
str.pad: width fillchar=... side='right'
str.repeat: n
str.replace: pattern replacement
str.replace_regex: pattern replacement
str.replace_slice: start stop replacement
str.reverse:
str.rpad: width padding=...
str.rstrip: characters=None
str.slice:
str.split: pattern
str.split_regex: pattern
str.split_whitespace:
str.starts_with: pattern
str.strip: characters=None
str.swapcase:
str.title:
str.upper:
struct.field: field_name
struct.field_by_index: index
structurally_equals: other
tan:
trunc:
"""

# (method, argument) -> why the default is another one
DIFFERENT = {
    ("Dataset.join", "num_partitions"): "it means nothing here, and may be left out",
    ("Dataset.mix", "stopping_condition"): "the same, as its text",
    ("dt.strftime", "fmt"): "it has a default",
}


def table(text):
    """(name, its arguments) of each entry."""
    for entry in text.replace("\n    ", " ").strip().splitlines():
        name, _, arguments = entry.partition(":")
        yield name, arguments.replace("@cluster", CLUSTER).split()


def check(where, fn, arguments):
    found = inspect.signature(fn).parameters
    takes_more = any(p.kind is p.VAR_KEYWORD for p in found.values())
    places = [p.name for p in found.values() if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    by_place = []
    before_star = True
    for argument in arguments:
        name, given, default = argument.partition("=")
        if name.startswith("*"):
            before_star = False
            assert name == "*" or any(p.kind is p.VAR_POSITIONAL for p in found.values()), f"{where}: {name}"
            continue
        if name not in found:
            assert takes_more and name in {*_CLUSTER_ONLY, *ACCEPTED}, f"{where}: no argument {name}"
            before_star = False
            continue
        if before_star and found[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            by_place.append(name)
        if (where, name) in DIFFERENT or default == "...":
            continue
        has = found[name].default
        assert (has is inspect.Parameter.empty) == (not given), (
            f"{where}: {name}: {has!r}, Ray has {argument}"
        )
        if given:
            assert repr(has) == default, f"{where}: {name}={has!r}, Ray has {default}"
    assert places[: len(by_place)] == by_place, f"{where}: {places} in the place of {by_place}"


# of functions, which look at them themselves
ACCEPTED = {"max_retries"}


def check_all(text, of, where=""):
    names = [name for name, _ in table(text)]
    assert names and len(set(names)) == len(names)
    for name, arguments in table(text):
        check(f"{where}{name}", of(name), arguments)


def test_dataset():
    check_all(DATASET, lambda name: getattr(hd.Dataset, name), "Dataset.")


def test_grouped_data():
    check_all(GROUPEDDATA, lambda name: getattr(GroupedData, name), "GroupedData.")


def test_iterators():
    check_all(DATAITERATOR, lambda name: getattr(hd.DataIterator, name), "DataIterator.")


def test_aggregates():
    check_all(AGGREGATE, lambda name: getattr(aggregates, name).__init__)


def test_strategies():
    check_all(STRATEGIES, lambda name: getattr(functions, name).__init__)


def test_expressions():
    def method(name):
        space, _, name = name.rpartition(".")
        of = expressions.col("x")
        return getattr(type(getattr(of, space)) if space else expressions.Expr, name)

    check_all(EXPR, method)
    for name in ("col", "lit", "star", "udf", "pyarrow_udf", "download", "random", "uuid"):
        assert callable(getattr(expressions, name)), name
    assert callable(expressions.monotonically_increasing_id)


def test_the_check_finds_what_is_wrong():
    def fn(self, a, b=1, *, c=None): ...

    check("fn", fn, ["a", "b=1", "*", "c=None"])
    for wrong in (["x"], ["a", "b=2"], ["a=None"], ["b=1", "a"], ["a", "c"], ["*others"]):
        with pytest.raises(AssertionError, match="fn"):
            check("fn", fn, wrong)


def test_arguments_of_clusters_are_accepted():
    for name, value in (("num_cpus", 1), ("resources", {"x": 1}), ("runtime_env", {}), ("max_calls", 3)):
        assert hd.range(3).map(lambda row: row, compute="inline", **{name: value}).take(1) == [{"id": 0}]
    with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
        hd.range(3).map(lambda row: row, nope=1)


def test_help_names_the_common_arguments():
    """`**common` says nothing; the docstring lists what it takes."""
    from headrace.data.files import FileArguments

    readers = [
        getattr(hd, name)
        for name in hd.__all__
        if name.startswith("read_") and "**common" in _signature(name)
    ]
    assert len(readers) > 10
    for reader in readers:
        for name in set(FileArguments.__annotations__) - {"parallelism"}:
            assert name in reader.__doc__, (reader.__name__, name)
    for method in (hd.Dataset.map, hd.Dataset.map_batches, hd.Dataset.filter):
        assert "max_retries" in method.__doc__


def _signature(name):
    return str(inspect.signature(getattr(hd, name)))
