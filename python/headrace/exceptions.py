"""The exceptions that Headrace raises. Every class is a HeadraceError and also Python's class for the same
fault, where Python has one.

    HeadraceError
        InvalidArgument     (ValueError)           a wrong argument, or a column that is not there
        TypeMismatchError   (TypeError)            a type does not fit; names the column and both types
        NotFoundError       (FileNotFoundError)    a file does not exist
        DataError           (ValueError)           the input's bytes are wrong; names file and place
        StorageError        (OSError)              the system failed to read or write
        UnsupportedError    (NotImplementedError)  well-formed input that this version does not support
            MissingPackageError (ModuleNotFoundError)  a package is not installed; says what to install
        MemoryLimitError    (MemoryError)          the work needs more than the memory limit; names the number
        OutOfMemoryError    (MemoryError)          the system refused an allocation
        DiskFullError       (OSError)              the disk has no space, or the quota is used up
        PeerError           (ConnectionError)      a worker or trainer process died; names it
        MismatchError       (ValueError)           a position of another plan, or ranks that disagree
        CallbackError       (RuntimeError)         a function's exception that this process cannot rebuild
        CancelledError                             the run was stopped
        InternalError       (RuntimeError)         a bug in Headrace; please report it

A user's function that raises ends the run with its own exception; a note on the exception names the operator
and shows the lines of the function. CallbackError replaces exceptions that this process cannot rebuild, and
StopIteration and SystemExit, which have another meaning here.
"""

from headrace._core import (
    CallbackError,
    CancelledError,
    DataError,
    DiskFullError,
    HeadraceError,
    InternalError,
    InvalidArgument,
    MemoryLimitError,
    MismatchError,
    NotFoundError,
    OutOfMemoryError,
    PeerError,
    StorageError,
    TypeMismatchError,
    UnsupportedError,
)


class MissingPackageError(UnsupportedError, ModuleNotFoundError):
    """A function needs a package that is not installed; the message says what to install. `name`: the module
    that Python did not find.
    """

    def __init__(self, text, *, name=None):
        ModuleNotFoundError.__init__(self, text, name=name)


__all__ = [
    "CallbackError",
    "CancelledError",
    "DataError",
    "DiskFullError",
    "HeadraceError",
    "InternalError",
    "InvalidArgument",
    "MemoryLimitError",
    "MismatchError",
    "MissingPackageError",
    "NotFoundError",
    "OutOfMemoryError",
    "PeerError",
    "StorageError",
    "TypeMismatchError",
    "UnsupportedError",
]
