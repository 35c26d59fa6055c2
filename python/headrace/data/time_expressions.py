"""`col("t").dt`: functions of dates and times. The names and results are Ray Data's; the engine computes
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace._core import InvalidArgument

if TYPE_CHECKING:
    from headrace.data.expressions import Expr


_UNITS = (
    "year quarter month week day hour minute second millisecond microsecond nanosecond".split()
)  # the engine's names


class TimeFunctions:
    """Functions of a column of timestamps, dates or times of day; null stays null.

    A timestamp with a time zone gives the local time of its zone, by the system's time zone database
    ("Europe/Berlin") or a fixed offset ("+05:30"). Parts are int64.
    """

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def _call(self, function, **settings):
        return self._expr._call(f"dt_{function}", **settings)

    def year(self) -> Expr:
        """The year."""
        return self._call("year")

    def quarter(self) -> Expr:
        """The quarter, 1 to 4."""
        return self._call("quarter")

    def month(self) -> Expr:
        """The month, 1 to 12."""
        return self._call("month")

    def day(self) -> Expr:
        """The day of the month, 1 to 31."""
        return self._call("day")

    def hour(self) -> Expr:
        """The hour, 0 to 23."""
        return self._call("hour")

    def minute(self) -> Expr:
        """The minute."""
        return self._call("minute")

    def second(self) -> Expr:
        """The second."""
        return self._call("second")

    def millisecond(self) -> Expr:
        """Milliseconds since the last second."""
        return self._call("millisecond")

    def microsecond(self) -> Expr:
        """Microseconds since the last millisecond."""
        return self._call("microsecond")

    def nanosecond(self) -> Expr:
        """Nanoseconds since the last microsecond."""
        return self._call("nanosecond")

    def day_of_week(self) -> Expr:
        """0 for Monday to 6 for Sunday."""
        return self._call("day_of_week")

    def day_of_year(self) -> Expr:
        """The day of the year, from 1."""
        return self._call("day_of_year")

    def iso_week(self) -> Expr:
        """The ISO 8601 week, 1 to 53."""
        return self._call("iso_week")

    def iso_year(self) -> Expr:
        """The year that the ISO 8601 week belongs to."""
        return self._call("iso_year")

    def date(self) -> Expr:
        """The day, as date32."""
        return self._call("date")

    def strftime(self, fmt: str = "%Y-%m-%dT%H:%M:%S") -> Expr:
        """Formats as text, as C's strftime does in English. As in pyarrow, %S and %T have the digits of the
        column's unit; %z and %Z need a column with a time zone.
        """
        return self._call("strftime", format=fmt)

    def floor(self, unit: str) -> Expr:
        """Rounds down to the beginning of the unit: "year", "quarter", "month", "week" (Monday), "day",
        "hour", "minute", "second", "millisecond", "microsecond" or "nanosecond".
        """
        return self._call("floor", unit=_unit(unit))

    def ceil(self, unit: str) -> Expr:
        """Rounds up to the beginning of a unit; a beginning stays."""
        return self._call("ceil", unit=_unit(unit))

    def round(self, unit: str) -> Expr:
        """Rounds to the nearest beginning of a unit; the middle rounds up."""
        return self._call("round", unit=_unit(unit))


def _unit(unit):
    if unit not in _UNITS:
        raise InvalidArgument(f"dt: unit: expected one of {', '.join(_UNITS)}, found {unit!r}")
    return unit
