"""What lies below an object: status, scale, binding, eviction and their like."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from vcsync.controlplane import errors
from vcsync.controlplane.behaviour import Object
from vcsync.controlplane.identity.token_requests import DEFAULT_SECONDS
from vcsync.controlplane.rest import auditing, meta, rescaling, scaling
from vcsync.controlplane.rest.answers import Answers
from vcsync.controlplane.rest.binding import bind
from vcsync.controlplane.rest.bodies import read_as
from vcsync.controlplane.rest.connecting import CONNECTS, connect_options
from vcsync.controlplane.rest.eviction import Evictor
from vcsync.controlplane.rest.options import WriteOptions, write_options
from vcsync.controlplane.rest.reading import Reader
from vcsync.controlplane.rest.registry import Registry, Written
from vcsync.controlplane.rest.reply import Reply, Stream
from vcsync.controlplane.rest.space import Spaces
from vcsync.controlplane.rest.streaming import Streaming
from vcsync.controlplane.rest.subwrites import SUBWRITES
from vcsync.controlplane.rest.tracking import track, track_part
from vcsync.controlplane.rest.verbs import Request, Verbs
from vcsync.controlplane.wire import decode, negotiation

STORE = "etcd-0"
TOKEN, BINDING = ("authentication.k8s.io", "v1", "TokenRequest"), ("", "v1", "Binding")
STREAMS = frozenset({"log", "exec", "attach", "portforward", "proxy"})


class Reviews(Protocol):
    """Who answers questions about identity."""

    async def create(self, caller: Any, tenant: str, plural: str, namespace: str, body: Object) -> Object:
        """Answer a review."""
        ...

    async def token_request(self, tenant: str, namespace: str, name: str, body: Object) -> Object:
        """Make a token of a ServiceAccount."""
        ...


class Subresources:
    """Answers requests for subresources, and for resources that are nothing but a request."""

    def __init__(  # noqa: PLR0917 - parts, each of its own type
        self,
        verbs: Verbs,
        registry: Registry,
        reader: Reader,
        answers: Answers,
        evictor: Evictor,
        spaces: Spaces,
        reviews: Reviews,
        streaming: Streaming | None = None,
    ) -> None:
        """Take the parts; without `streaming` nothing of what kubelets have is answered."""
        self._streaming = streaming
        self._verbs = verbs
        self._registry = registry
        self._reader = reader
        self._answers = answers
        self._evictor = evictor
        self._spaces = spaces
        self._reviews = reviews
        self._creations: Mapping[str, Callable[[Request], Awaitable[Reply]]] = {
            "binding": self._binding,
            "eviction": self._eviction,
            "token": self._token,
        }

    async def answer(self, request: Request) -> Reply | Stream:
        """Answer a request for a subresource."""
        resource, name, verb = request.scope.kind.resource, request.info.subresource, request.info.verb
        if name in STREAMS:
            return await self._stream(request)
        if name in self._creations:
            return await self._creations[name](request)
        if name == "scale":
            return await self._scale(request)
        if name == "status" or (resource.group, resource.plural, name) in SUBWRITES:
            verbs = {"get": self._verbs.get, "update": self._verbs.update, "patch": self._verbs.patch}
            return await verbs[verb](request)
        raise errors.page_not_found()

    async def virtual(self, request: Request) -> Reply:
        """Answer a request for a resource of which nothing is kept."""
        resource, scope = request.scope.kind.resource, request.scope
        if resource.plural == "bindings":
            return await self._binding(request)
        if request.info.verb != "create":
            return await self._components(request)
        options = write_options(request.query, "CreateOptions")
        body = await self._body(request, resource.group, resource.version, resource.kind, options.validation)
        if not body.get("metadata"):
            body["metadata"] = {}
        track(scope, None, body, options.manager)
        await self._registry.requested(scope, "CREATE", body, options)
        answer = await self._reviews.create(
            scope.caller, scope.tenant, resource.plural, scope.namespace, body
        )
        return self._document(request, answer, 201)

    async def _components(self, request: Request) -> Reply:
        """Tell of the store, under the name by which clients know it; this request has reached it."""
        request.scope.warnings.append("v1 ComponentStatus is deprecated in v1.19+")
        request.scope.audit.annotate("k8s.io/deprecated", "true")
        one = {
            "metadata": {"name": STORE},
            "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
        }
        if request.info.verb == "list":
            found = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": [one]}
            return self._document(request, found, 200)
        if request.scope.name != STORE:
            raise errors.not_found("componentstatus", "", request.scope.name)
        return self._document(request, {"kind": "ComponentStatus", "apiVersion": "v1", **one}, 200)

    async def _stream(self, request: Request) -> Reply | Stream:
        name, resource = request.info.subresource, request.scope.kind.resource
        if name in CONNECTS:
            path = "/".join(["", *request.info.parts[3:]])
            asked = connect_options(resource.subresources[name], request.query, path)
            await self._registry.requested(request.scope, "CONNECT", asked, WriteOptions())
        streaming = self._streaming
        served = streaming is not None and streaming.serves(request.scope.tenant)
        if streaming is not None and served and resource.plural == "pods" and name != "proxy":
            return await streaming.answer(request)
        await self._reader.get(request.scope)
        what = f"{request.scope.kind.resource.plural}/{request.info.subresource}"
        raise errors.StatusError(
            501, "NotImplemented", f"{what}: this control plane does not stream from its super clusters yet"
        )

    async def _binding(self, request: Request) -> Reply:
        options = write_options(request.query, "CreateOptions")
        body = await self._body(request, *BINDING, options.validation)
        pods = self._spaces.kind(request.scope.tenant, "", "v1", "pods")
        if pods is None:
            raise errors.page_not_found()
        name = request.scope.name or (body.get("metadata") or {}).get("name") or ""
        meta.settle_namespace(body["metadata"], request.scope.namespace)
        track_part(request.scope, body, options.manager, BINDING)
        await self._registry.requested(replace(request.scope, name=name), "CREATE", body, options)
        scope = replace(request.scope, kind=pods, name=name)
        return self._document(request, await bind(self._registry, scope, body, options.dry_run), 201)

    async def _eviction(self, request: Request) -> Reply:
        options = write_options(request.query, "CreateOptions")
        body = await self._body(request, "policy", "v1", "Eviction", options.validation)
        meta.settle_namespace(body["metadata"], request.scope.namespace)
        await self._registry.requested(request.scope, "CREATE", body, options)
        return self._document(request, await self._evictor.evict(request.scope, body, options.dry_run), 201)

    async def _token(self, request: Request) -> Reply:
        options = write_options(request.query, "CreateOptions")
        scope = request.scope
        body = await self._body(request, *TOKEN, options.validation)
        body["metadata"] = body.get("metadata") or {}
        body["spec"] = body.get("spec") or {}
        if body["spec"].get("expirationSeconds") is None:
            body["spec"]["expirationSeconds"] = DEFAULT_SECONDS
        track_part(scope, body, options.manager, TOKEN)
        told = {"name": scope.name, "namespace": scope.namespace, "creationTimestamp": scope.context.now}
        body["metadata"] = {**told, **{key: value for key, value in body["metadata"].items() if value}}
        await self._registry.requested(scope, "CREATE", body, options)
        answer = await self._reviews.token_request(scope.tenant, scope.namespace, scope.name, body)
        auditing.issued(scope.audit, answer)
        return self._document(request, answer, 201)

    async def _scale(self, request: Request) -> Reply:
        scope, kind = request.scope, request.scope.kind
        if request.info.verb == "get":
            record = await self._reader.get(scope)
            written = Written(record.value, record.revision)
        else:
            written = await self._rescale(request)
        served = await self._answers.served(kind, written.value, written.revision)
        return self._document(request, scaling.to_scale(kind, served), 200)

    async def _rescale(self, request: Request) -> Written:
        scope, content_type = request.scope, request.headers.content_type
        if request.info.verb == "update":
            options = write_options(request.query, "UpdateOptions")
            body = await request.body()
            sent = read_as(scope, body, content_type, rescaling.SCALE, options.validation)
            uid = sent["metadata"].get("uid") or ""
            return await self._registry.update(
                scope, rescaling.replaced(scope, sent, options), options, uid=uid
            )
        form = negotiation.patch_type(content_type, custom=scope.kind.resource.custom)
        options = write_options(request.query, "PatchOptions", apply=form == negotiation.APPLY_PATCH)
        change = rescaling.patched(scope, form, await request.body(), options)
        return await self._registry.update(scope, change, options)

    async def _body(self, request: Request, group: str, version: str, kind: str, validation: str) -> Object:
        body = await request.body()
        expected = decode.Expected(group, version, kind)
        return read_as(request.scope, body, request.headers.content_type, expected, validation)

    def _document(self, request: Request, obj: Object, status: int) -> Reply:
        return Reply(status, [self._answers.document(obj, request.how)], request.how.content_type)
