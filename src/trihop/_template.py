"""Filling `{id} {status_url} {submit_url} {state} {memo.x}`, and joining URLs without altering them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote, urljoin, urlsplit

from trihop._values import JSON, Call, Job

FIELDS = "{id} {status_url} {submit_url} {state} {memo.x}"
_FIELD = re.compile(r"\{(id|status_url|submit_url|state|memo\.\w+)\}")
_ANY_WORD = re.compile(r"\{([\w.]*)\}")
_KEPT_IN_URLS = ":/?#[]@!$&'()*+,;=%~"
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def check_url(template: str, where: str) -> None:
    """Refuse a URL template with a field that nobody will fill.

    Raises:
        ValueError: It names an unknown field.
    """
    for match in _ANY_WORD.finditer(template):
        if not _FIELD.fullmatch(match.group()):
            raise ValueError(f"{where}: unknown field {match.group()} in {template!r}; there are {FIELDS}")


def fill(call: Call, job: Job) -> Call:
    """The call with its fields replaced; its URL absolute where the job knows a base.

    Raises:
        LookupError: The job lacks a field that the template needs.
    """
    url = _FIELD.sub(lambda match: _in_url(match.group(1), job), call.url)
    base = job.submit_url or job.status_url
    return replace(
        call,
        url=join(base, url) if base is not None else url,
        params=_fill_texts(call.params, job),
        headers=_fill_texts(call.headers, job),
        json=_fill_json(call.json, job),
        data=_fill_json(call.data, job),
    )


def join(base: str, reference: str) -> str:
    """Resolve a reference as RFC 3986 does, leaving the bytes of what it names alone.

    An absolute URL stays as it is and an absolute path is glued to the authority:
    `urljoin` would rewrite dot segments and empty parts, which breaks signatures.
    A reference to the same host never falls from https to http: a server behind a
    TLS proxy does not know its own scheme.

    >>> join("https://h/api/v1/uploads/", "abc")
    'https://h/api/v1/uploads/abc'
    >>> join("https://h/jobs?x=1", "/a/../b//c?sig=%7e")
    'https://h/a/../b//c?sig=%7e'
    >>> join("https://h/jobs", "http://h/jobs/1")
    'https://h/jobs/1'
    """
    if _ABSOLUTE.match(reference):
        absolute = reference
    elif reference.startswith("//"):
        absolute = f"{base.partition(':')[0]}:{reference}"
    elif reference.startswith("/"):
        scheme, _, rest = base.partition("://")
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        absolute = f"{scheme}://{authority}{reference}"
    else:
        absolute = urljoin(base, reference)
    if base.startswith("https:") and absolute.startswith("http:"):
        there = urlsplit(absolute)
        if there.hostname == urlsplit(base).hostname and there.port in (None, 80):
            return "https:" + absolute[len("http:") :].replace(":80", "", 1 if there.port == 80 else 0)
    return absolute


def _value(name: str, job: Job) -> str:
    value = job.memo.get(name[5:]) if name.startswith("memo.") else getattr(job, name)
    if value is None:
        raise LookupError(f"the job has no {name}, which {{{name}}} needs")
    return str(value)


def _in_url(name: str, job: Job) -> str:
    value = _value(name, job)
    if name in ("status_url", "submit_url"):
        return value
    # An id is one piece of a path; a memo may be a whole URL.
    return quote(value, safe=_KEPT_IN_URLS if name.startswith("memo.") else "")


def _fill_texts(texts: Mapping[str, str] | None, job: Job) -> Mapping[str, str] | None:
    return texts and {key: _fill_json(value, job) for key, value in texts.items()}


def _fill_json(value: JSON, job: Job) -> JSON:
    match value:
        case str():
            return _FIELD.sub(lambda match: _value(match.group(1), job), value)
        case dict():
            return {key: _fill_json(part, job) for key, part in value.items()}
        case list() | tuple():
            return [_fill_json(part, job) for part in value]
        case _:
            return value
