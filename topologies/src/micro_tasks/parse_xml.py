"""Parse XML: an array of XML strings in memory for every tuple, by a SAX parser."""

from __future__ import annotations

import xml.sax
from itertools import cycle
from random import Random

from streamparse import Bolt, Stream

from micro_tasks.settings import Settings

READINGS = 20  # of a document
IN_TURN = ("first", "second")  # streams


class Totals(xml.sax.ContentHandler):
    """Adds up the numbers of all `value` elements."""

    def __init__(self) -> None:
        self.total = 0.0
        self._text: list[str] | None = None

    def startElement(self, name, attrs):  # noqa: N802 (the parser's name)
        """Begin to collect the text of a value."""
        if name == "value":
            self._text = []

    def characters(self, content):
        """Collect text."""
        if self._text is not None:
            self._text.append(content)

    def endElement(self, name):  # noqa: N802
        """Add a value."""
        if self._text is not None and name == "value":
            self.total += float("".join(self._text))
            self._text = None


def document(number: int, readings: int = READINGS) -> str:
    """Return a sensor's readings as XML, the same for the same number."""
    random = Random(number)
    lines = [
        f'<reading sensor="s{random.randrange(100)}" unit="C"><at>{1_700_000_000 + i}</at>'
        f"<value>{random.uniform(-20, 40):.2f}</value></reading>"
        for i in range(readings)
    ]
    return f"<?xml version='1.0'?><readings station='{number}'>{''.join(lines)}</readings>"


def total(documents: list[str]) -> float:
    """Return the sum of all values of the documents."""
    totals = Totals()
    for text in documents:
        xml.sax.parseString(text, totals)
    return totals.total


class ParseXml(Bolt):
    """Takes in a number, parses every document, and sends the number and the sum of the values."""

    outputs = ["number", "total"]

    def initialize(self, storm_conf, context):
        """Make the documents."""
        self._documents = [document(i) for i in range(Settings.from_storm_conf(storm_conf).xml_documents)]

    def process(self, tup):
        """Parse."""
        self.emit([tup.values[0], total(self._documents)])


class ParseXmlInTurn(ParseXml):
    """The hub of a star: what it sends goes to one of two streams in turn."""

    outputs = [Stream(ParseXml.outputs, name=name) for name in IN_TURN]

    def initialize(self, storm_conf, context):
        """Make the documents; the first stream comes first."""
        super().initialize(storm_conf, context)
        self._streams = cycle(IN_TURN)

    def process(self, tup):
        """Parse."""
        self.emit([tup.values[0], total(self._documents)], stream=next(self._streams))
