"""A function that raises: the user's own exception, its lines, and the operator's name."""

import subprocess
import sys
import textwrap
import traceback

import pytest

import headrace.data as hd
from headrace import exceptions
from headrace.exceptions import InvalidArgument, NotFoundError


class Own(Exception):
    def __init__(self, code, where):
        super().__init__(f"{code} at {where}")
        self.code = code

    def __reduce__(self):
        return Own, (self.code, "home")


class Unpicklable(Exception):
    def __init__(self):
        super().__init__("has a lambda")
        self.fn = lambda: 1
        self.generator = (i for i in range(3))


class TwoArguments(Exception):
    """Pickles, but cannot be rebuilt from its args."""

    def __init__(self, a, b):
        super().__init__(f"{a} {b}")


def test_did_you_mean(tmp_path):
    ds = hd.from_items([{"passengers": 1, "fare": 2.0}])
    ds.write_parquet(tmp_path / "p")
    ds.write_csv(tmp_path / "c")
    tries = {
        "passengers": [
            lambda: ds.filter(expr="passenger > 1"),
            lambda: ds.select_columns(["pasengers"]),
            lambda: ds.sort("Passengers"),
            lambda: ds.groupby("passengrs"),
            lambda: ds.drop_columns(["passenger"]),
            lambda: hd.read_parquet(tmp_path / "p", columns=["passenger"]).take_all(),
            lambda: hd.read_csv(tmp_path / "c", columns=["passenger"]).take_all(),
        ],
        "left_outer": [lambda: ds.join(ds, "left_uter", 2, on=("fare",))],
        None: [
            lambda: ds.sort("zone"),
            lambda: ds.groupby("zone"),
            lambda: ds.join(ds, "every", 2, on=("fare",)),
        ],
    }
    for meant, calls in tries.items():
        for call in calls:
            with pytest.raises((InvalidArgument, NotFoundError)) as e:
                call()
            text = str(e.value)
            assert text.count("did you mean") == (meant is not None), text
            assert meant is None or text.endswith(f"; did you mean {meant!r}?"), text


def raised(fn, compute, method="map"):
    with pytest.raises(BaseException) as e:
        getattr(hd.range(2000), method)(fn, compute=compute).take_all()
    return e.value


def helper(row):
    return 1 // (row["id"] - 700)


def divide(row):
    return {"x": helper(row)}  # the user's line


def test_its_own_type_and_lines(compute):
    e = raised(divide, compute)
    assert type(e) is ZeroDivisionError
    text = "".join(traceback.format_exception(e))
    assert "map(divide)" in text
    assert "in helper" in text and "in divide" in text and "# the user's line" in text
    note = "\n".join(e.__notes__)
    assert "udf/call.py" not in note and "worker.py" not in note
    assert ("worker process" in note) == (compute == "processes")


def test_attributes_survive(compute):
    def fn(row):
        raise Own(42, "here")

    e = raised(fn, compute)
    assert type(e) is Own and e.code == 42


@pytest.mark.parametrize("method", ["map", "map_batches", "flat_map", "filter"])
def test_every_operator(compute, method):
    def broken(x):
        raise LookupError("no luck")

    e = raised(broken, compute, method)
    assert type(e) is LookupError and e.args == ("no luck",)
    assert f"{method}(broken)" in "\n".join(e.__notes__)


def test_add_column(compute):
    def broken(x):
        raise LookupError("no luck")

    with pytest.raises(LookupError, match="no luck"):
        hd.range(3).add_column("c", broken, compute=compute).take()


@pytest.mark.parametrize(
    "make", [Unpicklable, lambda: TwoArguments(1, 2)], ids=["unpicklable", "two arguments"]
)
def test_what_pickle_cannot_carry(compute, make):
    """Its type, its text and the attributes that pickle arrive."""

    def fn(row):
        raise make()

    e = raised(fn, compute)
    assert type(e).__name__ == type(make()).__name__ and str(e) == str(make())
    assert "map(fn)" in "\n".join(e.__notes__)
    assert "raise make()" in "\n".join(e.__notes__)


@pytest.mark.parametrize("method", ["map", "flat_map", "filter"])
@pytest.mark.parametrize("cls", [StopIteration, SystemExit, GeneratorExit])
def test_misleading_exceptions(compute, cls, method):
    """Raised unchanged, they would end the consumer's loop or the program."""
    if compute != "processes" and cls is not StopIteration:
        pytest.skip("in this process they are the program's own")

    def fn(row):
        raise cls(3)

    e = raised(fn, compute, method)
    assert isinstance(e, RuntimeError) and cls.__name__ in str(e) and "fn" in "\n".join(e.__notes__)
    assert type(e) is exceptions.CallbackError or cls is StopIteration


def test_chained_exceptions(compute):
    def fn(row):
        try:
            helper({"id": 700})
        except ZeroDivisionError as e:
            raise ValueError("outer") from e

    e = raised(fn, compute)
    assert type(e) is ValueError
    note = "\n".join(e.__notes__)
    assert "ZeroDivisionError" in note and "direct cause" in note


def test_a_constructor_that_raises(compute):
    class Broken:
        def __init__(self):
            raise FileNotFoundError("model.pt")

        def __call__(self, row):
            return row

    e = raised(Broken, compute)
    assert type(e) is FileNotFoundError and "map(Broken)" in "\n".join(e.__notes__)


def test_a_generator_that_raises_late(compute):
    def fn(batch):
        yield {"x": [1]}
        raise RuntimeError("late")

    e = raised(fn, compute, "map_batches")
    assert type(e) is RuntimeError and e.args == ("late",)


def test_the_first_in_order_wins(compute):
    """The consumer gets the rows before the first error in canonical order, whichever was first in time."""

    def fn(row):
        if row["id"] >= 1000:
            raise ValueError(f"row {row['id']}")
        return row

    seen = []
    with pytest.raises(ValueError, match="row 1000$"):
        for row in hd.range(5000).map(fn, compute=compute).iter_rows():
            seen.append(row["id"])
    assert seen == list(range(len(seen))) and len(seen) <= 1000


def test_it_can_be_used_again(compute):
    state = {"fail": True}

    def fn(batch):
        if state["fail"]:
            raise ValueError("once")
        return batch

    ds = hd.range(10).map_batches(fn, compute=compute)
    with pytest.raises(ValueError):
        ds.take_all()
    if compute != "processes":
        state["fail"] = False
        assert ds.count() == 10
    else:
        with pytest.raises(ValueError):
            ds.take_all()


def test_what_the_user_sees(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        textwrap.dedent("""
            import headrace.data as hd
            def clean(row):
                return {"x": row["missing"]}
            hd.range(10).map(clean).take_all()
        """)
    )
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "KeyError: 'missing'" in done.stderr
    assert 'return {"x": row["missing"]}' in done.stderr and "map(clean)" in done.stderr
    assert "pickle" not in done.stderr


def test_a_function_that_cannot_be_sent():
    lock = __import__("threading").Lock()
    with pytest.raises(TypeError, match="lock"):
        hd.range(3).map(lambda r: (lock, r)[1]).take_all()
    assert hd.range(3).map(lambda r: (lock, r)[1], compute="threads").count() == 3


def test_our_own_errors_are_the_same_class():
    """cloudpickle pickles a class by value if its module is not loaded: headrace.exceptions in a worker."""

    def fn(row):
        from headrace._core import DataError

        raise DataError("the file")

    with pytest.raises(exceptions.DataError, match="the file"):
        hd.from_items([1]).map(fn).take_all()
