"""`col("x").str`: functions of text, with the names and results of Ray Data's, computed by the engine."""

from headrace._core import InvalidArgument


class StringFunctions:
    """Functions of a column of text (string or large_string); a null stays null.

    Lengths, positions and widths count characters; find() and find_regex() give bytes, as pyarrow does.
    Patterns, replacements and the like are constants. Regular expressions are Perl's (PCRE2); \\d, \\w and
    \\s are ASCII. ignore_case=True: upper and lower case are the same.
    """

    def __init__(self, expr):
        self._expr = expr

    def _call(self, function, *args, **settings):
        return self._expr._call(f"str_{function}", *args, **settings)

    # ---------------------------------------------------------------------------------------- length, case

    def len(self):
        """How many characters: int32, of large_string int64."""
        return self._call("len")

    def byte_len(self):
        """How many bytes; also of binary columns."""
        return self._call("byte_len")

    def upper(self):
        """In upper case."""
        return self._call("upper")

    def lower(self):
        """In lower case."""
        return self._call("lower")

    def capitalize(self):
        """The first character in upper case, the others in lower case."""
        return self._call("capitalize")

    def title(self):
        """Each word's first letter in upper case, the others in lower case."""
        return self._call("title")

    def swapcase(self):
        """Upper case for lower case, lower case for upper case."""
        return self._call("swapcase")

    # ---------------------------------------------------------------------------------------------- classes

    def is_alpha(self):
        """All characters are letters, and there is one."""
        return self._call("is_alpha")

    def is_alnum(self):
        """All characters are letters or numbers, and there is one."""
        return self._call("is_alnum")

    def is_digit(self):
        """All characters are digits, superscripts and the like too, and there is one."""
        return self._call("is_digit")

    def is_decimal(self):
        """All characters are digits 0 to 9 of any script, and there is one."""
        return self._call("is_decimal")

    def is_numeric(self):
        """All characters are numbers, and there is one."""
        return self._call("is_numeric")

    def is_space(self):
        """All characters are blanks, and there is one."""
        return self._call("is_space")

    def is_lower(self):
        """The letters that have a case are in lower case, and there is one."""
        return self._call("is_lower")

    def is_upper(self):
        """The letters that have a case are in upper case, and there is one."""
        return self._call("is_upper")

    def is_title(self):
        """Each word begins in upper case and goes on in lower case."""
        return self._call("is_title")

    def is_printable(self):
        """All characters can be printed, or there is none."""
        return self._call("is_printable")

    def is_ascii(self):
        """All characters are ASCII, or there is none."""
        return self._call("is_ascii")

    # ---------------------------------------------------------------------------------------------- searching

    def starts_with(self, pattern, *, ignore_case=False):
        """Whether the text begins with `pattern`."""
        return self._call("starts_with", pattern, ignore_case=ignore_case or None)

    def ends_with(self, pattern, *, ignore_case=False):
        """Whether the text ends with `pattern`."""
        return self._call("ends_with", pattern, ignore_case=ignore_case or None)

    def contains(self, pattern, *, ignore_case=False):
        """Whether `pattern`, a text, stands in it; see match_regex() for regular expressions."""
        return self._call("contains", pattern, ignore_case=ignore_case or None)

    def match(self, pattern, *, ignore_case=False):
        r"""Whether the whole text is as the SQL LIKE pattern: % is any text, _ any character, \ takes the
        next character as it is.
        """
        return self._call("like", pattern, ignore_case=ignore_case or None)

    def match_regex(self, pattern, *, ignore_case=False):
        """Whether the regular expression is found in the text (anywhere, unless it has ^ or $)."""
        return self._call("match_regex", pattern, ignore_case=ignore_case or None)

    def find(self, pattern, *, ignore_case=False):
        """The byte where `pattern` stands first; -1: nowhere."""
        return self._call("find", pattern, ignore_case=ignore_case or None)

    def find_regex(self, pattern, *, ignore_case=False):
        """The byte where the regular expression is found first; -1: nowhere."""
        return self._call("find_regex", pattern, ignore_case=ignore_case or None)

    def count(self, pattern, *, ignore_case=False):
        """How often `pattern` stands in the text, without overlaps."""
        return self._call("count", pattern, ignore_case=ignore_case or None)

    def count_regex(self, pattern, *, ignore_case=False):
        """How often the regular expression is found, without overlaps."""
        return self._call("count_regex", pattern, ignore_case=ignore_case or None)

    # ---------------------------------------------------------------------------------------------- changing

    def replace(self, pattern, replacement, *, max_replacements=None):
        """`replacement` in the place of `pattern`, from the left."""
        return self._call("replace", pattern, replacement, max_replacements=max_replacements)

    def replace_regex(self, pattern, replacement, *, max_replacements=None):
        r"""`replacement` in the place of what the regular expression finds; \1 to \9 in it are groups, \0 the
        whole match, \\ a backslash.
        """
        return self._call("replace_regex", pattern, replacement, max_replacements=max_replacements)

    def replace_slice(self, start, stop, replacement):
        """`replacement` in the place of the characters [start, stop); from the end, where negative."""
        return self._call("replace_slice", replacement, start=start, stop=stop)

    def slice(self, start=0, stop=None, step=1):
        """The characters start, start + step, ... before stop; as Python's slices."""
        return self._call("slice", start=start, stop=stop, step=step)

    def __getitem__(self, key):
        if isinstance(key, slice):
            step = 1 if key.step is None else key.step
            start = (0 if step > 0 else -1) if key.start is None else key.start
            return self.slice(start, key.stop, step)
        if isinstance(key, int) and not isinstance(key, bool):
            return self.slice(key, None if key == -1 else key + 1)
        raise InvalidArgument(f"str[{key!r}]: expected a number or a slice")

    def strip(self, characters=None):
        """Without the blanks, or these characters, at both ends."""
        return self._call("strip", *_given(characters))

    def lstrip(self, characters=None):
        """Without the blanks, or these characters, on the left."""
        return self._call("lstrip", *_given(characters))

    def rstrip(self, characters=None):
        """Without the blanks, or these characters, on the right."""
        return self._call("rstrip", *_given(characters))

    def lpad(self, width, padding=" "):
        """Filled on the left up to `width` characters; longer texts stay."""
        return self._call("lpad", padding, width=width)

    def rpad(self, width, padding=" "):
        """Filled on the right up to `width` characters; longer texts stay."""
        return self._call("rpad", padding, width=width)

    def center(self, width, padding=" "):
        """Filled on both sides, with one more on the right where that has to be."""
        return self._call("center", padding, width=width)

    def pad(self, width, fillchar=" ", side="right"):
        """Filled up to `width` characters on the side "left", "right" or "both"."""
        sides = {"left": "lpad", "right": "rpad", "both": "center"}
        if side not in sides:
            raise InvalidArgument(f"str.pad: side {side!r}; expected 'left', 'right' or 'both'")
        return self._call(sides[side], fillchar, width=width)

    def zfill(self, width):
        """Zeros on the left up to `width` characters, behind a sign."""
        return self._call("zfill", width=width)

    def repeat(self, n):
        """n times, one after the other."""
        return self._call("repeat", n=n)

    def reverse(self):
        """From the last character to the first."""
        return self._call("reverse")

    # ------------------------------------------------------------------------------------------- taking apart

    def split(self, pattern, *, max_splits=None, reverse=False):
        """A list of what stands between the `pattern`s. reverse=True counts max_splits from the end."""
        return self._call("split", pattern, max_splits=max_splits, reverse=reverse or None)

    def split_regex(self, pattern, *, max_splits=None):
        """A list of what stands between matches of the regular expression."""
        return self._call("split_regex", pattern, max_splits=max_splits)

    def split_whitespace(self, *, max_splits=None, reverse=False):
        """A list of what stands between blanks; an empty text where it begins or ends with one."""
        return self._call("split_whitespace", max_splits=max_splits, reverse=reverse or None)

    def extract(self, pattern):
        """A struct of the named groups, (?P<name>...), where the regular expression is found first; null
        where it is not.
        """
        return self._call("extract", pattern)


def _given(characters):
    return () if characters is None else (characters,)
