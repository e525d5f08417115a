"""Links that are passwords: signed, with an end to their life, as object stores hand them out."""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import parse_qs, urlencode, urlsplit

LIFETIME_S = 60


def signed(base: str, path: str, secret: bytes, *, now_s: int) -> str:
    """A link to `path` that holds for a minute."""
    issued, lifetime = str(now_s), str(LIFETIME_S)
    query = {"X-Amz-Date": issued, "X-Amz-Expires": lifetime, "X-Amz-Signature": _sign(path, issued, lifetime, secret)}
    return f"{base}{path}?{urlencode(query)}"


def refusal(target: str, secret: bytes, *, now_s: int) -> str | None:
    """Why a request target, path and query, is not let through; None where it is."""
    parts = urlsplit(target)
    query = parse_qs(parts.query)
    issued, lifetime, signature = (query.get(f"X-Amz-{name}", [""])[0] for name in ("Date", "Expires", "Signature"))
    expected = _sign(parts.path, issued, lifetime, secret)
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        return "the signature does not fit"
    return "the link has expired" if now_s > int(issued) + int(lifetime) else None


def _sign(path: str, issued: str, lifetime: str, secret: bytes) -> str:
    return hmac.new(secret, f"{path}\n{issued}\n{lifetime}".encode(), hashlib.sha256).hexdigest()
