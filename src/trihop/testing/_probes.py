"""Answers that must never be taken for success, made from a real one."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Union

from trihop._surface import folded
from trihop._values import JSON, Reply

_HTML = (
    b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><p>Welcome to the guest network</p></body></html>"
)
_UNSEEN = "a-word-never-seen"
_Place = tuple[Union[str, int], ...]  # noqa: UP007


def garbled(pending: Reply, succeeded: Reply) -> Iterator[tuple[str, Reply]]:
    """Answers that say nothing about a job, each with what it is.

    Where the status is the word, a 200 may carry any result, `{}` and no bytes
    included; those are then sent with the status of `pending`.
    """
    status_is_word = pending.status_code != succeeded.status_code
    status = pending.status_code if status_is_word else succeeded.status_code
    for body in (b"{}", b"[]", b"null", b"42", b'"text"', b'{"error": "internal"}'):
        yield f"the JSON {body.decode()}", Reply(status, headers={"Content-Type": "application/json"}, content=body)
    yield "an empty body", Reply(status)
    if not status_is_word or _json_of(succeeded) is not None:
        yield "an HTML page", Reply(succeeded.status_code, headers={"Content-Type": "text/html"}, content=_HTML)
        half = succeeded.content[: len(succeeded.content) // 2]
        # Without its headers: where one of them is the word, the body has no say.
        yield "half of the succeeded body", Reply(succeeded.status_code, content=half)


def with_unseen_word(pending: Reply, succeeded: Reply, words: Set[str]) -> Iterator[tuple[str, Reply]]:
    """The real success with its state word replaced by another, by an empty one and by none.

    Args:
        pending: The answer before it; the word stands at the same place in both.
        succeeded: The answer of success.
        words: The states that the surface found in real answers, folded.
    """
    # As above: where the status is the word, an answer without any other is a result.
    status_is_word = pending.status_code != succeeded.status_code
    for unseen in (_UNSEEN,) if status_is_word else (_UNSEEN, "", None):
        headers = {name: unseen if folded(value) in words else value for name, value in succeeded.headers.items()}
        content = _without_word(pending, succeeded, words, unseen)
        if headers != dict(succeeded.headers) or content != succeeded.content:
            kept = {name: value for name, value in headers.items() if value is not None}
            what = f"the succeeded answer with {unseen!r} for a state"
            yield what, Reply(succeeded.status_code, headers=kept, url=succeeded.url, content=content)


def _without_word(pending: Reply, succeeded: Reply, words: Set[str], unseen: str | None) -> bytes:
    body, before = _json_of(succeeded), _json_of(pending)
    if body is None:
        text = succeeded.text
        for word in {word for word in text.replace("<", " ").replace(">", " ").split() if folded(word) in words}:
            text = text.replace(word, unseen or "")
        return text.encode()

    def is_word(value: JSON) -> bool:
        return isinstance(value, str) and folded(value) in words

    places = set(_places(body, is_word))
    places.update(set(_places(before, is_word)).intersection(_places(body, lambda value: isinstance(value, str))))
    if not places:
        return succeeded.content
    changed = copy.deepcopy(body)
    for *above, last in places:
        holder = changed
        for step in above:
            holder = holder[step]
        holder[last] = unseen
    return json.dumps(changed).encode()


def _places(value: JSON, wanted: Callable[[JSON], bool], here: _Place = ()) -> Iterator[_Place]:
    """Where in a JSON value the wanted ones stand."""
    if here and wanted(value):
        yield here
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for step, part in parts:
        yield from _places(part, wanted, (*here, step))


def _json_of(reply: Reply) -> JSON:
    """An object or a list; None for anything else."""
    try:
        value = reply.json()
    except ValueError:
        return None
    return value if isinstance(value, (dict, list)) else None
