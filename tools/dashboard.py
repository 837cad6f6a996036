"""The dashboard as a program: `python -m tools.dashboard` writes deploy/grafana/stormpilot.json.

What an operator asks, from top to bottom: does it work, does it help, what moves, why does it not, is its input good.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueColorMode, LegendPlacement, StackingMode, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    GridPos,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)

OUT = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "stormpilot.json"
JOB = 'job="stormpilot"'
TOPOLOGY = f'{JOB}, topology=~"$topology"'
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
Query = tuple[str, str]
"""PromQL, and what a series is called."""

STATS: Sequence[tuple[str, str, str, str, Sequence[tuple[float | None, str]]]] = (
    ("Leading", f"sum(stormpilot_leader{{{JOB}}})", "short", "Controllers that lead.", ((None, "red"), (1, "green"))),
    (
        "Last cycle",
        f"max(stormpilot_last_cycle_age_seconds{{{JOB}}} and stormpilot_leader{{{JOB}}} == 1)",
        "s",
        "Since the leader's last cycle ended.",
        ((None, "green"), (60, "orange"), (120, "red")),
    ),
    (
        "Unplaced",
        f"sum(stormpilot_unplaced_executors{{{JOB}}})",
        "short",
        "Executors that run nowhere.",
        ((None, "green"), (1, "red")),
    ),
    (
        "Supervisors",
        f'sum(stormpilot_supervisors{{{JOB}, state="live"}})',
        "short",
        "Live, not blacklisted.",
        ((None, "red"), (1, "green")),
    ),
    (
        "Unreadable",
        f"sum(stormpilot_unreadable_znodes{{{JOB}}})",
        "short",
        "Things in ZooKeeper that cannot be read.",
        ((None, "green"), (1, "orange")),
    ),
    (
        "Alerts",
        'count(ALERTS{alertname=~"Stormpilot.+", alertstate="firing"}) or vector(0)',
        "short",
        "Firing, of those in alerts.yml.",
        ((None, "green"), (1, "red")),
    ),
)

ROWS: Sequence[tuple[str, Sequence[tuple[str, str, str, bool, Sequence[Query]]]]] = (
    (
        "Does it help",
        (
            (
                "Traffic between nodes",
                "cps",
                "Tuples/s that cross nodes: as it runs, and as the newest plan would have it.",
                False,
                [
                    (
                        f"max by (topology, placement) (stormpilot_inter_node_tuples_per_second{{{TOPOLOGY}}})",
                        "{{topology}} {{placement}}",
                    )
                ],
            ),
            (
                "Part of all tuples that cross nodes",
                "percentunit",
                "The same as a part of all tuples of the topology.",
                False,
                [
                    (
                        f"max by (topology, placement) (stormpilot_inter_node_ratio{{{TOPOLOGY}}})",
                        "{{topology}} {{placement}}",
                    )
                ],
            ),
            (
                "Gain of the last move",
                "percentunit",
                "By what part of itself what a move is judged by was to fall, and fell.",
                False,
                [
                    (f"max by (topology) (stormpilot_gain_predicted_ratio{{{TOPOLOGY}}})", "{{topology}} predicted"),
                    (f"max by (topology) (stormpilot_gain_measured_ratio{{{TOPOLOGY}}})", "{{topology}} measured"),
                ],
            ),
        ),
    ),
    (
        "What moves",
        (
            (
                "Executors moved",
                "short",
                "By plans that were published, in 5 minutes.",
                False,
                [(f"sum by (topology) (increase(stormpilot_moved_executors_total{{{TOPOLOGY}}}[5m]))", "{{topology}}")],
            ),
            (
                "Plans published",
                "short",
                "In 5 minutes, by planner.",
                False,
                [
                    (
                        f"sum by (topology, planner) (increase(stormpilot_plans_published_total{{{TOPOLOGY}}}[5m]))",
                        "{{topology}} {{planner}}",
                    )
                ],
            ),
            (
                "What the plug-in answered",
                "short",
                "Answers to plans in 5 minutes; rejected ones change nothing.",
                False,
                [
                    (
                        "sum by (topology, state, code) "
                        f"(increase(stormpilot_plan_answers_total{{{TOPOLOGY}}}[5m])) > 0",
                        "{{topology}} {{state}} {{code}}",
                    )
                ],
            ),
        ),
    ),
    (
        "Plans carried out without restarts",
        (
            (
                "Steps",
                "short",
                "Of the plan that is being carried out; nothing while there is none.",
                False,
                [
                    (f"max by (topology) (stormpilot_rollout_steps{{{TOPOLOGY}}})", "{{topology}} steps"),
                    (f"max by (topology) (stormpilot_rollout_steps_done{{{TOPOLOGY}}})", "{{topology}} done"),
                ],
            ),
            (
                "In its phase for",
                "s",
                "draining and moving take seconds to a restart; ready waits for spare capacity, or is paused.",
                False,
                [
                    (
                        f"max by (topology, phase) (stormpilot_rollout_phase_age_seconds{{{TOPOLOGY}}})",
                        "{{topology}} {{phase}}",
                    )
                ],
            ),
            (
                "How they ended",
                "short",
                "In an hour; `stormpilot rollout status` says why.",
                True,
                [
                    (
                        f"sum by (topology, outcome) (increase(stormpilot_rollouts_ended_total{{{TOPOLOGY}}}[1h])) > 0",
                        "{{topology}} {{outcome}}",
                    )
                ],
            ),
        ),
    ),
    (
        "Why it does not move",
        (
            (
                "Decisions to leave a topology as it is",
                "short",
                "In 5 minutes, by the gate that is closed; `stormpilot explain TOPOLOGY` tells the numbers.",
                True,
                [(f"sum by (reason) (increase(stormpilot_refusals_total{{{JOB}}}[5m])) > 0", "{{reason}}")],
            ),
            (
                "What moves did, and alerts",
                "short",
                "In an hour.",
                True,
                [
                    (
                        f"sum by (topology, kind) (increase(stormpilot_events_total{{{TOPOLOGY}}}[1h])) > 0",
                        "{{topology}} {{kind}}",
                    )
                ],
            ),
            (
                "Mode and pause",
                "short",
                "1 for the mode of a topology, and while it is paused.",
                False,
                [
                    (
                        f"max by (topology, mode) (stormpilot_topology_mode{{{TOPOLOGY}}}) == 1",
                        "{{topology}} {{mode}}",
                    ),
                    (f"max by (topology) (stormpilot_topology_paused{{{TOPOLOGY}}}) == 1", "{{topology}} paused"),
                ],
            ),
        ),
    ),
    (
        "Is its input good",
        (
            (
                "Age of the oldest load report",
                "s",
                "Nothing is decided on what is older than load.max_report_age_s.",
                False,
                [(f"max by (topology) (stormpilot_load_report_age_seconds{{{TOPOLOGY}}})", "{{topology}}")],
            ),
            (
                "Tasks without a usable report",
                "short",
                "For a while after each restart, these are all tasks of the worker.",
                False,
                [(f"max by (topology) (stormpilot_unmeasured_tasks{{{TOPOLOGY}}})", "{{topology}}")],
            ),
            (
                "Executors",
                "short",
                "All, and those that run nowhere.",
                False,
                [
                    (f"max by (topology) (stormpilot_executors{{{TOPOLOGY}}})", "{{topology}}"),
                    (f"max by (topology) (stormpilot_unplaced_executors{{{TOPOLOGY}}})", "{{topology}} unplaced"),
                ],
            ),
        ),
    ),
    (
        "The controller",
        (
            (
                "A cycle takes",
                "s",
                "From observing to publishing: median and 95th percentile.",
                False,
                [
                    (
                        f"histogram_quantile({q}, sum by (le) "
                        f"(rate(stormpilot_cycle_duration_seconds_bucket{{{JOB}}}[5m])))",
                        f"{q:.0%}",
                    )
                    for q in (0.5, 0.95)
                ],
            ),
            (
                "Cycles",
                "short",
                "In 5 minutes, by how they ended.",
                True,
                [(f"sum by (outcome) (increase(stormpilot_cycles_total{{{JOB}}}[5m]))", "{{outcome}}")],
            ),
            (
                "CPU and memory",
                "short",
                "Cores, and GiB resident.",
                False,
                [
                    (f"rate(process_cpu_seconds_total{{{JOB}}}[5m])", "{{instance}} cores"),
                    (f"process_resident_memory_bytes{{{JOB}}} / 2^30", "{{instance}} GiB"),
                ],
            ),
        ),
    ),
)


def build() -> str:
    """The dashboard as Grafana's JSON."""
    board = (
        dashboard.Dashboard("stormpilot")
        .uid("stormpilot")
        .tags(["storm"])
        .description("Placement of Storm topologies by stormpilot; docs/guide/runbook.md has a page for each alert.")
        .readonly()
        .refresh("30s")
        .time("now-3h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("topology")
            .datasource(SOURCE)
            .query(f"label_values(stormpilot_executors{{{JOB}}}, topology)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
        )
    )
    number = iter(range(1, 1000))
    for i, (title, expr, unit, text, steps) in enumerate(STATS):
        colours = dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE)
        board.with_panel(
            stat.Panel()
            .id(next(number))
            .title(title)
            .description(text)
            .datasource(SOURCE)
            .unit(unit)
            .color_mode(BigValueColorMode.BACKGROUND)
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
            .thresholds(colours.steps([Threshold(value=v, color=c) for v, c in steps]))
            .with_target(prometheus.Dataquery().expr(expr).instant().ref_id("A"))
            .grid_pos(GridPos(h=4, w=4, x=4 * i, y=0))
        )
    y = 4
    for row, panels in ROWS:
        board.with_row(dashboard.Row(row).id(next(number)).grid_pos(GridPos(h=1, w=24, x=0, y=y)))
        for i, (title, unit, text, stacked, queries) in enumerate(panels):
            panel = (
                timeseries.Panel()
                .id(next(number))
                .title(title)
                .description(text)
                .datasource(SOURCE)
                .unit(unit)
                .min(0)
                .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
                .legend(common.VizLegendOptions().show_legend(True).placement(LegendPlacement.BOTTOM))
                .fill_opacity(30 if stacked else 5)
                .grid_pos(GridPos(h=8, w=8, x=8 * i, y=y + 1))
            )
            if title == "Gain of the last move":
                panel.min(-1)  # a move that made it worse
            if stacked:
                panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
            for letter, (expr, legend) in zip("ABC", queries, strict=False):
                panel.with_target(prometheus.Dataquery().expr(expr).legend_format(legend).range().ref_id(letter))
            board.with_panel(panel)
        y += 9
    return json.dumps(board.build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    OUT.write_text(build())
