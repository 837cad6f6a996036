"""Minimum of data in the traffic log for a mined number; with less the default stays."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class Enough(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The least that is believed. Spans are from the first to the last row behind a number."""

    span_h: Annotated[float, Meta(ge=0, le=87_600)] = 24.0
    """Of everything that a controller decides by: a whole day."""
    noise_windows: Count = 200
    knee_windows: Count = 200
    episodes: Count = 20
    """A 95th percentile of fewer is the largest one."""
    workers: Count = 100
    """Windows of workers that soon were overloaded, and of others."""
    moves: Count = 5
    hours: Count = 6
    """Hours with traffic, for what is a mean of them; of a line's executors together 4 times as many."""
    spread_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.2
    """A line over rates needs rates that differ by this part of the highest."""
    explained_ratio: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Of the variation of CPU, by the line."""
    peak_windows: Count = 60
    week_h: Count = 168
