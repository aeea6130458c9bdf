"""Rules of a schema: compiled, estimated, and checked on objects."""

from typing import Any

from vcsync.controlplane.crd.correlate import Correlated
from vcsync.controlplane.crd.schemacheck import Estimated
from vcsync.controlplane.crd.structural import Structural
from vcsync.controlplane.errors import FieldError


class Validator:
    """The rules of a schema."""

    def validate(self, path: str, new: Any, old: Any, correlated: Correlated | None) -> list[FieldError]:
        """Return which rules an object breaks."""
        return []


def compile_rules(node: Structural) -> Validator | None:
    """Compile the rules of a schema of whole objects, None: it has none."""
    return None


def estimate(node: Structural, whole: bool) -> list[Estimated]:
    """Compile the rules of one node and estimate their cost."""
    return [Estimated() for _ in node.rules]
