"""`stormpilot assess`: what stormpilot would make of a cluster on which nothing of it is installed."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from stormpilot.cli.compute import SeedOption
from stormpilot.cli.figures import rate_text
from stormpilot.cli.nimbus_login import NimbusJaasOption, nimbus_login
from stormpilot.cli.output import Format, FormatOption, print_json, print_table, say
from stormpilot.cli.stdout import print_and_write
from stormpilot.errors import NothingFoundError, RefusedError

if TYPE_CHECKING:
    from stormpilot.model.values import Model, Plan, Topology
    from stormpilot.nimbus import Nimbus
    from stormpilot.observe.assess import Certainty, Observed

OURS, FALLBACK = "io.stormpilot.PilotScheduler", "stormpilot.fallback.scheduler"
SAMPLED, SAMPLE_RATE = "topology.stats.sample.rate", 0.05
LOADAWARE_OFF = "topology.disable.loadaware.messaging"
SIGMAS = 1.96
HOSTS = 5  # named in a note
FEW_SAMPLES = 100  # behind an edge: its rate may be off by a tenth and more
RULES = "memory that components share is not told by Nimbus: plans keep it, this estimate does not"
MEMORY = "memory is not part of it"
CPU = "CPU of bolts that are not Java is only the JVM's part"
SILENT = "{}: no CPU is declared, and they use about what a plan may use of Storm's default: it may use a fifth more"
UNREAD = "{} is left out ({}): its slots count as taken, and its CPU is not known"
COLUMNS = (
    *("topology", "executors", "tuples/s", "between nodes", "planned", "moved"),
    *("counted (s)", "pairs assumed", "error"),
)


@dataclass(frozen=True)
class TopologyEstimate:
    """A topology now and as it would be planned: tuples/s in all and between nodes, and what that rests on.

    `inter_node_tps` is None where it does not run as a whole on supervisors that live. `error_ratio` is how far
    the rate of its rarest edge may be off by chance (95%; None: nothing was counted), since
    Storm counts by samples.
    """

    name: str
    executors: int
    workers: int
    total_tps: float
    inter_node_tps: float | None
    planned_inter_node_tps: float
    moved_executors: int
    counted_s: float
    assumed_share: float
    least_samples: float
    error_ratio: float | None
    held_by: list[str]


def assess(
    nimbus: Annotated[str, typer.Option("--nimbus", help="host[:port] of Nimbus (6627).", metavar="HOST[:PORT]")],
    planner: Annotated[str, typer.Option("--planner", "-p", help="See `stormpilot planners`.")] = "best",
    seed: SeedOption = 0,
    nimbus_jaas: NimbusJaasOption = None,
    budget: Annotated[float, typer.Option("--budget", min=0.1, help="Seconds that planning may take.")] = 10.0,
    cpu_limit: Annotated[
        float, typer.Option("--cpu-limit", min=0.01, max=1, help="Part of a node's CPU that a plan may fill.")
    ] = 0.8,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the estimated model here, for `plan compute`.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write a page here, and the same as .json beside it.")
    ] = None,
    format: FormatOption = Format.table,
) -> None:
    """Estimate what stormpilot would win on a cluster where nothing of it is installed; reads Nimbus only.

    Traffic and CPU are estimated from what Storm counts itself. Nimbus is asked by Thrift, plain or
    with SASL digest (--nimbus-jaas), not by Kerberos or TLS. Exit code 4: no topology runs. Ctrl-C ends
    the search with the best plan so far.
    """
    from stormpilot.cli import files
    from stormpilot.nimbus import Address, Nimbus
    from stormpilot.observe.storm_keys import resource_aware
    from stormpilot.planner import planner_named

    planner_named(planner)
    beside = None if page is None else files.page_files(page, "--page", "assess.html", {"--output": output})
    files.check_outputs({"--output": output})
    with Nimbus.connect(Address.parse(nimbus, "--nimbus", nimbus_login(nimbus_jaas))) as connection:
        estimated, held, seen, unread = _read(connection, cpu_limit)
        scheduler = _scheduler(connection.conf()) or "Storm's default scheduler"
    if not seen and unread:
        raise RefusedError("no topology can be read: " + "; ".join(unread))
    if not seen:
        raise NothingFoundError(f"no topology runs on the cluster of Nimbus at {nimbus}")
    if output is not None:
        files.write(output, estimated, "model")
    plan = _planned(estimated, planner, seed, budget, cpu_limit)
    rows = [_estimate(estimated, plan, o, sure, held.get(o.topology.id, [])) for o, sure in seen]
    everywhere = held.get("", [])
    over = [s.host for s in estimated.supervisors if s.limit_mhz > cpu_limit * s.cpu_mhz + 1.0]  # 1 MHz: rounding
    silent = [SILENT.format(", ".join(over[:HOSTS]) + ", ..." * (len(over) > HOSTS))] if over else []
    notes = [*([RULES] if resource_aware(scheduler) else [MEMORY]), CPU, *unread, *silent, *plan.notes]
    answer = {
        "nimbus": nimbus,
        "scheduler": scheduler,
        "supervisors": len(estimated.supervisors),
        "heldBy": everywhere,
        "topologies": rows,
        **dict(zip(("totalTps", "interNodeTps", "plannedInterNodeTps"), _sums(rows), strict=True)),
        "notes": notes,
    }
    intro = f"supervisors: {len(estimated.supervisors)}, running topologies: {len(rows)}, placed by {scheduler}."
    said = _said(rows, everywhere, notes)

    def show() -> None:
        if format is Format.json:
            print_json(answer)
            return
        say(f"{intro} Nothing was changed.")
        print_table(COLUMNS, [_cells(r) for r in rows])
        for text in (_sum_line(rows), *said):
            say(text)

    def write() -> None:
        if page is None or beside is None:
            return
        from stormpilot.history.report.assess import page as page_of
        from stormpilot.messages.casing import camel

        cells = [["" if c is None else str(c) for c in _cells(r)] for r in rows]
        text = page_of(f"Nimbus at {nimbus}; {intro}", COLUMNS, cells, _sum_line(rows), said)
        files.write_text(page, text, "page")
        files.write(beside, camel(answer), "assessment")

    print_and_write(show, write)


def _read(
    connection: Nimbus, cpu_limit: float
) -> tuple[Model, dict[str, list[str]], list[tuple[Observed, Certainty]], list[str]]:
    """The model, what holds topologies by id ("": all of them), what was seen of each with its certainty, and notes.

    These name the topologies that Nimbus does not let us read.
    """
    from stormpilot.config.sections import LoadSection
    from stormpilot.nimbus import NotAliveError
    from stormpilot.observe.assess import Observed, certainty, model_of
    from stormpilot.observe.assess_ras import Declared, with_declared
    from stormpilot.observe.isolation import isolated, kept_apart
    from stormpilot.observe.storm_keys import (
        POOLS,
        Held,
        held_by_cluster,
        held_by_topology,
        isolates_by_user,
        resource_aware,
    )

    conf = connection.conf()
    scheduler = _scheduler(conf)
    declared: dict[str, Declared] = {}
    held: dict[str, list[str]] = {"": [str(h) for h in held_by_cluster(conf, scheduler)]}
    if isolates_by_user(scheduler) and POOLS in conf:  # Nimbus does not say whose the topologies are
        held[""].append(str(Held(POOLS, "with the MultitenantScheduler")))
    seen: list[tuple[Observed, Certainty]] = []
    unread: list[str] = []
    for t in connection.topologies():
        if t.status != "ACTIVE":
            continue
        try:
            own = connection.topology_conf(t.id)
            components = connection.component_confs(t.id)
            o = Observed(
                topology=t,
                workers=t.workers or int(own.get("topology.workers") or 1),  # a rebalance changes no configuration
                executors=connection.statistics(t.id),
                subscriptions=connection.subscriptions(t.id),
                loadaware=not own.get(LOADAWARE_OFF, False),
            )
        except NotAliveError:  # it ended since it was listed
            continue
        except RefusedError as e:
            unread.append(UNREAD.format(t.name, e))
            continue
        declared[t.id] = Declared(own, components)
        held[t.id] = [str(h) for h in held_by_topology(own, components, fallback=scheduler)]
        seen.append((o, certainty(o, float(own.get(SAMPLED) or SAMPLE_RATE))))
    own_hosts = isolated(conf, scheduler, {o.topology.id: (o.topology.name, "") for o, _ in seen})
    for i, (key, value) in own_hosts.items():
        held[i].append(f"{key} is {value}")
    supervisors = connection.supervisors()
    default_counts = resource_aware(scheduler)
    estimated = model_of(supervisors, [o for o, _ in seen], cpu_limit, LoadSection(), default_counts=default_counts)
    estimated = with_declared(estimated, declared, supervisors, scheduler)
    estimated = kept_apart(estimated, own_hosts, scheduler)
    return _fixed(estimated, held), held, seen, unread


def _fixed(model: Model, held: dict[str, list[str]]) -> Model:
    """Topologies that would be held stay as they are."""
    from stormpilot.model.subset import all_slots

    slots = all_slots(model)
    topologies = [_as_it_is(t, slots) if held[""] or held.get(t.id) else t for t in model.topologies]
    return msgspec.structs.replace(model, topologies=topologies)


def _as_it_is(topology: Topology, slots: Collection[tuple[str, int]]) -> Topology:
    own = sorted({(a.supervisor, a.port) for a in topology.assignment}.intersection(slots))
    return msgspec.structs.replace(topology, fixed_workers=own, workers=max(topology.workers, len(own)))


def _planned(model: Model, planner: str, seed: int, budget_s: float, cpu_limit: float) -> Plan:
    from stormpilot.cli.planning_time import planning_time
    from stormpilot.model.values import Infeasible
    from stormpilot.planner import compute

    began_s = time.monotonic()
    with planning_time(began_s, began_s + budget_s) as clock:
        answer = compute(model, planner, {}, seed=seed, left_s=clock.left_s, traffic="flow")
    if isinstance(answer, Infeasible):
        more = "; --cpu-limit 1 lets nodes be filled" if answer.constraint == "cpu" and cpu_limit < 1 else ""
        raise RefusedError(f"no plan ({answer.constraint}): {answer.text}{more}")
    return answer


def _estimate(model: Model, plan: Plan, o: Observed, sure: Certainty, held: list[str]) -> TopologyEstimate:
    from stormpilot.model.flow.model import flow_model
    from stormpilot.model.subset import isolated, plan_of

    flow = flow_model(isolated(model, o.topology.id))
    c = flow.compiled
    then = c.slots_of(plan_of(plan, o.topology.id))
    placed = bool((c.current >= 0).all())
    planned = flow.predict(then)
    now = flow.predict(c.current) if placed else None
    return TopologyEstimate(
        name=o.topology.name,
        executors=c.executors,
        workers=o.workers,
        total_tps=planned.total_tps if now is None else now.total_tps,
        inter_node_tps=None if now is None else now.inter_node_tps,
        planned_inter_node_tps=planned.inter_node_tps,
        moved_executors=int((then != c.current).sum()),
        counted_s=sure.window_s,
        assumed_share=sure.assumed_share,
        least_samples=sure.counted,
        error_ratio=SIGMAS / math.sqrt(sure.counted) if sure.counted else None,
        held_by=held,
    )


def _sums(rows: Sequence[TopologyEstimate]) -> tuple[float, float, float]:
    """Tuples/s in all, between nodes now and as planned, of the topologies that run as a whole."""
    whole = [(r.total_tps, r.inter_node_tps, r.planned_inter_node_tps) for r in rows if r.inter_node_tps is not None]
    return sum(r[0] for r in whole), sum(r[1] for r in whole), sum(r[2] for r in whole)


def _scheduler(conf: Mapping[str, Any]) -> str:
    """The class of Storm's own scheduler: what ours leaves the rest to, where ours is installed."""
    scheduler = str(conf.get("storm.scheduler") or "")
    return str(conf.get(FALLBACK) or "") if scheduler == OURS else scheduler


def _cells(r: TopologyEstimate) -> list[object]:
    return [
        r.name,
        r.executors,
        rate_text(r.total_tps),
        None if r.inter_node_tps is None else rate_text(r.inter_node_tps),
        rate_text(r.planned_inter_node_tps),
        r.moved_executors,
        round(r.counted_s),
        f"{r.assumed_share:.0%}",
        None if r.error_ratio is None else f"{r.error_ratio:.0%}",
    ]


def _sum_line(rows: Sequence[TopologyEstimate]) -> str:
    total, *parts = _sums(rows)
    share = [f"{rate_text(p)} ({p / total:.0%})" if total else rate_text(p) for p in parts]
    return f"between nodes: {share[0]} of {rate_text(total)} tuples/s now, {share[1]} as planned"


def _said(rows: Sequence[TopologyEstimate], everywhere: Sequence[str], notes: Sequence[str]) -> list[str]:
    """Held topologies and the basis of the figures, a sentence each."""
    said = [f"held: every topology: {text}: Storm's own scheduler places them, as before" for text in everywhere]
    for r in rows:
        if r.inter_node_tps is None:
            said.append(f"note: {r.name}: not all of it runs on supervisors that live: it is not in these sums")
        said += [f"held: {r.name}: {text}: Storm's own scheduler places it, as before" for text in r.held_by]
        if r.least_samples < FEW_SAMPLES:
            few = f"few samples (the rarest edge has {r.least_samples:.0f}): ask again in ten minutes"
            said.append(f"note: {r.name}: {few}")
    return [*said, *(f"note: {text}" for text in notes)]
