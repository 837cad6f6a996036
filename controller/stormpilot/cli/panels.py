"""Panels and groups of the command line: under which heading `--help` shows a command."""

from __future__ import annotations

from typing import NamedTuple

INSPECT = "Inspect a running system"
CONTROL = "Control the controller"
PLACE = "Drain hosts, pin and exclude"
MOVE = "Rollouts and routes"
TUNE = "Thresholds and the traffic log"
FILES = "Plan model files, size topologies"
SETUP = "Set up"
PANELS = (INSPECT, CONTROL, PLACE, MOVE, TUNE, FILES, SETUP)


class Entry(NamedTuple):
    """A command: `name` as typed, `where` is `module:function`."""

    name: str
    where: str
    summary: str
    example: str
    panel: str = ""


class Group(NamedTuple):
    """Commands with a common first word."""

    name: str
    summary: str
    panel: str


GROUPS: tuple[Group, ...] = (
    Group("plan", "Plans: proposed, published and earlier ones; plans of model files.", INSPECT),
    Group("rollout", "Rollouts: plans that are carried out by rolling moves, without downtime.", MOVE),
    Group("routes", "Routes: which tasks get tuples; shift traffic without a restart.", MOVE),
    Group("thresholds", "Thresholds: which hold for a topology, and where they come from.", TUNE),
    Group("trafficlog", "The traffic log: mine thresholds, replay planners, report.", TUNE),
    Group("model", "Model files: check, make and summarise them.", FILES),
    Group("config", "The configuration of the controller.", SETUP),
    Group("local", "A Storm cluster on this machine, without Docker.", SETUP),
    Group("token", "Tokens: who may do what over HTTP.", SETUP),
)
