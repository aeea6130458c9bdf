"""Generates docs/configuration.md, which lists every field of vcsync.yaml, from the options of the commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from vcsync.cli.command import config

INTRODUCTION = """\
# vcsync.yaml

<!-- Written by `make generate` from the options of the commands; do not edit. -->

One file holds the settings of all roles. `vcsync up --config vcsync.yaml` runs them in one process. If they are split over
processes or machines, every `vcsync run ... --config vcsync.yaml` reads its section of the same file.

```yaml
# vcsync.yaml
common:                       # settings of several roles; a role's own section has precedence
  data: /var/lib/vcsync
  log-format: json
up:                           # members; 'vcsync up' and 'vcsync setup' read them
  tenants: [acme, umbrella]
  hollow: [r1]
  super-cluster: {east: east.kubeconfig}
controlplane:
  listen: 0.0.0.0:6443
  # etcd: [https://etcd-1:2379, https://etcd-2:2379]   # for replicas; default: a file in `data`
  # etcd-cacert: etcd-ca.crt
nsscheduler:
  policy: pack
  default-slice: {cpu: 2, memory: 4Gi}
  listen: 127.0.0.1:10550     # status endpoint; processes on one machine need different ones
podscheduler:
  listen: 127.0.0.1:10551
controllers:
  listen: 127.0.0.1:10552
syncer:
  listen: 127.0.0.1:10553
hollow:
  listen: 127.0.0.1:10554
```

* A field is an option of the section's command without its dashes; `--help` describes it. Options on the command line have
  precedence over the file, and a role's own section over `common`.
* Every command that reads the file checks all of it. Unknown sections and fields are refused with a hint, and so are
  values of a wrong type.
* Paths are relative to the file's folder. Options that may be repeated take a list, or one value; those of the form KEY=VALUE
  also take a mapping.
* `vcsync up` and `vcsync run all` also read the sections of the roles that they run, except options of a process ({own}).
  If two sections contradict each other in one option there, the file is refused.

## Split over processes or machines

```console
$ vcsync run controlplane --config vcsync.yaml &      # several may share one etcd, each with its own --data
$ vcsync setup --config vcsync.yaml                   # once: creates tenants, super clusters and all kubeconfigs
$ vcsync run controllers --config vcsync.yaml &
$ vcsync run nsscheduler --config vcsync.yaml --meta /var/lib/vcsync/roles/nsscheduler.kubeconfig &
$ vcsync run podscheduler --config vcsync.yaml --meta /var/lib/vcsync/roles/podscheduler.kubeconfig &
$ vcsync run syncer --config vcsync.yaml --super-cluster east --meta /var/lib/vcsync/roles/syncer.kubeconfig &
$ vcsync run hollow --config vcsync.yaml --kubeconfig /var/lib/vcsync/r1.kubeconfig &
```

`vcsync setup` writes the kubeconfigs of all roles into `data`; copy the kubeconfig of a role to its machine.
With `pool: /var/lib/vcsync/roles/streams.kubeconfig` in its section, the control plane serves
[logs and exec of tenants' Pods](controlplane.md#pods-on-super-clusters).
Replicas of controllers, schedulers and syncers stand by with `leader-elect`, which is on by default.
[config/compose](../config/compose) does the same with containers.
"""


def document() -> str:
    """Return the document."""
    own = ", ".join(f"`{name}`" for name in sorted(config.OWN))
    parts = [INTRODUCTION.replace("{own}", own), _shared()]
    parts += [_section(name) for name in config.SECTIONS]
    return "\n".join(parts)


def _shared() -> str:
    lines = ["## common", "", "Every command reads the fields for which it has an option.", ""]
    return "\n".join((*lines, *_table(config.COMMON)))


def _section(name: str) -> str:
    section = config.SECTIONS[name]
    lines = [f"## {name}", "", f"{section.text} Options of `{section.usage}`.", ""]
    return "\n".join((*lines, *_table(name)))


def _table(section: str) -> Iterator[str]:
    yield "| field | value | default | |"
    yield "|---|---|---|---|"
    for name, option in config.fields(section).items():
        yield f"| `{name}` | {_form(option)} | {_default(option)} | {_cell(option.help or '')} |"
    yield ""


def _form(option: click.Option) -> str:
    if option.is_flag:
        return "true or false"
    form = _cell(option.metavar or _of_type(option.type))
    return f"list of {form}" if option.multiple else form


def _of_type(kind: click.ParamType[Any]) -> str:
    if isinstance(kind, click.Choice):
        return ", ".join(f"`{each}`" for each in kind.choices)
    return {"integer": "number", "float": "number", "text": "text"}.get(
        kind.name.removesuffix(" range"), "FILE"
    )


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    value = option.default
    if option.is_flag:
        return "true" if value is True else "false"
    if value is None or value == () or "UNSET" in repr(value):
        return ""
    shown = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"`{shown}`" if shown else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
