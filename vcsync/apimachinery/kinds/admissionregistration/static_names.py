"""The names of configurations that a server reads from files: objects of the API should not have them. Pure.

Source: `WarningsForStaticSuffix` in Kubernetes' `pkg/apis/admissionregistration/validation`. They are refused only with the
feature ManifestBasedAdmissionControlConfig, which is off by default.
"""

from vcsync.apimachinery.validation.fields import Object, part, text

SUFFIX = ".static.k8s.io"


def warnings(new: Object, old: Object | None) -> list[str]:
    """Return the warning about the name of a new object."""
    if old is not None or not text(part(new, "metadata"), "name").endswith(SUFFIX):
        return []
    why = "are reserved for static manifest-based configurations and cannot be managed via the API"
    return [f'metadata.name: names ending with "{SUFFIX}" {why}']
