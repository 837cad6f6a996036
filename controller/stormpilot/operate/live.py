"""The model of what runs now, measured for some seconds: for questions to a running system. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from stormpilot import clock
from stormpilot.config import Config
from stormpilot.errors import RefusedError
from stormpilot.observe.build import ModelWithReadiness
from stormpilot.observe.observer import Observer
from stormpilot.observe.reader import Reader
from stormpilot.operate.operator import Operator

POLL_S = 1.0


def live_model(
    operator: Operator,
    measure_s: float,
    config: Config,
    left: Callable[[float], None],
) -> ModelWithReadiness:
    """The model with drains, pins and exclusions, and how well each topology was measured in `measure_s` seconds.

    With 0 nothing is measured: rates are 0, CPU is what topologies declare. B(n) is as mined or set, where `config`
    lets it. `left` is told how many seconds are left.
    """
    load = msgspec.structs.replace(config.load, window_s=max(5.0, measure_s), settle_s=0.0)
    observer = Observer(Reader(operator.zookeeper, operator.paths), load, config.decide.cpu_limit_ratio, config)
    observation = observer.observe(clock.now_ms())
    left_s = measure_s
    while left_s > 0:
        time.sleep(min(POLL_S, left_s))
        left_s -= POLL_S
        left(max(0.0, left_s))
        observation = observer.observe(clock.now_ms())
    if observation.belief is None:
        raise RefusedError(observation.seen.no_cluster)
    return observation.belief
