"""Commands `stormpilot local ...`: a Storm cluster on this machine, for trying things out and for tests."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from stormpilot.cli.live import parameters_of, with_parameters
from stormpilot.cli.output import Format, FormatOption, console, note, print_json, print_table, say
from stormpilot.cli.progress import progress
from stormpilot.errors import UsageError
from stormpilot.printable import counted, printable

if TYPE_CHECKING:
    from stormpilot.local.cluster import LocalCluster
    from stormpilot.local.status import ClusterStatus

SHOWN_DOWN = 3
NameOption = Annotated[str, typer.Option("--name", help="Name of the cluster; several can run side by side.")]


def up(
    name: NameOption = "default",
    supervisors: Annotated[
        int | None, typer.Option(help="Number of supervisors. [default: 4, or one for each --node]")
    ] = None,
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
    hook: Annotated[bool, typer.Option("--hook", help="Measure every topology in its workers, Java ones too.")] = False,
    extlib: Annotated[
        list[Path] | None, typer.Option(help="A jar for the classpath of daemons and workers; may be repeated.")
    ] = None,
    zookeepers: Annotated[int, typer.Option(help="ZooKeeper servers (odd).")] = 1,
    nimbuses: Annotated[int, typer.Option(help="Nimbuses: one leads, the others wait for it to fail.")] = 1,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Supervisors as machines: own network, CPU quota, own link. Needs root.")
    ] = False,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="cores=N,mbit=N,delay_ms=N", help="An isolated supervisor's CPU and link; once for each supervisor."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A key for storm.yaml; may be repeated.")
    ] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Storm's default timings, not ours for a laptop.")
    ] = False,
) -> None:
    """Start a cluster: ZooKeeper, Nimbus and supervisors; returns when Storm knows them all."""
    from stormpilot.local.cluster import LocalCluster
    from stormpilot.local.spec import ClusterSpec, parse_node

    if scheduler not in ("pilot", "default"):
        raise UsageError(f"--scheduler: expected pilot or default, got {scheduler!r}")
    nodes = tuple(parse_node(one) for one in node or ())
    supervisors = supervisors if supervisors is not None else len(nodes) or 4
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
        hook=hook,
        extlib=tuple(extlib or ()),
        zookeepers=zookeepers,
        nimbuses=nimbuses,
        tuned=not defaults,
        isolate=isolate,
        nodes=nodes,
        conf=_storm_keys(conf or ()),
    )
    started = time.monotonic()
    with progress(f"cluster {name}") as shown:
        cluster = LocalCluster.up(spec, shown.update)
    say(
        f"cluster {name} is up after {time.monotonic() - started:.1f} s: "
        f"{counted(supervisors, 'supervisor')} x {counted(slots, 'slot')}\n"
        f"  Nimbus     {cluster.nimbus_address}\n"
        f"  ZooKeeper  {cluster.zookeeper_hosts}\n"
        f"  logs       {cluster.layout.logs}\n"
        f"  submit     stormpilot local submit --name {name}, in the directory of a streamparse project\n"
        f'  plan       stormpilot run controller.yaml, with zookeeper: {{hosts: "{cluster.zookeeper_hosts}"}} in it\n'
        f"  end it     stormpilot local down --name {name}"
    )


def down(
    name: NameOption = "default",
    everything: Annotated[bool, typer.Option("--all", help="All local clusters.")] = False,
    purge: Annotated[bool, typer.Option("--purge", help="Remove the logs too.")] = False,
) -> None:
    """End a cluster and every process that belongs to it; logs are kept."""
    from stormpilot.local.ending import end
    from stormpilot.local.state import Layout, read_remains

    for layout in Layout.existing() if everything else [Layout.known(name)]:
        try:
            remains = read_remains(layout)
        except UsageError as e:
            if not everything:
                raise
            note(f"skipped: {e}")
            continue
        if remains is None:
            continue
        was_running = end(layout, remains, purge=purge)
        if was_running or not everything:
            left = "" if purge else f"; logs are in {layout.logs}"
            if purge and layout.directory.exists():
                left = f"; {layout.directory} stays, another command uses it just now"
            say(f"cluster {layout.directory.name} is down{left}")


def status(
    name: Annotated[str | None, typer.Option("--name", help="A cluster. [default: all that run, or default]")] = None,
    format: FormatOption = Format.table,
) -> None:
    """Show daemons, supervisors, topologies, logs and addresses of the cluster."""
    from stormpilot.local.cluster import LocalCluster
    from stormpilot.local.status import status_of

    clusters = [LocalCluster.load(name)] if name else _running()
    found = [status_of(c) for c in clusters or [LocalCluster.load()]]
    if format is Format.json:
        print_json(found)
        return
    for one in found:
        _show(one)


def _running() -> list[LocalCluster]:
    """The clusters that run; the others are one line on stderr, without the default one where that is shown."""
    from stormpilot.local import processes
    from stormpilot.local.cluster import LocalCluster
    from stormpilot.local.state import Layout, read_description, read_remains

    running, down = [], []
    for layout in Layout.existing():
        try:
            remains = read_remains(layout)
            if remains is not None and processes.of_cluster(remains.id):
                running.append(LocalCluster(layout, read_description(layout)))
            else:
                down.append(layout.directory.name)
        except UsageError as e:
            note(f"skipped: {e}")
    down = [name for name in down if running or name != "default"]
    if down:
        names = ", ".join(down[:SHOWN_DOWN]) + (f" and {n} more" if (n := len(down) - SHOWN_DOWN) > 0 else "")
        which, what = ("--name NAME", "one") if running else ("--all", "all of them")
        note(f"{len(down)} down: {names}; `stormpilot local down {which} --purge` removes {what}, with the logs")
    return running


def _submit(**given: Any) -> None:
    """Submit a topology to the cluster; takes the options of `stormpilot submit` too."""
    from stormpilot.cli.submit import submit as to_nimbus
    from stormpilot.local.cluster import LocalCluster

    cluster = LocalCluster.load(given.pop("cluster"))
    to_nimbus(**given, name=None, nimbus=str(cluster.nimbus_address))


def _submit_parameters() -> list[inspect.Parameter]:
    """Those of `stormpilot submit`, but --name is the cluster's, as in every `local` command."""
    from stormpilot.cli.submit import submit as to_nimbus

    own = [p for n, p in parameters_of(to_nimbus).items() if n not in ("name", "nimbus")]
    kind = inspect.Parameter.KEYWORD_ONLY
    return [*own, inspect.Parameter("cluster", kind, default="default", annotation=NameOption)]


submit = with_parameters("submit", inspect.getdoc(_submit) or "", _submit_parameters(), _submit)


def kill(
    topology: Annotated[str, typer.Argument(help="The topology's name.")],
    name: NameOption = "default",
) -> None:
    """Kill a topology of the cluster at once."""
    from stormpilot.local.cluster import LocalCluster
    from stormpilot.nimbus import Nimbus

    cluster = LocalCluster.load(name)
    with Nimbus.connect(cluster.nimbus_address) as nimbus:
        nimbus.kill(topology, wait_s=0)
    say(f"killed {topology} on cluster {name}")


def logs(
    name: NameOption = "default",
    daemon: Annotated[
        str | None, typer.Option(help="nimbus, zookeeper, keeper, supervisor-01, ..., or worker (all of them).")
    ] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="The last lines of each file.")] = 20,
) -> None:
    """Print the last lines of the cluster's logs, also of a cluster that is down."""
    from stormpilot.local.cluster import LocalCluster

    cluster = LocalCluster.load(name)
    files = _log_files(cluster, daemon)
    if not files:
        note(f"no logs of {daemon or 'daemons'} are in {cluster.layout.logs}")
    for file in files:
        text = file.read_text(errors="replace").splitlines()
        if text:
            console.print(Text(printable(f"==> {file}"), style="bold"), soft_wrap=True)
            typer.echo("\n".join(printable(line.expandtabs()) for line in text[-lines:]))


def _log_files(cluster: LocalCluster, daemon: str | None) -> list[Path]:
    if daemon == "worker":
        folders = cluster.worker_logs()
    elif daemon == "keeper":
        file = cluster.layout.logs / "keeper.log"
        return [file] if file.is_file() else []
    elif daemon is not None:
        folders = [cluster.daemon(daemon).log.parent]
    else:
        folders = [d.log.parent for d in cluster.description.daemons]
    there = (f for folder in folders if folder.is_dir() for f in sorted(folder.iterdir()))
    return [f for f in there if f.suffix in (".log", ".out", ".err")]


def _show(found: ClusterStatus) -> None:
    say(
        f"cluster {found.name}: {found.state}, Storm {found.storm_version}, scheduler {found.scheduler}\n"
        f"  Nimbus     {found.nimbus}{f' ({found.nimbus_error})' if found.nimbus_error else ''}\n"
        f"  ZooKeeper  {found.zookeeper}\n"
        f"  logs       {found.logs}\n"
    )
    print_table(
        ["daemon", "state", "pid", "host", "port", "up (s)", "restarts", "exit code"],
        [
            [d.id, d.state, d.pid, d.host, str(d.port), _seconds(d.uptime_s), d.restarts, d.exit_code]
            for d in found.daemons
        ],
    )
    for d in found.daemons:
        if d.ended is not None and found.state != "down":
            now = f"started again, {counted(d.restarts, 'time')} so far" if d.state == "running" else "it does not run"
            say(f"{d.id} ended {d.ended}; {now}")
    say("")
    print_table(
        ["supervisor", "rack", "site", "slots", "used", "CPU points", "memory MB", "ports"],
        [
            [s.id, s.rack, s.site, len(s.slots), s.used_slots, s.cpu_points, s.memory_mb, _ports(s.slots)]
            for s in found.supervisors
        ],
    )
    if found.topologies:
        say("")
        print_table(
            ["topology", "id", "status", "workers", "executors", "up (s)"],
            [[t.name, t.id, t.status, t.workers, t.executors, t.uptime_s] for t in found.topologies],
        )
    if found.workers:
        say("")
        print_table(
            ["worker of", "port", "pid", "topology", "up (s)"],
            [[w.supervisor, str(w.port), w.pid, w.topology_id, _seconds(w.uptime_s)] for w in found.workers],
        )


def _seconds(value: float | None) -> int | None:
    return None if value is None else round(value)


def _ports(ports: list[int]) -> str:
    together = ports == list(range(ports[0], ports[0] + len(ports)))
    return f"{ports[0]}-{ports[-1]}" if together and len(ports) > 1 else ", ".join(str(p) for p in ports)


def _storm_keys(given: Sequence[str]) -> dict[str, Any]:
    """Keys for storm.yaml, their values as Storm reads them there: YAML 1.1, in which `off` is false."""
    import yaml

    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UsageError(f"--conf: expected KEY=VALUE, got {text!r}")
        if key in found:
            raise UsageError(f"--conf {key}: given twice")
        try:
            found[key] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError):  # the second: a date that cannot be
            raise UsageError(f"--conf {key}: {value!r} is not a YAML value") from None
    return found
