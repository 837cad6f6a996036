"""`stormpilot apply-size`: what `size` proposes, carried out on a running topology."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from stormpilot.cli.compute import SeedOption
from stormpilot.cli.live import ConfigOption, RootOption, ZooKeeperOption, connected, place, signing_key, user
from stormpilot.cli.nimbus_login import NimbusJaasOption, nimbus_login
from stormpilot.cli.output import Format, FormatOption, print_json, print_table, say
from stormpilot.cli.progress import progress
from stormpilot.cli.routes import DRAIN_TIMEOUT_S, drive
from stormpilot.cli.size import FileArgument, Mapping, Method, RateOption, read_problem
from stormpilot.cli.steer import Steering, confirm
from stormpilot.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from stormpilot.nimbus import Address
    from stormpilot.operate.resizing import Resizing
    from stormpilot.operate.switching import Switching


def apply_size(
    file: FileArgument,
    topology: Annotated[
        str | None, typer.Argument(help="Name or id of the running topology. [default: `name` of the file]")
    ] = None,
    nimbus: Annotated[
        str | None, typer.Option("--nimbus", metavar="HOST[:PORT]", help="host:port of Nimbus.", show_default=False)
    ] = None,
    nimbus_jaas: NimbusJaasOption = None,
    rate: RateOption = None,
    allocation: Annotated[Method, typer.Option(help="How threads are allocated.")] = Method.mba,
    placement: Annotated[Mapping, typer.Option(help="How they are placed.")] = Mapping.sam,
    wait: Annotated[
        int, typer.Option("--wait", min=0, help="Seconds with the sources off before Storm rebalances.")
    ] = 5,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for the rebalance, and for the plan.")] = 180.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")] = False,
    seed: SeedOption = 0,
    zookeeper: ZooKeeperOption = None,
    root: RootOption = None,
    config: ConfigOption = None,
    format: FormatOption = Format.table,
) -> None:
    """Apply a size to a running topology: threads by a rebalance, the placement as its plan together with that.

    That restarts workers, so it asks first. A controller that leads goes on from there. Where executors are
    on standby (submit --standby), these get tuples, as many as the rate needs in their slots, or some get none any
    more: nothing restarts.

    Exit code 1: it cannot be carried out; the text says why, and whether Storm has rebalanced before.
    """
    from stormpilot.config import load
    from stormpilot.nimbus import Address, Nimbus
    from stormpilot.operate.operator import Operator
    from stormpilot.operate.resizing import resizing
    from stormpilot.operate.switching import switching
    from stormpilot.sizing.allocation import allocate

    problem = read_problem(file)
    if rate is not None and not 0 < rate <= 1e9:
        raise UsageError(f"--rate is {rate}, expected tuples/s above 0, at most 1e9")
    if nimbus is None:
        raise UsageError("--nimbus is missing, expected host or host:port")
    address = Address.parse(nimbus, "--nimbus", nimbus_login(nimbus_jaas))
    sized = allocate(problem, rate or problem.rate_tps, allocation.value)
    where, key = place(zookeeper, root, config), signing_key(config)
    counts = None if config is None else load(config).load
    wanted = topology or problem.name
    why = f"sized for {sized.rate_tps:g}/s by {sized.method}"
    plan_id, now = None, list[str]()
    made: Resizing | Switching | None
    doing = f"apply-size {problem.name}"
    with connected(where) as session:
        operator = Operator(session, where.paths, user(), why, dry_run)
        made = switching(operator, problem, sized.rate_tps, wanted, load=counts)
        if made is not None:
            made.carry_out()
        else:

            def looked(client: Nimbus) -> Resizing:
                return resizing(
                    session, where.paths, client, problem, sized, wanted, placement.value, seed, load=counts, key=key
                )

            asked: list[str] = []
            if not (dry_run or yes):
                with Nimbus.connect_leader(address) as client, progress(doing):
                    made = looked(client)
                if danger := made.danger(wait):
                    asked = _described(made, address)
                    confirm(danger, asked)
            with Nimbus.connect_leader(address) as client, progress(doing) as shown:
                made = looked(client)
                now = _described(made, address)
                if not (dry_run or yes) and now != asked and (asked or made.danger(wait)):
                    raise RefusedError(f"nothing was changed, for it is not what was there before: {'; '.join(now)}")
                if not dry_run:
                    plan_id = made.carry_out(client, wait_s=wait, timeout_s=timeout, by=user(), tell=shown.update)
    if made.switched and not dry_run:
        drive(Steering(where, format, config, why, dry_run, yes=True), made.topology_id, None, DRAIN_TIMEOUT_S)
    if format is Format.json:
        print_json(
            {
                "topology": made.topology_id,
                "planId": plan_id,
                "rebalanced": made.rebalanced,
                "switched": made.switched,
                "allocation": sized.method,
                "placement": placement.value,
                "rateTps": sized.rate_tps,
                "threads": {c: {"before": made.before.get(c), "after": n} for c, n in made.threads.items()},
                "workers": made.workers,
            }
        )
        return
    if dry_run and now:
        say("\n".join(now))
    _show(made, plan_id, dry_run)


def _described(change: Resizing, nimbus: Address) -> list[str]:
    """The topology and the change, before it is made."""
    return [
        f"{change.topology_id} at {nimbus}",
        *(f"threads of {c}: {change.before[c]} -> {n}" for c, n in change.changed.items()),
        f"workers: {change.wanted_workers} -> {len(change.workers)}",
        change.by_whom if change.controller and not change.early else "placed by this command",
    ]


def _show(change: Resizing | Switching, plan_id: str | None, dry_run: bool) -> None:
    print_table(
        ["component", "threads now" if dry_run else "threads before", "size", "tasks"],
        [[c, str(change.before[c]), str(n), str(len(change.tasks[c]))] for c, n in change.threads.items()],
    )
    say("")
    rows = []
    for w in change.workers:
        held = Counter(change.component_of[start] for start, _ in w.executors)
        rows.append([w.supervisor, str(w.port), ", ".join(f"{c} {n}" for c, n in sorted(held.items()))])
    print_table(["supervisor", "port", "threads"], rows)
    for text in change.notes:
        say(f"note: {text}")
    say("nothing was changed" if dry_run else _outcome(change, plan_id))


def _outcome(change: Resizing | Switching, plan_id: str | None) -> str:
    if plan_id is not None:
        return f"applied: {change.topology_id} runs by plan {plan_id}"
    if change.rebalanced:
        return f"rebalanced: {change.topology_id} has its threads; {change.by_whom}"
    if change.switched and change.before != change.threads:
        return f"switched: {change.topology_id} has its threads, nothing restarted"
    placed = f" and workers already; where they run is up to {change.controller}" if change.controller else " already"
    return f"nothing was changed: {change.topology_id} has these threads{placed}"
