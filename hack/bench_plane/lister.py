"""`python -m hack.bench_plane.lister KUBECONFIG PATH`: reads one answer and prints its bytes and seconds."""

from __future__ import annotations

import http.client
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from hack.parity import sides

PIECE = 2**20


def main() -> int:
    """Request as the kubeconfig's user, compressed as by client-go; the body is counted and discarded."""
    side = sides.side("", Path(sys.argv[1]))
    url, admin = urlsplit(side.url), side.users["admin"]
    connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=admin.context, timeout=600)
    headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
    if admin.token:
        headers["Authorization"] = f"Bearer {admin.token}"
    begin = time.perf_counter()
    connection.request("GET", url.path + sys.argv[2], headers=headers)
    answer = connection.getresponse()
    size = 0
    while piece := answer.read(PIECE):
        size += len(piece)
    print(size, time.perf_counter() - begin)
    return 0 if answer.status == 200 and size else 1


if __name__ == "__main__":
    sys.exit(main())
