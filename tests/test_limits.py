"""How many more requests an origin takes: the fields that servers say it in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trihop._limits import Ration, read_ration

NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("headers", "ration"),
    [
        ({"ratelimit": '"default";r=50;t=30'}, Ration(50, 30.0)),
        ({"ratelimit": "default; r=0; t=5"}, Ration(0, 5.0)),
        ({"ratelimit": '"burst";r=2;t=1, "day";r=100;t=3600'}, Ration(100, 3600.0)),
        ({"ratelimit": "limit=100, remaining=7, reset=12"}, Ration(7, 12.0)),
        ({"ratelimit-limit": "100", "ratelimit-remaining": "3", "ratelimit-reset": "9"}, Ration(3, 9.0)),
        ({"x-ratelimit-remaining": "3", "x-ratelimit-reset": f"{NOW + 20:.0f}"}, Ration(3, 20.0)),
        ({"x-rate-limit-remaining": "0", "x-rate-limit-reset": "4"}, Ration(0, 4.0)),
        ({"x-ratelimit-remaining": "3"}, None),
        ({"x-ratelimit-remaining": "3", "x-ratelimit-reset": "1s"}, None),
        ({"x-ratelimit-remaining": "3", "x-ratelimit-reset": f"{NOW - 20:.0f}"}, None),
        ({"ratelimit": '"default";r=50'}, None),
        ({}, None),
    ],
)
def test_what_is_left(headers, ration):
    """The fields of the draft in its revisions, and those that were there before it."""
    assert read_ration(headers, now=NOW) == ration


@given(st.text(), st.text())
def test_nothing_makes_it_raise(one, other):
    """What cannot be read says nothing."""
    assert read_ration({"ratelimit": one}, now=NOW) is None or "=" in one
    read_ration({"x-ratelimit-remaining": one, "x-ratelimit-reset": other}, now=NOW)
