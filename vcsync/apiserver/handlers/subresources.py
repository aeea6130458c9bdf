"""Subresources such as status, scale, binding and eviction, and resources that are not stored, such as reviews."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from vcsync.api.names import BOUND_STATUS
from vcsync.apimachinery import errors
from vcsync.apimachinery.kinds.all_kinds import by_plural
from vcsync.apimachinery.strategy import Object
from vcsync.apimachinery.wire import decode, negotiation
from vcsync.apiserver.audit import request_log
from vcsync.apiserver.authentication.token_requests import DEFAULT_SECONDS, Check
from vcsync.apiserver.discovery.served import Spaces
from vcsync.apiserver.handlers.component_statuses import answer_component_statuses
from vcsync.apiserver.handlers.connect import Streaming, not_served
from vcsync.apiserver.handlers.exchange import Incoming
from vcsync.apiserver.handlers.proxy import PodProxy
from vcsync.apiserver.handlers.request import Request
from vcsync.apiserver.handlers.responses import ResponseEncoder
from vcsync.apiserver.handlers.verbs import Verbs
from vcsync.apiserver.registry import object_meta as meta
from vcsync.apiserver.registry import scale_writes as rescaling
from vcsync.apiserver.registry.binding import bind
from vcsync.apiserver.registry.bodies import read_as
from vcsync.apiserver.registry.eviction import Evictor
from vcsync.apiserver.registry.field_managers import track, track_unstored
from vcsync.apiserver.registry.offloading import run_decoding
from vcsync.apiserver.registry.reading import Reader
from vcsync.apiserver.registry.store import Registry, Written
from vcsync.apiserver.request import scale as scaling
from vcsync.apiserver.request.connect_options import CONNECTS, connect_options
from vcsync.apiserver.request.options import WriteOptions, write_options
from vcsync.apiserver.request.reply import Reply, Stream

TOKEN, BINDING = ("authentication.k8s.io", "v1", "TokenRequest"), ("", "v1", "Binding")
STREAMS = frozenset({"log", "exec", "attach", "portforward"})
"""Subresources that kubelets answer."""
MAX_BODY = 64 * 1024
"""Most bytes of a review, Binding, Eviction, TokenRequest or Scale, or of a patch of a Scale. kube-apiserver allows 3 MiB."""
PROXIED = frozenset({"pods", "services"})
"""Resources whose subresource `proxy` is served. Through a kubelet, Pods of other tenants could be reached."""


class Reviews(Protocol):
    """Answers access reviews and token requests."""

    async def create(self, caller: Any, tenant: str, plural: str, namespace: str, body: Object) -> Object:
        """Answer a review, and return it with its status.

        Raises:
            StatusError: The review is invalid.
        """
        ...

    async def token_request(
        self, tenant: str, namespace: str, name: str, body: Object, check: Check
    ) -> Object:
        """Issue a token for a ServiceAccount, and return the TokenRequest with its status.

        Args:
            tenant: Tenant of the ServiceAccount.
            namespace: Namespace of the ServiceAccount.
            name: Name of the ServiceAccount.
            body: The TokenRequest.
            check: Called once the fields of the request are filled in. It may refuse the request.

        Raises:
            StatusError: The request is invalid or refused, or the ServiceAccount does not exist.
        """
        ...


class Subresources:
    """Answers requests for subresources, and for resources that are not stored.

    Args:
        verbs: Handles subresources that are read and written like objects.
        registry: Writes objects, and admits requests that write none.
        reader: Reads objects.
        encoder: Encodes answers.
        evictor: Evicts Pods.
        spaces: Finds kinds.
        reviews: Answers access reviews and token requests.
        streaming: Connects to kubelets. None: requests for logs, exec and the like are answered with 501.
        proxy: Connects to programs in Pods. None: requests for the subresource `proxy` are answered with 501.
    """

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        verbs: Verbs,
        registry: Registry,
        reader: Reader,
        encoder: ResponseEncoder,
        evictor: Evictor,
        spaces: Spaces,
        reviews: Reviews,
        streaming: Streaming | None = None,
        proxy: PodProxy | None = None,
    ) -> None:
        self._proxy = proxy
        self._streaming = streaming
        self._verbs = verbs
        self._registry = registry
        self._reader = reader
        self._encoder = encoder
        self._evictor = evictor
        self._spaces = spaces
        self._reviews = reviews
        self._creations: Mapping[str, Callable[[Request], Awaitable[Reply]]] = {
            "binding": self._binding,
            "eviction": self._eviction,
            "token": self._token,
        }

    async def answer(self, request: Request) -> Reply | Stream:
        """Answer a request for a subresource.

        Raises:
            StatusError: The request is refused.
        """
        resource, name = request.scope.kind.resource, request.info.subresource
        if name in STREAMS:
            return await self._stream(request)
        if name in self._creations:
            return await self._creations[name](request)
        if name == "scale":
            return await self._scale(request)
        declared = by_plural(resource.group, resource.plural)
        if name in ("status", BOUND_STATUS) or (declared is not None and name in declared.partial_writes):
            return await self._verbs.handle(request)
        raise errors.page_not_found()

    async def virtual(self, request: Request) -> Reply:
        """Answer a request for a resource that is not stored; see `routes.VIRTUAL`.

        Raises:
            StatusError: The request is refused.
        """
        resource, scope = request.scope.kind.resource, request.scope
        if resource.plural == "bindings":
            return await self._binding(request)
        if request.info.verb != "create":
            return await answer_component_statuses(self._encoder, request)
        options = write_options(request.query, "CreateOptions")
        expected = decode.Expected(resource.group, resource.version, resource.kind)
        body = await self._created(request, expected, options.validation)
        track(scope, None, body, options.manager)
        await self._registry.admit_and_validate_request(scope, "CREATE", body, options)
        answer = await self._reviews.create(
            scope.caller, scope.tenant, resource.plural, scope.namespace, body
        )
        return self._document(request, answer, 201)

    async def proxied(self, incoming: Incoming, request: Request) -> Reply | Stream:
        """Answer a request for the subresource `proxy`.

        Raises:
            StatusError: The request is refused.
        """
        await self._connect(request)
        if self._proxy is None or request.scope.kind.resource.plural not in PROXIED:
            await self._reader.get(request.scope)
            raise not_served(request)
        return await self._proxy.answer(incoming, request)

    async def _connect(self, request: Request) -> None:
        """Return if admission permits a connection.

        Raises:
            StatusError: It does not.
        """
        name, resource = request.info.subresource, request.scope.kind.resource
        path = "/".join(["", *request.info.parts[3:]])
        options = connect_options(resource.subresources[name], request.query, path)
        await self._registry.admit_and_validate_request(request.scope, "CONNECT", options, WriteOptions())

    async def _stream(self, request: Request) -> Reply | Stream:
        if request.info.subresource in CONNECTS:
            await self._connect(request)
        streaming = self._streaming
        if streaming is not None and streaming.serves(request.scope.tenant):
            return await streaming.answer(request)
        await self._reader.get(request.scope)
        raise not_served(request)

    async def _binding(self, request: Request) -> Reply:
        options = write_options(request.query, "CreateOptions")
        preserve = bool(request.info.subresource)  # in a subresource, they are preconditions
        body = await self._created(
            request, decode.Expected(*BINDING), options.validation, preserve_system_fields=preserve
        )
        pods = self._spaces.kind(request.scope.tenant, "", "v1", "pods")
        if pods is None:
            raise errors.page_not_found()
        name = request.scope.name or body["metadata"].get("name") or ""
        track_unstored(request.scope, body, options.manager, BINDING)
        await self._registry.admit_and_validate_request(
            replace(request.scope, name=name), "CREATE", body, options
        )
        scope = replace(request.scope, kind=pods, name=name)
        return self._document(request, await bind(self._registry, scope, body, options.dry_run), 201)

    async def _eviction(self, request: Request) -> Reply:
        options = write_options(request.query, "CreateOptions")
        expected = decode.Expected("policy", "v1", "Eviction", also=("policy/v1beta1",))
        body = await self._created(request, expected, options.validation)
        await self._registry.admit_and_validate_request(request.scope, "CREATE", body, options)
        return self._document(request, await self._evictor.evict(request.scope, body, options.dry_run), 201)

    async def _token(self, request: Request) -> Reply:
        options = write_options(request.query, "CreateOptions")
        scope = request.scope
        body = await self._created(
            request, decode.Expected(*TOKEN), options.validation, preserve_system_fields=True
        )
        body["spec"] = body.get("spec") or {}
        if body["spec"].get("expirationSeconds") is None:
            body["spec"]["expirationSeconds"] = DEFAULT_SECONDS
        track_unstored(scope, body, options.manager, TOKEN)
        given = {key: value for key, value in body["metadata"].items() if value}
        body["metadata"] = {"namespace": scope.namespace, **given}
        await self._registry.admit_request(scope, "CREATE", body, options)

        async def check(filled: Object) -> None:
            await self._registry.validate_request(scope, "CREATE", filled, options)

        answer = await self._reviews.token_request(scope.tenant, scope.namespace, scope.name, body, check)
        request_log.issued(scope.audit, answer)
        return self._document(request, answer, 201)

    async def _scale(self, request: Request) -> Reply:
        scope, kind = request.scope, request.scope.kind
        if request.info.verb == "get":
            record = await self._reader.get(scope)
            written = Written(record.value, record.revision)
        else:
            written = await self._rescale(request)
        served = await self._encoder.versioned(kind, written.value, written.revision)
        return self._document(request, scaling.to_scale(kind, served), 200)

    async def _rescale(self, request: Request) -> Written:
        scope, content_type = request.scope, request.headers.content_type
        if request.info.verb == "update":
            options = write_options(request.query, "UpdateOptions")
            body = await _short_body(request)
            read = partial(read_as, scope, body, content_type, rescaling.SCALE, options.validation)
            sent = await run_decoding(scope, body, content_type, read)
            uid = sent["metadata"].get("uid") or ""
            return await self._registry.update(
                scope, rescaling.replaced(scope, sent, options), options, uid=uid
            )
        form = negotiation.patch_type(content_type, custom=scope.kind.resource.custom)
        options = write_options(request.query, "PatchOptions", apply=form == negotiation.APPLY_PATCH)
        body = await _short_body(request)
        read_patch = partial(rescaling.patched, scope, form, body, options)
        change = await run_decoding(scope, body, form, read_patch)
        return await self._registry.update(scope, change, options)

    async def _created(
        self,
        request: Request,
        expected: decode.Expected,
        validation: str,
        *,
        preserve_system_fields: bool = False,
    ) -> Object:
        """Read an object that is created but not stored, and prepare its metadata.

        Args:
            request: The request.
            expected: Kind of the object.
            validation: Treatment of unknown fields.
            preserve_system_fields: Whether to keep metadata that only the server sets, as the client sent it.

        Raises:
            StatusError: 400, 413, 415 or 422.
        """
        scope = request.scope
        sent, content_type = await _short_body(request), request.headers.content_type
        read = partial(read_as, scope, sent, content_type, expected, validation)
        body = await run_decoding(scope, sent, content_type, read)
        metadata = body["metadata"]
        if not preserve_system_fields:
            meta.wipe(metadata)
        meta.settle_namespace(metadata, scope.namespace)
        scope.warn(meta.drop_duplicate_owners(metadata))
        return body

    def _document(self, request: Request, obj: Object, status: int) -> Reply:
        return Reply(
            status,
            [self._encoder.encode_document(obj, request.representation)],
            request.representation.content_type,
        )


async def _short_body(request: Request) -> bytes:
    """Return the body of a request for an object that is small by its nature.

    Raises:
        StatusError: 413, it is longer than `MAX_BODY`.
    """
    body = await request.body()
    if len(body) > MAX_BODY:
        what = request.info.subresource or request.info.resource
        raise errors.too_large(
            f"the body of a request for {what} has {len(body)} bytes, but {MAX_BODY} are allowed; leave out what the request"
            " does not need"
        )
    return body
