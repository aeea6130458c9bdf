"""The kind CustomResourceDefinition: the fields that a write never owns. Pure.

`vcsync.apimachinery.crd.definition` has its other rules.

Source: apiextensions-apiserver's `pkg/registry/customresourcedefinition`.
"""

from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.patch.resets import SPEC, STATUS

KIND = Kind(
    group="apiextensions.k8s.io",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    resets={"": STATUS, "status": SPEC},
    any_finalizers=True,
)
