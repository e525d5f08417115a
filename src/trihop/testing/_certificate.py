"""A certificate for loopback, good for one test."""

from __future__ import annotations

import ssl
import tempfile


def certified() -> tuple[ssl.SSLContext, str]:
    """A server context, and the file to verify it with, which the caller removes.

    Raises:
        RuntimeError: `trustme` is not installed.
    """
    try:
        import trustme
    except ImportError:
        raise RuntimeError("ScriptedServer(tls=True) needs trustme: pip install trustme") from None

    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    with tempfile.NamedTemporaryFile(suffix=".pem", delete=False) as file:
        file.write(authority.cert_pem.bytes())
    return context, file.name
