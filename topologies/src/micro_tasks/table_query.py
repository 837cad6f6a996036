"""Table query: one row of 200 bytes from a table service for every tuple, found by its key."""

from __future__ import annotations

from streamparse import Bolt

from micro_tasks import storage
from micro_tasks.settings import Settings


class TableQuery(Bolt):
    """Takes in a number, reads a row, and sends the number and the row's text."""

    outputs = ["number", "text"]

    def initialize(self, storm_conf, context):
        """Open the client of this task."""
        self._table = storage.table(Settings.from_storm_conf(storm_conf).needed_storage())

    def process(self, tup):
        """Query by partition and row key."""
        number = tup.values[0]
        row = self._table.get_entity(storage.PARTITION, storage.row_key(int(number)))
        self.emit([number, row["text"]])
