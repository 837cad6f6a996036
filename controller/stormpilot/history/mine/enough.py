"""How much of the log a number needs; with less the default stays."""

from __future__ import annotations

import msgspec


class Enough(msgspec.Struct, frozen=True, kw_only=True):
    """The least that is believed. Spans are from the first to the last row behind a number."""

    span_h: float = 24.0
    """Of everything that a controller decides by: a whole day."""
    noise_windows: int = 200
    knee_windows: int = 200
    episodes: int = 20
    """A 95th percentile of fewer is the largest one."""
    workers: int = 100
    """Windows of workers that soon were overloaded, and of others."""
    moves: int = 5
    hours: int = 6
    """Hours with traffic, for what is a mean of them; of a line's executors together 4 times as many."""
    spread_ratio: float = 0.2
    """A line over rates needs rates that differ by this part of the highest."""
    explained_ratio: float = 0.5
    """Of the variation of CPU, by the line."""
    peak_windows: int = 60
    week_h: int = 168
