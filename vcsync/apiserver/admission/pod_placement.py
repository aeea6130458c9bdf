"""Places a Pod while it is created: asks the Pod scheduler of the same process for the Pod's super cluster.

It runs after mutating webhooks, so that the scheduler sees the Pod as it will be stored, and before quotas.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import msgspec
import structlog

from vcsync.api.names import COPY_FINALIZER, SUPER_CLUSTER
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.framework.plugin import Lookup, creates
from vcsync.apiserver.request.scope import Admission
from vcsync.apiserver.storage.interface import Outcome, StoreError, StoreUnavailable
from vcsync.objects.generated_names import is_generated
from vcsync.scheduling.pods import MARKED, is_plain

ANSWER_SECONDS = 0.05
"""Seconds after which a Pod is stored without a super cluster, because the scheduler has not answered."""
IDENTITY_NAMESPACE = "kube-system"
"""The namespace whose UID identifies a control plane."""

_encode = msgspec.json.Encoder().encode
_log = structlog.get_logger(__name__)


class Promise(Protocol):
    """The answer of the scheduler. It holds until it is given back, or for a limited time if that is not known.

    A promise without a super cluster holds the Pod's turn: later Pods of its namespace do not overtake it.
    """

    @property
    def super_id(self) -> str:
        """The super cluster on which the Pod has room; empty if the Pod is to wait."""
        ...

    def writing(self, uid: str) -> bool:
        """Note the UID under which the Pod is about to be written. Return whether the promise still holds."""
        ...

    def written(self, revision: int) -> None:
        """Note that the Pod was written."""

    def give_back(self) -> None:
        """Free what was promised, because the Pod is not written. A second call does nothing."""


class Placer(Protocol):
    """The Pod scheduler as admission sees it."""

    async def promise(  # noqa: PLR0917 - parts, each of its own type
        self,
        tenant: str,
        control_plane: str,
        namespace: str,
        name: str,
        spec: bytes,
        labels: Mapping[str, str],
    ) -> Promise | None:
        """Return the super cluster of a Pod that is about to be created. A call that is cancelled promises nothing.

        Args:
            tenant: Name of the tenant.
            control_plane: UID of its control plane: that of its namespace kube-system.
            namespace: The Pod's namespace.
            name: Its name.
            spec: Its spec.
            labels: Its labels.

        Returns:
            A promise; None if this scheduler cannot answer for the Pod.
        """
        ...


class PodPlacement:
    """The plug-in. Pods that it leaves alone are placed by the scheduler after they are stored.

    Args:
        placer: The scheduler.
        lookup: Reads objects of the tenant.
    """

    def __init__(self, placer: Placer, lookup: Lookup) -> None:
        self._placer = placer
        self._lookup = lookup

    async def __call__(self, admission: Admission) -> None:
        """Set the label, the annotation and the finalizer that the scheduler would write, if it would place the Pod now."""
        if not creates(admission, "pods") or admission.dry_run or admission.new is None:
            return
        pod, tenant = admission.new, admission.scope.tenant
        name = pod["metadata"].get("name")
        if not name or not is_plain(pod):
            return
        identity = await self._lookup.get(tenant, "", "namespaces", IDENTITY_NAMESPACE)
        if identity is None:
            return
        uid = identity["metadata"]["uid"]
        labels = pod["metadata"].get("labels") or {}
        promise = await self._ask(tenant, uid, admission.scope.namespace, name, _encode(pod["spec"]), labels)
        if promise is None:
            return
        admission.scope.tentative.append(_PromisedPod(promise))
        if promise.super_id:
            _mark(pod["metadata"], promise.super_id)

    async def _ask(  # noqa: PLR0917 - the arguments of `promise`
        self,
        tenant: str,
        control_plane: str,
        namespace: str,
        name: str,
        spec: bytes,
        labels: Mapping[str, str],
    ) -> Promise | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._placer.promise(tenant, control_plane, namespace, name, spec, labels)
        except TimeoutError:
            return None
        except Exception:  # noqa: BLE001 - a defect of the scheduler must not refuse Pods
            _log.exception("a new pod cannot be placed", tenant=tenant, namespace=namespace, name=name)
            return None


def _mark(metadata: Object, super_id: str) -> None:
    """Set the super cluster of a Pod, in place. One of a fixed name keeps its name from now on."""
    for part in MARKED:
        metadata[part] = {**(metadata.get(part) or {}), SUPER_CLUSTER: super_id}
    present = metadata.get("finalizers") or []
    fixed = not is_generated(metadata["name"], metadata.get("generateName") or "")
    if fixed and COPY_FINALIZER not in present:
        metadata["finalizers"] = [*present, COPY_FINALIZER]


class _PromisedPod:
    """Tells the scheduler what becomes of a Pod; see `tentative.Tentative`."""

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self._sent = False  # a transaction is under way
        self._over = False  # the request has ended

    def prepare(self, working: Object) -> None:
        """Take the super cluster off the Pod if the promise does not hold any more."""
        metadata = working["metadata"]
        if self._promise.writing(metadata["uid"]) or not self._promise.super_id:
            return
        for part in MARKED:
            left = {key: value for key, value in metadata[part].items() if key != SUPER_CLUSTER}
            metadata[part] = left
            if not left:
                del metadata[part]
        kept = [each for each in metadata.get("finalizers") or () if each != COPY_FINALIZER]
        metadata["finalizers"] = kept
        if not kept:
            del metadata["finalizers"]

    def follow(self, transaction: asyncio.Future[Outcome]) -> None:
        """See `Tentative.follow`."""
        self._sent = True
        transaction.add_done_callback(self._ended)

    def give_back(self) -> None:
        """See `Tentative.give_back`."""
        self._over = True
        if not self._sent:
            self._promise.give_back()

    def _ended(self, transaction: asyncio.Future[Outcome]) -> None:
        """Confirm the promise or give it back. Where the outcome is not known, the scheduler sees the Pod or forgets it."""
        error = None if transaction.cancelled() else transaction.exception()
        if transaction.cancelled() or (error is not None and not _has_no_effect(error)):
            return
        if error is None and transaction.result().done:
            self._promise.written(transaction.result().revision)
            return
        self._sent = False  # the request may try again
        if self._over:
            self._promise.give_back()


def _has_no_effect(error: BaseException) -> bool:
    """Return whether a transaction that failed has certainly not written anything."""
    return isinstance(error, StoreError) and not isinstance(error, StoreUnavailable)
