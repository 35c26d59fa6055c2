"""Objects of settings: an attribute that they do not have cannot be set by mistake."""

import difflib


def unknown(what, name, known):
    """The text of an error: `what` has no `name`; the nearest of the known names is named."""
    near = difflib.get_close_matches(str(name), [str(k) for k in known], 1, 0.6)
    return f"{what} has no {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


class OnlyKnown:
    """Refuses attributes that a class does not define: AttributeError names the nearest one that it does.

    Known are the names that the class annotates, its properties, and those in `_names`; subclasses may add
    attributes of their own, and private ones (`_x`) are free.
    """

    _names = ()

    @classmethod
    def _known(cls):
        """The names that can be set, in the order of their definition."""
        found = {}
        for base in reversed(cls.__mro__):
            found.update(dict.fromkeys(vars(base).get("__annotations__", ())))
            found.update(dict.fromkeys(vars(base).get("_names", ())))
            found.update((n, None) for n, v in vars(base).items() if isinstance(v, property) and v.fset)
        return [n for n in found if not n.startswith("_")]

    def __setattr__(self, name, value):
        if not name.startswith("_") and name not in type(self)._known() and not self._own(name):
            raise AttributeError(unknown(type(self).__name__, name, type(self)._known()), name=name, obj=self)
        super().__setattr__(name, value)

    def _own(self, name):
        """Whether a user's subclass may add the attribute: classes of other packages do as they like."""
        return type(self).__module__.partition(".")[0] != "headrace"

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise AttributeError(unknown(type(self).__name__, name, type(self)._known()), name=name, obj=self)
