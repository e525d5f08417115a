"""Answers that promise another one, on real sockets."""

from dataclasses import replace

import sockets
from sockets import Peer, Server

from trihop import Pacing, operation
from trihop.providers import generic

session = sockets.session

QUICK = replace(generic.ACCEPTED, pacing=Pacing(first=0.01, cap=0.02, floor=0.01))


def answer(head: str, body: str = "") -> bytes:
    return f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def test_the_answer_behind_an_interim_one_is_not_taken_for_the_next(session):
    """http.client takes a 103 for the answer to a poll; what follows on that connection answers nobody else."""
    polls = []

    def serve(peer: Peer) -> None:
        while head := peer.head():
            if head.startswith(b"POST"):
                peer.send(answer("202 Accepted\r\nLocation: /jobs/1"))
            elif head.startswith(b"GET /result"):
                peer.send(answer("200 OK", "rows"))
            else:
                polls.append(head)
                if len(polls) == 1:
                    peer.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                    peer.sock.recv(1)  # the rest would come once something is asked, or the connection has ended
                    peer.send(answer("200 OK", '{"status": "failed"}'))
                    return
                peer.send(answer("200 OK", '{"status": "done", "result_url": "/result"}'))

    with Server(serve) as server, operation("export", deadline=5, session=session, provider=QUICK) as op:
        download = op.run("POST", f"{server.url}/jobs")

    assert (download.text, len(polls)) == ("rows", 2)
