"""When links run out, by their own account."""

import datetime as dt

import pytest

from trihop._links import expires_at, without_signature

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone.utc)
EPOCH = int(NOON.timestamp())
AMZ = "X-Amz-Date=20260301T114500Z&X-Amz-Expires=900&X-Amz-Signature=ab"


@pytest.mark.parametrize(
    "query",
    [
        AMZ,
        AMZ.lower().replace("t114500z", "T114500Z"),
        "X-Goog-Date=20260301T114500Z&X-Goog-Expires=900&X-Goog-Signature=ab",
        "x-oss-date=20260301T114500Z&x-oss-expires=900&x-oss-signature=ab",
        "sv=2022-11-02&se=2026-03-01T12%3A00%3A00Z&sig=a%2Bb",
        "se=2026-03-01T13:00:00%2B01:00&sig=ab",
        f"AWSAccessKeyId=K&Expires={EPOCH}&Signature=ab",
        f"Expires={EPOCH}&Signature=ab&Key-Pair-Id=K",
        f"temp_url_sig=ab&temp_url_expires={EPOCH}",
    ],
)
def test_a_signed_link_says_when_it_ends(query):
    """Date and seconds, a date alone, or seconds since the epoch."""
    assert expires_at(f"https://b.example/k?{query}") == NOON


def test_a_day_ends_when_it_begins():
    """A date without a time is midnight, UTC."""
    assert expires_at("https://b.example/k?se=2026-03-01&sig=ab") == NOON.replace(hour=0)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example/jobs",
        f"https://api.example/jobs?Expires={EPOCH}",
        "https://b.example/k?X-Amz-Signature=ab",
        "https://b.example/k?X-Amz-Date=20260301T114500Z&X-Amz-Signature=ab",
        "https://b.example/k?X-Amz-Date=today&X-Amz-Expires=900&X-Amz-Signature=ab",
        "https://b.example/k?X-Amz-Date=20260301T114500Z&X-Amz-Expires=9e99&X-Amz-Signature=ab",
        "https://b.example/k?se=soon&sig=ab",
        f"https://b.example/k?Expires={'9' * 30}&Signature=ab",
        "https://b.example/k?Expires=&Signature=ab",
    ],
)
def test_a_link_that_does_not_say_is_no_error(url):
    """It may end any time, and nobody knows."""
    assert expires_at(url) is None


def test_a_link_is_known_by_what_it_names():
    """Its signature is another one each time."""
    assert without_signature(f"https://b.example/k?{AMZ}#x") == "https://b.example/k"
    assert without_signature("https://api.example/r?page=2#x") == "https://api.example/r?page=2"
