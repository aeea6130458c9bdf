"""The MutatingWebhookConfiguration by which an external control plane asks the Pod scheduler about new Pods."""

import base64
from typing import Any

from vcsync.api import names
from vcsync.api.rbac import PART_OF, PROJECT

TIMEOUT_SECONDS = 1
"""Seconds that the control plane waits for an answer. The Pod scheduler gives one within 50 ms or not at all."""


def placement_webhook(address: str, token: str, authority: bytes) -> dict[str, Any]:
    """Return the configuration.

    No selector narrows it: the Pod scheduler answers for every namespace, and the tenant could label namespaces. A Pod
    is created without an answer, too, and the Pod scheduler places it when it sees it.

    Args:
        address: HOST:PORT of the Pod scheduler, as the control plane reaches it.
        token: authenticates the control plane.
        authority: the authority of the Pod scheduler's certificate, as PEM.
    """
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
        "scope": "Namespaced",
    }
    webhook = {
        "name": names.PLACEMENT_WEBHOOK_NAME,
        "clientConfig": {
            "url": f"https://{address}{names.PLACEMENT_PATH}{token}",
            "caBundle": base64.b64encode(authority).decode(),
        },
        "rules": [rule],
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "reinvocationPolicy": "Never",
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": names.PLACEMENT_WEBHOOK, "labels": {PART_OF: PROJECT}},
        "webhooks": [webhook],
    }
