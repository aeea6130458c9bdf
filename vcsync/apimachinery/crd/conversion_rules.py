"""Validation of a definition's conversion: strategy and webhook. Pure.

Source: `validateCustomResourceConversion` of apiextensions-apiserver, and the rules of webhooks' client configuration.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509

from vcsync.apimachinery.crd import conditions
from vcsync.apimachinery.errors import FieldError, not_allowed, not_supported, required, wrong
from vcsync.apimachinery.structural.field_names import child, index
from vcsync.apimachinery.validation import names as wellformed

Raw = Mapping[str, Any]

_REVIEWS = ("v1", "v1beta1")


def check_conversion(path: str, conversion: Raw, *, any_bundle: bool) -> list[FieldError]:
    """Return the findings on a conversion; with `any_bundle` its CA bundle is not checked."""
    strategy = conversion.get("strategy") or ""
    found = []
    if not strategy:
        found.append(required(child(path, "strategy")))
    elif strategy not in ("None", "Webhook"):
        found.append(not_supported(child(path, "strategy"), strategy, ("None", "Webhook")))
    webhook = conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    where, versions = child(path, "webhookClientConfig"), child(path, "conversionReviewVersions")
    if strategy != "Webhook":
        told = "should not be set when strategy is not set to Webhook"
        found += [
            not_allowed(each, told)
            for each, given in ((where, client is not None), (versions, reviews))
            if given
        ]
        return found
    if client is None:
        found.append(required(where, "required when strategy is set to Webhook"))
    else:
        found += _client(where, client, any_bundle=any_bundle)
    return found + _reviews(versions, reviews)


def _client(path: str, client: Raw, *, any_bundle: bool) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    found = []
    if (url is None) == (service is None):
        found.append(required(path, "exactly one of url or service is required"))
    elif url is not None:
        found += _url(child(path, "url"), url)
    elif service is not None:
        found += _service(child(path, "service"), service)
    bundle = client.get("caBundle") or ""
    if bundle and not any_bundle and (why := bundle_problem(bundle)):
        found.append(wrong(child(path, "caBundle"), bundle, why))
    return found


def bundle_problem(bundle: str) -> str:
    """Return the error of a CA bundle (base64 of PEM), or an empty string."""
    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, binascii.Error):
        certificates = []
    return "" if certificates else "unable to load root certificates: unable to parse bytes as PEM block"


def bundle_excused(old: Raw) -> bool:
    """Return whether an update of this stored definition may keep an invalid CA bundle."""
    if not conditions.is_true(dict(old), "Established"):
        return True
    webhook = (old["spec"].get("conversion") or {}).get("webhook") or {}
    bundle = (webhook.get("clientConfig") or {}).get("caBundle") or ""
    return bool(bundle) and bool(bundle_problem(bundle))


def _url(path: str, text: str) -> list[FieldError]:
    form = "; desired format: https://host[/path]"
    try:
        url = urlsplit(text)
        host, user = url.netloc.rpartition("@")[2], url.netloc.rpartition("@")[0]
    except ValueError:
        return [required(path, f"url must be a valid URL: parse {json.dumps(text)}: invalid URL{form}")]
    found = []
    if url.scheme != "https":
        found.append(wrong(path, url.scheme, f"'https' is the only allowed URL scheme{form}"))
    if not host:
        found.append(wrong(path, host, f"host must be specified{form}"))
    if user:
        found.append(wrong(path, user, "user information is not permitted in the URL"))
    if url.fragment:
        found.append(wrong(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        found.append(wrong(path, url.query, "query parameters are not permitted in the URL"))
    return found


def _service(path: str, service: Raw) -> list[FieldError]:
    # Upstream swaps name and namespace here, so that a missing one is reported as the other.
    found = []
    if not service.get("namespace"):
        found.append(required(child(path, "name")))
    if not service.get("name"):
        found.append(required(child(path, "namespace")))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        told = "port is not valid: must be between 1 and 65535, inclusive"
        found.append(wrong(child(path, "port"), port, told))
    text = service.get("path") or ""
    where = child(path, "path")
    if text in ("", "/"):
        return found
    if text == "//":
        return [*found, wrong(where, text, "segment[0] may not be empty")]
    if not text.startswith("/"):
        found.append(wrong(where, text, "must start with a '/'"))
    for at, step in enumerate(text[1:].removesuffix("/").split("/")):
        why = wellformed.dns_subdomain(step) if step else []
        if not step:
            found.append(wrong(where, text, f"segment[{at}] may not be empty"))
        found += [wrong(where, text, f"segment[{at}]: {each}") for each in why]
    return found


def _reviews(path: str, reviews: list[str]) -> list[FieldError]:
    if not reviews:
        return [required(path)]
    found = []
    seen: set[str] = set()
    for at, each in enumerate(reviews):
        if each in seen:
            found.append(wrong(index(path, at), each, "duplicate version"))
        else:
            found += [wrong(index(path, at), each, why) for why in wellformed.dns_label_1035(each)]
        seen.add(each)
    if not seen & set(_REVIEWS):
        found.append(wrong(path, reviews, f"must include at least one of {', '.join(_REVIEWS)}"))
    return found
