"""A provider: how to read one API's three hops, how to ask it, and how patiently."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from trihop._arguments import expect, expect_seconds
from trihop._origin import check_origins
from trihop._pacing import Budget, LongPoll, Pacing, RetryPolicy
from trihop._surface import DownloadSurface, PollSurface, ReadJob, ReadState, SubmitSurface, whole_body
from trihop._template import check_url, fill
from trihop._values import Call, Job, as_call

_A_HEADER = "the name of a header field, such as 'Idempotency-Key'"

Template = str | Call | Callable[[Job], str | Call]


@dataclass(frozen=True, slots=True, repr=False)
class Provider:
    """Everything that differs from one API to the next.

    `dataclasses.replace(provider, pacing=…)` makes the variant.

    Args:
        name: Low-cardinality, such as "salesforce.query"; it is on every span.
        submit, poll, download: How to read the three hops.
        status: How to ask for the state; a template, or a function of the job.
        cancel: How to cancel the job, likewise; a function that raises
            `ValueError` says why it cannot be done now. None: the API cannot.
        long_poll: How to ask the status monitor to hold the request.
        idempotency: The header field that carries an idempotency key.
        origins: Origins beside the submit's own that get the credentials.
        grace: Seconds after the submit in which a 404 is "not visible yet".
        pacing, budget, retry: The policies of the hops; an argument of a hop
            overrides. `retry` is for downloads, and for submits with a key.
    """

    name: str
    _: KW_ONLY
    submit: SubmitSurface = field(default_factory=ReadJob)
    poll: PollSurface = field(default_factory=ReadState)
    download: DownloadSurface = whole_body
    status: Template = "{status_url}"
    cancel: Template | None = None
    long_poll: LongPoll | None = None
    idempotency: str | None = None
    origins: Sequence[str] = ()
    grace: float = 0.0
    pacing: Pacing = field(default_factory=Pacing)
    budget: Budget = field(default_factory=Budget)
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"Provider needs a name, such as 'acme.exports', got {self.name!r}")
        for hop in ("submit", "poll", "download"):
            if not callable(getattr(self, hop)):
                raise TypeError(f"Provider {self.name}: {hop}= takes a surface, such as ReadState(…) or a function")
        for what in ("status", "cancel"):
            template = getattr(self, what)
            if template is None and what == "cancel":
                continue
            if callable(template):
                continue
            if not isinstance(template, (str, Call)):
                raise TypeError(f"Provider {self.name}: {what}= takes a URL template or a Call, got {template!r}")
            check_url(as_call(template).url, f"Provider {self.name}, {what}=")
        here = f"Provider {self.name}:"
        if self.long_poll is not None:
            expect(self.long_poll, LongPoll, f"{here} long_poll=", "a LongPoll, such as LongPoll(seconds=30)")
        if self.idempotency is not None and not expect(self.idempotency, str, f"{here} idempotency=", _A_HEADER):
            raise ValueError(f"{here} idempotency= takes {_A_HEADER}, got an empty one")
        check_origins(self.origins, f"{here} origins=")
        expect_seconds(self.grace, f"{here} grace=")
        expect(self.pacing, Pacing, f"{here} pacing=", "a Pacing, such as Pacing(first=2, cap=60)")
        expect(self.budget, Budget, f"{here} budget=", "a Budget, such as Budget(polls=100)")
        expect(self.retry, RetryPolicy, f"{here} retry=", "a RetryPolicy, such as RetryPolicy(attempts=3)")

    def __repr__(self) -> str:
        return f"Provider({self.name!r})"  # templates may have a key in them

    def status_call(self, job: Job) -> Call:
        """What a poll of this job asks.

        Raises:
            LookupError: The job lacks what the template needs.
        """
        return _asked(self.status, job, "GET")

    def cancel_call(self, job: Job) -> Call:
        """What cancels this job.

        Raises:
            LookupError: The job lacks what the template needs.
            ValueError: This API has no way to cancel, or not now.
        """
        if self.cancel is None:
            raise ValueError(f"provider {self.name} has no way to cancel a job")
        # A cancel that is only a URL would be a GET, which cancels nothing.
        return _asked(self.cancel, job, "POST")

    def result_calls(self, job: Job) -> list[Call]:
        """What the downloads of this job ask, as far as it is known without a reply."""
        results = (
            job.ready.results
            if job.ready is not None
            else self.poll.listed(job)
            if isinstance(self.poll, ReadState)
            else ()
        )
        return [as_call(result.at) for result in results if result.at is not None]

    def held(self, call: Call, job: Job, seconds: float) -> Call:
        """The status call asking the monitor to hold the request that long."""
        if self.long_poll is None:
            return call
        words = {"{seconds}": str(max(1, int(seconds))), "{state}": job.state or ""}

        def put(texts: dict[str, str]) -> dict[str, str]:
            filled = {}
            for key, value in texts.items():
                for word, text in words.items():
                    value = value.replace(word, text)
                if value:
                    filled[key] = value
            return filled

        return replace(
            call,
            params={**(call.params or {}), **put(dict(self.long_poll.params or {}))} or None,
            headers={**(call.headers or {}), **put(dict(self.long_poll.headers or {}))} or None,
        )


def _asked(template: Template, job: Job, method: str) -> Call:
    given = template(job) if callable(template) else template
    return fill(given if isinstance(given, Call) else Call(method, given), job)
