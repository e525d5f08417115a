"""Results that can be read once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from field.jobs import JOBS, state, submitted
from trihop import Reply, Result, ResultUnavailable
from trihop.testing import short

PAGE = Reply(504, content=b"<html>Gateway Time-out</html>", headers={"Content-Type": "text/html"})


def once_only(reply):
    return [Result(reply.json()["results"], single_use=True)]


POPPED = replace(JOBS, poll=replace(JOBS.poll, results=once_only))


def test_body_02_504_page_and_popped_result(server, fetch, tmp_path):
    """A 504 page is a poll to be asked again; a result that works once is not asked for again once it has begun.

    The report would keep the bytes that came; a path shows the whole result or nothing, so they are dropped.

    https://github.com/ConesaLab/paintomics4/pull/155
    """
    server.script(submitted(), PAGE, state("done", results="/rows"), b"rows")
    assert fetch(provider=POPPED, to=tmp_path / "rows").path.read_bytes() == b"rows"

    server.script(submitted(), state("done", results="/rows"), short("rows and rows", 6))
    with pytest.raises(ResultUnavailable, match="the link works once only"):
        fetch(provider=POPPED, to=tmp_path / "lost")
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
