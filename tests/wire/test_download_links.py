"""Links that run out: seen before they are used where they say so, and asked for afresh once."""

import datetime as dt
from dataclasses import replace

import pytest
import requests

from trihop import Reply, Result, ResultUnavailable, Succeeded, operation
from trihop.providers import generic
from trihop.testing import accepted, ranged, reset

BODY = b"a,b\n1,2\n" * 100
CSV = Reply(200, content=BODY, headers={"ETag": '"v1"'})
NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)


def amazon(ends, n=1):
    return f"/k{n}?X-Amz-Date={ends - dt.timedelta(minutes=15):%Y%m%dT%H%M%SZ}&X-Amz-Expires=900&X-Amz-Signature=s{n}"


FORMS = {
    "X-Amz-Date and X-Amz-Expires": amazon,
    "se": lambda ends, n=1: f"/k{n}?se={ends:%Y-%m-%dT%H%%3A%M%%3A%SZ}&sig=s{n}",
    "Expires": lambda ends, n=1: f"/k{n}?AWSAccessKeyId=K&Expires={ends.timestamp():.0f}&Signature=s{n}",
}


@pytest.fixture
def fetch(server, clock):
    """Submits, polls, waits for so many seconds, and downloads; each poll hands out the next of the results."""

    def fetch(results, *replies, wait_s=0, **options):
        given = iter(results)
        server.script(accepted(), *replies)
        provider = replace(generic.ACCEPTED, poll=lambda reply, job: Succeeded("done", results=(next(given),)))
        with (
            requests.Session() as session,
            operation("export", deadline=36_000, session=session, clock=clock, provider=provider) as op,
        ):
            ready = op.poll(op.submit("POST", f"{server.url}jobs"))
            op.sleep(wait_s)
            return op.download(ready, **options)

    return fetch


def paths(server):
    return [call.path for call in server.calls[2:]]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_link_that_has_run_out_is_not_asked(fetch, server, spans, form):
    """One poll brings a fresh one, as an attempt of the download."""
    old, fresh = form(NOON + dt.timedelta(minutes=1)), form(NOON + dt.timedelta(hours=9), 2)

    assert fetch([Result(old), Result(fresh)], 200, 200, CSV, wait_s=120).content == BODY
    assert paths(server) == ["/jobs/1", fresh]
    assert spans.named("download export").attributes["trihop.download.link_refreshes"] == 1


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_link_that_is_good_is_not_renewed(fetch, server, form):
    """Nobody is asked for what is at hand."""
    link = form(NOON + dt.timedelta(minutes=1))

    assert fetch([Result(link)], 200, CSV, wait_s=50).content == BODY
    assert paths(server) == [link]


def test_what_the_api_says_goes_before_what_the_link_says(fetch, server):
    """A provider's `expires_at` is read like the link's own."""
    results = [Result("/a", expires_at=NOON + dt.timedelta(seconds=30)), Result("/b")]

    assert fetch(results, 200, 200, CSV, wait_s=60).content == BODY
    assert paths(server) == ["/jobs/1", "/b"]


def test_a_link_about_to_run_out_is_renewed(fetch, server):
    """Three seconds are no time for a transfer, and a link of a minute ago can be had afresh."""
    old, fresh = amazon(NOON + dt.timedelta(seconds=64)), amazon(NOON + dt.timedelta(hours=9), 2)

    assert fetch([Result(old), Result(fresh)], 200, 200, CSV, wait_s=60).content == BODY
    assert paths(server) == ["/jobs/1", fresh]


def test_a_fresh_link_of_a_few_seconds_is_used_as_it_is(fetch, server):
    """A poll would bring nothing that is any fresher."""
    link = amazon(NOON + dt.timedelta(seconds=4))

    assert fetch([Result(link)], 200, CSV).content == BODY
    assert paths(server) == [link]


def test_a_link_that_stays_is_left_to_speak_for_itself(fetch, server):
    """Our clock may be wrong: it is asked once, and its server's word counts."""
    link = amazon(NOON - dt.timedelta(minutes=1))

    assert fetch([Result(link)] * 2, 200, 200, CSV).content == BODY
    assert paths(server) == ["/jobs/1", link]


def test_a_link_that_stays_and_is_refused_is_the_end(fetch, server):
    """One poll before it was used is enough; the reason is the server's own."""
    link = amazon(NOON - dt.timedelta(minutes=1))
    refusal = Reply(403, content=b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")

    with pytest.raises(ResultUnavailable, match=r"says 403, and a fresh poll gave the same link.*Request has expired"):
        fetch([Result(link)] * 2, 200, 200, refusal)
    assert paths(server) == ["/jobs/1", link]


@pytest.mark.parametrize("status", [404, 401])
def test_a_monitor_that_knows_no_more_leaves_the_link_as_it_is(fetch, server, status):
    """It may be good all the same."""
    link = amazon(NOON - dt.timedelta(minutes=1))

    assert fetch([Result(link)], 200, status, CSV).content == BODY
    assert paths(server) == ["/jobs/1", link]


def test_a_link_that_runs_out_in_mid_transfer_is_renewed_and_gone_on_with(fetch, server, clock, tmp_path):
    """The fresh link is asked for the rest alone: it is the same object."""
    old, fresh = amazon(NOON + dt.timedelta(minutes=1)), amazon(NOON + dt.timedelta(hours=9), 2)

    def late(call):
        clock.advance(120)
        return reset(CSV, 300)

    download = fetch([Result(old), Result(fresh)], 200, late, 200, ranged(CSV), to=tmp_path / "rows.csv")

    assert (download.path.read_bytes(), download.resumes) == (BODY, 1)
    assert paths(server) == [old, "/jobs/1", fresh]
    assert (server.calls[-1].headers["Range"], server.calls[-1].headers["If-Range"]) == ("bytes=300-", '"v1"')


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_link_refused_in_mid_transfer_is_renewed_and_gone_on_with(fetch, server, status):
    """Refused once, renewed once, the bytes that came are kept."""
    download = fetch([Result("/a"), Result("/b")], 200, reset(CSV, 300), status, 200, ranged(CSV))

    assert (download.content, download.resumes) == (BODY, 1)
    assert paths(server) == ["/a", "/a", "/jobs/1", "/b"]


def test_each_link_that_brought_something_may_be_renewed(fetch, server):
    """A transfer of hours outlives several links, and each refusal asks for one fresh link."""
    breaks = ranged(CSV)
    replies = [200, reset(CSV, 300), 403, 200, lambda call: reset(breaks(call), 100), 403, 200, breaks]

    assert fetch([Result(f"/{n}") for n in range(3)], *replies).content == BODY
    assert paths(server) == ["/0", "/0", "/jobs/1", "/1", "/1", "/jobs/1", "/2"]


def test_a_link_without_a_job_is_asked_as_it_is(server, clock):
    """There is nobody who could renew it."""
    server.script(CSV)
    with requests.Session() as session, operation("export", deadline=60, session=session, clock=clock) as op:
        link = server.url + amazon(NOON - dt.timedelta(minutes=1))[1:]
        assert op.download(link).content == BODY
