"""Shopify: GraphQL, where refusals and throttling come with 200."""

import pytest
import requests

from trihop import (
    Job,
    JobCancelled,
    JobExpired,
    JobFailed,
    PollErrorsExhausted,
    Reply,
    SubmitRejected,
    SurfaceError,
    operation,
)
from trihop.providers import shopify
from trihop.testing import ScriptedServer, check_provider

ID = "gid://shopify/BulkOperation/720918"
RUN = "mutation($q: String!) { bulkOperationRunQuery(query: $q) { bulkOperation { id } userErrors { message } } }"
THROTTLED = {"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]}


def created(*errors, mutation="bulkOperationRunQuery"):
    operation_made = None if errors else {"id": ID, "status": "CREATED"}
    problems = [{"field": ["query"], "message": message} for message in errors]
    return {"data": {mutation: {"bulkOperation": operation_made, "userErrors": problems}}}


def node(status, **more):
    fields = {"id": ID, "status": status, "errorCode": None, "objectCount": "0", "url": None, "partialDataUrl": None}
    return {"data": {"node": {**fields, **more}}}


@pytest.fixture
def session():
    with requests.Session() as session:
        session.trust_env = False
        session.headers["X-Shopify-Access-Token"] = "shpat_of_the_shop"
        yield session


@pytest.fixture
def wait_for(server, clock, session):
    """Submit a bulk query and wait for it."""

    def wait_for():
        with operation("products", deadline=3600, session=session, provider=shopify.BULK, clock=clock) as op:
            url = server.url + "admin/api/2026-07/graphql.json"
            return op.poll(op.submit("POST", url, json={"query": RUN, "variables": {"q": "{ products }"}}))

    return wait_for


def test_every_question_is_a_query_to_one_url(server, clock, session):
    """Submit, polls and the link to another host, which gets no token."""
    with ScriptedServer(clock=clock) as storage:
        server.script(created(), node("CREATED"), node("RUNNING", objectCount="120"))
        server.script(node("COMPLETED", objectCount="2", url=f"{storage.url}bulk.jsonl?Signature=beef"))
        storage.script(b'{"id": 1}\n{"id": 2}\n')
        with operation("products", deadline=3600, session=session, provider=shopify.BULK, clock=clock) as op:
            url = server.url + "admin/api/2026-07/graphql.json"
            download = op.run("POST", url, json={"query": RUN, "variables": {"q": "{ products }"}})

    assert list(download.iter_rows()) == [{"id": 1}, {"id": 2}]
    assert {f"{call.method} {call.path}" for call in server.calls} == {"POST /admin/api/2026-07/graphql.json"}
    assert [call.json()["variables"] for call in server.calls[1:]] == [{"id": ID}] * 3
    assert "on BulkOperation" in server.calls[1].json()["query"]
    assert storage.calls[0].path == "/bulk.jsonl?Signature=beef"
    assert "X-Shopify-Access-Token" not in storage.calls[0].headers


@pytest.mark.parametrize("mutation", ["bulkOperationRunQuery", "bulkOperationRunMutation"])
def test_a_query_and_a_mutation_are_read_alike(wait_for, server, mutation):
    """The payload's name does not matter."""
    server.script(created(mutation=mutation), node("COMPLETED", objectCount="3"))

    ready = wait_for()

    assert (ready.job.id, ready.counts) == (ID, {"processed": 3})


@pytest.mark.parametrize("answer", [created("A bulk query operation is already in progress"), THROTTLED])
def test_a_refusal_comes_with_200(wait_for, server, answer):
    """userErrors and top-level errors both mean that there is no job."""
    server.script(answer)

    with pytest.raises(SubmitRejected, match=r"already in progress|Throttled"):
        wait_for()


def test_a_mutation_that_does_not_ask_for_the_id_makes_no_sense(wait_for, server):
    """Without the id there is nothing to ask for."""
    server.script({"data": {"bulkOperationRunQuery": {"bulkOperation": {"status": "CREATED"}, "userErrors": []}}})

    with pytest.raises(SurfaceError, match="names no job"):
        wait_for()


def test_throttling_is_a_poll_that_failed(wait_for, server):
    """It comes with 200, and a later poll is answered."""
    server.script(created(), THROTTLED, node("COMPLETED"))

    assert wait_for().complete


def test_throttling_for_ever_exhausts_the_errors(wait_for, server):
    """The error budget bounds it."""
    server.script(created(), then_always=THROTTLED)

    with pytest.raises(PollErrorsExhausted, match="Throttled"):
        wait_for()


def test_an_operation_that_matched_nothing_left_nothing(wait_for, server):
    """COMPLETED without a url is success without a result."""
    server.script(created(), node("COMPLETED"))

    assert wait_for().results == ()


def test_a_failed_operation_may_have_left_a_part(wait_for, server):
    """partialDataUrl is on the error, and the errorCode is why."""
    server.script(created(), node("FAILED", errorCode="TIMEOUT", partialDataUrl="https://storage.test/part.jsonl"))

    with pytest.raises(JobFailed, match="TIMEOUT") as caught:
        wait_for()

    assert [result.at for result in caught.value.ready.results] == ["https://storage.test/part.jsonl"]


@pytest.mark.parametrize(("status", "error"), [("CANCELED", JobCancelled), ("EXPIRED", JobExpired)])
def test_the_other_ends(wait_for, server, status, error):
    """CANCELING is not yet CANCELED."""
    server.script(created(), node("CANCELING"), node(status))

    with pytest.raises(error):
        wait_for()


def test_a_cancel_is_a_mutation(server, clock, session):
    """bulkOperationCancel with the operation's id."""
    server.script(created(), {"data": {"bulkOperationCancel": {"userErrors": []}}}, node("CANCELED"))

    with operation("products", deadline=600, session=session, provider=shopify.BULK, clock=clock) as op:
        job = op.submit("POST", server.url + "graphql.json", json={"query": RUN})
        assert op.cancel()
        with pytest.raises(JobCancelled):
            op.poll(job)

    assert "bulkOperationCancel" in server.calls[1].json()["query"]
    assert server.calls[1].json()["variables"] == {"id": ID}


def test_an_operation_that_nobody_knows_is_no_answer(wait_for, server):
    """A node of null says nothing of the job."""
    server.script(created(), then_always={"data": {"node": None}})

    with pytest.raises(PollErrorsExhausted):
        wait_for()


def test_the_provider_conforms():
    """Only COMPLETED is success."""
    check_provider(
        shopify.BULK,
        pending=node("RUNNING"),
        succeeded=node("COMPLETED", url="https://storage.test/bulk.jsonl"),
        failed=node("FAILED", errorCode="INTERNAL_SERVER_ERROR"),
        cancelled=node("CANCELED"),
        job=Job(id=ID, submit_url="https://shop.test/admin/api/2026-07/graphql.json"),
    )
    assert shopify.BULK.poll(Reply(200, node("RUNNING")), Job()).state == "RUNNING"
