"""AWS Signature Version 4, as an auth of `requests` and as a signed link, for tests.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from urllib.parse import parse_qsl, quote, urlsplit

from requests import PreparedRequest
from requests.auth import AuthBase

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
_REGION = "us-east-1"
_ALGORITHM = "AWS4-HMAC-SHA256"


class SigV4(AuthBase):
    """Signs each request for one service."""

    def __init__(self, service: str) -> None:
        self.service = service

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        body = request.body or b""
        digest = hashlib.sha256(body.encode() if isinstance(body, str) else body).hexdigest()
        at = _now()
        request.headers["X-Amz-Date"] = at
        request.headers["X-Amz-Content-SHA256"] = digest
        signed = {"host": urlsplit(request.url).netloc}
        signed |= {
            name.lower(): value
            for name, value in request.headers.items()
            if name.lower().startswith("x-amz-") or name.lower() == "content-type"
        }
        names, signature = _signature(request.method, request.url, signed, digest, at, self.service)
        scope = _scope(at, self.service)
        request.headers["Authorization"] = (
            f"{_ALGORITHM} Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return request


def presigned(url: str, *, expires_s: int = 900) -> str:
    """A link to an object of S3 that carries its signature."""
    at = _now()
    query = {
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{KEY}/{_scope(at, 's3')}",
        "X-Amz-Date": at,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": "host",
    }
    unsigned = f"{url}?{_sorted_query(list(query.items()))}"
    _, signature = _signature("GET", unsigned, {"host": urlsplit(url).netloc}, "UNSIGNED-PAYLOAD", at, "s3")
    return f"{unsigned}&X-Amz-Signature={signature}"


def _signature(
    method: str | None, url: str | None, headers: dict[str, str], digest: str, at: str, service: str
) -> tuple[str, str]:
    parts = urlsplit(url or "")
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name].strip()}\n" for name in sorted(headers))
    query = _sorted_query(parse_qsl(parts.query, keep_blank_values=True))
    canonical = "\n".join([method or "", parts.path or "/", query, lines, names, digest])
    scope = _scope(at, service)
    to_sign = "\n".join([_ALGORITHM, at, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return names, hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


def _sorted_query(pairs: list[tuple[str, str]]) -> str:
    return "&".join(
        f"{name}={value}" for name, value in sorted((quote(n, safe="-_.~"), quote(v, safe="-_.~")) for n, v in pairs)
    )


def _scope(at: str, service: str) -> str:
    return f"{at[:8]}/{_REGION}/{service}/aws4_request"


def _now() -> str:
    return f"{dt.datetime.now(dt.timezone.utc):%Y%m%dT%H%M%SZ}"  # noqa: TID251 - a signature is of the real time
