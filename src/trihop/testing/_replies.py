"""What a scripted server may answer, well or badly, and the pieces this makes on the wire."""

from __future__ import annotations

import inspect
import json
import re
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
    """A reply sent in an unusual way; made by the functions below."""

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


# ---- ways to send


def delayed(seconds: float, reply: ScriptedReply) -> Shaped:
    """Send nothing for so many seconds, then the reply.

    On a server with a `VirtualClock` the pause moves that clock and takes no time.
    """
    return _shaped(
        f"delayed({seconds:g}, {described(reply)})", reply, lambda pieces: [Pause(seconds), *pieces], on_socket=True
    )


def dripped(reply: ScriptedReply, *, every: float = 0.01, size: int = 1, part: Part = "body") -> Shaped:
    """Send one part of the reply in drops.

    Args:
        reply: Any reply but a function of the socket.
        every: Seconds before each drop; see `delayed` about a `VirtualClock`.
        size: Bytes in a drop.
        part: Which part drips: "status" (the status line), "headers" or "body".
    """
    if part not in ("status", "headers", "body") or size < 1:
        raise ValueError(
            f"dripped() takes part='status', 'headers' or 'body' and a size of 1 or more, got {part!r} and {size!r}"
        )

    def drip(pieces: list[Piece]) -> list[Piece]:
        drops: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, Bytes) and piece.part == part:
                for start in range(0, len(piece.data), size):
                    drops += [Pause(every), Bytes(part, piece.data[start : start + size])]
            else:
                drops.append(piece)
        return drops

    return _shaped(f"dripped({described(reply)}, part={part!r})", reply, drip)


def chunked(reply: ScriptedReply, size: int = 1024) -> Shaped:
    """Send the body in chunks of so many bytes, without a `Content-Length`."""
    if size < 1:
        raise ValueError(f"chunked() takes a size of 1 or more, got {size!r}")

    def cut(pieces: list[Piece]) -> list[Piece]:
        chunks: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, Bytes) and piece.part == "body":
                for start in range(0, len(piece.data), size):
                    data = piece.data[start : start + size]
                    chunks.append(Bytes("body", b"%x\r\n%b\r\n" % (len(data), data)))
                chunks.append(Bytes("body", b"0\r\n\r\n"))
            else:
                chunks.append(piece)
        return chunks

    return _shaped(f"chunked({described(reply)})", reply, cut, framing="chunked")


def close_delimited(reply: ScriptedReply) -> Shaped:
    """Send the body without any length; it ends where the connection does."""
    return _shaped(f"close_delimited({described(reply)})", reply, lambda pieces: [*pieces, End.CLOSE], framing="close")


def short(reply: ScriptedReply | None = None, sent: int = 0) -> Shaped:
    """Promise the whole body, send so many bytes of it and close; without a reply: close before a byte."""
    return _broken_off("short", reply, sent, End.CLOSE)


def reset(reply: ScriptedReply | None = None, sent: int = 0) -> Shaped:
    """Send the headers and so many bytes of the body, then reset the connection; without a reply: before a byte."""
    return _broken_off("reset", reply, sent, End.RESET)


def silent(reply: ScriptedReply | None = None, sent: int = 0) -> Shaped:
    """Send the headers and so many bytes of the body, then nothing more; without a reply: not a byte, ever.

    The connection stays open until the client gives up; one that has not after
    30 s (of real time, always) is reported when the server closes.
    """
    return _broken_off("silent", reply, sent, End.SILENT)


def deaf() -> Shaped:
    """Read the head of the request and not a byte of its body, and never answer: a large upload gets stuck.

    The connection is closed after 30 s of real time.
    """
    return Shaped("deaf()", None, lambda _: [End.DEAF], reads_body=False)


def ranged(reply: Reply | str | bytes) -> Callable[[ReceivedCall], Reply]:
    """Answer `Range` and `If-Range` from the body of this reply; without them, all of it.

    Knows one range at a time and compares `If-Range` with the reply's own
    `ETag` or `Last-Modified`. Source: RFC 9110 sections 13.1.5 and 14.
    """
    whole = as_reply(reply)
    size = len(whole.content)

    def ranged_reply(call: ReceivedCall) -> Reply:
        headers = {**whole.headers, "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", call.headers.get("Range", "").replace(" ", ""))
        unchanged = call.headers.get("If-Range") in (
            None,
            whole.headers.get("ETag"),
            whole.headers.get("Last-Modified"),
        )
        if wanted is None or wanted.groups() == ("", "") or not unchanged or whole.status_code != 200:
            return Reply(whole.status_code, headers=headers, content=whole.content)
        first, last = wanted.groups()
        start = int(first) if first else max(0, size - int(last))
        end = min(int(last) if first and last else size - 1, size - 1)
        if start > end:
            return Reply(416, headers={**headers, "Content-Range": f"bytes */{size}"})
        headers["Content-Range"] = f"bytes {start}-{end}/{size}"
        return Reply(206, headers=headers, content=whole.content[start : end + 1])

    return ranged_reply


def _broken_off(how: str, reply: ScriptedReply | None, sent: int, end: End) -> Shaped:
    def break_off(pieces: list[Piece]) -> list[Piece]:
        kept: list[Piece] = []
        left = sent
        for piece in pieces:
            if not isinstance(piece, Bytes) or piece.part != "body":
                kept.append(piece)
                continue
            if len(piece.data) > left:
                return [*kept, Bytes("body", piece.data[:left]), end]
            kept.append(piece)
            left -= len(piece.data)
        raise ValueError(f"{told}: the body has no byte after these {sent}, so nothing would be missing")

    if reply is None:
        if sent:
            raise ValueError(f"{how}() without a reply sends nothing, so sent= has no meaning")
        return Shaped(f"{how}()", None, lambda _: [end])
    told = f"{how}({described(reply)}, {sent})"
    return _shaped(told, reply, break_off)


def _shaped(
    told: str,
    reply: ScriptedReply,
    shape: Callable[[list[Piece]], list[Piece]],
    *,
    framing: Framing | None = None,
    on_socket: bool = False,
) -> Shaped:
    return Shaped(told, checked(reply, on_socket=on_socket), shape, framing)


# ---- onto the wire


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
    except ValueError:
        return False
    return True
