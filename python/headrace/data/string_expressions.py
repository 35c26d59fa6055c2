"""`col("x").str`: functions of text. The names and results are Ray Data's; the engine computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace._core import InvalidArgument

if TYPE_CHECKING:
    from headrace.data.expressions import Expr


class StringFunctions:
    """Functions of a column of text (string or large_string); null stays null.

    Lengths, positions and widths count characters; find() and find_regex() count bytes, as pyarrow does.
    Patterns, replacements, widths and the like are constants. Regular expressions are Perl's (PCRE2); \\d,
    \\w and \\s match ASCII only. ignore_case=True ignores the difference of upper and lower case.
    """

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def _call(self, function, *args, **settings):
        return self._expr._call(f"str_{function}", *args, **settings)

    # ---------------------------------------------------------------------------------------- length, case

    def len(self) -> Expr:
        """Number of characters: int32, int64 for large_string."""
        return self._call("len")

    def byte_len(self) -> Expr:
        """Number of bytes; for binary columns, too."""
        return self._call("byte_len")

    def upper(self) -> Expr:
        """Converts to upper case."""
        return self._call("upper")

    def lower(self) -> Expr:
        """Converts to lower case."""
        return self._call("lower")

    def capitalize(self) -> Expr:
        """Converts the first character to upper case, the others to lower case."""
        return self._call("capitalize")

    def title(self) -> Expr:
        """Converts each word's first letter to upper case, the others to lower case."""
        return self._call("title")

    def swapcase(self) -> Expr:
        """Converts lower case to upper case and upper case to lower case."""
        return self._call("swapcase")

    # ---------------------------------------------------------------------------------------------- classes

    def is_alpha(self) -> Expr:
        """Whether the text has characters, and all are letters."""
        return self._call("is_alpha")

    def is_alnum(self) -> Expr:
        """Whether the text has characters, and all are letters or numbers."""
        return self._call("is_alnum")

    def is_digit(self) -> Expr:
        """Whether the text has characters, and all are digits (superscripts and the like included)."""
        return self._call("is_digit")

    def is_decimal(self) -> Expr:
        """Whether the text has characters, and all are digits 0 to 9 of any script."""
        return self._call("is_decimal")

    def is_numeric(self) -> Expr:
        """Whether the text has characters, and all are numbers."""
        return self._call("is_numeric")

    def is_space(self) -> Expr:
        """Whether the text has characters, and all are white space."""
        return self._call("is_space")

    def is_lower(self) -> Expr:
        """Whether the text has letters with a case, and all of them are in lower case."""
        return self._call("is_lower")

    def is_upper(self) -> Expr:
        """Whether the text has letters with a case, and all of them are in upper case."""
        return self._call("is_upper")

    def is_title(self) -> Expr:
        """Whether each word begins in upper case and goes on in lower case."""
        return self._call("is_title")

    def is_printable(self) -> Expr:
        """Whether all characters can be printed; true for an empty text."""
        return self._call("is_printable")

    def is_ascii(self) -> Expr:
        """Whether all characters are ASCII; true for an empty text."""
        return self._call("is_ascii")

    # ---------------------------------------------------------------------------------------------- searching

    def starts_with(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether the text begins with `pattern`."""
        return self._call("starts_with", pattern, ignore_case=ignore_case or None)

    def ends_with(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether the text ends with `pattern`."""
        return self._call("ends_with", pattern, ignore_case=ignore_case or None)

    def contains(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether the text contains the text `pattern`; for regular expressions see match_regex()."""
        return self._call("contains", pattern, ignore_case=ignore_case or None)

    def match(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        r"""Whether the whole text matches the SQL LIKE pattern: % matches any text, _ any character, \ makes
        the next character literal.
        """
        return self._call("like", pattern, ignore_case=ignore_case or None)

    def match_regex(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Whether the regular expression matches anywhere in the text (^ and $ anchor it)."""
        return self._call("match_regex", pattern, ignore_case=ignore_case or None)

    def find(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """The byte offset of the first `pattern`; -1 if there is none."""
        return self._call("find", pattern, ignore_case=ignore_case or None)

    def find_regex(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """The byte offset of the first match of the regular expression; -1 if there is none."""
        return self._call("find_regex", pattern, ignore_case=ignore_case or None)

    def count(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Number of occurrences of `pattern` that do not overlap."""
        return self._call("count", pattern, ignore_case=ignore_case or None)

    def count_regex(self, pattern: str, *, ignore_case: bool = False) -> Expr:
        """Number of matches of the regular expression that do not overlap."""
        return self._call("count_regex", pattern, ignore_case=ignore_case or None)

    # ---------------------------------------------------------------------------------------------- changing

    def replace(self, pattern: str, replacement: str, *, max_replacements: int | None = None) -> Expr:
        """Replaces occurrences of `pattern`, from the left."""
        return self._call("replace", pattern, replacement, max_replacements=max_replacements)

    def replace_regex(self, pattern: str, replacement: str, *, max_replacements: int | None = None) -> Expr:
        r"""Replaces matches of the regular expression; in `replacement`, \1 to \9 are its groups, \0 is the
        whole match, \\ a backslash.
        """
        return self._call("replace_regex", pattern, replacement, max_replacements=max_replacements)

    def replace_slice(self, start: int | None, stop: int | None, replacement: str) -> Expr:
        """Replaces the characters [start, stop); negative numbers count from the end."""
        return self._call("replace_slice", replacement, start=start, stop=stop)

    def slice(self, start: int | None = 0, stop: int | None = None, step: int | None = 1) -> Expr:
        """The characters start, start + step, ... before stop, as a Python slice."""
        return self._call("slice", start=start, stop=stop, step=step)

    def __getitem__(self, key: int | slice | str) -> Expr:
        if isinstance(key, slice):
            step = 1 if key.step is None else key.step
            start = (0 if step > 0 else -1) if key.start is None else key.start
            return self.slice(start, key.stop, step)
        if isinstance(key, int) and not isinstance(key, bool):
            return self.slice(key, None if key == -1 else key + 1)
        raise InvalidArgument(f"str: expected a number or a slice in [], found {key!r}")

    def strip(self, characters: str | None = None) -> Expr:
        """Removes white space, or the given characters, at both ends."""
        return self._call("strip", *_given(characters))

    def lstrip(self, characters: str | None = None) -> Expr:
        """Removes white space, or the given characters, on the left."""
        return self._call("lstrip", *_given(characters))

    def rstrip(self, characters: str | None = None) -> Expr:
        """Removes white space, or the given characters, on the right."""
        return self._call("rstrip", *_given(characters))

    def lpad(self, width: int, padding: str = " ") -> Expr:
        """Pads on the left to `width` characters; longer texts stay."""
        return self._call("lpad", padding, width=width)

    def rpad(self, width: int, padding: str = " ") -> Expr:
        """Pads on the right to `width` characters; longer texts stay."""
        return self._call("rpad", padding, width=width)

    def center(self, width: int, padding: str = " ") -> Expr:
        """Pads on both sides to `width` characters; an odd character goes to the right."""
        return self._call("center", padding, width=width)

    def pad(self, width: int, fillchar: str = " ", side: str = "right") -> Expr:
        """Pads to `width` characters on the side "left", "right" or "both"."""
        sides = {"left": "lpad", "right": "rpad", "both": "center"}
        if side not in sides:
            raise InvalidArgument(f"str.pad: side: expected 'left', 'right' or 'both', found {side!r}")
        return self._call(sides[side], fillchar, width=width)

    def zfill(self, width: int) -> Expr:
        """Pads with zeros on the left to `width` characters, after the sign."""
        return self._call("zfill", width=width)

    def repeat(self, n: int) -> Expr:
        """The text n times, one after the other."""
        return self._call("repeat", n=n)

    def reverse(self) -> Expr:
        """The characters in reverse order."""
        return self._call("reverse")

    # ------------------------------------------------------------------------------------------- taking apart

    def split(self, pattern: str, *, max_splits: int | None = None, reverse: bool = False) -> Expr:
        """The list of texts between the `pattern`s. reverse=True counts max_splits from the end."""
        return self._call("split", pattern, max_splits=max_splits, reverse=reverse or None)

    def split_regex(self, pattern: str, *, max_splits: int | None = None) -> Expr:
        """The list of texts between matches of the regular expression."""
        return self._call("split_regex", pattern, max_splits=max_splits)

    def split_whitespace(self, *, max_splits: int | None = None, reverse: bool = False) -> Expr:
        """The list of texts between white space; white space at an end gives an empty text."""
        return self._call("split_whitespace", max_splits=max_splits, reverse=reverse or None)

    def extract(self, pattern: str) -> Expr:
        """A struct of the named groups, (?P<name>...), of the first match of the regular expression; null if
        there is no match.
        """
        return self._call("extract", pattern)


def _given(characters):
    return () if characters is None else (characters,)
