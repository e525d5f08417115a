"""docs/providers.md lists every provider that ships, as it is."""

import pytest

from docs_tables import BEGIN, END, PAGE, README, Entry, cells, entries, page, readme
from trihop import Call, Provider, ReadState
from trihop.providers import generic, openai, salesforce


def test_the_page_is_current():
    """What the modules say and what the page shows are the same; `make providers` makes them so."""
    assert PAGE.read_text() == page(PAGE.read_text())
    assert README.read_text() == readme(README.read_text())


def test_every_provider_is_found():
    """Constants and functions that make one; the default comes first, and a name that is private is none."""
    found = {entry.shown: entry.provider for entry in entries()}

    assert next(iter(found)) == "generic.ACCEPTED"
    assert found["generic.ACCEPTED"] is generic.ACCEPTED
    assert found["openai.BATCH"] is openai.BATCH
    assert found["salesforce.INGEST"] is salesforce.INGEST
    assert found["simple.jobs(…)"].name == "simple.jobs"
    assert not [name for name in found if "._" in name]


def test_names_on_spans_are_unique():
    """A trace says which provider it was."""
    names = [entry.provider.name for entry in entries()]

    assert sorted(names) == sorted(set(names))


SAID = "A job.\n\n    Result: rows\n    Checked: exchanges\n      as documented\n    Source: https://api.test/docs"


def test_a_row_is_read_off_the_provider():
    """Words, cancel and idempotency are the provider's own; the rest is said below it."""
    provider = Provider(
        "acme.jobs",
        poll=ReadState(pending={"b", "a"}, succeeded={"done"}, failed={"no"}, bad_items="bad"),
        cancel=Call("DELETE", "{status_url}"),
        idempotency="X-Key",
    )

    assert cells(Entry("acme", "JOBS", SAID, provider)) == [
        "`acme.JOBS`",
        "a, b; succeeded: done; partial: by count; failed: no",
        "rows",
        "-",
        "`DELETE {status_url}`",
        "`X-Key`",
        "-",
        "exchanges as documented",
        "[api.test](https://api.test/docs)",
    ]


def test_a_provider_that_says_nothing_is_refused(monkeypatch):
    """The message names it, and what it should say."""
    monkeypatch.setattr("docs_tables.entries", lambda: [Entry("acme", "JOBS", "A job.", None)])

    with pytest.raises(ValueError, match=r"acme\.JOBS: Result: …, Checked: …, Source: …"):
        page(f"{BEGIN}{END}")
