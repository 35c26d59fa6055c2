"""What happens in a run, told to Python's module logging at the level INFO, which shows nothing unless a
program wants it. docs/logging.md lists the loggers and their lines.

A program that has not imported logging wants nothing. Then this module does not import it either, which would
take 4 milliseconds of a start.
"""

from headrace.optional import imported

DATA, UDF, TRAIN = "headrace.data", "headrace.udf", "headrace.train"


def wanted(name: str) -> bool:
    """Whether somebody listens: a line that costs something to make asks first."""
    logging = imported("logging")
    return logging is not None and logging.getLogger(name).isEnabledFor(logging.INFO)


def warn(text: str) -> None:
    """Logs a warning of the engine."""
    import logging

    logging.getLogger(DATA).warning("%s", text)


def note(text: str) -> None:
    """Logs a line of the engine that is no warning."""
    tell(DATA, "%s", text)


def tell(name: str, text: str, *args: object) -> None:
    """Logs an event; `text` and `args` as for logging.info()."""
    if wanted(name):
        imported("logging").getLogger(name).info(text, *args)
