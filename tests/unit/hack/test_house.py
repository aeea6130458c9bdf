"""No file of the package imports itself through others, so that readers can start at the bottom."""

from graphlib import TopologicalSorter

import grimp
import pytest


@pytest.mark.parametrize("package", ["vcsync", "hack"])
def test_no_files_import_each_other_cyclically(package: str) -> None:
    graph = grimp.build_graph(package, cache_dir=None)

    TopologicalSorter(
        {each: graph.find_modules_directly_imported_by(each) for each in graph.modules}
    ).prepare()
