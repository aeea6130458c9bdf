"""Decides whether an answer is acceptable. Pure."""

import json
import re
from typing import Any

import yaml

from hack.fuzz.request import Answer, Request

MARK = b"witness-e3b0c44298fc"
"""Part of every object of the other tenant; no answer may contain it."""

ALLOWED_500 = {
    r"strconv\.ParseUint: parsing": "kube-apiserver's answer to malformed resource versions",
    r"failed to create (manager for|typed (patch|live)|typed)": "kube-apiserver does not classify errors of structured-merge-diff",
    r"failed to convert new object \(": "kube-apiserver does not classify errors of an applied object's Go type",
    r"unknown patch type|expected a \[\]interface \{\}, but received|unable to find (api field|mergeKey)|does not contain declared merge key|list element types are not identical": "kube-apiserver does not classify errors of strategic merge patches",
    r"unable to determine kind and namespace from url": "kube-apiserver's answer to a watch path cut short",
    r"[Ii]nvalid resource version": "kube-apiserver does not classify this error",
    r"(target\.kind|target\.name): ": "kube-apiserver does not classify errors of a Binding's target",
    r"failed calling webhook|conversion webhook for": "a tenant's own webhook cannot be reached",
    r"range is full$": "kube-apiserver's answer when no address or node port is left",
    r"^etcdserver: request is too large$": "kube-apiserver does not classify errors of etcd",
}
"""Pattern of the message of an acceptable 500 -> reason: kube-apiserver answers 500, too."""

SAYING_SO = (501, 503, 504, 507)
PLAIN = {404: r"404 page not found|^$", 406: r"^$|406", 400: r"400", 405: r"", 401: r"Unauthorized"}
LENIENT = (400, 404, 405, 408, 411, 413, 414, 417, 431, 501, 505)


def allowed(answer: Answer) -> str:
    """Return the pattern that allows a 500; empty if the answer is not a 500 or not allowed."""
    if answer.status != 500:
        return ""
    text = answer.body.decode("utf-8", "replace")
    return next((each for each in ALLOWED_500 if re.search(each.strip("^$"), text)), "")


def is_upstreams(message: str) -> bool:
    """Return whether kube-apiserver answers 500 with this message, too."""
    return any(re.search(pattern, message) for pattern in ALLOWED_500)


def finding(request: Request, answer: Answer) -> str:
    """Return the fault of an answer; empty if there is none."""
    if MARK in answer.body:
        return "the answer contains data of another tenant"
    if answer.status == 0:
        return "" if request.lenient else "the connection was closed without an answer"
    if answer.status < 400 or request.method == "HEAD":
        return _bad_code(answer.status, "", lenient=request.lenient) if answer.status >= 500 else ""
    # kube-openapi answers without a body.
    if not answer.body and answer.status in (404, 406):
        return ""
    kind = answer.headers.get("content-type", "").split(";")[0].strip()
    if kind == "application/vnd.kubernetes.protobuf":
        if not answer.body.startswith(b"k8s\x00") or b"Status" not in answer.body[:40]:
            return "the answer is not a Status in protobuf"
        return _bad_code(answer.status, answer.body.decode("latin-1"), lenient=False)
    if kind not in ("application/json", "application/yaml"):
        text = answer.body.decode("utf-8", "replace")
        if request.lenient and answer.status in LENIENT:
            return ""
        if re.search(PLAIN.get(answer.status, "$^"), text):
            return ""
        return f"an error that is not a Status, of type {kind!r}"
    try:
        status = json.loads(answer.body) if kind == "application/json" else yaml.safe_load(answer.body)
    except (ValueError, yaml.YAMLError) as error:
        return f"the answer cannot be read: {error}"
    return _bad_status(status, answer.status) or _bad_code(answer.status, status["message"], lenient=False)


def _bad_status(status: Any, code: int) -> str:
    if not isinstance(status, dict):
        return "the answer is not an object"
    wanted = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    for key, value in wanted.items():
        if status.get(key) != value:
            return f"the Status' {key} is {status.get(key)!r}, not {value!r}"
    return "" if isinstance(status.get("message"), str) else "the Status has no message"


def _bad_code(code: int, message: str, *, lenient: bool) -> str:
    if code < 500 or code in SAYING_SO or (lenient and code in LENIENT):
        return ""
    return "" if is_upstreams(message) else f"{code}"
