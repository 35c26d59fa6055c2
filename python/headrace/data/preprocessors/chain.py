"""Chain: several preprocessors, one after the other."""

from typing import TYPE_CHECKING, Any

from headrace.data.preprocessor import BatchFormat, Preprocessor, SerializablePreprocessorBase
from headrace.data.preprocessors.utils import BuiltInPreprocessor, compute_together
from headrace.data.preprocessors.version_support import SerializablePreprocessor

if TYPE_CHECKING:
    from headrace.data.dataset import Dataset


@SerializablePreprocessor(version=1, identifier="headrace.Chain")
class Chain(SerializablePreprocessorBase):
    """The preprocessors in their order; each learns from what those before it make.

    Preprocessors that read no column which an earlier one changes learn together, in one pass.

    Args:
        *preprocessors: the steps.
    """

    def __init__(self, *preprocessors: Preprocessor):
        for p in preprocessors:
            if not isinstance(p, Preprocessor):
                instead = ": write Chain(*steps)" if isinstance(p, (list, tuple)) else ""
                raise TypeError(f"Chain: expected preprocessors, found {p!r}{instead}")
        super().__init__()
        self._preprocessors = preprocessors

    @property
    def preprocessors(self) -> tuple[Preprocessor, ...]:
        return self._preprocessors

    def fit_status(self) -> Preprocessor.FitStatus:
        """FITTED if all fittable steps are fitted, PARTIALLY_FITTED if some are."""
        status = Preprocessor.FitStatus
        found = [p.fit_status() for p in self._preprocessors]
        found = [s for s in found if s != status.NOT_FITTABLE]
        if not found:
            return status.NOT_FITTABLE
        if all(s == status.FITTED for s in found):
            return status.FITTED
        some = any(s in (status.FITTED, status.PARTIALLY_FITTED) for s in found)
        return status.PARTIALLY_FITTED if some else status.NOT_FITTED

    def has_stats(self) -> bool:
        return any(p.has_stats() for p in self._preprocessors)

    # ---------------------------------------------------------------------------------------------- fitting

    def _begin_fit(self, ds: "Dataset") -> None:
        pass

    def _fit_execute(self, ds: "Dataset") -> "Chain":
        """Goes through the steps; `waiting` are those that can learn from `ds` as it is, in one pass."""
        waiting: list[Preprocessor] = []
        for step in _flat(self._preprocessors):
            if waiting and not _learns_beside(step, waiting):
                ds = _learn(waiting, ds, transform=True)
                waiting = []
            waiting.append(step)
        _learn(waiting, ds, transform=False)
        return self

    def _fit(self, ds: "Dataset") -> "Chain":
        return self._fit_execute(ds)

    # ------------------------------------------------------------------------------------------- transforming

    def _transform(
        self,
        ds: "Dataset",
        batch_size: int | None,
        num_cpus: float | None = None,
        memory: float | None = None,
        concurrency: int | None = None,
    ) -> "Dataset":
        for p in self._preprocessors:
            ds = p.transform(
                ds, batch_size=batch_size, num_cpus=num_cpus, memory=memory, concurrency=concurrency
            )
        return ds

    def _transform_batch(self, data: Any) -> Any:
        for p in self._preprocessors:
            data = p.transform_batch(data)
        return data

    def _determine_transform_to_use(self) -> BatchFormat:
        return self._preprocessors[0]._determine_transform_to_use()

    def get_input_columns(self) -> list[str]:
        """The columns that the steps read and no step before makes."""
        read, made = {}, set()
        for p in self._preprocessors:
            read |= dict.fromkeys(c for c in p.get_input_columns() if c not in made)
            made.update(p.get_output_columns())
        return list(read)

    def get_output_columns(self) -> list[str]:
        return list(dict.fromkeys(c for p in self._preprocessors for c in p.get_output_columns()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._preprocessors))})"

    def _get_serializable_fields(self) -> dict[str, Any]:
        return {"preprocessors": list(self._preprocessors)}

    def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
        found = fields["preprocessors"]
        if not isinstance(found, list) or not all(isinstance(p, Preprocessor) for p in found):
            raise ValueError(f"preprocessors: expected a list of preprocessors, found {found!r:.80}")
        self._preprocessors = tuple(found)


def _flat(preprocessors):
    """The steps, with those of chains in the chain."""
    for p in preprocessors:
        if type(p) is Chain:
            yield from _flat(p._preprocessors)
        else:
            yield p


def _is_plain(step: Preprocessor) -> bool:
    """Whether the step reads and changes only the columns that it names, and learns by its plan alone."""
    own = (BuiltInPreprocessor, Preprocessor, SerializablePreprocessorBase)
    return (
        isinstance(step, BuiltInPreprocessor)
        and type(step).__module__.startswith("headrace.")
        and type(step)._fit_execute in [c._fit_execute for c in own]
        and getattr(step, "_columns", ()) is not None  # None: all columns but some
    )


def _learns_beside(step: Preprocessor, waiting: list[Preprocessor]) -> bool:
    """Whether the step can learn from the rows as they are before the waiting ones."""
    if not _is_plain(step) or not all(map(_is_plain, waiting)):
        return False
    changed = {c for p in waiting for c in (*p.get_output_columns(), *getattr(p, "_dropped", lambda: ())())}
    return changed.isdisjoint(step.get_input_columns())


def _learn(steps: list[Preprocessor], ds: "Dataset", transform: bool) -> "Dataset":
    """Fits the steps in one pass, and returns the dataset after them."""
    learning = [p for p in steps if p.fit_status() != Preprocessor.FitStatus.NOT_FITTABLE]
    if len(learning) > 1 or learning and _is_plain(learning[0]):
        for p in learning:
            p._begin_fit(ds)
        found = compute_together([p._stat_computation_plan for p in learning], ds)
        for p, stats in zip(learning, found, strict=True):
            p._take_stats(stats)
            p._fitted = True
    elif learning:
        learning[0].fit(ds)
    for p in steps if transform else ():
        ds = p.transform(ds)
    return ds
