"""Pi: 15 terms of Viete's product for every tuple, with so many digits that the computation takes milliseconds."""

from __future__ import annotations

from decimal import Decimal, localcontext

from streamparse import Bolt

TERMS = 15
DIGITS_KEY = "micro.pi.digits"
DIGITS = 500


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
        self._digits = int(storm_conf.get(DIGITS_KEY) or DIGITS)
        if self._digits < 10:
            raise ValueError(f"{DIGITS_KEY}: expected a number of at least 10, got {self._digits}")

    def process(self, tup):
        """Compute."""
        self.emit([tup.values[0], float(viete(TERMS, self._digits))])
