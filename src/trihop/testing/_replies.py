"""What a scripted server may answer, well or badly, and the pieces this makes on the wire."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from http.client import responses
from socket import socket
from typing import Any, Literal, Union, cast

from requests.structures import CaseInsensitiveDict

from trihop._values import JSON, Reply
from trihop.testing._received import ReceivedCall

Part = Literal["status", "headers", "body"]
Framing = Literal["length", "chunked", "close"]
SocketReply = Callable[[socket, ReceivedCall], object]


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes of one part of an answer."""

    part: Part
    data: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing for a while."""

    seconds: float


class End(Enum):
    """How a connection stops being of use."""

    CLOSE = "close"
    RESET = "reset"
    SILENT = "silent"
    DEAF = "deaf"


Piece = Union[Bytes, Pause, End, SocketReply]  # noqa: UP007 - a value at run time on 3.10


@dataclass(frozen=True, slots=True)
class Shaped:
    """A reply sent in an unusual way; see `_misbehaviour`."""

    told: str
    reply: ScriptedReply | None
    shape: Callable[[list[Piece]], list[Piece]]
    framing: Framing | None = None
    reads_body: bool = True

    def __repr__(self) -> str:
        return self.told


ScriptedReply = Union[  # noqa: UP007
    Reply, int, str, bytes, dict[str, JSON], list[JSON], Shaped, Callable[[ReceivedCall], object], SocketReply
]


def checked(reply: object, *, on_socket: bool = True) -> ScriptedReply:
    """The reply itself, if it is one.

    Raises:
        TypeError: It is nothing that can be sent.
    """
    match reply:
        case bool() | None:
            pass
        case Reply() | int() | str() | bytes() | dict() | list() | Shaped():
            if not isinstance(reply, int) or 200 <= reply <= 599:
                return reply
        case _ if callable(reply) and _arity(reply) in ((1, 2) if on_socket else (1,)):
            return reply
    raise TypeError(
        "a scripted reply is a Reply, a status (200 to 599), a dict or list (200 with JSON), a str or bytes (200), "
        f"or a function of the call{' or of the socket and the call' if on_socket else ''}; got {reply!r}"
    )


def _arity(function: Callable[..., Any]) -> int:
    parameters = inspect.signature(function).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in positional and parameter.default is parameter.empty for parameter in parameters)


def described(reply: object) -> str:
    """A reply in a few words, for messages."""
    match reply:
        case Reply():
            told = f"{reply.status_code} {reply.content[:40].decode(errors='replace')}".strip()
        case Shaped():
            told = reply.told
        case _ if callable(reply):
            told = f"{getattr(reply, '__name__', type(reply).__name__)}()"
        case _:
            told = repr(reply)
    return told if len(told) <= 60 else told[:57] + "..."


def as_reply(reply: Reply | int | str | bytes | dict[str, JSON] | list[JSON]) -> Reply:
    """A plain reply as a `Reply`."""
    match reply:
        case Reply():
            return reply
        case int():
            return Reply(reply)
        case str():
            return Reply(200, content=reply.encode(), headers={"Content-Type": "text/plain; charset=utf-8"})
        case bytes():
            return Reply(200, content=reply, headers={"Content-Type": "application/octet-stream"})
        case _:
            return Reply(200, reply, headers={"Content-Type": "application/json"})


def pieces_of(
    reply: ScriptedReply, call: ReceivedCall, *, url: str, date: str, framing: Framing = "length"
) -> list[Piece]:
    """What goes over the wire in answer to this call."""
    match reply:
        case Shaped():
            framing = reply.framing or framing
            inner = reply.reply
            return reply.shape([] if inner is None else pieces_of(inner, call, url=url, date=date, framing=framing))
        case Reply() | int() | str() | bytes() | dict() | list():
            return _encoded(as_reply(reply), call, url, date, framing)
        case _ if _arity(reply) == 2:
            return [cast(SocketReply, reply)]
        case _:
            answer = checked(reply(call))  # type: ignore[call-arg, arg-type]
            return pieces_of(answer, call, url=url, date=date, framing=framing)


def _encoded(reply: Reply, call: ReceivedCall, url: str, date: str, framing: Framing) -> list[Piece]:
    content = reply.content.replace(b"{url}", url.encode())
    headers = CaseInsensitiveDict({name: value.replace("{url}", url) for name, value in reply.headers.items()})
    headers.setdefault("Date", date)
    if _is_json(content):
        headers.setdefault("Content-Type", "application/json")
    if call.headers.get("Connection", "").lower() == "close":
        headers.setdefault("Connection", "close")
    bodiless = reply.status_code in (204, 304) or reply.status_code < 200
    if "Content-Length" not in headers and "Transfer-Encoding" not in headers and not bodiless:
        if framing == "length":
            headers["Content-Length"] = str(len(content))
        elif framing == "chunked":
            headers["Transfer-Encoding"] = "chunked"
    block = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    pieces: list[Piece] = [
        Bytes("status", f"HTTP/1.1 {reply.status_code} {responses.get(reply.status_code, 'Unexpected')}\r\n".encode()),
        Bytes("headers", f"{block}\r\n".encode()),
    ]
    if not bodiless and call.method != "HEAD":
        pieces.append(Bytes("body", content))
    if headers.get("Connection", "").lower() == "close":
        pieces.append(End.CLOSE)
    return pieces


def _is_json(content: bytes) -> bool:
    if content[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True
