"""Where the marks of a time axis stand, and what they say."""

from __future__ import annotations

import re

from trihop.viewer._words import seconds

_STEPS = (1, 2, 5, 10, 15, 30)
_STEPS_S = (
    *(step * 10**power for power in range(-9, 0) for step in (1, 2, 5)),
    *(step * unit for unit in (1, 60) for step in _STEPS),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
    *(86400 * step * 10**power for power in range(5) for step in (1, 2, 5)),
)


def axis_step(total_s: float, most: float) -> float:
    """The shortest round step, in seconds, of which at most so many fit into the whole.

    >>> axis_step(42.0, 8), axis_step(7200.0, 8)
    (10, 900)
    """
    return next((step for step in _STEPS_S if total_s / step <= most), total_s)


def axis_label(at_s: float) -> str:
    """A round length of time, shortly.

    >>> axis_label(10.0), axis_label(900.0)
    ('10 s', '15 m')
    """
    return re.sub(r"\.0+(?= )", "", seconds(at_s))
