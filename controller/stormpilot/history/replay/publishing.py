"""Recommendations of replay in `thresholds/<topology-id>`, beside what was mined. No Spark in here."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stormpilot.history.mine.publishing import Store, by_name, of_name, written_of_each
from stormpilot.history.replay.choose import Verdict, of_each_name
from stormpilot.history.replay.limits import differing, sentences
from stormpilot.history.replay.study import Replay
from stormpilot.messages.core import decode, encode
from stormpilot.messages.thresholds import Recommendation, Thresholds
from stormpilot.trafficlog.schema import name_of
from stormpilot.zookeeper.paths import Paths


def publish(replay: Replay, store: Store, paths: Paths) -> list[str]:
    """Write the recommendations; returns the topology ids, those that run under the names now among them.

    Of a topology that was submitted again all ids get the same one, see `of_each_name`. Mined numbers stay; an id
    without any gets those that were mined last under its name, which hold for it so far, and which its own would hide.

    Raises
    ------
    RefusedError, UsageError
        A recommendation that cannot be written, or what is there cannot be read (`trafficlog mine` replaces it), the
        first of them; those of all other topologies are written.
    """
    running, known = store.children([paths.topology(), paths.thresholds()])
    former = by_name(known)
    return written_of_each(
        of_each_name(replay.verdicts).values(),
        lambda v: _publish(replay, v, running, former[v.topology_name], store, paths),
        lambda v: v.topology_name,
    )


def _publish(
    replay: Replay, verdict: Verdict, running: Sequence[str], known: Sequence[str], store: Store, paths: Paths
) -> list[str]:
    written = []
    ids = {v.topology_id for v in replay.verdicts if v.topology_name == verdict.topology_name}
    ids |= {i for i in running if name_of(i) == verdict.topology_name}
    mined = [t for t in of_name(store, paths, verdict.topology_name, known) if t.entries]
    newest = max(mined, key=lambda t: t.mined_at_ms, default=None)
    for topology_id in sorted(ids):
        path = paths.thresholds(topology_id)
        node = store.read([path])[0]
        own = None if node is None else decode(node.data, Thresholds, path)  # type: ignore[attr-defined]
        if newest is not None and (own is None or not own.entries):
            before = msgspec.structs.replace(newest, topology_id=topology_id)
        else:
            before = own or Thresholds(
                topology_id=topology_id,
                topology_name=verdict.topology_name,
                mined_at_ms=replay.at_ms,
                from_ms=replay.from_ms,
                to_ms=replay.to_ms,
                log=replay.log,
            )
        found = recommendation(replay, verdict, before)
        store.put(path, encode(msgspec.structs.replace(before, recommendation=found)))
        written.append(topology_id)
    return written


def recommendation(replay: Replay, verdict: Verdict, mined: Thresholds | None = None) -> Recommendation:
    """As a message; rules of `decide` are among the parameters, named `decide.NAME`, a forecast as `forecast`.

    Its text says where the B(n) of the replay is another one than `mined`.
    """
    best, gain = verdict.recommended, verdict.gain
    entries = [] if mined is None else mined.entries
    limits = sentences(differing(entries, best.setting, replay.cpu_limit_ratio) or verdict.limits)
    setting = best.setting
    assert setting is not None
    params = {**setting.params, **{f"decide.{k}": v for k, v in setting.decide.items()}}
    return Recommendation(
        planner=setting.planner,
        params=params | ({"forecast": True} if setting.forecast else {}),
        score=best.score,
        default_score=verdict.default.score,
        held_out_score=best.held_out_score,
        default_held_out_score=verdict.default.held_out_score,
        windows=best.chosen_by.steps,
        from_ms=replay.from_ms,
        to_ms=replay.to_ms,
        replayed_at_ms=replay.at_ms,
        held_out_days=0 if gain is None else gain.days,
        gain_low_ratio=None if gain is None or verdict.kept_default else gain.low,
        gain_high_ratio=None if gain is None or verdict.kept_default else gain.high,
        text="; ".join(["mean distance of a tuple with penalties for overload and restarts", verdict.text, *limits]),
    )
