"""Pi: 15 terms of Viete's product for every tuple, with so many digits that the computation takes milliseconds."""

from __future__ import annotations

from decimal import Decimal, localcontext

from streamparse import Bolt

from micro_tasks.settings import Settings

TERMS = 15


def viete(terms: int, digits: int) -> Decimal:
    """Return 2 / product of sqrt(2)/2, sqrt(2 + sqrt(2))/2, ...: about 0.6 digits of pi for each term."""
    with localcontext() as context:
        context.prec = digits
        root, product, two = Decimal(0), Decimal(1), Decimal(2)
        for _ in range(terms):
            root = (two + root).sqrt()
            product *= root / two
        return two / product


class Pi(Bolt):
    """Takes in a number, computes pi, and sends the number and the beginning of pi."""

    outputs = ["number", "pi"]

    def initialize(self, storm_conf, context):
        """Read the number of digits."""
        self._digits = Settings.from_storm_conf(storm_conf).pi_digits

    def process(self, tup):
        """Compute."""
        self.emit([tup.values[0], float(viete(TERMS, self._digits))])
