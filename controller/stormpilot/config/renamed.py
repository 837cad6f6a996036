"""Settings that had another name before 0.1.0, by the old one: an error names the new one; nothing is read from it."""

from __future__ import annotations

RENAMED: dict[str, str] = {
    "decide.reschedule_timeout_s": "decide.cool_down_s",
    "decide.moves": "decide.move_strategy (and its value nonstop is now rolling)",
    "nonstop": "rollout",
    "nonstop.interim_workers": "rollout.max_surge_workers",
    "nonstop.between_s": "rollout.step_interval_s",
    "nonstop.drain_at_most_s": "rollout.drain_timeout_s",
    "nonstop.start_at_most_s": "rollout.start_timeout_s",
    "nonstop.wait_at_most_s": "rollout.capacity_timeout_s",
    "effect": "verify",
    "effect.noise_floor_ratio": "verify.noise_floor_ratio",
    "refill": "new_supervisors",
}
