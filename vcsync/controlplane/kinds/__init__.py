"""The behaviour of every built-in kind, by group and kind."""

from collections.abc import Mapping

from vcsync.controlplane.behaviour import Behaviour
from vcsync.controlplane.kinds.assemble import behaviours

BEHAVIOURS: Mapping[tuple[str, str], Behaviour] = behaviours()
"""(group, kind) -> its rules. `events.k8s.io` Events are those of the core group, under their own name too."""
