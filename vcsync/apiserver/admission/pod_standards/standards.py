"""Pod security standards: levels and versions, and the policy that the labels of a namespace describe. Pure.

Source: `api/helpers.go` of k8s.io/pod-security-admission.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vcsync.apimachinery import errors
from vcsync.apimachinery.errors import FieldError
from vcsync.apimachinery.strategy import Object
from vcsync.apiserver.admission.pod_standards.pod_checks import Violation, findings
from vcsync.patterns.linear import linear

LABEL = "pod-security.kubernetes.io/"
LEVELS = ("privileged", "baseline", "restricted")
NEWEST = 10**20
"""Minor version that means `latest`."""
_VERSION = linear(r"v1\.(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Standard:
    """A level in a version. The default is `privileged`, which forbids nothing."""

    level: str = "privileged"
    minor: int = NEWEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == NEWEST else f'v1.{self.minor}'}"

    @property
    def binds(self) -> bool:
        """Whether the standard forbids anything."""
        return self.level != "privileged"

    def findings(self, metadata: Object, spec: Object) -> list[Violation]:
        """Return the violations of a Pod."""
        return findings(self.level == "restricted", self.minor, metadata, spec) if self.binds else []


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a namespace. `wrong`: errors of invalid labels."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()
    wrong: tuple[FieldError, ...] = field(default=())

    @property
    def binds(self) -> bool:
        """Whether any of the standards forbids anything."""
        return self.enforce.binds or self.audit.binds or self.warn.binds


PRIVILEGED = Policy()
"""Default policy of namespaces without labels."""


def minor_of(version: str) -> int | None:
    """Return the minor version of `v1.x` or `latest`, or None for other texts."""
    if version == "latest":
        return NEWEST
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match else None


def policy(labels: Mapping[str, str], defaults: Policy = PRIVILEGED) -> Policy:
    """Parse the labels of a namespace. An invalid level is restricted for enforcement and privileged otherwise."""
    wrong: list[FieldError] = []
    enforce = _standard(labels, "enforce", defaults.enforce, wrong)
    audit = _standard(labels, "audit", defaults.audit, wrong)
    warn = _standard(labels, "warn", defaults.warn, wrong)
    known = labels.get(f"{LABEL}enforce") in LEVELS
    if f"{LABEL}warn" not in labels and known and LEVELS.index(enforce.level) > LEVELS.index(warn.level):
        minor = warn.minor if f"{LABEL}warn-version" in labels else enforce.minor
        warn = Standard(enforce.level, minor)
    return Policy(enforce, audit, warn, tuple(wrong))


def _standard(labels: Mapping[str, str], mode: str, default: Standard, wrong: list[FieldError]) -> Standard:
    level, version = labels.get(f"{LABEL}{mode}"), labels.get(f"{LABEL}{mode}-version")
    minor: int | None = default.minor
    if level is not None and level not in LEVELS:
        path = f"metadata.labels[{LABEL}{mode}]"
        wrong.append(errors.wrong(path, level, f"must be one of {', '.join(LEVELS)}"))
        level = "restricted" if mode == "enforce" else "privileged"
    if version is not None:
        minor = minor_of(version)
        if minor is None:
            path = f"metadata.labels[{LABEL}{mode}-version]"
            wrong.append(errors.wrong(path, version, 'must be "latest" or "v1.x"'))
            minor = NEWEST
    return Standard(default.level if level is None else level, NEWEST if minor is None else minor)


def ignored(namespace: str, held: Policy, labels: Mapping[str, str], defaults: Policy) -> list[str]:
    """Return the warning that the labels of an exempt namespace are ignored, if they have an effect."""
    if not held.binds or _equivalent(held, defaults):
        return []
    asked = []
    for mode, standard in (("enforce", held.enforce), ("audit", held.audit), ("warn", held.warn)):
        if standard.binds and (f"{LABEL}{mode}" in labels or f"{LABEL}{mode}-version" in labels):
            asked.append(f"{mode}={standard}")
    said = ", ".join(asked)
    return [f'namespace "{namespace}" is exempt from Pod Security, and the policy ({said}) will be ignored']


def _equivalent(one: Policy, other: Policy) -> bool:
    return all(
        a == b or not (a.binds or b.binds)
        for a, b in ((one.enforce, other.enforce), (one.audit, other.audit), (one.warn, other.warn))
    )
