"""col("t").dt against pyarrow.compute and zoneinfo: every part, text and rounding, in time zones."""

import datetime
import zoneinfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from expression_tables import UNITS, compute
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace.data as hd
from headrace.data.expressions import col
from headrace.exceptions import DataError, InvalidArgument, NotFoundError, TypeMismatchError

QUICK = settings(max_examples=15, deadline=None)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "UTC",
]
ZONES += ["America/Sao_Paulo", "Pacific/Apia", "+05:30", "-08:00"]
DATE_PARTS = ["year", "quarter", "month", "day", "day_of_week", "day_of_year", "iso_week", "iso_year"]
TIME_PARTS = ["hour", "minute", "second", "millisecond", "microsecond", "nanosecond"]
T = col("c0").dt


@st.composite
def stamps(draw, zone=None, first=-(2**33), last=2**33):
    """Seconds from 1697 to 2242, or near clock changes, in any unit."""
    unit = draw(st.sampled_from(UNITS))
    changes = [1679792400, 1698541200, 1711846800, 1710054000, 951782400, 0, -1, 86399]
    second = st.integers(first, last) | st.builds(
        lambda a, b: a + b, st.sampled_from(changes), st.integers(-7300, 7300)
    )
    ticks = st.builds(
        lambda s, f: s * PER_SECOND[unit] + f % PER_SECOND[unit], second, st.integers(0, 10**9 - 1)
    )
    n = draw(st.integers(0, 10))
    cells = draw(st.lists(st.none() | ticks, min_size=n, max_size=n))
    begin = draw(st.integers(0, n))
    return pa.array(cells, pa.int64()).cast(pa.timestamp(unit, zone)).slice(begin)


def check(column, expr, want):
    found = compute(expr, pa.table({"c0": column})).combine_chunks()
    assert found.type == want.type
    if pa.types.is_temporal(want.type):
        ticks = pa.int32() if want.type.bit_width == 32 else pa.int64()
        found, want = found.cast(ticks), want.cast(ticks)
    assert found.to_pylist() == want.to_pylist()


@pytest.mark.parametrize("part", DATE_PARTS + TIME_PARTS)
@given(data=st.data(), zone=st.none() | st.sampled_from(ZONES))
@QUICK
def test_parts(part, data, zone):
    # before, offsets have seconds, which Arrow drops; far behind, it forgets summer time (zoneinfo does not)
    column = data.draw(stamps(zone, first=-9 * 10**8, last=2**31))
    check(column, getattr(T, part)(), getattr(pc, part)(column))


@given(data=st.data(), part=st.sampled_from(DATE_PARTS))
@QUICK
def test_parts_of_dates(data, part):
    days = data.draw(st.lists(st.none() | st.dates(), max_size=8))
    for kind in (pa.date32(), pa.date64()):
        column = pa.array(days, pa.date32()).cast(kind)
        check(column, getattr(T, part)(), getattr(pc, part)(column))


@given(
    data=st.data(), part=st.sampled_from(TIME_PARTS), kind=st.sampled_from(["32s", "32ms", "64us", "64ns"])
)
@QUICK
def test_parts_of_times_of_day(data, part, kind):
    wide, unit = kind[:2], kind[2:]
    ticks = data.draw(st.lists(st.none() | st.integers(0, 86400 * PER_SECOND[unit] - 1), max_size=8))
    kind = pa.time32(unit) if wide == "32" else pa.time64(unit)
    column = pa.array(ticks, pa.int32() if wide == "32" else pa.int64()).cast(kind)
    check(column, getattr(T, part)(), getattr(pc, part)(column))


FORMATS = [
    "%Y-%m-%dT%H:%M:%S",
    "%y %b %B %a %A %j %p %I",
    "%U %W %V %G %g %u %w %e",
    "%D|%F|%T|%R|%C %h",
    "%c %x %X %r",
]


@given(data=st.data(), zone=st.none() | st.sampled_from(ZONES), fmt=st.sampled_from(FORMATS))
@settings(max_examples=60, deadline=None)
def test_strftime(data, zone, fmt):
    column = data.draw(stamps(zone, first=-9 * 10**8, last=2**31))
    check(column, T.strftime(fmt), pc.strftime(column, format=fmt))
    if zone and not zone.startswith(("+", "-")):
        check(column, T.strftime("%z %Z é"), pc.strftime(column, format="%z %Z é"))


UNITS_OF_TIME = "year quarter month week day hour minute second millisecond microsecond nanosecond".split()


@pytest.mark.parametrize("unit", UNITS_OF_TIME)
@given(data=st.data())
@QUICK
def test_rounding(unit, data):
    column = data.draw(stamps())
    days = column.cast(pa.timestamp("s"), safe=False).cast(pa.date32(), safe=False)
    for values in (column, days):
        check(values, T.floor(unit), pc.floor_temporal(values, unit=unit))
        if unit in ("year", "quarter", "month"):  # Arrow's ceil goes on to the next where one begins
            begins = pc.equal(pc.floor_temporal(values, unit=unit), values)
            check(values.filter(begins), T.ceil(unit), values.filter(begins))
            values = values.filter(pc.invert(begins))
        check(values, T.ceil(unit), pc.ceil_temporal(values, unit=unit))
    check(column, T.round(unit), pc.round_temporal(column, unit=unit))


@given(
    data=st.data(),
    zone=st.sampled_from(ZONES),
    unit=st.sampled_from(["year", "month", "week", "day", "hour"]),
)
@settings(max_examples=60, deadline=None)
def test_floor_in_zones_is_the_first_instant_of_the_unit(data, zone, unit):
    """Arrow refuses ambiguous and skipped times; the first instant with these parts is always right."""
    column = data.draw(stamps(zone, first=0, last=2**31)).cast(pa.timestamp("s", zone), safe=False)
    found = compute(T.floor(unit), pa.table({"c0": column})).combine_chunks()
    try:
        want = pc.floor_temporal(column, unit=unit)
    except pa.ArrowInvalid:
        want = None
    if want is not None and unit != "hour":
        assert [*map(str, found)] == [*map(str, want)]
    before, after = found.cast(pa.int64()).to_pylist(), column.cast(pa.int64()).to_pylist()
    assert all(a is None or a <= b for a, b in zip(before, after, strict=True))


def test_every_zone_is_as_python_has_it():
    """Times in winter and summer, past and far future, in every zone of the system."""
    seconds = [-(10**9), 0, 3 * 10**8 + 1, 1700000000, 1720000000, 4102444800 + 180 * 86400, 7 * 10**9]
    names = sorted(n for n in zoneinfo.available_timezones() if "/" in n or n in ("CET", "UTC"))
    for name in names[:: 7 if len(names) > 60 else 1]:
        try:
            zone = zoneinfo.ZoneInfo(name)
            column = pa.array(seconds, pa.int64()).cast(pa.timestamp("s", name))
            found = compute(T.strftime("%Y-%m-%d %H:%M:%S %z"), pa.table({"c0": column})).to_pylist()
        except NotFoundError:
            continue  # Python's own package of zones has more
        moments = [datetime.datetime.fromtimestamp(s, zone) for s in seconds]
        assert found == [m.strftime("%Y-%m-%d %H:%M:%S ") + m.strftime("%z")[:5] for m in moments], name


def test_clocks_that_jump():
    """Sao Paulo skipped midnight; Berlin has two o'clock twice."""
    table = pa.table(
        {"t": pa.array([1541300400 + 3600 * 5], pa.int64()).cast(pa.timestamp("s", "America/Sao_Paulo"))}
    )
    day = compute(col("t").dt.floor("day"), table).cast(pa.int64()).to_pylist()
    assert day == [1541300400]  # 01:00, the first instant of that day
    twice = [1698541200 - 1800, 1698541200 + 1800]
    table = pa.table({"t": pa.array(twice, pa.int64()).cast(pa.timestamp("s", "Europe/Berlin"))})
    assert compute(col("t").dt.hour(), table).to_pylist() == [2, 2]
    assert compute(col("t").dt.floor("hour"), table).cast(pa.int64()).to_pylist() == [1698537600, 1698541200]
    assert compute(col("t").dt.date(), table).to_pylist() == [datetime.date(2023, 10, 29)] * 2


def test_errors_are_at_the_line():
    t = pa.array([0], pa.int64()).cast(pa.timestamp("s"))
    ds = hd.from_arrow(pa.table({"t": t, "d": t.cast(pa.date32()), "s": ["a"]}))
    with pytest.raises(TypeMismatchError, match="dt_year of string: expected a date or timestamp"):
        ds.with_column("x", col("s").dt.year())
    with pytest.raises(TypeMismatchError, match="dt_hour of date32"):
        ds.with_column("x", col("d").dt.hour())
    with pytest.raises(InvalidArgument, match="%Q is unknown"):
        ds.with_column("x", col("t").dt.strftime("%Q"))
    with pytest.raises(InvalidArgument, match="the column has no time zone"):
        ds.with_column("x", col("t").dt.strftime("%z"))
    with pytest.raises(InvalidArgument, match="unit: expected one of year.*found 'decade'"):
        col("t").dt.floor("decade")
    for name in ("Nowhere/There", "../etc/passwd", "/etc/passwd"):
        odd = hd.from_arrow(pa.table({"t": pa.array([0], pa.int64()).cast(pa.timestamp("s", name))}))
        with pytest.raises(NotFoundError, match="time zone"):
            odd.with_column("x", col("t").dt.year())
    far = hd.from_arrow(pa.table({"t": pa.array([-(2**63)], pa.int64()).cast(pa.timestamp("ns"))}))
    with pytest.raises(DataError, match=r"row 0 .*is beyond the range of times"):
        far.with_column("x", col("t").dt.floor("year")).to_arrow()


def test_readers_leave_out_years(tmp_path, capsys):
    import pyarrow.parquet as pq

    t = (
        pa.array([i * 86400 * 30 for i in range(400)], pa.int64())
        .cast(pa.timestamp("s"))
        .cast(pa.timestamp("us"))
    )
    pq.write_table(pa.table({"t": t}), tmp_path / "a.parquet", row_group_size=20)
    ds = hd.read_parquet(str(tmp_path / "a.parquet"))
    want = len([v for v in t.to_pylist() if v.year == 1980])
    run = ds.filter(expr=col("t").dt.year() == 1980)
    assert run.count() == want > 0
    assert ds.filter(expr=col("t").dt.month() == 2).count() == len([v for v in t.to_pylist() if v.month == 2])
    assert ds.filter(expr="t.dt.year() >= 2000").count() == len([v for v in t.to_pylist() if v.year >= 2000])
    assert ds.filter(expr=col("t").dt.floor("month") < "1971-01-01").count() == 13
