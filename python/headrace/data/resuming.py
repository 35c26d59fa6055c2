"""Warnings for a resume with classes whose instances remember rows: new instances do not see them again."""

import json
import warnings


def forgetful(node):
    """(pool, text) for each function of a plan that may remember rows and has no state in positions."""
    from headrace.udf import instances

    return [
        (pool, text)
        for pool in node.pools()
        if (text := instances.forgets(pool.spec, pool.single)) is not None
    ]


def in_the_middle(position):
    """Whether a position lies inside an epoch, with rows before and after it."""
    try:
        found = json.loads(position or "{}")
    except ValueError:
        return False  # the engine reports it
    return bool(
        isinstance(found, dict)
        and not found.get("end")
        and (found.get("discard") or any(found.get("at", ())))
    )


def warn(node, position, stacklevel=3):
    """Warns once per function of a plan that resumes in the middle of an epoch."""
    if not in_the_middle(position):
        return
    for pool, text in forgetful(node):
        if not pool.warned:
            pool.warned = True
            warnings.warn(text, stacklevel=stacklevel + 1)
