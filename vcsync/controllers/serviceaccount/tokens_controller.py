"""Token Secrets of ServiceAccounts: fills them, and deletes them with their account.

Behaviour: Kubernetes' `pkg/controller/serviceaccount/tokens_controller.go`. The signing key is not available here: the
control plane signs tokens only for Secrets in its own store.
"""

import base64
from collections.abc import Iterable

from msgspec import Struct

from vcsync.controllers.certificates.issuing import Issuing
from vcsync.controllers.framework.event_handlers import everyone, standing
from vcsync.controllers.framework.mirror import Key, key_of, namespace_of
from vcsync.controllers.framework.plan import View, Watch
from vcsync.controllers.framework.worker import ReconcileContext, Worker
from vcsync.fairqueue import ObjectName
from vcsync.kube.cache import Change
from vcsync.kube.client import Client
from vcsync.kube.errors import Conflict, NotFound
from vcsync.kube.resources import SECRETS, SERVICE_ACCOUNTS
from vcsync.objects.envelope import Envelope, decode, untyped

TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - a Secret's type
ONLY_TOKENS = f"type={TOKEN_TYPE}"
"""The field selector of the mirrored Secrets: other Secrets are not kept in memory."""
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


class _Secret(Struct):
    data: dict[str, str] | None = None
    type: str = ""


class _Reference(Struct):
    name: str = ""


class _Account(Struct):
    secrets: tuple[_Reference, ...] | None = None


class TokenSecrets:
    """Maintains token Secrets.

    Args:
        issuing: signs tokens.
        authority: PEM of the CA that tenants' Pods trust for their API server.
    """

    def __init__(self, issuing: Issuing, authority: str) -> None:
        self._issuing = issuing
        self._authority = base64.b64encode(authority.encode()).decode()

    async def work(self, context: ReconcileContext, key: Key) -> float | None:
        """Fill a Secret, delete it if its account is gone, or remove references to it from the account.

        Raises:
            KubeError: something could not be read, signed or written.
        """
        secret = context.view.of[SECRETS].get(*key)
        if secret is None:
            await _forget(context, key)
            return None
        name, uid = secret.annotations.get(ACCOUNT_NAME, ""), secret.annotations.get(ACCOUNT_UID, "")
        if not name or secret.deleting or decode(secret.rest, _Secret).type != TOKEN_TYPE:
            return None
        try:
            account = await _account(context, key, name, uid)
            if account is None:
                await context.client.delete(SECRETS, key.name, key.namespace, uid=secret.uid)
                about = ObjectName(SECRETS.plural, key.namespace, key.name)
                context.note(about, "deleted", secret.resource_version)
            elif not account.deleting:
                await self._fill(context.client, key, secret, account)
        except (Conflict, NotFound):
            # Another write came first, and its change queues the Secret again.
            return None
        return None

    async def _fill(self, client: Client, key: Key, secret: Envelope, account: Envelope) -> None:
        """Write the missing data of a Secret."""
        has = decode(secret.rest, _Secret).data or {}
        data: dict[str, str] = {}
        if has.get("ca.crt") != self._authority:
            data["ca.crt"] = self._authority
        if not has.get("namespace"):
            data["namespace"] = base64.b64encode(key.namespace.encode()).decode()
        if not has.get("token"):
            token = await self._issuing.token(key.tenant, key.namespace, key.name, secret.uid)
            data["token"] = base64.b64encode(token.encode()).decode()
        if not data:
            return
        metadata = {
            "uid": secret.uid,
            "resourceVersion": secret.resource_version,
            "annotations": {ACCOUNT_NAME: account.name, ACCOUNT_UID: account.uid},
        }
        await client.patch(SECRETS, key.name, {"metadata": metadata, "data": data}, key.namespace)


async def _account(context: ReconcileContext, key: Key, name: str, uid: str) -> Envelope | None:
    """Return the account of a Secret; the API server must confirm that a missing account does not exist."""
    found = context.view.of[SERVICE_ACCOUNTS].get(key.tenant, key.namespace, name)
    if found is None or (uid and found.uid != uid):
        try:
            found = await context.client.get(SERVICE_ACCOUNTS, name, key.namespace)
        except NotFound:
            return None
    return found if not uid or found.uid == uid else None


async def _forget(context: ReconcileContext, key: Key) -> None:
    """Remove a deleted Secret from the accounts that name it."""
    naming = [
        each
        for each in context.view.of[SERVICE_ACCOUNTS].within(key.tenant, key.namespace)
        if any(known.name == key.name for known in decode(each.rest, _Account).secrets or ())
    ]
    if not naming or not await _gone(context.client, key):
        return
    for account in naming:
        left = [each for each in untyped(account.rest)["secrets"] if each.get("name") != key.name]
        metadata = {"uid": account.uid, "resourceVersion": account.resource_version}
        patch = {"metadata": metadata, "secrets": left or None}
        try:
            await context.client.patch(SERVICE_ACCOUNTS, account.name, patch, key.namespace)
        except NotFound:
            continue


async def _gone(client: Client, key: Key) -> bool:
    try:
        await client.metadata_only().get(SECRETS, key.name, key.namespace)
    except NotFound:
        return True
    return False


def holding_tokens(change: Change, _look: View) -> Iterable[Key]:
    """Return the Secret itself, if it is a token Secret."""
    secret = standing(change)
    return [key_of(secret)] if decode(secret.rest, _Secret).type == TOKEN_TYPE else ()


def _of_account(change: Change, view: View) -> Iterable[Key]:
    """Return the Secrets of an account that is new, or gone."""
    account = standing(change)
    if change.old is not None and change.new is not None and change.old.uid == change.new.uid:
        return
    namespace = namespace_of(account)
    for secret in everyone(view, SECRETS, account.tenant, namespace):
        if secret.annotations.get(ACCOUNT_NAME) == account.name:
            yield Key(account.tenant, namespace, secret.name)


def token_secrets(server: Client, authority: str) -> Worker:
    """Return the controller.

    Args:
        server: client of the control plane's root, as a system caller.
        authority: PEM of the CA that tenants' Pods trust for their API server.
    """
    work = TokenSecrets(Issuing(server), authority).work
    return Worker(
        "serviceaccount-token-controller",
        (Watch(SECRETS, holding_tokens, fields=ONLY_TOKENS), Watch(SERVICE_ACCOUNTS, _of_account)),
        work,
    )
