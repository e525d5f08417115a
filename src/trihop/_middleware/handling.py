"""One request of the caller's while it is sent: what is added to it, and taken away again."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import requests

from trihop._middleware.watch import Watch
from trihop._wire.exchange import Exchange
from trihop._wire.session import Sent

_SENDING = "_trihop_sending"

_READING = ("GET", "HEAD")
_MOVED = (301, 302, 307, 308)


class Handling(Exchange):
    """A send of the caller's while it lasts; the redirects it follows are sends within it.

    Headers are added to the caller's own request, and taken away afterwards. One that
    another thread is sending already, perhaps for another operation, goes out as a copy.
    """

    __slots__ = ("request", "trace_headers", "watch", "within", "written")

    def __init__(self, watch: Watch, request: requests.PreparedRequest) -> None:
        super().__init__(watch.remaining)
        self.watch = watch
        self.written = self.request = request
        self.trace_headers: tuple[str, ...] = ()
        self.within: list[tuple[requests.PreparedRequest, Sent]] = []
        if vars(request).setdefault(_SENDING, self) is not self:  # one step, whatever other threads do
            self.request = copy.copy(request)
            self.request.headers = request.headers.copy()
            other = vars(self.request).pop(_SENDING, None)
            if other is not None and other.trace_headers:
                _change(self.request.headers, remove=other.trace_headers)

    def over(self, response: requests.Response | None) -> None:
        """Leave request and response as they would be without us."""
        request = self.request
        try:
            if self.trace_headers:
                self._take_headers_back(response)
        finally:
            if request is self.written:
                vars(request).pop(_SENDING, None)
        if request is not self.written and response is not None:
            for one in (response, *response.history):
                if one.request is request:
                    one.request = self.written

    def _take_headers_back(self, response: requests.Response | None) -> None:
        _change(self.request.headers, remove=self.trace_headers)
        if response is None:
            return
        # What was made of the request meanwhile: to ask again with credentials, and where a redirect leads.
        for made in (response.request, response.next):
            if made is not None and made is not self.request:
                _change(made.headers, remove=self.trace_headers)


def add_trace_headers(handling: Handling, outer: Handling | None) -> None:
    """`traceparent` by the origin rule; a redirect has inherited that of the request before, and loses it first."""
    watch, request = handling.watch, handling.request
    headers, inherited = request.headers, () if outer is None else outer.trace_headers
    if inherited:
        _change(headers, remove=inherited)
    redirected_from = None if outer is None else outer.request.url
    if not watch.may_carry_trace(request.method or "GET", request.url or "", redirected_from):
        return
    added = {name: value for name, value in watch.run.root.headers().items() if name not in headers}
    handling.trace_headers = tuple(added)
    _change(headers, add=added)


def _change(headers: Any, *, add: Mapping[str, str] = {}, remove: tuple[str, ...] = ()) -> None:
    """Change header fields in one step: two threads may send the same prepared request."""
    store = getattr(headers, "_store", None)
    if store is None:  # the caller put a dictionary of another kind there
        headers.update(add)
        for name in remove:
            headers.pop(name, None)
        return
    changed = store.copy()
    for name in remove:
        changed.pop(name.lower(), None)
    for name, value in add.items():
        changed[name.lower()] = (name, value)
    headers._store = changed


def answer_of(response: Any) -> requests.Response | None:
    """A response, or what a mock has put in its place as far as it goes."""
    if issubclass(type(response), requests.Response):  # not by its own word: a mock says that it is one
        return response  # type: ignore[no-any-return]
    status = getattr(response, "status_code", None)
    if not isinstance(status, int):
        return None
    answer = requests.Response()
    answer.status_code, answer._content = status, b""
    return answer


def at_their_proper_addresses(
    exchanges: Iterable[tuple[requests.PreparedRequest, Sent]],
) -> list[tuple[requests.PreparedRequest, Sent]]:
    """The same, each that was only sent on to a proper address (https, a slash at the end) as one with its answer."""
    told: list[tuple[requests.PreparedRequest, Sent]] = []
    for request, sent in exchanges:
        before = told[-1][1] if told else None
        if (
            before is not None
            and before.status_code in _MOVED
            and before.method == sent.method in _READING
            and _path(before.url) == _path(sent.url)
        ):
            told.pop()
            sent.earlier = [*before.earlier, before.last(None), *sent.earlier]
            sent.resends += before.resends
            sent.duration_s += sent.started_s - before.started_s
            sent.started_s = before.started_s
        told.append((request, sent))
    return told


def _path(url: str) -> tuple[str, str]:
    """What a URL asks for, whoever is asked."""
    path, _, query = url.partition("#")[0].partition("?")
    return path.partition("://")[2].partition("/")[2].rstrip("/"), query
