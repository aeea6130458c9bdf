"""Bills of materials in CycloneDX, of the wheel and of the image. Pure."""

import json
import re
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from vcsync import __version__

FILE = "vcsync.cdx.json"
"""Name of a bill of materials of vcsync."""
LOCKED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)


def locked(lock: str) -> list[tuple[str, str]]:
    """Return name and version of the packages in the text of a requirements file."""
    return [(match["name"], match["version"]) for match in LOCKED.finditer(lock)]


def of_lock(lock: str) -> bytes:
    """Return the bill of materials of the wheel: vcsync, and the packages that a requirements file locks for it."""
    return document(__version__, [of_python(*each) for each in locked(lock)]).encode()


def of_python(name: str, version: str) -> dict[str, Any]:
    """Return the component of a package of Python."""
    reference = f"pkg:pypi/{quote(re.sub(r'[-_.]+', '-', name).lower())}@{quote(version)}"
    return {"type": "library", "name": name, "version": version, "purl": reference, "bom-ref": reference}


def document(version: str, components: Sequence[dict[str, Any]], timestamp: str = "") -> str:
    """Return a bill of materials of vcsync (CycloneDX 1.6, JSON), the same for the same input.

    Args:
        version: of vcsync.
        components: what it consists of besides its own code.
        timestamp: of the build, RFC 3339; empty: none.
    """
    subject = f"pkg:pypi/vcsync@{quote(version)}"
    component = {
        "type": "application",
        "name": "vcsync",
        "version": version,
        "purl": subject,
        "bom-ref": subject,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    references = [each["bom-ref"] for each in components]
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {**({"timestamp": timestamp} if timestamp else {}), "component": component},
        "components": list(components),
        "dependencies": [{"ref": subject, "dependsOn": references}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return json.dumps({**content, "serialNumber": f"urn:uuid:{serial}"}, indent=1) + "\n"
