"""s3rver: an S3 that refuses a second auth mechanism beside a signed link, echoes the first, and lets links run out.

It checks the expiry of V4 and V2 links and the signature of V2 links; signatures of V4 are not verified.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import requests

from acceptance.servers import free_port, node_with, serving

BUCKET = "out"
KEY = SECRET = "S3RVER"
_REGION = "us-east-1"


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """s3rver 3.7.1 with the bucket `out`; its URL. Data and log go into the folder."""
    script, port = node_with("s3rver@3.7.1") / "bin" / "s3rver.js", free_port()
    (folder / "data").mkdir()
    command = ["node", script, "-d", folder / "data", "-a", "127.0.0.1", "-p", str(port)]
    options = ["--no-vhost-buckets", "--configure-bucket", BUCKET]
    url = f"http://127.0.0.1:{port}"
    environment = {"NODE_NO_WARNINGS": "1"}
    with serving([*command, *options], ready=url, log=folder / "s3rver.log", environment=environment):
        yield url


def signed(url: str, *, method: str = "GET", at: dt.datetime, expires_s: int = 900, **query: str) -> str:
    """The URL with a V4 signature in its query.

    Source: AWS, "Authenticating Requests: Using Query Parameters".
    """
    parts, stamp = urlsplit(url), at.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{_REGION}/s3/aws4_request"
    fields = {
        **query,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{KEY}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": "host",
    }
    encoded = urlencode(sorted(fields.items()), quote_via=quote, safe="~")
    request = "\n".join([method, parts.path, encoded, f"host:{parts.netloc}", "", "host", "UNSIGNED-PAYLOAD"])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for step in (stamp[:8], _REGION, "s3", "aws4_request"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return f"{url}?{encoded}&X-Amz-Signature={signature}"


def signed_v2(url: str, *, until: dt.datetime) -> str:
    """The URL with a V2 signature in its query, good until then."""
    expires = str(int(until.timestamp()))
    to_sign = f"GET\n\n\n{expires}\n{urlsplit(url).path}"
    signature = base64.b64encode(hmac.new(SECRET.encode(), to_sign.encode(), hashlib.sha1).digest()).decode()
    return f"{url}?AWSAccessKeyId={KEY}&Expires={expires}&Signature={quote(signature, safe='')}"


def put(url: str, content: bytes, *, at: dt.datetime) -> int:
    """Store an object; the status of the answer."""
    headers = {"Content-Type": "text/csv"}
    return requests.put(signed(url, method="PUT", at=at), data=content, headers=headers, timeout=10).status_code
