"""Ways to send a reply badly: late, in drops, in parts, broken off, not at all. And one to send it well: by ranges."""

from __future__ import annotations

import re
from collections.abc import Callable

from trihop._values import Reply
from trihop.testing._received import ReceivedCall
from trihop.testing._replies import (
    Bytes,
    End,
    Framing,
    Part,
    Pause,
    Piece,
    ScriptedReply,
    Shaped,
    as_reply,
    checked,
    described,
)


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
