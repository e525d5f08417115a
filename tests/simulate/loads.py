"""What a simulation came to: offered and served, how late, and what was closest to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulate.parts import BUCKET_S, Seen
from simulate.setting import Setting

_BUSIEST = 3  # of ten seconds each


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Its busiest half minute, and the whole of it.

    Args:
        offered_per_s: Polls that came due in a second of that half minute.
        served_per_s: Polls that began.
        late_s: By how much the polls were late: half of them, and 99 of 100, at the most.
        held_late_s: The same of those that their origin had asked to wait.
        looks_per_s: Records that were read in a pause, for a webhook that cut it short.
        claims_per_s: Operations that were claimed in a second.
        found: How many a claim found in the mean.
        claim_share: What was claimed, against what the database could claim if it did nothing else.
        used: By resource, what was asked of it for each second in that half minute, against what it has.
        first: The resource that is closest to its end.
        polls: All of them.
        repeated: Those that were lost with whoever had asked.
        slowed: Those that were answered 429.
        most_at_once: How many threads of one process were at one origin, at the most.
        broken: What must not be and was.
        ended_s: When the last job had ended.
    """

    offered_per_s: float
    served_per_s: float
    late_s: tuple[float, float]
    held_late_s: tuple[float, float]
    looks_per_s: float
    claims_per_s: float
    found: float
    claim_share: float
    used: Mapping[str, float]
    first: str
    polls: int
    repeated: int
    slowed: int
    most_at_once: int
    broken: Mapping[str, int]
    ended_s: float


def load(setting: Setting, seen: Seen, database_s: Counter[int]) -> Load:
    """What was seen, as rates and shares."""
    first = max(seen.due, key=lambda at: sum(seen.due[at + step] for step in range(_BUSIEST)))
    buckets, seconds = range(first, first + _BUSIEST), _BUSIEST * BUCKET_S

    def per_s(counter: Counter[int]) -> float:
        return sum(counter[bucket] for bucket in buckets) / seconds

    costs = setting.costs
    found = per_s(seen.claimed) / max(per_s(seen.claims), 1e-9)
    used = {
        "the database": per_s(database_s) / costs.lanes,
        "the workers' threads": per_s(seen.thread_s) / (setting.processes * setting.workers),
        "the processes' CPU": per_s(seen.cpu_s) / setting.processes,
    }
    for server in setting.servers:
        if server.limit_per_s is not None:
            asked = sum(seen.asked[server.name, bucket] for bucket in buckets) / seconds
            used[f"the limit of {server.name}"] = asked / server.limit_per_s
    return Load(
        offered_per_s=per_s(seen.due),
        served_per_s=per_s(seen.begun),
        late_s=_shares(seen.late_s),
        held_late_s=_shares(seen.held_late_s),
        looks_per_s=per_s(seen.looks),
        claims_per_s=per_s(seen.claimed),
        found=found,
        claim_share=per_s(seen.claimed) * (costs.statement_s / max(found, 1.0) + costs.claim_s) / costs.lanes,
        used=used,
        first=max(used, key=lambda name: used[name]),
        polls=seen.begun.total(),
        repeated=seen.repeated,
        slowed=seen.slowed,
        most_at_once=seen.most_at_once,
        broken=dict(seen.broken),
        ended_s=seen.ended_s,
    )


def _shares(late_s: Sequence[float]) -> tuple[float, float]:
    if not late_s:
        return 0.0, 0.0
    ordered = sorted(late_s)
    last = len(ordered) - 1
    return ordered[last // 2], ordered[int(last * 0.99)]
