"""Filling `{id} {status_url} {submit_url} {state} {memo.x}`, and joining URLs without altering them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import quote

from trihop._origin import origin_of
from trihop._values import JSON, Call, Job

FIELDS = "{id} {status_url} {submit_url} {state} {memo.x}"
_FIELD = re.compile(r"\{(id|status_url|submit_url|state|memo\.\w+)\}")
_ANY_WORD = re.compile(r"\{([\w.]*)\}")
_LONGER = re.compile(r"\{(status_url|submit_url)\}(?P<path>(?:[/:][^?#]*)?)(?:\?(?P<query>[^#]*))?")
_KEPT_IN_URLS = ":/?#[]@!$&'()*+,;=%~"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_UP_TO_QUERY = re.compile(r"[^?#]*")
_PORT_80 = re.compile(r"(?<=[^/?#]):0*80(?=[/?#]|$)")


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

    A `/…`, `:…` or `?…` behind `{status_url}` or `{submit_url}` lengthens the path
    or the query of that URL; anything else is put at its end.

    Raises:
        LookupError: The job lacks a field that the template needs.
    """
    url = _filled(call.url, job)
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

    `urljoin` would rewrite dot segments of absolute URLs and drop empty parts,
    which breaks signatures: here only a relative path that has dot segments of
    its own loses them. A reference to the same host never falls from https to
    http: a server behind a TLS proxy does not know its own scheme.

    >>> join("https://h/api/v1/uploads/", "abc//d;e?")
    'https://h/api/v1/uploads/abc//d;e?'
    >>> join("https://h/jobs?x=1", "/a/../b//c?sig=%7e")
    'https://h/a/../b//c?sig=%7e'
    >>> join("https://h/jobs", "http://h/jobs/1")
    'https://h/jobs/1'
    """
    reference = reference.strip()
    if _SCHEME.match(reference):
        absolute = reference
    else:
        scheme, authority, path, query = _split(base)
        if reference.startswith("//"):
            absolute = f"{scheme}:{reference}"
        elif reference.startswith("/"):
            absolute = f"{scheme}://{authority}{reference}"
        elif reference.startswith("?"):
            absolute = f"{scheme}://{authority}{path}{reference}"
        elif reference.startswith("#") or not reference:
            absolute = f"{scheme}://{authority}{path}{query}{reference}"
        else:
            absolute = f"{scheme}://{authority}{_beside(path, reference)}"
    return _over_tls(base, absolute)


def _split(url: str) -> tuple[str, str, str, str]:
    """Scheme, authority, path and `?query`, as they are; the fragment is of no use to a base."""
    scheme, _, rest = url.partition("#")[0].partition("://")
    before, mark, query = rest.partition("?")
    authority, slash, path = before.partition("/")
    return scheme, authority, slash + path, mark + query


def _beside(path: str, reference: str) -> str:
    """A relative path in the place of the last segment of another one (RFC 3986 section 5.2.3)."""
    relative = _UP_TO_QUERY.match(reference)[0]  # type: ignore[index]  # it matches the empty string
    merged = (path.rpartition("/")[0] + "/" + relative).split("/")
    if not {".", ".."}.isdisjoint(relative.split("/")):
        kept: list[str] = []
        for segment in merged[1:]:
            if segment == ".." and kept:
                kept.pop()
            if segment not in (".", ".."):
                kept.append(segment)
        merged = ["", *kept, *([""] if merged[-1] in (".", "..") else [])]
    return "/".join(merged) + reference[len(relative) :]


def _over_tls(base: str, url: str) -> str:
    """An http URL of the base's own host by its scheme, where the base is https."""
    if not (base[:6].lower() == "https:" and url[:5].lower() == "http:"):
        return url
    try:
        here, there = origin_of(base), origin_of(url)
    except ValueError:
        return url  # whoever sends it says what is wrong
    if here.host != there.host or there.port not in (80, here.port):
        return url
    rest = url[len("http") :]
    return "https" + (rest if there.port == here.port else _PORT_80.sub("", rest, count=1))


def _filled(template: str, job: Job) -> str:
    longer = _LONGER.fullmatch(template)
    if longer is None or not (longer["path"] or longer["query"]):
        return _put(template, job)
    url, _, own = _value(longer[1], job).partition("#")[0].partition("?")
    query = "&".join(part for part in (own, _put(longer["query"] or "", job)) if part)
    return url + _put(longer["path"], job) + (f"?{query}" if query else "")


def _put(text: str, job: Job) -> str:
    return _FIELD.sub(lambda match: _in_url(match.group(1), job), text)


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
    try:
        return quote(value, safe=_KEPT_IN_URLS if name.startswith("memo.") else "")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can have
        raise LookupError(f"the job's {name} has characters that no URL can have") from None


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
