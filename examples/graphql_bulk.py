"""GraphQL: submit and poll are both POST to one URL, and errors come with status 200."""

from __future__ import annotations

from pathlib import Path

import requests

from trihop import Call, Download, Provider, ReadJob, ReadState, operation

RUN = "mutation($q: String!) { bulkOperationRunQuery(query: $q) { bulkOperation { id } userErrors { message } } }"
NODE = "query($id: ID!) { node(id: $id) { ... on BulkOperation { status errorCode url partialDataUrl } } }"

BULK = Provider(
    "example.graphql_bulk",
    submit=ReadJob(
        id="data.bulkOperationRunQuery.bulkOperation.id",
        status_url=None,
        rejected="data.bulkOperationRunQuery.userErrors",  # an empty list is none
    ),
    # Braces that are no field of ours, as in NODE, are left alone.
    status=Call("POST", "{submit_url}", json={"query": NODE, "variables": {"id": "{id}"}}),
    poll=ReadState(
        "data.node.status",
        pending={"CREATED", "RUNNING", "CANCELING"},
        succeeded={"COMPLETED"},
        failed={"FAILED"},
        cancelled={"CANCELED"},
        expired={"EXPIRED"},
        results="data.node.url || data.node.partialDataUrl",
        error="data.node.errorCode",
        transient="errors[0].message",  # "Throttled", for example
    ),
)


def main(session: requests.Session, url: str, query: str, to: Path) -> Download:
    """Run a bulk query to a file of JSON lines."""
    with operation("products", deadline=3600, session=session, provider=BULK) as op:
        return op.run("POST", url, json={"query": RUN, "variables": {"q": query}}, to=to)
