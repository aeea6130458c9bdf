"""Validation of the provisioner and parameters of StorageClasses and VolumeAttributesClasses. Pure.

Source: Kubernetes' `pkg/apis/storage/validation`.
"""

from vcsync.apimachinery import errors
from vcsync.apimachinery.validation import names
from vcsync.apimachinery.validation.fields import Findings, Object, say

BIGGEST = 256 * 1024


def validate_provisioner(path: str, name: str) -> Findings:
    """Yield the findings on the name of a provisioner or driver."""
    if not name:
        yield errors.required(path)
    else:
        yield from say(path, name.lower(), names.qualified_name(name.lower()))


def validate_parameters(path: str, found: Object, *, needed: bool) -> Findings:
    """Yield the findings on the parameters of a class; `needed` says whether there must be any."""
    if len(found) > 512:
        yield errors.too_long(path, 512)
        return
    if "" in found:
        yield errors.wrong(path, "", "field can not be empty.")
    if sum(names.size(key) + names.size(value) for key, value in found.items()) > BIGGEST:
        yield errors.too_long(path, BIGGEST)
    if needed and not found:
        yield errors.required(path, "must contain at least one key/value pair")
