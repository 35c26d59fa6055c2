"""Certificates to trust where neither SSL_CERT_FILE nor the system has any: those of the package certifi.

Importing this module hands them over; headrace imports it on such machines alone.

Tests: tests/python/test_certificates.py
"""

import importlib.util
import os

from headrace._core import use_certificates


def bundle_of_certifi():
    """The path of certifi's file; None: it is not installed. Does not import the package."""
    spec = importlib.util.find_spec("certifi")
    path = spec and spec.origin and os.path.join(os.path.dirname(spec.origin), "cacert.pem")
    return path if path and os.path.isfile(path) else None


found = bundle_of_certifi()
if found:
    use_certificates(found)
