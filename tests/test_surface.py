"""Surfaces as tables of words and paths: a reply goes in, a verdict comes out, and nothing else happens."""

import itertools
import json
from dataclasses import replace

import jmespath
import pytest

from trihop import (
    Accepted,
    Ambiguous,
    Call,
    Cancelled,
    Content,
    Expired,
    Failed,
    Job,
    Partial,
    Pending,
    ReadJob,
    ReadState,
    Rejected,
    Reply,
    Result,
    Succeeded,
    Transient,
    accepts,
    header,
    text,
    xml,
)
from trihop._surface import accepted, reader, whole_body

JOB = Job(id="7", status_url="https://api.test/jobs/7", submit_url="https://api.test/jobs")
WORDS = ReadState(
    "status", pending={"in_progress", "Queued"}, succeeded={"done"}, failed={"failed"}, cancelled={"Canceled"},
    expired={"expired"}, ambiguous={"HELD"},
)  # fmt: skip


def read(table, body, **headers):
    return table(Reply(200, body, headers=headers), JOB)


# ---- words


@pytest.mark.parametrize(
    ("word", "verdict"),
    [
        ("in_progress", Pending("in_progress")),
        ("queued", Pending("queued")),
        ("done", Succeeded("done")),
        ("failed", Failed("failed")),
        ("Canceled", Cancelled("Canceled")),
        ("expired", Expired("expired")),
        ("HELD", Ambiguous("HELD")),
        ("Archiving", Pending("Archiving", known=False)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_word_has_its_verdict(word, verdict):
    """A listed word is what its list says, one nobody listed is pending and not known; the state stays as it came."""
    assert read(WORDS, {"status": word}) == verdict
    assert type(read(WORDS, {"status": word})) is type(verdict)


@pytest.mark.parametrize("word", ["In Progress", "IN-PROGRESS", "inProgress", "in progress", "InProgress"])
def test_words_are_compared_without_case_space_hyphen_and_underscore(word):
    """However an API spells it this year, it is the same word."""
    assert read(WORDS, {"status": word}) == Pending(word)


@pytest.mark.parametrize("body", [{}, {"status": None}, {"status": ""}, {"other": "done"}], ids=repr)
def test_no_word_is_no_answer(body):
    """A body without a state is neither pending nor an ending."""
    assert read(WORDS, body) == Transient("no_state")


@pytest.mark.parametrize(("value", "state"), [(True, "true"), (False, "false"), (3, "3"), (0, "0")], ids=repr)
def test_a_word_may_be_a_number_or_a_boolean(value, state):
    """As JSON spells it."""
    table = ReadState("done", pending={"false", "0"}, succeeded={"true", "3"})

    assert read(table, {"done": value}).state == state
    assert read(table, {"done": value}) in (Pending(state), Succeeded(state))


def test_a_word_in_two_lists_is_refused():
    """A table that says two things of one word says which."""
    with pytest.raises(ValueError, match=r"ReadState lists 'in-progress' as pending and as failed"):
        ReadState("status", pending=["In Progress"], failed=["in-progress"])


@pytest.mark.parametrize("kind", ["pending", "succeeded", "failed", "cancelled", "expired", "ambiguous"])
def test_a_word_instead_of_words_is_refused(kind):
    """A str is no list of words, although it can be iterated."""
    with pytest.raises(TypeError, match=rf"ReadState\({kind}=\) takes words, such as \{{'done'\}}, got"):
        ReadState("status", **{kind: "done"})


# ---- items


@pytest.mark.parametrize(
    ("good", "bad", "kind"),
    [(7, 0, Succeeded), (7, 3, Partial), (0, 3, Failed), (None, 3, Partial), (7, None, Succeeded), (0, 0, Succeeded)],
)
def test_a_success_with_failed_items_is_partial_or_failed(good, bad, kind):
    """Terminal is not outcome: the counts decide what a succeeded word means."""
    table = ReadState("status", succeeded={"done"}, failed={"failed"}, good_items="ok", bad_items="bad")
    verdict = read(table, {"status": "done", "ok": good, "bad": bad})

    assert type(verdict) is kind
    named = {"succeeded": good, "failed": bad}
    assert verdict.counts == ({name: count for name, count in named.items() if count is not None} or None)


def test_counts_are_given_as_the_server_gave_them():
    """Where a field has all of them, it is taken whole."""
    table = ReadState("status", succeeded={"ended"}, counts="counts", bad_items="sum(counts.[errored,expired])")
    counts = {"succeeded": 1, "errored": 2, "expired": 3}

    assert read(table, {"status": "ended", "counts": counts}) == Partial("ended", counts=counts)


def test_items_mean_nothing_for_other_words():
    """A job that failed has failed, however many of its items are well."""
    table = ReadState("status", failed={"failed"}, pending={"busy"}, good_items="ok", bad_items="bad")

    assert type(read(table, {"status": "failed", "ok": 9, "bad": 1})) is Failed
    assert read(table, {"status": "busy", "ok": 9, "bad": 1}) == Pending("busy")


# ---- fields


def test_a_pending_reply_tells_progress_message_and_hint():
    """Percent and seconds are read from numbers and from texts; what is neither is not there."""
    table = ReadState("s", pending={"busy"}, progress="p", message="m", after="a")

    assert read(table, {"s": "busy", "p": 40, "m": "halfway", "a": 2}) == Pending(
        "busy", progress=40.0, message="halfway", after=2.0
    )
    assert read(table, {"s": "busy", "p": " 41.5 % ", "m": "", "a": "7"}) == Pending("busy", progress=41.5, after=7.0)
    assert read(table, {"s": "busy", "p": "soon", "m": None, "a": True}) == Pending("busy")
    assert read(table, {"s": "busy", "p": "1e999", "a": "9" * 50}) == Pending("busy")


def test_an_ending_tells_error_message_and_results():
    """All endings may carry them."""
    table = ReadState("s", failed={"bad"}, results="links[].href", error="e", message="m")

    assert read(table, {"s": "bad", "e": {"code": 7}, "m": "no", "links": [{"href": "/a"}, {"href": "/b"}]}) == Failed(
        "bad", results=(Result("/a"), Result("/b")), error={"code": 7}, message="no"
    )


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ("url", (Result("/a"),)),
        ("nothing", ()),
        ("urls", (Result("/a"), Result("/b"))),
        (header("X-Result"), (Result("/h"),)),
        (lambda reply: [Result("/f", name="f"), "/g"], (Result("/f", name="f"), Result("/g"))),
        (lambda reply: Result(data=None), (Result(data=None),)),
        ([Result("{status_url}/result?id={id}")], (Result("https://api.test/jobs/7/result?id=7"),)),
        ([Result(Call("POST", "{submit_url}", json={"id": "{id}"}), name="p")],
         (Result(Call("POST", "https://api.test/jobs", json={"id": "7"}), name="p"),)),
        ([Result(data="fixed")], (Result(data="fixed"),)),
    ],
    ids=["one", "none", "several", "header", "function", "function of one", "template", "call", "data"],
)  # fmt: skip
def test_results_are_found_in_a_field_a_function_or_a_list(results, found):
    """A field has one URL or several, a function gives Results, a list holds templates of the job."""
    table = ReadState("s", succeeded={"ok"}, results=results)

    assert read(table, {"s": "ok", "url": "/a", "urls": ["/a", "/b"]}, **{"X-Result": "/h"}).results == found


def test_data_in_the_body_is_a_result_behind_the_links():
    """A result that came along is one of them; where the field is null there is none."""
    table = ReadState("s", succeeded={"ok"}, results="url", data="data")

    assert read(table, {"s": "ok", "url": "/a", "data": [1]}).results == (Result("/a"), Result(data=[1]))
    assert read(table, {"s": "ok", "data": None}).results == ()


def test_a_transient_error_in_a_200_goes_before_the_state():
    """An empty list or null is none; the hint beside it is kept."""
    table = ReadState("s", succeeded={"ok"}, transient="errors[0].message", after="wait")

    assert read(table, {"s": "ok", "errors": [{"message": "throttled"}], "wait": 4}) == Transient(
        "throttled", after=4.0
    )
    assert read(table, {"s": "ok", "errors": []}) == Succeeded("ok")


@pytest.mark.parametrize("path", ["a", "a.b", "a.b.c", "x", "a.x.y", "true", "_1.b", "A"])
@pytest.mark.parametrize("body", [{"a": {"b": {"c": 7}}}, {"a": [1], "true": 1}, {"a": "b"}, [{"a": 1}], "a", 7, None])
def test_a_path_of_plain_names_is_read_as_jmespath_reads_it(path: str, body: object):
    """Without the parser: the same value, or None, for every shape of a body."""
    assert reader(path, "here")(Reply(200, content=json.dumps(body).encode())) == jmespath.search(path, body)


_FALSE_OR_NOT = [None, "", [], {}, False, True, 0, 0.0, 1, "x", [0], {"b": 1}, {"b": None}, {"b": 0}]


@pytest.mark.parametrize("path", ["a || b", "a.b||b", "a || b.b || c"])
def test_the_first_of_several_names_is_read_as_jmespath_reads_it(path: str):
    """What is false in JMESPath is passed over: a zero is not, and the last one is taken as it is."""
    for a, b in itertools.product(_FALSE_OR_NOT, repeat=2):
        for body in ({"a": a, "b": b}, {"a": a}, {"b": b}, {"a": a, "c": b}):
            found, expected = reader(path, "here")(Reply(200, body)), jmespath.search(path, body)
            assert (found, type(found)) == (expected, type(expected)), body


def test_fields_are_read_with_jmespath_functions_or_callables():
    """A str is JMESPath, and anything callable on a reply will do."""
    table = ReadState(lambda reply: reply.json()["a"]["b"], succeeded={"ok"}, error="join('-', c)")

    assert read(table, {"a": {"b": "ok"}, "c": ["x", "y"]}) == Succeeded("ok", error="x-y")


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: ReadState("a["), ValueError, r"ReadState\(state=\): 'a\[' is not valid JMESPath"),
        (lambda: ReadState(7), TypeError, r"ReadState\(state=\): expected a JMESPath or a function .*, got 7"),
        (lambda: ReadState(error=[]), TypeError, r"ReadState\(error=\): expected a JMESPath"),
        (lambda: ReadState(results=[7]), TypeError, r"ReadState\(results=\) lists Results, got 7"),
        (lambda: ReadState(results=7), TypeError, r"ReadState\(results=\)"),
        (lambda: ReadState(results=[Result("/{word}")]), ValueError, r"ReadState\(results=\): unknown field \{word\}"),
        (lambda: ReadState(pending=7), TypeError, r"ReadState\(pending=\) takes words"),
        (lambda: ReadState(pending=[7]), TypeError, r"ReadState\(pending=\) takes words"),
        (lambda: ReadJob(id=7), TypeError, r"ReadJob\(id=\): expected a JMESPath"),
        (lambda: ReadJob(memo={"x": 7}), TypeError, r"ReadJob\(memo=x=\): expected a JMESPath|ReadJob\(memo=\)"),
        (lambda: ReadJob(memo=7), TypeError, r"ReadJob\(memo=\)"),
        (lambda: ReadJob(accept=400), TypeError, r"ReadJob\(accept=\)"),
        (lambda: ReadState(accept=["400"]), TypeError, r"ReadState\(accept=\)"),
        (lambda: accepts(), ValueError, r"accepts\(\) takes HTTP statuses, such as accepts\(400, 404\)"),
        (lambda: accepts("400"), ValueError, r"accepts\(\) takes HTTP statuses"),
        (lambda: accepts(42), ValueError, r"accepts\(\) takes HTTP statuses"),
        (lambda: header(), TypeError, r"header\(\) takes names of header fields"),
        (lambda: header(7), TypeError, r"header\(\) takes names of header fields"),
        (lambda: xml(7), TypeError, r"xml\(\) takes the name of an element"),
    ],
)  # fmt: skip
def test_a_table_that_makes_no_sense_is_refused_when_built(make, error, told):
    """The message says which field, what it takes and what it got."""
    with pytest.raises(error, match=told):
        make()


# ---- submits


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        (Reply(202, headers={"location": "/j/1"}), Accepted(None, "/j/1")),
        (Reply(202, headers={"Operation-Location": "/o", "Location": "/l"}), Accepted(None, "/o")),
        (Reply(202, headers={"Content-Location": "/c"}), Accepted(None, "/c")),
        (Reply(202), Accepted(None, None)),
    ],
    ids=["location", "the first that fits", "content-location", "none"],
)
def test_the_plain_table_finds_a_monitor_in_the_headers(reply, verdict):
    """Names of headers are compared without case."""
    assert ReadJob()(reply) == verdict


def test_a_job_is_read_from_the_body():
    """Ids become texts, an empty one is none; memo and hint come along."""
    table = ReadJob(id="job.id", status_url="href", after="wait", memo={"location": header("Location"), "n": "n"})
    reply = Reply(202, {"job": {"id": 7}, "href": "/j/7", "wait": "3", "n": [1]}, headers={"Location": "/l"})

    assert table(reply) == Accepted("7", "/j/7", after=3.0, memo={"location": "/l", "n": [1]})
    assert table(Reply(202, {"job": {"id": ""}})) == Accepted(None, None, memo={"location": None, "n": None})


def test_a_rejection_in_the_body_goes_before_the_job():
    """Where the field is there and not empty, there is no job."""
    table = ReadJob(id="id", status_url=None, rejected="errors")

    assert table(Reply(200, {"id": 7, "errors": [{"message": "no"}]})) == Rejected([{"message": "no"}])
    assert table(Reply(200, {"id": 7, "errors": []})) == Accepted("7")


# ---- readers


def test_xml_reads_the_first_element_of_a_local_name():
    """Whatever its namespace, with the text of all below it; none is None."""
    reply = Reply(200, content=b'<a xmlns:u="x"><u:phase> <b>DO</b>NE </u:phase><phase>no</phase></a>')

    assert (xml("phase")(reply), xml("other")(reply)) == ("DONE", None)


def test_text_is_the_whole_body():
    """Without the white space around it."""
    assert text(Reply(200, content=b"\n running \n")) == "running"


def test_header_reads_the_first_that_is_there():
    """An empty value is a value."""
    reply = Reply(200, headers={"B": "", "C": "c"})

    assert (header("a", "b", "c")(reply), header("x")(reply)) == ("", None)


# ---- accepts, download


def test_accepts_marks_a_function_and_accept_a_table():
    """What a surface wants to see is asked of either in the same way."""

    @accepts(400, 404)
    def surface(reply, result):
        return Content()

    for one in (surface, ReadState(accept=(400, 404)), ReadJob(accept=[400, 404])):
        assert [status for status in (200, 400, 404, 500) if accepted(one, status)] == [400, 404]
    assert not accepted(lambda reply: None, 400)


def test_the_plain_download_is_the_whole_body():
    """202 is not ready, all else is the result."""
    assert whole_body(Reply(202), Result("/f")) == Pending("not ready")
    assert whole_body(Reply(200), Result("/f")) == Content()
    assert whole_body(Reply(204), Result("/f")) == Content()


# ---- tables as values


def test_tables_are_values():
    """Equal by content, usable by two runs, and made anew by replace() with their words."""
    table = ReadState("status", pending=iter(["busy"]), succeeded={"done"})

    assert read(table, {"status": "busy"}) == Pending("busy")
    again = replace(table, error="error")
    assert read(again, {"status": "busy"}) == Pending("busy")
    assert ReadState("s", succeeded={"a"}) == ReadState("s", succeeded={"a"}) != ReadState("s", succeeded={"b"})
    assert ReadJob(id="id") == ReadJob(id="id") != ReadJob(id="other")
