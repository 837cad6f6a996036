"""Blob download: a file of 100 kB from a blob service for every tuple; a thread waits for most of the time."""

from __future__ import annotations

from streamparse import Bolt

from micro_tasks import storage
from micro_tasks.settings import Settings


class BlobDownload(Bolt):
    """Takes in a number, downloads a blob, and sends the number and how many bytes came."""

    outputs = ["number", "bytes"]

    def initialize(self, storm_conf, context):
        """Open the client of this task."""
        self._container = storage.container(Settings.from_storm_conf(storm_conf).needed_storage())

    def process(self, tup):
        """Download; a refusal ends the process, as any error that nobody expected."""
        number = tup.values[0]
        self.emit([number, len(self._container.download_blob(storage.blob_name(int(number))).readall())])
