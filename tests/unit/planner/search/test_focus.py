"""Focused runs improve single topologies of a sound layout, and what several of them changed is put together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stormpilot.generate.models import Unlike, unlike
from stormpilot.model.compiled import NOWHERE, compile_model
from stormpilot.planner.methods import online
from stormpilot.planner.placement.layout import Frame, Layout, frame_of
from stormpilot.planner.placement.objective import objective_of
from stormpilot.planner.placement.problem import Limits, no_limits
from stormpilot.planner.repair import repaired, wrong
from stormpilot.planner.search import focus, rounds
from stormpilot.planner.search.annealing import Annealer


def forever() -> float:
    return math.inf


def start_of(seed: int) -> tuple[Frame, Limits, Annealer, focus.Focus, Layout]:
    """Five topologies on unlike nodes, sound but not good."""
    frame = frame_of(compile_model(unlike(Unlike(executors=200, topologies=5), np.random.default_rng(seed))))
    objective = objective_of(frame.compiled, "inter_node", first_only=True)
    limits = no_limits(frame.compiled)
    annealer = Annealer(frame, objective, limits)
    rough = online.greedy(frame, 0.0)
    layout = repaired(frame, rough, limits, np.random.default_rng(seed), forever, objective)
    assert isinstance(layout, Layout)
    assert not wrong(frame, layout).any()
    return frame, limits, annealer, focus.Focus(frame, objective, annealer), layout


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_can_be_won_is_the_traffic_between_nodes_of_each_topology(seed):
    frame, _, annealer, search, layout = start_of(seed)
    restarts = annealer.cost(layout) - annealer.traffic(layout)
    assert search.to_win(layout).sum() == pytest.approx(annealer.cost(layout) - restarts, rel=1e-6)
    assert len(search.to_win(layout)) == frame.compiled.topologies


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_run_improves_a_sound_layout_and_keeps_it_sound(seed):
    frame, _, annealer, search, layout = start_of(seed)
    found = search.run(layout, np.arange(5), np.random.default_rng(seed), 400_000, forever)
    assert found.cost < annealer.cost(layout)
    assert found.cost == pytest.approx(annealer.cost(found.layout))
    assert not wrong(frame, found.layout).any()


def test_a_run_at_one_topology_lowers_the_traffic_of_that_one():
    _, _, _, search, layout = start_of(1)
    before = search.to_win(layout)
    t = int(before.argmax())
    found = search.run(layout, np.array([t]), np.random.default_rng(1), 100_000, forever)
    assert search.to_win(found.layout)[t] < before[t]


def test_a_clock_that_is_over_changes_nothing():
    _, _, annealer, search, layout = start_of(1)
    found = search.run(layout, np.arange(5), np.random.default_rng(1), None, lambda: 0.0)
    assert found.layout is layout
    assert found.cost == annealer.cost(layout)


def test_a_wave_answers_the_same_on_any_number_of_threads():
    _, _, _, search, layout = start_of(2)
    waves = [search.wave(layout, 3, 50_000, forever, np.random.default_rng(4), threads) for threads in (1, 2, 5)]
    costs = [[found.cost for found in wave] for wave in waves]
    assert costs[0] == costs[1] == costs[2] == sorted(costs[0])


def test_runs_at_the_same_time_have_different_topologies_as_far_as_there_are_some():
    rng = np.random.default_rng(1)
    to_win = np.array([5.0, 0.0, 3.0, 2.0, 1.0])
    hands = focus.dealt(to_win, 2, rng)
    assert sorted(np.concatenate(hands).tolist()) == [0, 2, 3, 4]
    assert [float(to_win[hand].sum()) for hand in hands] == [6.0, 5.0]
    assert [hand.tolist() for hand in focus.dealt(np.array([0.0, 1.0]), 3, rng)] == [[1], [1], [1]]


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_what_two_runs_changed_is_put_together(seed):
    """Each change is there, unless both changed the same; then it is the first one's."""
    frame, limits, _, search, base = start_of(seed)
    first, second = (
        search.run(base, own, np.random.default_rng(seed), 50_000, forever).layout
        for own in focus.dealt(search.to_win(base), 2, np.random.default_rng(seed))
    )
    both = focus.together(frame, limits, base, [first, second])
    assert both is not None
    by_first, by_second = first.worker != base.worker, second.worker != base.worker
    assert (both.worker[by_first] == first.worker[by_first]).all()
    assert (both.worker[by_second & ~by_first] == second.worker[by_second & ~by_first]).all()
    assert (both.worker[~by_first & ~by_second] == base.worker[~by_first & ~by_second]).all()
    used = both.sizes() > 0
    assert ((both.node != NOWHERE) == used).all()
    assert (np.bincount(both.node[used], minlength=frame.compiled.nodes) <= frame.compiled.slots_per_node()).all()


def test_changes_that_want_the_same_slot_are_not_put_together():
    """Each brings a worker to a node that has slots for all but one of them."""
    frame, limits, _, _, base = start_of(1)
    c = frame.compiled
    room = c.slots_per_node() - np.bincount(base.node[base.node != NOWHERE], minlength=c.nodes)
    n = int(np.flatnonzero(room > 0)[0])
    moved = []
    for w in np.flatnonzero((base.node != NOWHERE) & (base.node != n))[: int(room[n]) + 1].tolist():
        moved.append(base.copy())
        moved[-1].node[w] = n
    both = focus.together(frame, limits, base, moved[:-1])
    assert both is not None
    assert (both.node == n).sum() == c.slots_per_node()[n]
    assert focus.together(frame, limits, base, moved) is None


def test_where_few_executors_have_something_to_win_a_round_is_focused_alone():
    assert [p.focused for p in rounds.phases(1e8, 20_000, 2, focus=True, only_focus=True)] == [True]
    assert [p.focused for p in rounds.phases(1e8, 1_000, 2, focus=True)] == [False, False, False, True]
    assert not any(p.focused for p in rounds.phases(1e8, 1_000, 2))


def test_what_was_never_searched_may_begin_warmer_with_few_tries():
    cold, warm = (rounds.phases(2_000_000, 20_000, 2, fresh=fresh)[0].temperature for fresh in (False, True))
    assert cold < 0.01 < warm
