"""Operations on many machines, over an engine that exists: its workers take the steps.

The store is schedule and fence; the engine is the wake-up and no more. Its
dispatcher sends a message for each operation that is due, and the message takes
one step: a submit, a poll or a download. No message waits in a broker until
something is due, so no broker's limit on waiting is ever met; a message that comes
twice, late, or out of a worker that was killed finds nothing due, or somebody at it.
What was offered to a message that never came is offered again once the store's
lease has passed.
"""

from __future__ import annotations

from importlib import import_module

STEP = "trihop.step"
DISPATCH = "trihop.dispatch"


def require(library: str, *, extra: str) -> None:
    """See that an engine's library is there.

    Raises:
        ModuleNotFoundError: It is not; the message has the line that installs it.
    """
    try:
        import_module(library)
    except ModuleNotFoundError as missing:
        if missing.name != library:
            raise
        raise ModuleNotFoundError(
            f"trihop.engines.{extra} needs {library}: pip install 'trihop[{extra}]'", name=library
        ) from None
