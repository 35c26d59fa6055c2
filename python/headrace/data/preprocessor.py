"""Preprocessor: a step that learns from a dataset (`fit`) and then transforms datasets and single batches.

`headrace.data.preprocessors` has the ready ones. A user's class derives from Preprocessor and defines `_fit`
(unless `_is_fittable = False`) and one of `_transform_numpy`, `_transform_pandas`, `_transform_arrow`.

The engine's expressions transform a dataset where a class has them (`_transform_dataset`), otherwise
`map_batches` does. `transform_batch` needs no engine.
"""

from __future__ import annotations

import abc
import enum
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, final

from headrace import absent

if TYPE_CHECKING:
    import pandas as pd

    from headrace.data.dataset import Dataset


_TRANSFORMS = ("_transform_pandas", "_transform_numpy", "_transform_arrow")


class BatchFormat(enum.StrEnum):
    """What a `_transform_...` method gets: the name that map_batches(batch_format=) takes."""

    PANDAS = "pandas"
    NUMPY = "numpy"
    ARROW = "pyarrow"


class PreprocessorNotFittedException(RuntimeError):
    """The preprocessor is not fitted yet."""


class Preprocessor:
    """A step that may learn from a dataset, and transforms datasets and batches.

    A subclass sets `stats_` (or any attribute whose name ends in `_`) in `_fit(ds)`, which returns self; a
    class without anything to learn sets `_is_fittable = False`. It defines at least one of the transforms;
    among several `preferred_batch_format` chooses.
    """

    _is_fittable = True

    class FitStatus(enum.StrEnum):
        """Whether `fit` is needed and done."""

        NOT_FITTABLE = "NOT_FITTABLE"
        NOT_FITTED = "NOT_FITTED"
        PARTIALLY_FITTED = "PARTIALLY_FITTED"  # of a Chain: some of its preprocessors are fitted
        FITTED = "FITTED"

    def __init__(self):
        self.stats_: dict[str, Any] = {}

    @property
    def stat_computation_plan(self) -> Any:
        """The aggregates that `_fit` requests; `fit` computes all of them in one pass."""
        return self._stat_computation_plan

    @property
    def _stat_computation_plan(self):
        from headrace.data.preprocessors.statistics import StatComputationPlan

        plan = self.__dict__.get("_plan_of_stats")
        if plan is None:
            plan = self.__dict__["_plan_of_stats"] = StatComputationPlan()
        return plan

    # ---------------------------------------------------------------------------------------------- fitting

    def _check_has_fitted_state(self) -> bool:
        return any(name.endswith("_") and bool(value) for name, value in vars(self).items())

    def fit_status(self) -> Preprocessor.FitStatus:
        """NOT_FITTABLE, NOT_FITTED, FITTED, or of a Chain PARTIALLY_FITTED."""
        if not self._is_fittable:
            return Preprocessor.FitStatus.NOT_FITTABLE
        if getattr(self, "_fitted", False) or self._check_has_fitted_state():
            return Preprocessor.FitStatus.FITTED
        return Preprocessor.FitStatus.NOT_FITTED

    def has_stats(self) -> bool:
        """Whether `stats_` has anything."""
        return bool(getattr(self, "stats_", None))

    def fit(self, ds: Dataset) -> Preprocessor:
        """Learns from the dataset at once and returns self. Replaces what an earlier fit learned, with a
        warning.
        """
        status = self.fit_status()
        if status == Preprocessor.FitStatus.NOT_FITTABLE:
            return self
        if status != Preprocessor.FitStatus.NOT_FITTED:
            warnings.warn(
                "`fit` has already been called on the preprocessor (or at least one contained preprocessors "
                "if this is a chain). All previously fitted state will be overwritten!",
                stacklevel=2,
            )
        self._begin_fit(ds)
        fitted = self._fit_execute(ds)
        self._fitted = True
        return self if fitted is None else fitted

    def _begin_fit(self, ds: Dataset) -> None:
        self._stat_computation_plan.reset()
        self.stats_ = {}
        self._fit(ds)

    def _fit_execute(self, ds: Dataset) -> Preprocessor:
        self._take_stats(self._stat_computation_plan.compute(ds))
        return self

    def _take_stats(self, stats: dict[str, Any]) -> None:
        """Stores what the aggregates of `_fit` gave."""
        self.stats_.update(stats)

    def fit_transform(
        self,
        ds: Dataset,
        *,
        transform_num_cpus: float | None = None,
        transform_memory: float | None = None,
        transform_batch_size: int | None = None,
        transform_concurrency: int | None = None,
    ) -> Dataset:
        """`fit(ds)`, then `transform(ds)`; the arguments are those of `transform`."""
        self.fit(ds)
        return self.transform(
            ds,
            num_cpus=transform_num_cpus,
            memory=transform_memory,
            batch_size=transform_batch_size,
            concurrency=transform_concurrency,
        )

    def _fit(self, ds: Dataset) -> Preprocessor:
        """What a subclass learns: sets attributes, or adds to `stat_computation_plan`; returns self."""
        raise NotImplementedError(f"{type(self).__name__} has no _fit()")

    # ------------------------------------------------------------------------------------------- transforming

    def _require_fitted(self, what: str) -> None:
        if self.fit_status() in (
            Preprocessor.FitStatus.PARTIALLY_FITTED,
            Preprocessor.FitStatus.NOT_FITTED,
        ):
            raise PreprocessorNotFittedException(
                f"`fit` must be called before `{what}`"
                + (", or simply use fit_transform() to run both steps" if what == "transform" else "")
                + f": {self!r}"
            )

    def transform(
        self,
        ds: Dataset,
        *,
        batch_size: int | None = None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        """The dataset with this step added; a consumer starts the run.

        The arguments go to `map_batches`; they mean nothing where the engine's expressions do the work.

        Raises:
            PreprocessorNotFittedException: `fit` was not called.
        """
        self._require_fitted("transform")
        return self._transform(ds, batch_size, num_cpus, memory, concurrency)

    def transform_batch(self, data: Any) -> Any:
        """Transforms one batch in this thread, without the engine, for serving.

        Args:
            data: a DataFrame, a dict of column -> array, a pyarrow.Table, or one array. This method does not
            change it.

        Returns:
            What `_transform_pandas`, `_transform_numpy` or `_transform_arrow` gives; of the classes in
            headrace.data.preprocessors a DataFrame, or a pyarrow.Table for a pyarrow.Table.

        Raises:
            PreprocessorNotFittedException: `fit` was not called.
        """
        self._require_fitted("transform_batch")
        return self._transform_batch(data)

    def _determine_transform_to_use(self) -> BatchFormat:
        """The format whose `_transform_...` runs: the only one there is, or `preferred_batch_format()`."""
        cls = type(self)
        there = [name for name in _TRANSFORMS if getattr(cls, name) is not getattr(Preprocessor, name)]
        if not there:
            raise NotImplementedError(
                f"{cls.__name__}: none of `_transform_numpy`, `_transform_pandas` or `_transform_arrow` is "
                "implemented; a Preprocessor needs one of them"
            )
        if len(there) > 1:
            return BatchFormat(_format_name(self.preferred_batch_format()))
        return {"_transform_arrow": BatchFormat.ARROW, "_transform_numpy": BatchFormat.NUMPY}.get(
            there[0], BatchFormat.PANDAS
        )

    @classmethod
    def preferred_batch_format(cls) -> BatchFormat:
        """Which transform to use if a class has several."""
        return BatchFormat.PANDAS

    def _get_transform_config(self) -> dict[str, Any]:
        """Arguments for map_batches."""
        return {}

    def _transform_dataset(self, ds: Dataset) -> Dataset | None:
        """The dataset, transformed by expressions of the engine; None if expressions cannot do it for this
        dataset."""
        return None

    def _has_expressions(self) -> bool:
        """Whether `_transform_dataset` stands for this object: no subclass has replaced a
        `_transform_...`.
        """
        for cls in type(self).__mro__:
            if "_transform_dataset" in vars(cls):
                return cls is not Preprocessor
            if any(name in vars(cls) for name in _TRANSFORMS):
                return False
        return False

    def _transform(
        self,
        ds: Dataset,
        batch_size: int | None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> Dataset:
        if self._has_expressions():
            made = self._transform_dataset(ds)
            if made is not None:
                return made
        given = {"batch_size": batch_size, "num_cpus": num_cpus, "memory": memory, "concurrency": concurrency}
        arguments = self._get_transform_config() | {k: v for k, v in given.items() if v is not None}
        batch_format = BatchFormat(_format_name(self._determine_transform_to_use()))
        fn = {
            BatchFormat.PANDAS: self._transform_pandas,
            BatchFormat.NUMPY: self._transform_numpy,
            BatchFormat.ARROW: self._transform_arrow,
        }[batch_format]
        # pandas code assigns to what it gets; arrays of NumPy stay views
        arguments.setdefault("zero_copy_batch", batch_format != BatchFormat.PANDAS)
        return ds.map_batches(fn, batch_format=batch_format.value, **arguments)

    def _transform_batch(self, data: Any) -> Any:
        from headrace.data.preprocessors import batches

        batches.check(data)
        batch_format = BatchFormat(_format_name(self._determine_transform_to_use()))
        if batch_format == BatchFormat.PANDAS:
            return self._transform_pandas(batches.to_pandas(data))
        if batch_format == BatchFormat.NUMPY:
            return self._transform_numpy(batches.to_numpy(data))
        return self._transform_arrow(batches.to_arrow(data))

    def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
        raise NotImplementedError()

    def _transform_numpy(self, np_data: Any) -> Any:
        raise NotImplementedError()

    def _transform_arrow(self, table: Any) -> Any:
        raise NotImplementedError()

    # ------------------------------------------------------------------------------------------------ columns

    @classmethod
    def _derive_and_validate_output_columns(
        cls, columns: list[str], output_columns: list[str] | None
    ) -> list[str]:
        """`output_columns`, or `columns` if there are none."""
        for name, given in (("columns", columns), ("output_columns", output_columns or [])):
            names = isinstance(given, Collection) and not isinstance(given, str)
            if not names or not all(isinstance(c, str) for c in given):
                raise TypeError(f"{cls.__name__}: {name}: expected a list of names, found {given!r}")
        if output_columns and len(columns) != len(output_columns):
            raise ValueError(
                "Invalid output_columns: Got len(columns) != len(output_columns). The length of columns and "
                f"output_columns must match: {list(columns)} and {list(output_columns)}."
            )
        return output_columns or columns

    def get_input_columns(self) -> list[str]:
        """The columns that the step reads; empty: not known."""
        return getattr(self, "_columns", getattr(self, "columns", []))

    def get_output_columns(self) -> list[str]:
        """The columns that the step makes."""
        return getattr(self, "_output_columns", getattr(self, "output_columns", []))

    # ------------------------------------------------------------------------------------------------ as text

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_plan_of_stats"}

    def serialize(self, *, allow_pickle: bool = False) -> str:
        """This preprocessor as JSON text; see `SerializablePreprocessorBase`.

        A user's class has Python state, which only pickle holds: `allow_pickle=True` permits it. (A class
        derived from SerializablePreprocessorBase needs no pickle.)
        """
        from headrace.data.preprocessors import serialization

        return serialization.dumps(self, Preprocessor, allow_pickle)

    @staticmethod
    def deserialize(serialized: str | bytes, *, allow_pickle: bool = False) -> Preprocessor:
        """The preprocessor of which `serialize` made this text.

        Args:
            serialized: the text, or its UTF-8 bytes.
            allow_pickle: also reads the pickles of serialize(allow_pickle=True). Reading a pickle runs any
                code that is in it: only for a text whose writer you trust.

        Raises:
            ValueError: the text is not of a preprocessor, is damaged, of a later version, or has a pickle
                without allow_pickle; the error says which.
            UnknownPreprocessorError: no class of that name is known (a ValueError).
        """
        from headrace.data.preprocessors import serialization

        return serialization.loads(serialized, Preprocessor, allow_pickle)


def _format_name(value: Any) -> str:
    """ "arrow" is "pyarrow" here; an enum's member (of Ray's, too) counts by its value."""
    name = getattr(value, "value", value)
    return "pyarrow" if name == "arrow" else name


class SerializablePreprocessorBase(Preprocessor, abc.ABC):
    """A preprocessor whose state is plain values, so that its text needs no pickle.

    A subclass is registered by `version_support.SerializablePreprocessor(version=, identifier=)` and defines
    `_get_serializable_fields` and `_set_serializable_fields`. Values may be None, bool, int, float, str,
    bytes, dates, times, decimals, NumPy's scalars, arrays and dtypes, pandas' CategoricalDtype and
    IntervalIndex, lists, tuples, dicts, Counters, and other preprocessors.
    """

    _VERSION = 1
    _IDENTIFIER = ""

    @abc.abstractmethod
    def _get_serializable_fields(self) -> dict[str, Any]:
        """The constructor's arguments and whatever else a transform needs, by name."""

    @abc.abstractmethod
    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        """Sets the fields of an object whose __init__ did not run; `version` is that of the text."""

    def _get_stats(self) -> dict[str, Any]:
        return getattr(self, "stats_", {})

    def _set_stats(self, stats: dict[str, Any]) -> None:
        self.stats_ = stats

    @classmethod
    def get_preprocessor_class_id(cls) -> str:
        return cls._IDENTIFIER

    @classmethod
    def set_preprocessor_class_id(cls, identifier: str) -> None:
        cls._IDENTIFIER = identifier

    @classmethod
    def get_version(cls) -> int:
        return cls._VERSION

    @classmethod
    def set_version(cls, version: int) -> None:
        cls._VERSION = version

    @final
    def serialize(self, *, allow_pickle: bool = False) -> str:
        """This preprocessor as JSON text: its type, the versions, its fields and its statistics.

        It has no pickle unless allow_pickle=True, which only a user's functions need (`tokenization_fn`,
        `transform`). The text fits into `TorchTrainer(metadata=...)`.
        """
        return super().serialize(allow_pickle=allow_pickle)


if not TYPE_CHECKING:
    __getattr__ = absent.hook("headrace.data.preprocessor")

__all__ = [
    "BatchFormat",
    "Preprocessor",
    "PreprocessorNotFittedException",
    "SerializablePreprocessorBase",
]
