"""What Headrace raises. Every class is a HeadraceError and, where Python has one for the same thing, that
class too.

    HeadraceError
        InvalidArgument     (ValueError)           a wrong argument, or a column that is not there
        TypeMismatchError   (TypeError)            a type does not fit; names the column and both types
        NotFoundError       (FileNotFoundError)    a file that is not there
        DataError           (ValueError)           the input's bytes are wrong; names file and place
        StorageError        (OSError)              the system failed to read or write
        UnsupportedError    (NotImplementedError)  well-formed, but not known to this version
        MemoryLimitError    (MemoryError)          the work needs more than the memory limit; names the number
        OutOfMemoryError    (MemoryError)          the system refused an allocation
        DiskFullError       (OSError)              no space or quota for a file that is written
        PeerError           (ConnectionError)      a worker or trainer process died; names it
        MismatchError       (ValueError)           a position of another plan, or ranks that disagree
        CallbackError       (RuntimeError)         a function raised what could not be carried to this process
        CancelledError                             the run was stopped
        InternalError       (RuntimeError)         a fault of Headrace; please report it

A function of the user's that raises ends the run with its own exception, with the lines of the function and
the name of the operator as a note. CallbackError stands for those that cannot be made again here, and for
StopIteration and SystemExit, which would mean something else here.
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
    "NotFoundError",
    "OutOfMemoryError",
    "PeerError",
    "StorageError",
    "TypeMismatchError",
    "UnsupportedError",
]
