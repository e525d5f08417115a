"""Several ranges at a time: one result, one deadline, one fresh link."""

import hashlib
import os
import threading
from dataclasses import replace

import pytest
import requests

from trihop import DeadlineExceeded, Reply, Result, ResultCorrupt, ResultUnavailable, Succeeded, operation
from trihop.providers import generic
from trihop.testing import accepted, dripped, ranged, reset

BODY = os.urandom(4 * 2**20 + 4321)
OTHER = bytes(len(BODY))
SHA256 = hashlib.sha256(BODY).hexdigest()
WHOLE = Reply(200, content=BODY, headers={"ETag": '"v1"', "Accept-Ranges": "bytes"})
FULL = ranged(WHOLE)


@pytest.fixture
def fetch(server, clock, tmp_path):
    """Downloads /blob in four ranges."""

    def fetch(*replies, then_always=FULL, to=tmp_path / "blob", deadline=3600, **options):
        server.script(*replies, then_always=then_always)
        with requests.Session() as session, operation("export", deadline=deadline, session=session, clock=clock) as op:
            return op.download(f"{server.url}blob", to=to, **{"parallel": 4, "sha256": SHA256, **options})

    yield fetch
    assert {path.name for path in tmp_path.iterdir()} <= {"blob"}


def ranges(server):
    return sorted(call.headers.get("Range", "") for call in server.calls)


def test_a_large_result_comes_in_ranges(fetch, server, spans):
    """The first answer brings the first part, three more requests the others, each over a connection of its own."""
    download = fetch()

    cuts = [len(BODY) * n // 4 for n in range(5)]
    assert download.path.read_bytes() == BODY
    assert ranges(server) == ["", *sorted(f"bytes={cuts[n]}-{cuts[n + 1] - 1}" for n in (1, 2, 3))]
    assert {call.headers.get("If-Range") for call in server.calls} == {None, '"v1"'}
    told = spans.named("download export").attributes
    assert (told["trihop.download.size"], told["trihop.download.resumes"]) == (len(BODY), 0)


def test_it_is_off_by_default(fetch, server):
    """One request, whatever the server offers."""
    fetch(parallel=1)
    assert ranges(server) == [""]


NOT_FIT = {
    "no ranges offered": Reply(200, content=BODY, headers={"ETag": '"v1"'}),
    "no validator": Reply(200, content=BODY, headers={"Accept-Ranges": "bytes"}),
    "small": Reply(200, content=BODY[:1000], headers=WHOLE.headers),
}


@pytest.mark.parametrize("reply", NOT_FIT.values(), ids=NOT_FIT)
def test_what_cannot_be_split_comes_in_one_piece(fetch, server, reply):
    """Ranges have to be offered, and to be told from those of another version, and to be worth it."""
    assert fetch(reply, sha256=None).path.read_bytes() == reply.content
    assert ranges(server) == [""]


def test_memory_comes_in_one_piece(fetch, server):
    """Parts are written where they belong, which takes a file."""
    assert fetch(to=None).content == BODY
    assert ranges(server) == [""]


def test_a_part_that_breaks_off_goes_on_alone(fetch, server):
    """From its own next byte; the others are not disturbed."""
    download = fetch(FULL, lambda call: reset(FULL(call), 70_000), 503)

    assert download.path.read_bytes() == BODY
    assert (download.resumes, len(server.calls)) == (1, 6)


def test_the_first_answer_may_break_off_too(fetch):
    """Its part is asked for like another then."""
    assert fetch(reset(WHOLE, 70_000)).path.read_bytes() == BODY


def test_a_server_that_changed_its_mind_is_asked_for_all_of_it(fetch, server, tmp_path):
    """Another version, a shorter one: what came of the first is forgotten, down to its last byte."""
    shorter = Reply(200, content=BODY[:-1000], headers={"ETag": '"v2"', "Accept-Ranges": "bytes"})
    written = threading.Event()

    def changed(call):
        if call.headers.get("Range", "").endswith(f"-{len(BODY) - 1}"):
            return FULL(call)
        # The last part is in its place before any other is refused.
        while not written.wait(0.01):
            if next(tmp_path.glob(".*.part")).stat().st_size == len(BODY):
                written.set()
        return ranged(shorter)(call)

    download = fetch(FULL, then_always=changed, sha256=None)

    assert download.path.read_bytes() == shorter.content


def test_a_wrong_part_is_found_by_the_digest(fetch):
    """Of the right size and marks, with other bytes."""
    with pytest.raises(ResultCorrupt, match="its sha256 is"):
        fetch(FULL, then_always=ranged(Reply(200, content=OTHER, headers=WHOLE.headers)))


def test_a_part_that_is_gone_is_the_end(fetch):
    """The error of one part is that of the download, and nothing is left."""
    with pytest.raises(ResultUnavailable, match="server says 410"):
        fetch(FULL, then_always=410)


def test_one_deadline_holds_for_all(fetch, clock):
    """Parts that drip are cut off together."""
    together = threading.Barrier(3)  # or one drips time away before the next is asked for

    def drip(call):
        together.wait(10)
        return dripped(FULL(call), every=10, size=1000)

    with pytest.raises(DeadlineExceeded, match="cut off"):
        fetch(FULL, then_always=drip, deadline=30)


def test_a_link_that_runs_out_for_all_is_renewed_once(server, clock, tmp_path):
    """Three parts are refused at the same time; one poll brings the link that all go on with."""
    links = iter(["/old", "/new"])
    provider = replace(
        generic.ACCEPTED, poll=lambda reply, job: Succeeded("done", results=(Result(next(links), name="blob"),))
    )
    together = threading.Barrier(3)

    def refuse(call):
        together.wait(10)
        return 403

    server.on("POST", "/jobs", accepted())
    server.on("GET", "/jobs/1", then_always=200)
    server.on("GET", "/old", FULL, refuse, refuse, refuse)
    server.on("GET", "/new", then_always=FULL)
    with (
        requests.Session() as session,
        operation("export", deadline=60, session=session, clock=clock, provider=provider) as op,
    ):
        ready = op.poll(op.submit("POST", f"{server.url}jobs"))
        download = op.download(ready, to=tmp_path / "blob", sha256=SHA256, parallel=4)

    assert download.path.read_bytes() == BODY
    assert [call.path for call in server.calls].count("/jobs/1") == 2
    assert [call.path for call in server.calls].count("/new") == 3


@pytest.mark.parametrize(("parallel", "error"), [(0, ValueError), (-1, ValueError), ("4", TypeError)])
def test_a_number_of_ranges_is_a_number(fetch, parallel, error):
    """1 or more."""
    with pytest.raises(error, match=r"download\(parallel=\) takes a number of ranges, 1 or more"):
        fetch(parallel=parallel)
