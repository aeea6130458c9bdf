"""`vcsync.yaml`: one file with the settings of all roles; each command reads its section.

The schema is the commands' own options: a field is an option without its dashes, of the same type and default.
"""

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from vcsync.apimachinery.wire import goyaml
from vcsync.cli.command.errors import WrongInputError

Command = TypeVar("Command", bound=Callable[..., Any])

COMMON = "common"
MAX_BYTES = 2**20


@dataclass(frozen=True)
class Section:
    """A section of the file: the command whose options are its fields, and its description in the documentation."""

    command: str
    """Import path of the command, `module:attribute`."""
    usage: str
    """The command as typed."""
    text: str


SECTIONS: Mapping[str, Section] = {
    "up": Section(
        "vcsync.cli.up.commands:up",
        "vcsync up",
        "Tenants and super clusters. 'vcsync setup' reads it, too.",
    ),
    "controlplane": Section(
        "vcsync.cli.controlplane.commands:controlplane",
        "vcsync run controlplane",
        "The embedded control planes.",
    ),
    "controllers": Section(
        "vcsync.cli.controllers.commands:controllers",
        "vcsync run controllers",
        "The controllers of all tenants.",
    ),
    "nsscheduler": Section(
        "vcsync.cli.run.commands:nsscheduler", "vcsync run nsscheduler", "The namespace scheduler."
    ),
    "podscheduler": Section(
        "vcsync.cli.run.commands:podscheduler", "vcsync run podscheduler", "The pod scheduler."
    ),
    "tenant-controller": Section(
        "vcsync.cli.run.commands:tenants", "vcsync run tenants", "The tenant controller."
    ),
    "syncer": Section("vcsync.cli.run.commands:syncer", "vcsync run syncer", "The syncers."),
    "all": Section(
        "vcsync.cli.run.commands:all_",
        "vcsync run all",
        "Both schedulers, the tenant controller and all syncers in one process.",
    ),
    "hollow": Section("vcsync.cli.hollow.commands:hollow", "vcsync run hollow", "Hollow super clusters."),
}
"""Sections by name, in the order of the documentation."""

SHARED: Mapping[str, str] = {
    "data": "controlplane",
    "failover": "podscheduler",
    "leader-elect": "syncer",
    "log-format": "syncer",
    "log-level": "syncer",
    "lost-after": "podscheduler",
    "stall-seconds": "syncer",
    "suspect-after": "podscheduler",
}
"""Fields of `common`, each with a section that also has it."""

TAKES_FROM: Mapping[str, tuple[str, ...]] = {
    "all": ("nsscheduler", "podscheduler", "tenant-controller", "syncer"),
    "up": ("hollow",),
}
"""Commands that do the work of several roles also read those roles' sections."""
OWN = frozenset(
    {
        "identity",
        "kubeconfig",
        "leader-elect",
        "listen",
        "log-format",
        "log-level",
        "meta",
        "stall-seconds",
        "tls-cert-file",
        "tls-private-key-file",
    }
)
"""Options of a process, which are not read from another role's section."""
_PATH_IN_PAIR = "ID=KUBECONFIG"

Fields = Mapping[str, click.Option]


@dataclass(frozen=True)
class Config:
    """The validated contents of a file: values by section and field."""

    path: Path | None = None
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def defaults(self, section: str) -> dict[str, Any]:
        """Return the values for a command, by its parameters' names.

        The command's own section has precedence over other sections, and these over `common`.

        Raises:
            WrongInputError: other sections contradict each other.
        """
        known = fields(section)
        found = {name: value for name, value in self._of(COMMON).items() if name in known}
        found |= self._taken(section, known)
        found |= self._of(section)
        return {str(known[name].name): value for name, value in found.items()}

    def values(self, section: str, **given: Any) -> dict[str, Any]:
        """Return the values of a command's options: from the command line, else from the file, else their defaults.

        Raises:
            click.UsageError: a value of the file is invalid.
        """
        context = command_of(section).make_context(section, [], default_map=self.defaults(section) | given)
        return dict(context.params)

    def _of(self, section: str) -> Mapping[str, Any]:
        return self.sections.get(section, {})

    def _taken(self, section: str, known: Fields) -> dict[str, Any]:
        found: dict[str, Any] = {}
        said_by: dict[str, str] = {}
        for other in TAKES_FROM.get(section, ()):
            for name, value in self._of(other).items():
                if name not in known or name in OWN:
                    continue
                if found.get(name, value) != value and name not in self._of(section):
                    raise WrongInputError(
                        f"{self.path}: {said_by[name]}.{name} and {other}.{name} differ, and "
                        f"'{SECTIONS[section].usage}' has one value for both: set it in {COMMON} or {section}"
                    )
                found[name], said_by[name] = value, other
        return found


def config_option(section: str, *, expose: bool = False) -> Callable[[Command], Command]:
    """Return a decorator that adds --config to a command; options have precedence over the file.

    Args:
        section: the section that the command reads.
        expose: pass the `Config` to the command, as `config`.
    """

    def load(context: click.Context, _option: click.Parameter, path: Path | None) -> Config:
        config = read(path) if path else Config()
        context.default_map = {**(context.default_map or {}), **config.defaults(section)}
        return config

    return click.option(
        "--config",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        is_eager=True,
        expose_value=expose,
        callback=load,
        help=f"Settings file (vcsync.yaml); this command reads '{section}' and '{COMMON}'. Options have precedence.",
    )


def command_of(section: str) -> click.Command:
    """Return the command of a section."""
    module, _, attribute = SECTIONS[section].command.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)  # noqa: S101  the table above is ours
    return command


def fields(section: str) -> Fields:
    """Return the fields of a section, by name."""
    if section == COMMON:
        return {name: fields(other)[name] for name, other in SHARED.items()}
    return dict(_fields(command_of(section)))


def _fields(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    for option in command.params:
        if isinstance(option, click.Option):
            name = max(option.opts, key=len).removeprefix("--")
            if name not in ("config", "help"):
                yield name, option


# ---- Reading -----------------------------------------------------------------------------


def read(path: Path) -> Config:
    """Read and validate a whole file, including sections that the command does not use.

    Raises:
        WrongInputError: it cannot be read, a field is unknown, or a value has the wrong type.
    """
    document = _document(path)
    unknown = [str(name) for name in document if name != COMMON and name not in SECTIONS]
    if unknown:
        raise WrongInputError(f"{path}: unknown section {unknown[0]!r}{_instead_of(unknown[0])}")
    return Config(path, {name: _section(path, name, value) for name, value in document.items()})


def _document(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WrongInputError(f"{path}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise WrongInputError(f"{path}: larger than {MAX_BYTES} bytes: is it a settings file?")
    if not content.strip():
        return {}
    try:
        document = goyaml.loads(content)
    except goyaml.NotYAML as error:
        raise WrongInputError(f"{path}: {error}") from error
    if document.duplicates:
        raise WrongInputError(f"{path}: {document.duplicates[0]}")
    if document.value is None:
        return {}
    if not isinstance(document.value, dict):
        raise WrongInputError(f"{path}: it holds no sections; write 'up:' and below it, indented, its fields")
    return document.value


def _section(path: Path, section: str, given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise WrongInputError(f"{path}: {section}: write its fields below it, indented")
    known = fields(section)
    for name in given:
        if name not in known:
            raise WrongInputError(f"{path}: {section} has no field {name!r}{_where(str(name), section)}")
    return {name: _checked(path, section, known[name], name, value) for name, value in given.items()}


def _instead_of(section: str) -> str:
    """Return a hint to the section that the user probably meant."""
    known = (COMMON, *SECTIONS)
    return _hint(section, known) or _owners(section) or f"; sections are {', '.join(known)}"


def _where(name: str, section: str) -> str:
    """Return a hint to the sections that have a field which this section lacks."""
    return _hint(name, fields(section)) or _owners(name)


def _owners(name: str) -> str:
    owners = [section for section in SECTIONS if name in fields(section)]
    return (
        f"; {' and '.join(owners)} {'has' if len(owners) == 1 else 'have'} a field of that name"
        if owners
        else ""
    )


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name.replace("_", "-").lower(), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _checked(path: Path, section: str, option: click.Option, name: str, value: Any) -> Any:
    """Return a value in the type of its option.

    Raises:
        WrongInputError: the value is invalid; the text names the field.
    """
    where = f"{path}: {section}.{name}"
    plain = _plain(where, option, value, path.absolute().parent)
    context = click.Context(click.Command(section))
    try:
        # Files may be on another machine, so their existence is not checked.
        if not isinstance(option.type, click.Path):
            converted = option.type_cast_value(context, plain)
            if option.callback is not None:
                option.callback(context, option, converted)
    except click.BadParameter as error:
        raise WrongInputError(f"{where}: {error.message}") from error
    except WrongInputError as error:
        raise WrongInputError(f"{where}: {error.message}") from error
    return plain


def _plain(where: str, option: click.Option, value: Any, folder: Path) -> Any:
    """Return a value of the file in the option's type; paths are relative to the file's folder."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise WrongInputError(f"{where}: give true or false")
        return value
    if option.multiple or option.nargs != 1 or (isinstance(value, list) and _takes_list(option)):
        return _several(where, option, value, folder)
    return _one(where, option, value, folder)


def _several(where: str, option: click.Option, value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        if "=" not in (option.metavar or ""):
            raise WrongInputError(f"{where}: give a list")
        value = [f"{key}={_scalar(where, each)}" for key, each in value.items()]
    given = value if isinstance(value, list) else [value]
    found = [_one(where, option, each, folder) for each in given]
    return found if option.multiple or option.nargs != 1 else ",".join(found)


def _takes_list(option: click.Option) -> bool:
    """Report whether an option takes several comma-separated values."""
    return "," in (option.metavar or "")


def _one(where: str, option: click.Option, value: Any, folder: Path) -> str:
    text = _scalar(where, value)
    if isinstance(option.type, click.Path):
        return str(folder / text)
    if option.metavar == _PATH_IN_PAIR:
        key, _, kubeconfig = text.partition("=")
        if not key or not kubeconfig:
            raise WrongInputError(f"{where}: {text!r}: give {_PATH_IN_PAIR}")
        return f"{key}={folder / kubeconfig}"
    return text


def _scalar(where: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise WrongInputError(f"{where}: give a text or a number")
    return str(value)
