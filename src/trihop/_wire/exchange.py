"""The bounding of one HTTP exchange inside urllib3's own classes, and the sending of a URL byte for byte.

Every wait of urllib3 passes through a handful of methods. `install` puts ours
around them, once: pools, connections and subclasses made before are covered
like those made later. Outside `bounded` each costs one look at a context variable.

Not bounded, as nothing here is asked: HTTP/2, adapters that are not urllib3's,
hooks and upload bodies that sleep, names that PySocks resolves by itself, and a
`Retry` whose own `sleep` waits longer than its backoff or `Retry-After` says.
"""

from __future__ import annotations

import http.client
import sys
import threading
from collections.abc import Callable
from typing import Any

import urllib3.connection
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.util import Retry
from urllib3.util import connection as urllib3_connect
from urllib3.util.ssltransport import SSLTransport

from trihop._forks import in_the_child
from trihop._wire import connect, messages
from trihop._wire.head import parse_headers
from trihop._wire.sockets import DeadlineCut, Exchange, bounded, current

__all__ = ["DeadlineCut", "Exchange", "bounded", "install"]

_lock = threading.Lock()
_installed = False


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


in_the_child(_renew_lock)


def install() -> None:
    """Put the bounds into urllib3's classes, once for the process; thread safe."""
    global _installed
    with _lock:
        if _installed:
            return
        _replace(HTTPConnectionPool, "_get_conn", connect.get_conn)
        _replace(HTTPConnection, "putrequest", messages.putrequest)
        _replace(HTTPConnection, "putheader", messages.putheader)
        _replace(HTTPConnection, "send", messages.send)
        _replace(HTTPConnection, "getresponse", messages.getresponse)
        _replace(http.client, "parse_headers", parse_headers)
        _wrap(urllib3_connect, "create_connection", connect.create_connection)
        _wrap(urllib3.connection, "ssl_wrap_socket", connect.ssl_wrap_socket)
        _wrap(SSLTransport, "_ssl_io_loop", connect.ssl_io_loop)
        pysocks = sys.modules.get("socks")  # requests has imported it, where there is one
        if pysocks is not None:
            _wrap(pysocks.socksocket, "connect", connect.socks_connect)
        _wrap(HTTPConnection, "_tunnel", messages.tunnel)
        _wrap(Retry, "increment", messages.increment)
        _installed = True


def _replace(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    """Put what `make` makes of a method in its place."""
    ours = make(getattr(owner, name))
    ours.__name__ = ours.__qualname__ = name
    setattr(owner, name, ours)


def _wrap(owner: Any, name: str, within: Callable[..., Any]) -> None:
    """Have `within(exchange, original, ...)` called in place of a method while there is an exchange."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            exchange = current.get()
            if exchange is None:
                return original(*args, **kwargs)
            return within(exchange, original, *args, **kwargs)

        return wrapper

    _replace(owner, name, make)
