"""What goes wrong between two machines, in short words; and the reading of a body that is to be parsed."""

from __future__ import annotations

from collections.abc import Mapping

import requests
import urllib3

# Bodies that are parsed are bounded; a result is streamed and is not.
MAX_PARSED_BYTES = 64 * 2**20

# What the reading of a body may raise.
BROKEN = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)

_PIECE_BYTES = 65536

# As many digits as a size may have; `int` refuses to read some thousands of them, and a server may send those.
MOST_DIGITS = 18


class BodyTruncated(requests.exceptions.ConnectionError):
    """Fewer bytes came than the server announced."""


class BodyTooLarge(requests.exceptions.ConnectionError):
    """A body to be parsed is larger than we would parse."""


def announced_bytes(headers: Mapping[str, str]) -> int | None:
    """The size of a body as its Content-Length has it; None for none, and for what is no number.

    >>> announced_bytes({"Content-Length": "12"}), announced_bytes({"Content-Length": "1e9"})
    (12, None)
    """
    length = headers.get("Content-Length", "")
    if not (length.isascii() and length.isdigit()):
        return None
    return int(length) if len(length) <= MOST_DIGITS else 10**MOST_DIGITS


def read_parsed(response: requests.Response) -> bytes:
    """A whole body that is to be parsed, its length bounded and checked.

    Raises:
        requests.RequestException, urllib3.exceptions.HTTPError: It broke off, is short or too large.
    """
    headers, raw = response.headers, response.raw
    announced = announced_bytes(headers)
    if announced is not None:
        if announced > MAX_PARSED_BYTES:
            raise BodyTooLarge(f"a reply of {announced} bytes was to be parsed")
        # In chunks, it may be of any size whatever was announced (RFC 9112 section 6.3).
        known = "Content-Encoding" not in headers and "Transfer-Encoding" not in headers
        if known and hasattr(raw, "_fp_bytes_read") and not response._content_consumed:  # type: ignore[attr-defined]
            # As a poll mostly is: its size known and its bytes as they are, it needs no generator of pieces.
            content: bytes = raw.read(decode_content=False)
            if len(content) != announced:
                check_length(response)
            return content
    parts, size = [], 0
    for part in response.iter_content(_PIECE_BYTES):
        parts.append(part)
        size += len(part)
        if size > MAX_PARSED_BYTES:
            raise BodyTooLarge(f"a reply of more than {MAX_PARSED_BYTES} bytes was to be parsed")
    check_length(response)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def check_length(response: requests.Response) -> None:
    """Compare the bytes on the wire with what the server announced; urllib3 1.26 does not.

    Raises:
        BodyTruncated: They do not add up.
    """
    announced = announced_bytes(response.headers)
    raw = response.raw
    # Another reader than urllib3's is a mock, or an adapter that keeps its own count.
    if announced is None or not hasattr(raw, "_fp_bytes_read"):
        return
    received = raw.tell()
    if received >= announced or "Transfer-Encoding" in response.headers:
        return
    method = response.request.method if response.request is not None else None
    if method != "HEAD" and response.status_code not in (204, 304):
        raise BodyTruncated(f"the body broke off after {received} of {announced} bytes")


def error_type_of(error: BaseException) -> str:
    """A short word of low cardinality for why there was no answer.

    >>> error_type_of(requests.exceptions.ReadTimeout())
    'read_timeout'
    """
    chain: list[BaseException] = []
    pending: list[object] = [error]
    while pending and len(chain) < 12:
        link = pending.pop(0)
        if isinstance(link, BaseException) and link not in chain:
            chain.append(link)
            pending += [link.__cause__, link.__context__, getattr(link, "reason", None), *link.args]
    names = {type(link).__name__ for link in chain}
    return next((word for word, signs in _WORDS if names & signs), "connection_error")


_WORDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("body_too_large", frozenset({"BodyTooLarge"})),
    ("body_truncated", frozenset({"BodyTruncated", "IncompleteRead", "InvalidChunkLength"})),
    ("name_resolution", frozenset({"gaierror", "NameResolutionError", "herror"})),
    ("connect_timeout", frozenset({"ConnectTimeout", "ConnectTimeoutError"})),
    ("read_timeout", frozenset({"ReadTimeout", "ReadTimeoutError"})),
    ("tls", frozenset({"SSLError", "SSLCertVerificationError", "SSLEOFError", "CertificateError"})),
    ("content_decoding", frozenset({"ContentDecodingError", "DecodeError"})),
    ("proxy", frozenset({"ProxyError", "ProxySchemeUnknown", "SOCKSHTTPError", "GeneralProxyError"})),
    ("connect_refused", frozenset({"ConnectionRefusedError", "NewConnectionError"})),
    (
        "connection_reset",
        frozenset(
            {"ConnectionResetError", "RemoteDisconnected", "ConnectionAbortedError", "BrokenPipeError", "BadStatusLine"}
        ),
    ),
    ("read_timeout", frozenset({"TimeoutError", "timeout"})),
    ("retries_exhausted", frozenset({"RetryError", "MaxRetryError", "ResponseError"})),
    ("connection_reset", frozenset({"ProtocolError", "ChunkedEncodingError"})),
)


def looked_ahead(error: BaseException) -> bool:
    """Whether requests stumbled over where a redirect leads, which it looks at even if it is not to follow it."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is requests.Session.resolve_redirects.__code__:
            return True
        trace = trace.tb_next
    return False


# Failed before a byte of the request left.
_NEVER_CONNECTED = frozenset({"connect_refused", "connect_timeout", "name_resolution"})


def may_have_left(error: BaseException) -> bool:
    """Whether a request may have reached the server, judged by the error alone.

    For adapters that are not urllib3's; urllib3's own are asked what they sent.
    """
    if type(error) is OSError:  # requests itself, which found no certificate at the path that it was given
        return False
    inner = error.args[0] if error.args else None
    return not type(inner).__module__.startswith("urllib3") and error_type_of(error) not in _NEVER_CONNECTED
