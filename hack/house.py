"""`python -m hack.house`: counts packages that import each other both ways, and circles of files."""

import sys
from graphlib import CycleError, TopologicalSorter

import grimp

PACKAGES = ("vcsync", "hack")


def main() -> int:
    """Print what was found, and return 1 if there is any."""
    found = 0
    for package in PACKAGES:
        graph = grimp.build_graph(package, cache_dir=None)
        # A `__main__` runs a package and is imported by none.
        modules = {module for module in graph.modules if not module.endswith(".__main__")}
        imports = {module: graph.find_modules_directly_imported_by(module) for module in modules}
        packages = {module for module in graph.modules if graph.find_children(module)}
        for line in (*both_ways(imports, packages), *circles(imports)):
            print(line)
            found += 1
    print(f"{found} packages that import each other both ways, or circles of files")
    return 1 if found else 0


def both_ways(imports: dict[str, set[str]], packages: set[str]) -> list[str]:
    """Return a line for each pair of packages whose files import each other in both directions.

    Args:
        imports: Module -> modules that it imports directly.
        packages: Names of the modules that are packages.
    """
    seen: dict[tuple[str, str], str] = {}
    for module, imported in imports.items():
        for other in imported:
            pair = package_of(module, packages), package_of(other, packages)
            if pair[0] != pair[1]:
                seen.setdefault(pair, f"{module} -> {other}")
    return [
        f"{one} and {other}: {how}; {seen[other, one]}"
        for (one, other), how in sorted(seen.items())
        if one < other and (other, one) in seen
    ]


def circles(imports: dict[str, set[str]]) -> list[str]:
    """Return a line with a circle of files, if there is one."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return [f"circle: {' -> '.join(error.args[1])}"]
    return []


def package_of(module: str, packages: set[str]) -> str:
    """Return the package that contains the file of a module."""
    return module if module in packages else module.rpartition(".")[0]


if __name__ == "__main__":
    sys.exit(main())
