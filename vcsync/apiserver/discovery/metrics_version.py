"""The version of the resource metrics API among those that aggregated API servers serve. Pure."""

from typing import Final

import msgspec

from vcsync.apiserver.discovery.remote_versions import RemoteVersion
from vcsync.resourcemetrics.version import GROUP, PRIORITY, VERSION, entries

METRICS: Final = RemoteVersion(
    GROUP, VERSION, PRIORITY, PRIORITY, msgspec.json.encode(entries()), current=True
)
