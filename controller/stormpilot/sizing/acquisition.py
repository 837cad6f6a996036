"""Which VMs hold a number of slots [S17 7.1]."""

from __future__ import annotations

from collections.abc import Sequence

from stormpilot.sizing.problem import VmSize


def acquire(slots: int, sizes: Sequence[VmSize]) -> list[VmSize]:
    """As many of the largest as fit in `slots`, then the smallest that holds the rest; ties go to the first listed."""
    largest = max(sizes, key=lambda v: v.slots)
    count, rest = divmod(slots, largest.slots)
    last = [min((v for v in sizes if v.slots >= rest), key=lambda v: v.slots)] if rest else []
    return [largest] * count + last
