"""Results that come in pages."""

from __future__ import annotations

from urllib.parse import quote

from field.jobs import state, submitted
from trihop import Content, Provider, ReadJob, ReadState, Reply, Result

CSV = {"Content-Type": "text/csv"}


def page(reply, result):
    locator = reply.headers.get("Sforce-Locator", "null")
    return Content(header_lines=1, next=None if locator == "null" else f"?locator={quote(locator)}")


BULK = Provider(
    "field.bulk",
    submit=ReadJob("id"),
    poll=ReadState("state", succeeded={"done"}, results=[Result("/rows")]),
    download=page,
)


def csv(row, locator):
    return Reply(200, content=f"Id\n{row}\n".encode(), headers={**CSV, "Sforce-Locator": locator})


def test_page_01_first_page_only(server, spans, fetch, tmp_path):
    """Pages are followed to the last one and joined, the header line kept once.

    https://github.com/jsforce/jsforce/pull/1278
    """
    server.script(submitted(), state("done"), csv(1, "MTAw"), csv(2, "MjAw"), csv(3, "null"))

    rows = fetch(provider=BULK, to=tmp_path / "rows.csv")

    assert (rows.path.read_bytes(), rows.parts) == (b"Id\n1\n2\n3\n", 3)
    assert spans.named("download export").attributes["trihop.download.pages"] == 3
    assert [call.path for call in server.calls[2:]] == ["/rows", "/rows?locator=MTAw", "/rows?locator=MjAw"]


def test_page_03_locator_as_number(server, fetch):
    """A locator is any text, and the next request carries just that text.

    https://github.com/msrivastav13/node-sf-bulk2/issues/10
    """
    locators = ["MTAwMDA=", "MDowR2FI+/=", "007"]
    server.script(submitted(), state("done"), *[csv(1, locator) for locator in locators], csv(2, "null"))

    fetch(provider=BULK)

    assert [call.query.get("locator") for call in server.calls[2:]] == [None, *locators]
