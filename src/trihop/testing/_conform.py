"""Does a provider keep the rules that the engine relies on?"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from trihop._hops.judge import Nonsense, judge_poll, shown
from trihop._provider import Provider
from trihop._surface import ReadState, folded
from trihop._template import join
from trihop._values import JSON, Call, Job, Reply, Result, as_call
from trihop._verdicts import Cancelled, Ending, Failed, Partial, Pending, PollVerdict, Succeeded, Transient
from trihop.testing._probes import garbled, with_unseen_word

_JOB = Job(id="job-1", status_url="https://api.test/jobs/1", submit_url="https://api.test/jobs")
_NAME = re.compile(r"[\w.-]{1,64}")
_ABSOLUTE = re.compile(r"https?://[^/]")


def check_provider(
    provider: Provider,
    *,
    pending: Reply | dict[str, JSON],
    succeeded: Reply | dict[str, JSON],
    failed: Reply | dict[str, JSON] | None = None,
    partial: Reply | dict[str, JSON] | None = None,
    cancelled: Reply | dict[str, JSON] | None = None,
    job: Job | None = None,
) -> None:
    """Check a provider against what its API really answers, and against answers that no API should give.

    - Each reply is judged as the verdict it is given for, and by nothing but its
      own content: the same again gives an equal verdict, and nothing is changed.
    - What is no answer (an empty body, a proxy's HTML page, JSON of another shape, a
      page cut in two) and a state word never seen are never success. Where
      `pending` and `succeeded` differ in their HTTP status, the status is the
      word: then other bodies at the status of `succeeded` are let pass.
    - The calls that ask for the state and that cancel can be built for `job`
      and are absolute; results are places that can be asked, or data.

    Args:
        provider: The provider.
        pending: An answer of the status monitor while the job goes on; a dict is a 200 with this JSON.
        succeeded, failed, partial, cancelled: Its answers when it is over; leave out what the API does not have.
        job: The job these answers are about. None: one with the id "job-1" at
            https://api.test/jobs; give your own if the provider needs a `memo`.

    Raises:
        AssertionError: It does not conform; the message lists every finding.
        TypeError: `provider` is no `Provider`.
    """
    if not isinstance(provider, Provider):
        raise TypeError(f"check_provider() takes a Provider, got {type(provider).__name__}")
    given: dict[str, tuple[Reply, type[PollVerdict]]] = {
        name: (reply if isinstance(reply, Reply) else Reply(200, reply), kind)
        for name, reply, kind in (
            ("pending", pending, Pending),
            ("succeeded", succeeded, Succeeded),
            ("failed", failed, Failed),
            ("partial", partial, Partial),
            ("cancelled", cancelled, Cancelled),
        )
        if reply is not None
    }
    checks = _Checks(provider, job or _JOB, given)
    if findings := list(checks.findings()):
        listed = "\n".join(f"  {number}. {finding}" for number, finding in enumerate(findings, start=1))
        raise AssertionError(f"provider {provider.name!r} does not conform, {len(findings)} to mend:\n{listed}")


class _Checks:
    """One provider, one job and the API's real answers."""

    def __init__(self, provider: Provider, job: Job, given: Mapping[str, tuple[Reply, type[PollVerdict]]]) -> None:
        self.provider = provider
        self.job = job
        self.given = given

    def findings(self) -> Iterator[str]:
        """What is wrong, and what to do about it."""
        if not _NAME.fullmatch(self.provider.name):
            yield "the name is on every span: use letters, digits, '.', '_' and '-', 64 at most"
        yield from self._asked("status_call", "status=", self.provider.status_call)
        if self.provider.cancel is not None:
            yield from self._asked("cancel_call", "cancel=", self.provider.cancel_call)
        verdicts: dict[str, object] = {}
        for name, (reply, kind) in self.given.items():
            yield from (f"{name}: {finding}" for finding in self._judged(name, reply, kind, verdicts))
        yield from self._judged_again(verdicts)
        yield from self._never_success(verdicts)

    def _asked(self, name: str, option: str, build: Callable[[Job], Call]) -> Iterator[str]:
        try:
            url = build(self.job).url
        except Exception as error:
            yield (
                f"{name}() raises {_told(error)}: {option} needs what this job does not have; "
                "give check_provider() a job= as your submit surface makes it"
            )
        else:
            if not _ABSOLUTE.match(url):
                yield f"{name}() asks {url!r}, no http URL: begin {option} with {{status_url}} or {{submit_url}}"

    def _judged(self, name: str, reply: Reply, kind: type[PollVerdict], verdicts: dict[str, object]) -> Iterator[str]:
        status = reply.status_code
        if not shown(status, self.provider.poll):
            yield f"a poll surface is never shown HTTP {status}, unless it is marked with @accepts({status})"
            return
        seen, job = _copied(reply), copy.deepcopy(self.job)
        try:
            verdict = self.provider.poll(seen, job)
        except Exception as error:
            yield f"the poll surface raises {_told(error)} on this real answer, expected {kind.__name__}"
            return
        verdicts[name] = verdict
        yield from self._expected(name, verdict, kind)
        if _parts(seen) != _parts(reply):
            yield "the poll surface changed the reply; let it copy what it takes apart"
        if job != self.job:
            yield "the poll surface changed the job; let it return Pending(memo=...) instead"
        if isinstance(verdict, (Succeeded, Partial)):
            yield from self._results(reply, verdict)

    def _expected(self, name: str, verdict: object, kind: type[PollVerdict]) -> Iterator[str]:
        table = self.provider.poll if isinstance(self.provider.poll, ReadState) else None
        match verdict:
            case Pending(known=False) if table is not None:
                word = verdict.state
                yield f"{word!r} is a word the surface does not list: ReadState(..., {name}={{{word!r}}})"
            case Transient() if table is not None:
                yield f"no answer ({verdict.reason}): is ReadState({table.state!r}) the field with the state?"
            case _ if type(verdict) is not kind:
                yield f"the poll surface gives {_told(verdict)}, expected {kind.__name__}"
            case Pending(progress=float() | int() as progress) if not 0 <= progress <= 100:
                yield f"progress is percent, 0 to 100, got {progress:g}"
            case _:
                pass

    def _results(self, reply: Reply, verdict: Ending) -> Iterator[str]:
        poll = self.provider.poll
        if isinstance(poll, ReadState) and not verdict.results and (poll.results or poll.data):
            yield f"results={poll.results!r} and data={poll.data!r} find nothing in this answer"
        base = reply.url or self.job.status_url or self.job.submit_url or "https://api.test/"
        found: Sequence[object] = verdict.results
        for result in found:
            if not isinstance(result, Result):
                yield f"{_told(result)} among the results is no Result"
                continue
            if result.expires_at is not None and result.expires_at.utcoffset() is None:
                yield f"expires_at of {result.name!r} is naive; give it a time zone"
            place = None if result.at is None else as_call(result.at).url
            if place is not None and (field := re.search(r"\{[\w.]+\}", place)):
                yield f"{result.name!r} is at {place!r}; {field.group()} is filled only in results that ReadState lists"
            elif place is not None and not _ABSOLUTE.match(join(base, place)):
                yield f"{result.name!r} is at {place!r}, which leads to no http URL"

    def _judged_again(self, verdicts: Mapping[str, object]) -> Iterator[str]:
        # The other way round, so that what one answer left behind meets another.
        for name, first in reversed(list(verdicts.items())):
            again: object
            try:
                again = self.provider.poll(_copied(self.given[name][0]), self.job)
            except Exception as error:
                again = error
            if again != first:
                yield (
                    f"{name}: the same answer twice gives {_told(first)}, then {_told(again)}; "
                    "a surface keeps nothing between replies"
                )

    def _never_success(self, verdicts: Mapping[str, object]) -> Iterator[str]:
        pending, succeeded = self.given["pending"][0], self.given["succeeded"][0]
        states = [verdict.state for verdict in verdicts.values() if isinstance(verdict, (Pending, Ending))]
        words = {folded(str(state)) for state in states}
        for what, reply in [*garbled(pending, succeeded), *with_unseen_word(pending, succeeded, words)]:
            try:
                # As the engine would: what the surface cannot read is a poll error.
                verdict = judge_poll(reply, self.job, self.provider.poll, answered=True, age_s=0.0, grace_s=0.0)
            except Exception as error:
                yield f"{what}: the poll surface raises {_told(error)}, which ends the operation; raise ValueError"
                continue
            match verdict:
                case Succeeded() | Partial():
                    yield (
                        f"{what} is taken for {type(verdict).__name__}: name the words of success "
                        "and let all else be Pending(..., known=False)"
                    )
                case Nonsense():
                    yield f"{what}: {verdict.what}"
                case _:
                    pass


def _copied(reply: Reply) -> Reply:
    return Reply(reply.status_code, headers=dict(reply.headers), url=reply.url, content=reply.content)


def _parts(reply: Reply) -> tuple[Any, ...]:
    """All of a reply, with its JSON as it is now: a surface may have changed the parsed value in place."""
    try:
        value = reply.json()
    except ValueError:
        value = None
    return reply.status_code, dict(reply.headers), reply.url, reply.content, json.dumps(value)


def _told(value: object) -> str:
    return f"{type(value).__name__}: {value}" if isinstance(value, Exception) else repr(value)[:120]
