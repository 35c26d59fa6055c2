"""Damaged files: we never give rows other than the written ones in silence where another reader refuses.

Each test reads some hundred damaged copies of files by several writers; HEADRACE_THOROUGH=1 reads thousands.
"""

import pytest
from corruption import KINDS, damage, run_cases

from headrace.exceptions import DataError

# ------------------------------------------------------------------------------------- the harness itself


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_a_function_of_its_seed(kind):
    data = bytes(range(256)) * 8
    once, what = damage(data, 7, kind)
    assert once == damage(data, 7, kind)[0] != data
    assert what.startswith(f"{kind}: ")
    assert len({damage(data, seed, kind)[0] for seed in range(50)}) > 20


def test_damage_stays_within_its_range():
    data = bytes(1000)
    for seed in range(200):
        for kind in set(KINDS) - {"cut", "hole"}:
            out = damage(data, seed, kind, within=(100, 200))[0]
            assert len(out) == 1000 and out != data
            assert out[:100] == data[:100] and out[200:] == data[200:]


def with_checksum(data):
    if len(data) < 64 or sum(data[:-1]) % 256 != data[-1]:
        raise DataError("the checksum differs")
    return data


def test_what_only_the_other_reader_refuses_is_silent():
    data = bytes(range(100))
    data += bytes([sum(data) % 256])
    lax = run_cases(bytes, with_checksum, data, 80, name="lax")
    assert lax.counts["silent"] > 70 and lax.total == 80
    with pytest.raises(AssertionError, match=r"lax: 80 cases: .*\n  seed '0/0': silent: lax: bit: bit "):
        lax.check()
    strict = run_cases(with_checksum, bytes, data, 80, name="strict")
    assert strict.counts["refused"] > 70 and not strict.counts["silent"]
    strict.check()


def test_what_no_reader_sees_counts_only_where_a_checksum_covers_it():
    report = run_cases(bytes, bytes, b"no checksum at all" * 9, 16)
    assert report.counts == {"shared": 16}
    report.check()
    with pytest.raises(AssertionError, match="shared"):
        report.check(covered=True)


def test_other_exceptions_are_crashes():
    def broken(data):
        return data if data == b"whole" else data.no_such_method()

    report = run_cases(broken, None, b"whole", 8)
    assert report.counts == {"crash": 8}
    with pytest.raises(AssertionError, match="AttributeError"):
        report.check()
