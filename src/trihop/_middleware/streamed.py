"""A body that the caller reads by and by: its deadline, and how far it came.

Further in, urllib3 and requests would take the deadline for an error of their
own, swallow it or ask again; so it shows itself at the outer edge of the reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import requests

from trihop._middleware.watch import Watch
from trihop._wire.exchange import DeadlineCut
from trihop._wire.network import BROKEN, error_type_of
from trihop._wire.session import Sent


def watch_body(response: requests.Response, sent: Sent, watch: Watch) -> None:
    """Have the reading of a body raise `DeadlineExceeded`, and tell the exchange until when it went on.

    The reader stays the object it is, of a class below its own: it knows nothing
    of us that would keep it, and its connection, alive any longer.
    """
    raw: Any = response.raw
    if not hasattr(raw, "_fp_bytes_read") or not hasattr(raw, "read_chunked"):
        return  # no reader of urllib3's: whoever made it bounds it
    if hasattr(raw, "_trihop_seen"):
        return  # the answer to a redirect, which is told by itself
    kind: Any = type(raw)
    raw.__class__ = _watched(kind)
    raw._trihop_seen = (sent, watch)


@cache
def _watched(kind: Any) -> type[Any]:
    def reading(name: str) -> Callable[..., Any]:
        method = getattr(kind, name)

        def read(self: Any, *args: Any, **kwargs: Any) -> Any:
            return _read(self, method, self, *args, **kwargs)

        return read

    def read_chunked(self: Any, *args: Any, **kwargs: Any) -> Iterator[bytes]:
        pieces = kind.read_chunked(self, *args, **kwargs)
        end = object()
        while (piece := _read(self, next, pieces, end)) is not end:
            yield piece

    # urllib3 1.26 has no read1, and must not seem to.
    members: dict[str, Any] = {name: reading(name) for name in ("read", "read1") if hasattr(kind, name)}
    return type(kind.__name__, (kind,), {**members, "read_chunked": read_chunked, "__module__": kind.__module__})


def _read(raw: Any, read: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    sent, watch = raw._trihop_seen
    try:
        return read(*args, **kwargs)
    except DeadlineCut as cut:
        sent.cut, sent.error_type = cut, "deadline"
        raise watch.exceeded(cut) from None
    except BROKEN as error:
        sent.error_type = error_type_of(error)
        raise
    finally:
        sent.size_bytes = raw._fp_bytes_read
        sent.duration_s = watch.monotonic() - sent.started_s
