"""Writing a scripted answer to a socket, to the bitter end."""

from __future__ import annotations

import os
import struct
import threading
import traceback
from collections.abc import Callable, Iterable
from socket import SO_LINGER, SOL_SOCKET, socket

from trihop.testing._received import ReceivedCall
from trihop.testing._replies import Bytes, End, Pause, Piece, SocketReply, described

_PATIENCE_S = 30.0
_LINGER = "hh" if os.name == "nt" else "ii"


class Outgoing:
    """What one client gets.

    Args:
        connection: The connection to it.
        pause: Lets so many seconds pass, in whatever time the server has.
        closing: Set when the server is being closed.
        fault: Told what went wrong in the script.
    """

    def __init__(
        self,
        connection: socket,
        pause: Callable[[float], None],
        closing: threading.Event,
        fault: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._pause = pause
        self._closing = closing
        self._fault = fault

    def send(self, pieces: Iterable[Piece], call: ReceivedCall) -> bool:
        """Send an answer; whether the connection is good for another.

        Raises:
            OSError: The client went away.
        """
        return all(self._send(piece, call) for piece in pieces)

    def _send(self, piece: Piece, call: ReceivedCall) -> bool:
        match piece:
            case Bytes():
                self._connection.sendall(piece.data)
            case Pause():
                self._pause(piece.seconds)
            case End.CLOSE:
                return False
            case End.RESET:
                # Lingering for 0 s, a close sends RST instead of FIN.
                self._connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack(_LINGER, 1, 0))
                return False
            case End.SILENT:
                self._keep_silent(call)
                return False
            case End.DEAF:
                self._closing.wait(_PATIENCE_S)
                return False
            case _:
                return self._hand_over(piece, call)
        return not self._closing.is_set()

    def _hand_over(self, function: SocketReply, call: ReceivedCall) -> bool:
        try:
            function(self._connection, call)
        except ConnectionError:
            raise
        except Exception:
            if not self._closing.is_set():
                self._fault(failure(call, function))
            return False
        return self._connection.fileno() != -1

    def _keep_silent(self, call: ReceivedCall) -> None:
        self._connection.settimeout(_PATIENCE_S)
        try:
            while self._connection.recv(65536):
                pass
        except TimeoutError:
            self._fault(f"{call.method} {call.path} is left unanswered, and nobody gave up in {_PATIENCE_S:g} s")


def failure(call: ReceivedCall, reply: object) -> str:
    """What to say of an exception in a function of the script; from its `except` block."""
    return f"the reply to {call.method} {call.path}, {described(reply)}, failed: {traceback.format_exc(limit=-3)}"
