"""Users of one tenant, who make requests to its plain API. A seed determines what they do."""

import base64
import random
from typing import Any, Protocol

from hack.chaos.answers import is_expected

Json = dict[str, Any]

MARKER_ANNOTATION = "example.com/marker"
ENDS_AFTER_ANNOTATION = "example.com/ends-after"
"""Time that a Pod takes to end once it is deleted, for hollow nodes (`hack/testbed/hollow-stages.yaml`)."""
MAX_OF_A_KIND = 6
GROUPS = {
    "deployments": "/apis/apps/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "resourceclaims": "/apis/resource.k8s.io/v1",
    "resourceclaimtemplates": "/apis/resource.k8s.io/v1",
    "statefulsets": "/apis/apps/v1",
}
"""Path of the API group of each kind that is not in the core group."""


class Session(Protocol):
    """A connection to a tenant's API server; after a failure, the next call reopens it."""

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send one request; return the status code and the decoded JSON (or text) of the answer."""
        ...


class Users:
    """The users of one tenant: their names, what they know, and the requests that they make.

    Args:
        tenant: its name.
        seed: determines the actions, as long as the answers are the same.
        super_ids: of the super clusters, for users who write our labels.
        store_lost: whether its etcd is sometimes unavailable, so that users must expect 5xx.
    """

    def __init__(
        self, tenant: str, seed: int, *, super_ids: tuple[str, ...], store_lost: bool = False
    ) -> None:
        self.tenant = tenant
        self._store_lost = store_lost
        self.random = random.Random(f"{seed}/{tenant}")  # noqa: S311
        self.super_ids = super_ids
        self.marker = f"marker-{tenant}-{self.random.randrange(16**8):08x}"
        """Text in every object of these users, which no object of others may contain."""
        self.refused: list[str] = []
        """Answers that no user should get."""
        self.namespaces: list[str] = []
        self.left: list[str] = []
        """Names of deleted namespaces, which may be created again."""
        self._count = 0
        self.range = ""
        """The tenant's own range of cluster IPs, as a CIDR; "" without one."""
        self.session: Session | None = None
        """Connection to the tenant's control plane; None while nobody acts."""

    # --- contents of objects

    def metadata(self, name: str) -> Json:
        """Return metadata with the marker and a label by which users select; without a name if it is empty."""
        metadata: Json = {
            "annotations": {MARKER_ANNOTATION: self.marker, ENDS_AFTER_ANNOTATION: f"{self.pick(3)}s"},
            "labels": {"team": f"t{self.pick(3)}"},
        }
        return {**metadata, "name": name} if name else metadata

    def text(self) -> str:
        """Return a new text with the marker."""
        self._count += 1
        return f"{self.marker} {self._count}"

    def data(self) -> str:
        """Return new data with the marker, in base64."""
        return base64.b64encode(self.text().encode()).decode()

    def pick(self, count: int) -> int:
        """Return a number below `count`."""
        return self.random.randrange(count)

    def new_name(self, stem: str) -> str:
        """Return a name that was never used."""
        self._count += 1
        return f"{stem}-{self._count}"

    def known(self, stem: str) -> str:
        """Return one of few names, so that updates and deletions concern existing objects."""
        return f"{stem}-{self.pick(MAX_OF_A_KIND)}"

    def namespace(self) -> str:
        """Return one of the namespaces."""
        return self.random.choice(self.namespaces)

    def path(self, kind: str, name: str = "") -> str:
        """Return the path of an object in one of the namespaces; that of the collection if the name is empty."""
        group = GROUPS.get(kind, "/api/v1")
        return f"{group}/namespaces/{self.namespace()}/{kind}" + (f"/{name}" if name else "")

    # --- calls

    def put(self, kind: str, name: str, body: Json, patch: Json) -> None:
        """Create an object, or change the existing one."""
        collection = self.path(kind)
        if self.call("POST", collection, body) == 409:
            self.call("PATCH", f"{collection}/{name}", patch)

    def call(self, method: str, path: str, body: Json | None = None) -> int:
        """Make a request and return its status."""
        return self.ask(method, path, body)[0]

    def ask(self, method: str, path: str, body: Json | None = None) -> tuple[int, Any]:
        """Make a request and return its status and answer. Keeps an answer that no user should get."""
        assert self.session is not None, "only while running"  # noqa: S101
        status, answer = self.session.call(method, path, body)
        if not is_expected(status, answer) and not (self._store_lost and status >= 500):
            self.refused.append(f"{method} {path}: {status} {answer}")
        return status, answer
