"""Ratios of CPU time between variants that take turns, so that a machine's moods cancel out."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable

Variant = Callable[[], object]


def cpu_of(variant: Variant, repeats: int) -> float:
    """Seconds of this process's CPU for one call."""
    began = time.process_time()
    for _ in range(repeats):
        variant()
    return (time.process_time() - began) / repeats


def ratios(variants: dict[str, Variant], base: str, *, rounds: int, repeats: int) -> dict[str, tuple[float, float]]:
    """For each variant the median of its ratio to the base, round by round, and its own median in seconds."""
    for variant in variants.values():
        cpu_of(variant, max(2, repeats // 4))
    seen: dict[str, list[float]] = {name: [] for name in variants}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            names = list(variants)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                seen[name].append(cpu_of(variants[name], repeats))
            gc.collect()
    finally:
        gc.enable()
    return {
        name: (
            statistics.median(one / other for one, other in zip(times, seen[base], strict=True)),
            statistics.median(times),
        )
        for name, times in seen.items()
    }
