"""Commands `stormpilot local ...`: a Storm cluster on this machine, for trying things out and for tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from stormpilot.cli.output import console, console_err
from stormpilot.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="A Storm cluster on this machine, without Docker.")

NameOption = Annotated[str, typer.Option("--name", "-n", help="The cluster's name; several can live side by side.")]


@app.command()
def up(
    name: NameOption = "default",
    supervisors: Annotated[int, typer.Option(help="Number of supervisors.")] = 4,
    slots: Annotated[int, typer.Option(help="Slots of each supervisor.")] = 4,
    racks: Annotated[int, typer.Option(help="Number of racks; supervisors go to them in turn.")] = 2,
    sites: Annotated[str, typer.Option(help="Values of the site tag, given in turn; empty for none.")] = "east,west",
    cpu: Annotated[
        float | None, typer.Option(help="CPU of each supervisor, 100 = a core. [default: the machine's, shared out]")
    ] = None,
    memory_mb: Annotated[
        float | None, typer.Option(help="Memory of each supervisor. [default: the machine's, shared out]")
    ] = None,
    scheduler: Annotated[str, typer.Option(help="pilot (ours) or default (Storm's).")] = "pilot",
    scheduler_jar: Annotated[
        Path | None, typer.Option(help="Jar with our scheduler. [default: what make build made]")
    ] = None,
    extlib: Annotated[
        list[Path] | None, typer.Option(help="A jar for the classpath of daemons and workers; may be repeated.")
    ] = None,
    zookeepers: Annotated[int, typer.Option(help="ZooKeeper servers (odd).")] = 1,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A key for storm.yaml; may be repeated.")
    ] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Storm's default timings, not ours for a laptop.")
    ] = False,
) -> None:
    """Start a cluster: ZooKeeper, Nimbus, supervisors; ends when Storm says that all are there."""
    from stormpilot.local.cluster import LocalCluster
    from stormpilot.local.spec import ClusterSpec

    if scheduler not in ("pilot", "default"):
        raise UsageError(f"--scheduler: expected pilot or default, got {scheduler!r}")
    spec = ClusterSpec(
        name=name,
        supervisors=supervisors,
        slots=slots,
        racks=racks,
        sites=tuple(s.strip() for s in sites.split(",") if s.strip()),
        cpu_points=cpu,
        memory_mb=memory_mb,
        scheduler="pilot" if scheduler == "pilot" else "default",
        scheduler_jar=scheduler_jar,
        extlib=tuple(extlib or ()),
        zookeepers=zookeepers,
        tuned=not defaults,
        conf=dict(_key_value(one) for one in conf or ()),
    )
    started = time.monotonic()
    with console_err.status(f"cluster {name}") as line:
        cluster = LocalCluster.up(spec, lambda text: line.update(f"cluster {name}: {text}"))
    console.print(
        f"cluster {name} is up after {time.monotonic() - started:.1f} s: {supervisors} supervisors x {slots} slots\n"
        f"  Nimbus     {cluster.nimbus_host}:{cluster.nimbus_port}\n"
        f"  ZooKeeper  {cluster.zookeeper_hosts}\n"
        f"  logs       {cluster.layout.logs}\n"
        f"  end it     stormpilot local down --name {name}",
        highlight=False,
        soft_wrap=True,
    )


@app.command()
def down(
    name: NameOption = "default",
    everything: Annotated[bool, typer.Option("--all", help="All local clusters.")] = False,
    purge: Annotated[bool, typer.Option("--purge", help="Remove the logs too.")] = False,
) -> None:
    """End a cluster and every process that belongs to it; logs are kept."""
    from stormpilot.local.cluster import LocalCluster

    for cluster in LocalCluster.all() if everything else [LocalCluster.load(name)]:
        was_running = cluster.running()
        cluster.down(purge=purge)
        if was_running or not everything:
            logs = "" if purge else f"; logs are in {cluster.layout.logs}"
            console.print(f"cluster {cluster.name} is down{logs}", highlight=False, soft_wrap=True)


def _key_value(text: str) -> tuple[str, Any]:
    import yaml

    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--conf: expected KEY=VALUE, got {text!r}")
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError:
        raise UsageError(f"--conf {key}: {value!r} is not a YAML value") from None
