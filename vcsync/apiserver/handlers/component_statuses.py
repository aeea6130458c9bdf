"""Requests for ComponentStatuses, which are not stored. Behaviour: kubernetes `pkg/registry/core/componentstatus`."""

import msgspec

from vcsync.apimachinery import errors
from vcsync.apiserver.handlers.request import Request, listed_selection
from vcsync.apiserver.handlers.responses import ResponseEncoder
from vcsync.apiserver.registry.reading import Listed
from vcsync.apiserver.registry.selection import selected
from vcsync.apiserver.request.options import list_options
from vcsync.apiserver.request.reply import Reply
from vcsync.apiserver.storage.interface import Record

STORE = "etcd-0"
"""Name of the one ComponentStatus: clients know the store by it. The schedulers and controllers of a tenant run elsewhere, and
their state is not known here."""
WARNING = "v1 ComponentStatus is deprecated in v1.19+"
_HEALTHY = msgspec.json.encode(
    {
        "metadata": {"name": STORE},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    }
)
"""The store is healthy, since authorizing the request has read from it."""


async def answer_component_statuses(encoder: ResponseEncoder, request: Request) -> Reply:
    """Answer with the ComponentStatus of the store.

    Raises:
        StatusError: 400 for the selectors, 404 for another name, 405 for a watch.
    """
    scope, representation = request.scope, request.representation
    scope.warnings.append(WARNING)
    scope.audit.annotate("k8s.io/deprecated", "true")
    if request.info.verb == "watch":
        raise errors.verb_not_supported("watch", scope.kind.resource.plural)
    if request.info.verb == "list":
        list_options(request.query)
        record = Record(scope.key(STORE), _HEALTHY, 0, 0)
        matches = await selected(scope.kind, listed_selection(request), record.key, record.value)
        listed = Listed([record] if matches else [])
        body, _ = await encoder.encode_list(scope.kind, listed, representation, request.query)
    elif scope.name == STORE:
        body = await encoder.encode_object(scope.kind, _HEALTHY, 0, representation, request.query)
    else:
        raise errors.not_found("componentstatus", "", scope.name)
    return Reply(200, body, representation.content_type)
