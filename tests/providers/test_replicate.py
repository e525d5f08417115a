"""Replicate: a submit that may be held until the end, and an output that is links or anything else."""

import pytest
import requests

from trihop import (
    JobCancelled,
    JobExpired,
    JobFailed,
    PollErrorsExhausted,
    Reply,
    ResultUnavailable,
    SubmitRejected,
    operation,
)
from trihop.providers import prefer, replicate
from trihop.testing import ScriptedServer, check_provider


def prediction(status, **more):
    urls = {"get": "{url}v1/predictions/p1", "cancel": "{url}v1/predictions/p1/cancel"}
    return {"id": "p1", "status": status, "output": None, "error": None, "urls": urls, **more}


@pytest.fixture
def session():
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = "Bearer r8_of_the_session"
        yield session


@pytest.fixture
def predict(server, clock, session):
    """The triangle of one prediction; what it left."""

    def predict(**as_in_submit):
        with operation("predict", deadline=2100, session=session, provider=replicate.PREDICTIONS, clock=clock) as op:
            ready = op.poll(op.submit("POST", server.url + "v1/predictions", json={"input": {}}, **as_in_submit))
            return op, ready

    return predict


def created(**more):
    return Reply(201, prediction("starting", **more))


def test_a_prediction_is_asked_where_it_says(predict, server):
    """urls.get, until a final status."""
    server.script(created(), prediction("processing"), prediction("succeeded", output={"text": "hi"}))

    _, ready = predict()

    assert ready.data == {"text": "hi"}
    assert [f"{call.method} {call.path}" for call in server.calls] == [
        "POST /v1/predictions",
        *["GET /v1/predictions/p1"] * 2,
    ]


def test_a_prediction_that_was_held_to_its_end_is_not_polled(predict, server):
    """`Prefer: wait` answers with the final state if the model was quick."""
    server.script(Reply(201, prediction("succeeded", output=[1, 2])))

    _, ready = predict(headers=prefer.wait(60))

    assert ready.data == [1, 2]
    assert [call.headers["Prefer"] for call in server.calls] == ["wait=60"]


def test_a_prediction_that_outlasted_the_wait_is_polled(predict, server):
    """The wait is over and the model is not."""
    server.script(Reply(201, prediction("processing")), prediction("succeeded", output="x"))

    _, ready = predict(headers=prefer.wait(1))

    assert ready.data == "x"


def test_a_prediction_that_failed_while_it_was_held_is_a_failed_job(predict, server):
    """The final state may be a bad one."""
    server.script(Reply(201, prediction("failed", error="NSFW content detected")))

    with pytest.raises(JobFailed, match="NSFW"):
        predict(headers=prefer.wait(60))


def test_files_are_fetched_elsewhere_without_the_token(server, clock, session, tmp_path):
    """Each link of the output is a file, and the delivery host gets no credentials."""
    with ScriptedServer(clock=clock) as delivery:
        links = [f"{delivery.url}a/0.png", f"{delivery.url}a/1.png"]
        server.script(created(), prediction("succeeded", output=links))
        delivery.script(b"PNG0", b"PNG1")
        with operation("p", deadline=600, session=session, provider=replicate.PREDICTIONS, clock=clock) as op:
            ready = op.poll(op.submit("POST", server.url + "v1/predictions", json={}))
            files = op.download(ready, into=tmp_path)

    assert {name: file.content for name, file in files.items()} == {"output": b"PNG0", "output-2": b"PNG1"}
    assert ["Authorization" in call.headers for call in delivery.calls] == [False, False]
    assert server.calls[0].headers["Authorization"] == "Bearer r8_of_the_session"


@pytest.mark.parametrize("output", [["Once", " upon"], ["https://a.test/x", " is a site"], "text", 7, False, {}, []])
def test_an_output_that_is_not_all_links_is_the_result_itself(predict, server, output):
    """Pieces of text stay in one, even where one of them looks like a link."""
    server.script(created(), prediction("succeeded", output=output))

    assert predict()[1].data == output


def test_one_link_is_one_file(predict, server):
    """A string that is a link is a place."""
    server.script(created(), prediction("succeeded", output="https://replicate.test/o.wav"))

    assert [result.at for result in predict()[1].results] == ["https://replicate.test/o.wav"]


def test_an_output_that_was_removed_is_an_expired_job(predict, server):
    """An hour after the end nothing is left of a prediction that succeeded."""
    server.script(created(), prediction("succeeded", data_removed=True))

    with pytest.raises(JobExpired, match="output was removed"):
        predict()


def test_a_prediction_without_an_output_succeeded(predict, server):
    """`null` with its data still there is what the model returned: nothing."""
    server.script(created(), prediction("succeeded", data_removed=False))

    assert predict()[1].results == ()


@pytest.mark.parametrize(("status", "error"), [("canceled", JobCancelled), ("aborted", JobExpired)])
def test_the_other_ends(predict, server, status, error):
    """Canceled by somebody or its own deadline; aborted before it ran."""
    server.script(created(), prediction(status))

    with pytest.raises(error):
        predict()


def test_a_prediction_is_cancelled(server, clock, session):
    """POST …/cancel, and the poll says so."""
    server.script(created(), prediction("canceled"), prediction("canceled"))

    with operation("p", deadline=600, session=session, provider=replicate.PREDICTIONS, clock=clock) as op:
        job = op.submit("POST", server.url + "v1/predictions", json={})
        assert op.cancel()
        with pytest.raises(JobCancelled):
            op.poll(job)

    assert (server.calls[1].method, server.calls[1].path) == ("POST", "/v1/predictions/p1/cancel")


def test_a_link_that_ran_out_is_asked_for_again_once(server, clock, session):
    """An hour later the poll says that it is gone."""
    server.script(
        created(), prediction("succeeded", output="{url}o.wav"), 404, prediction("succeeded", data_removed=True)
    )

    with operation("p", deadline=600, session=session, provider=replicate.PREDICTIONS, clock=clock) as op:
        ready = op.poll(op.submit("POST", server.url + "v1/predictions", json={}))
        with pytest.raises(ResultUnavailable, match="output was removed"):
            op.download(ready)


def test_an_input_that_is_refused(predict, server):
    """422 with a problem document."""
    server.script(Reply(422, {"title": "Input validation failed", "detail": "prompt is required", "status": 422}))

    with pytest.raises(SubmitRejected, match="prompt is required"):
        predict()


def test_what_is_no_prediction_is_no_answer(predict, server):
    """A 200 of another shape counts against the error budget."""
    server.script(created(), then_always={"results": []})

    with pytest.raises(PollErrorsExhausted):
        predict()


def test_the_provider_conforms():
    """Only `succeeded` is success."""
    check_provider(
        replicate.PREDICTIONS,
        pending=prediction("processing"),
        succeeded=prediction("succeeded", output="https://replicate.test/o.wav"),
        failed=prediction("failed", error="no"),
        cancelled=prediction("canceled"),
    )
