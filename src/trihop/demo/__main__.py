"""The server in a process of its own: a JSON line with its URLs once it is ready, then until standard input closes."""

from __future__ import annotations

import json
import signal
import sys

from trihop.demo._server import DemoServer


def main() -> None:
    """Serve until whoever started us closes our standard input, which the end of its process does too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the client's to answer; we go when it does
    with DemoServer() as server:
        print(json.dumps(server.described()), flush=True)
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
