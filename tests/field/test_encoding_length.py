"""Bodies that are shorter than they should be, and packed ones."""

from __future__ import annotations

import gzip

import pytest

from field.jobs import state, submitted
from trihop import Reply, ResultCorrupt, operation
from trihop.testing import short

ROWS = b"Id,Name\n" + b"1,Anna\n" * 20_000
PACKED = gzip.compress(ROWS, mtime=0)
GZIPPED = Reply(200, content=PACKED, headers={"Content-Encoding": "gzip", "Content-Type": "text/csv"})


def test_len_01_short_body_accepted(server, fetch, tmp_path):
    """Fourteen bytes of ten thousand are no result, of a poll no more than of a download.

    https://github.com/psf/requests/issues/4956
    """
    whole = Reply(200, content=b"x" * 10_000)
    server.script(submitted(), short(state("done", results="/rows"), 14), state("done", results="/rows"))
    server.script(*[short(whole, 14)] * 3)

    with pytest.raises(ResultCorrupt, match="body_truncated"):
        fetch(to=tmp_path / "rows")
    assert list(tmp_path.iterdir()) == []


def test_len_03_gzip_counts(server, spans, fetch, tmp_path):
    """A packed body is counted as it came: its length is right, and progress is of the same bytes.

    https://github.com/httpie/cli/issues/1642
    """
    events = []
    server.script(submitted(), state("done", results="/rows"), GZIPPED)

    rows = fetch(to=tmp_path / "rows.csv", on_event=events.append)

    assert rows.path.read_bytes() == ROWS
    assert server.calls[-1].headers["Accept-Encoding"] == "identity"
    told = [(event.bytes_done, event.bytes_total) for event in events if event.kind == "downloading"]
    assert told[-1] == (len(PACKED), len(PACKED))
    attributes = spans.named("download export").attributes
    assert attributes["trihop.download.size"] == attributes["trihop.download.expected_size"] == len(PACKED)


def test_len_05_transport_double_gzip(server, clock, session, tmp_path):
    """A gzip file that was stored with a coding on top loses the coding alone, or with decode=False nothing.

    https://github.com/amzn/selling-partner-api-docs/issues/3200
    """
    double = Reply(200, content=gzip.compress(PACKED, mtime=0), headers=GZIPPED.headers)
    server.script(double, double)

    with operation("report", deadline=60, session=session, clock=clock) as op:
        undone = op.download(f"{server.url}report", to=tmp_path / "report.gz")
        kept = op.download(f"{server.url}report", to=tmp_path / "report.gz.gz", decode=False)

    assert (undone.path.read_bytes(), undone.content_encoding) == (PACKED, None)
    assert (kept.path.read_bytes(), kept.content_encoding) == (double.content, "gzip")
    assert next(undone.iter_rows()) == {"Id": "1", "Name": "Anna"}
