"""Shopify bulk operations: submit, polls and cancel are all `POST …/graphql.json`, and errors come with 200.

- `bulkOperationRunQuery` (or `bulkOperationRunMutation`) answers with the operation's `id`, or with `userErrors`, such
  as that another one is running: an app may run one at a time in a shop, five from API version 2026-01 on. The
  mutation must ask for both:

      mutation($q: String!) { bulkOperationRunQuery(query: $q) { bulkOperation { id } userErrors { field message } } }

- Top-level `errors` (throttling among them) come with 200: on a submit they are a refusal, on a poll they are a poll
  that failed.
- States: CREATED, RUNNING, CANCELING; COMPLETED, FAILED, CANCELED, EXPIRED (its link ran out).
- The result is JSON lines at `url`; there is none where no object matched. A failed operation may have left
  `partialDataUrl`: it is on `error.ready`. Both links end after seven days; they lie with another host, are signed, and
  get no credentials (`X-Shopify-Access-Token` in the session's headers).
- No `Retry-After` and no idempotency key are documented; pacing is ours. An operation fails after ten days.

Read November 2026: shopify.dev/docs/api/usage/bulk-operations/queries; the object BulkOperation and the enum
BulkOperationStatus in shopify.dev/docs/api/admin-graphql/latest.
"""

from __future__ import annotations

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import Call

_NODE = """query($id: ID!) {
  node(id: $id) { ... on BulkOperation { id status errorCode objectCount url partialDataUrl } }
}"""
_CANCEL = """mutation($id: ID!) {
  bulkOperationCancel(id: $id) { bulkOperation { id status } userErrors { field message } }
}"""

BULK = Provider(
    "shopify.bulk",
    # A mutation has one payload, whatever it is called.
    submit=ReadJob(id="data.* | [0].bulkOperation.id", status_url=None, rejected="errors || (data.* | [0].userErrors)"),
    status=Call("POST", "{submit_url}", json={"query": _NODE, "variables": {"id": "{id}"}}),
    poll=ReadState(
        "data.node.status",
        pending={"CREATED", "RUNNING", "CANCELING"},
        succeeded={"COMPLETED"},
        failed={"FAILED"},
        cancelled={"CANCELED"},
        expired={"EXPIRED"},
        results="data.node.url || data.node.partialDataUrl",
        counts="data.node.{processed: to_number(objectCount)}",
        error="data.node.errorCode",
        transient="errors[0].message",
    ),
    cancel=Call("POST", "{submit_url}", json={"query": _CANCEL, "variables": {"id": "{id}"}}),
    pacing=Pacing(first=2.0, factor=1.5, cap=60.0),
)
"""A bulk query or mutation.

Result: JSON lines, by a signed link elsewhere
Cancel: `bulkOperationCancel`
Deadline: 1 hour
Checked: exchanges as documented
Source: https://shopify.dev/docs/api/usage/bulk-operations/queries
"""
