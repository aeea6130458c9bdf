"""The ServiceAccount of a Pod: sets its name, token and pull Secrets, and enforces its mountable Secrets.

Source: Kubernetes' `plugin/pkg/admission/serviceaccount`.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping

from vcsync.apimachinery.errors import StatusError
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.validation import names
from vcsync.apiserver.admission.framework.plugin import Lookup, creates, refusal, spec_of
from vcsync.apiserver.authorization.node_graph import NAMED
from vcsync.apiserver.request.scope import Admission

MIRROR = "kubernetes.io/config.mirror"
ENFORCE_SECRETS = "kubernetes.io/enforce-mountable-secrets"
DEFAULT_ACCOUNT = "default"
TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - a name
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a path
TOKEN_SECONDS = 3607
"""Lifetime of automatically mounted tokens, by which kubelets and API servers recognize them."""
ACCOUNT_ATTEMPTS = 10
ACCOUNT_PAUSE_SECONDS = 0.15
"""Pause between attempts to find a default account, which a controller creates shortly after its namespace."""
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_CONTAINERS = (("init container", "initContainers"), ("container", "containers"))
_EPHEMERAL = (("ephemeral container", "ephemeralContainers"),)


class ServiceAccounts:
    """A plug-in that sets the ServiceAccount of Pods."""

    def __init__(
        self, attempts: int = ACCOUNT_ATTEMPTS, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Create the plug-in.

        Args:
            attempts: Attempts to find a default account.
            pause: Waits between attempts for a number of seconds.
        """
        self._attempts = attempts
        self._pause = pause

    async def __call__(self, admission: Admission, lookup: Lookup) -> None:
        """Set the ServiceAccount of a Pod, and add its pull Secrets and a token volume.

        Raises:
            StatusError: 403, the account does not exist or may not use a Secret.
        """
        if not creates(admission, "pods"):
            return
        spec = spec_of(admission)
        if MIRROR in _annotations(admission.new):
            _check_mirror(admission, admission.new or {})
            return
        name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self.account(admission, lookup, name)
        automount = spec.get("automountServiceAccountToken")
        if automount is None:
            automount = account.get("automountServiceAccountToken", True)
        if automount:
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [
                {"name": each.get("name", "")} for each in account["imagePullSecrets"]
            ]
        if _annotations(account).get(ENFORCE_SECRETS) in _TRUE:
            _check_secrets(admission, spec, account)

    async def account(self, admission: Admission, lookup: Lookup, name: str) -> Object:
        """Return a ServiceAccount.

        Raises:
            StatusError: 403, it does not exist.
        """
        tenant, namespace = admission.scope.tenant, admission.scope.namespace
        looking = f"error looking up service account {namespace}/{name}"
        if wrong := names.path_segment(name):
            raise refusal(admission, f'{looking}: invalid resource name "{name}": [{" ".join(wrong)}]')
        for attempt in range(self._attempts if name == DEFAULT_ACCOUNT else 1):
            if attempt:
                await self._pause(ACCOUNT_PAUSE_SECONDS)
            found = await lookup.get(tenant, "", "serviceaccounts", name, namespace)
            if found is not None:
                return found
        raise refusal(admission, f'{looking}: serviceaccount "{name}" not found')

    async def of_ephemeral(self, admission: Admission, lookup: Lookup) -> None:
        """Refuse Secrets in ephemeral containers that the account of the Pod does not list. A separate plug-in.

        Raises:
            StatusError: 403, the account does not exist; 500 as in kube-apiserver, it does not list a Secret.
        """
        resource = admission.scope.kind.resource
        if admission.scope.subresource != "ephemeralcontainers" or admission.operation != "UPDATE":
            return
        if (resource.group, resource.plural) != ("", "pods") or admission.new is None:
            return
        spec = spec_of(admission)
        name = spec.get("serviceAccountName")
        if not name:
            pod = f"{admission.scope.namespace}/{admission.name}"
            raise refusal(admission, f"no service account specified for pod {pod}")
        account = await self.account(admission, lookup, name)
        if _annotations(account).get(ENFORCE_SECRETS) not in _TRUE:
            return
        allowed = {each.get("name") for each in account.get("secrets") or ()}
        for place, secret in _secrets_used(spec, _EPHEMERAL):
            if secret not in allowed:
                why = f"is not allowed because service account {name} does not reference that secret"
                raise StatusError(500, "", f'{place} referencing secret.secretName="{secret}" {why}')


def _check_mirror(admission: Admission, pod: Object) -> None:
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName"):
        raise refusal(admission, "a mirror pod may not reference service accounts")
    if any(NAMED["secrets"](pod)):
        raise refusal(admission, "a mirror pod may not reference secrets")
    for volume in spec.get("volumes") or ():
        sources = (volume.get("projected") or {}).get("sources") or ()
        if any(each.get("serviceAccountToken") is not None for each in sources):
            raise refusal(admission, "a mirror pod may not use ServiceAccountToken volume projections")


def _mount_token(spec: Object) -> None:
    volumes = spec.get("volumes") or []
    name = next((each["name"] for each in volumes if str(each.get("name")).startswith(TOKEN_VOLUME)), "")
    made = name or TOKEN_VOLUME + "".join(secrets.choice(_ALPHABET) for _ in range(5))
    needed = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if not any(each.get("mountPath") == TOKEN_PATH for each in mounts):
            container["volumeMounts"] = [*mounts, {"name": made, "readOnly": True, "mountPath": TOKEN_PATH}]
            needed = True
    if needed and not name:
        spec["volumes"] = [*volumes, {"name": made, "projected": _token_sources()}]


def _token_sources() -> Object:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {
                            "path": "namespace",
                            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                        }
                    ]
                }
            },
        ],
        "defaultMode": 0o644,
    }


def _check_secrets(admission: Admission, spec: Object, account: Object) -> None:
    """Refuse Secrets that an account with enforcement does not list."""
    allowed = {each.get("name") for each in account.get("secrets") or ()}
    who = f"is not allowed because service account {account['metadata']['name']} does not reference that"
    for volume in spec.get("volumes") or ():
        name = (volume.get("secret") or {}).get("secretName")
        if name is not None and name not in allowed:
            raise refusal(admission, f'volume with secret.secretName="{name}" {who} secret')
    for place, name in _secrets_used(spec):
        if name not in allowed:
            raise refusal(admission, f'{place} referencing secret.secretName="{name}" {who} secret')
    pulled = {each.get("name") for each in account.get("imagePullSecrets") or ()}
    for position, each in enumerate(spec.get("imagePullSecrets") or ()):
        if each.get("name") not in pulled:
            where = f'imagePullSecrets[{position}].name="{each.get("name")}"'
            raise refusal(admission, f"{where} {who} imagePullSecret")


def _secrets_used(spec: Object, kinds: Iterable[tuple[str, str]] = _CONTAINERS) -> Iterable[tuple[str, str]]:
    """Yield each Secret in the environments of containers, and its place as messages name it."""
    for what, field in kinds:
        for container in spec.get(field) or ():
            place = f"{what} {container.get('name')}"
            for variable in container.get("env") or ():
                reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
                if reference is not None:
                    yield f"{place} with envVar {variable.get('name')}", reference.get("name", "")
            for source in container.get("envFrom") or ():
                if source.get("secretRef") is not None:
                    yield f"{place} with envFrom", source["secretRef"].get("name", "")


def _annotations(obj: Object | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}
