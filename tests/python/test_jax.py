"""Batches for JAX; on several devices in a process that pretends to have them."""

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.data.collate_fn import ArrowBatchCollateFn

jax = pytest.importorskip("jax")


def dataset():
    table = {"id": np.arange(10), "x": np.arange(10) / 2, "v": [[i, -i] for i in range(10)]}
    return hd.from_arrow(pa.table(table))


def test_batches():
    batches = list(dataset().iter_jax_batches(batch_size=4))
    assert [b["id"].tolist() for b in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert all(isinstance(v, jax.Array) for b in batches for v in b.values())
    assert batches[0]["v"].shape == (4, 2) and batches[2]["v"].tolist() == [[8, -8], [9, -9]]
    assert {k: str(v.dtype) for k, v in batches[0].items()} == {"id": "int32", "x": "float32", "v": "int32"}


def test_arguments():
    ds = dataset()
    found = list(
        ds.iter_jax_batches(batch_size=4, dtypes={"x": "float16"}, paddings={"id": -1, "x": 0, "v": 9})
    )
    assert found[0]["x"].dtype == np.float16
    assert found[2]["id"].tolist() == [8, 9, -1, -1] and found[2]["v"].shape == (4, 2)
    assert [len(b["id"]) for b in ds.iter_jax_batches(batch_size=4, drop_last=True)] == [4, 4]
    assert len(list(ds.iter_jax_batches(batch_size=4, paddings=0))[2]["x"]) == 4

    class Sums(ArrowBatchCollateFn):
        def __call__(self, batch):
            return np.asarray(batch["x"]) + np.asarray(batch["id"])

    first = next(iter(ds.iter_jax_batches(batch_size=4, collate_fn=Sums())))
    assert first.tolist() == [0, 1.5, 3, 4.5]


def test_resume_and_shares():
    batches = dataset().iterator().iter_jax_batches(batch_size=3)
    passed = iter(batches)
    next(passed)
    state = batches.state_dict()
    rest = dataset().iterator().iter_jax_batches(batch_size=3)
    rest.load_state_dict(state)
    assert [b["id"].tolist() for b in rest] == [[3, 4, 5], [6, 7, 8], [9]]


def test_a_batch_stays_as_it_is():
    """Arrays that share the batch's memory keep it."""
    batches = list(hd.range(100_000).iter_jax_batches(batch_size=1000))
    assert [int(b["id"][0]) for b in batches] == list(range(0, 100_000, 1000))


def address(array):
    return array.addressable_shards[0].data.unsafe_buffer_pointer()


def test_no_copy():
    """On the CPU an array of an aligned batch is the memory of the source."""
    source = pa.table({"x": np.arange(8192, dtype=np.float32), "n": np.arange(8192, dtype=np.int32)})
    begins = [source[name].chunk(0).buffers()[1].address for name in ("x", "n")]
    aligned = [begin % 64 == 0 for begin in begins]  # NumPy's arrays are so by chance
    for i, batch in enumerate(hd.from_arrow(source).iter_jax_batches(batch_size=1024)):
        at = [begin + 4 * 1024 * i for begin in begins]
        assert [address(batch[name]) == a for name, a in zip("xn", at, strict=True)] == aligned


def test_donated_arrays_are_not_the_source():
    source = pa.table({"x": np.arange(4096, dtype=np.float32)})
    step = jax.jit(lambda x: x * 0 - 1, donate_argnums=0)
    for batch in hd.from_arrow(source).iter_jax_batches(batch_size=1024):
        assert float(step(batch["x"]).sum()) == -1024
    assert source["x"].to_numpy().tolist() == list(range(4096))


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"batch_size": 0}, ValueError, "batch_size: expected a number of at least 1, found 0"),
        ({"batch_size": None}, ValueError, "found None"),
        ({"paddings": "x"}, TypeError, "paddings: expected a number or a dict"),
        ({"dtypes": {"y": "float32"}}, ValueError, "dtypes: no column 'y'; the columns are id, x, v"),
        ({"dtypes": "float99"}, TypeError, "column 'id': dtypes: data type 'float99' not understood"),
        ({"paddings": {"y": 1}}, ValueError, "paddings: no column 'y'"),
    ],
)
def test_refusals(arguments, error, text):
    with pytest.raises(error, match=text):
        next(iter(dataset().iter_jax_batches(**arguments)))


@pytest.mark.parametrize("values", [[1, None], [1.0, float("nan")], [float("inf"), 1.0], [[1, None], [2, 3]]])
@pytest.mark.parametrize("dtype", [jax.numpy.int32, "uint8", bool])
def test_integers_for_nulls(values, dtype):
    """The story: a null was the least integer, beside a warning of NumPy."""
    ds = hd.from_arrow(pa.table({"a": values}))
    text = "column 'a': dtypes: .* has no NaN and no infinity; a null of a number is NaN"
    if isinstance(values[0], list):
        text = "column 'a': JAX has no array"
    with pytest.raises(exceptions.TypeMismatchError, match=text):
        next(iter(ds.iter_jax_batches(dtypes={"a": dtype})))


@pytest.mark.parametrize("value, dtype", [(-1, "uint8"), (300, "int8"), (0.5, "int64"), ("x", "float32")])
def test_paddings_that_do_not_fit(value, dtype):
    """The story: a bare OverflowError, after the last batch but one."""
    ds = hd.from_arrow(pa.table({"n": np.zeros(8, dtype)}))
    text = f"column 'n': paddings: {value!r} is no value of {'int32' if dtype == 'int64' else dtype}: "
    with pytest.raises(exceptions.InvalidArgument, match=text):
        next(iter(ds.iter_jax_batches(batch_size=4, paddings={"n": value})))


def test_columns_without_an_array():
    for values in (["a"], [[1], [2, 3]]):
        ds = hd.from_arrow(pa.table({"s": values}))
        with pytest.raises(
            exceptions.TypeMismatchError, match="column 's': JAX has no array for values of object"
        ):
            next(iter(ds.iter_jax_batches()))


@pytest.mark.parametrize(
    "values, dtype", [([1, 2**40], "int64"), ([-(2**31) - 1, 0], "int64"), ([2**63, 1], "uint64")]
)
def test_integers_of_64_bits(values, dtype):
    """The story: JAX has 32 bits, and dropped the others: 2**40 was 0, and nobody noticed."""
    ds = hd.from_arrow(
        pa.table(
            {
                "n": pa.array(values, dtype),
                "v": pa.array([[v, v] for v in values], pa.list_(pa.type_for_alias(dtype))),
            }
        )
    )
    with pytest.raises(exceptions.TypeMismatchError, match=r"column 'n': the value -?\d+ needs 64 bits"):
        next(iter(ds.select_columns(["n"]).iter_jax_batches()))
    with pytest.raises(exceptions.TypeMismatchError, match="column 'v': .*jax_enable_x64"):
        next(iter(ds.select_columns(["v"]).iter_jax_batches()))
    assert next(iter(ds.iter_jax_batches(dtypes="float32")))["n"].tolist() == np.float32(values).tolist()
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        assert next(iter(ds.iter_jax_batches()))["n"].tolist() == values


def test_integers_that_fit_into_32_bits():
    ds = hd.from_arrow(pa.table({"n": [2**31 - 1, -(2**31)], "u": pa.array([2**32 - 1, 0], "uint64")}))
    batch = next(iter(ds.iter_jax_batches()))
    assert batch["n"].tolist() == [2**31 - 1, -(2**31)] and batch["u"].tolist() == [2**32 - 1, 0]


def test_several_devices():
    program = """
import jax, headrace.data as hd
assert jax.local_device_count() == 4
ds = hd.range(20)
batch = next(iter(ds.iter_jax_batches(batch_size=8)))["id"]
assert [s.data.tolist() for s in batch.addressable_shards] == [[0, 1], [2, 3], [4, 5], [6, 7]]
assert [len(b["id"]) for b in ds.iter_jax_batches(batch_size=8)] == [8, 8, 4]
for size, text in ((6, "a multiple of the 4 local devices, found 6"),):
    try:
        ds.iter_jax_batches(batch_size=size)
    except ValueError as e:
        assert text in str(e), e
    else:
        raise AssertionError
try:
    list(hd.range(10).iter_jax_batches(batch_size=8))
except ValueError as e:
    assert "a batch of 2 rows cannot be divided among 4 devices" in str(e), e
else:
    raise AssertionError
assert [len(b["id"]) for b in hd.range(10).iter_jax_batches(batch_size=8, paddings=0)] == [8, 8]
"""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | flags, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
