"""The commands of README and docs/, typed from top to bottom by a reader with real clusters."""

import subprocess
import sys

import pytest

from hack.checkout import ROOT
from hack.documents.plays import DOCUMENTS


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_command_of_a_document_works_as_written(document: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hack.documents", document],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=390,
    )

    assert done.returncode == 0, done.stdout[-6000:]
