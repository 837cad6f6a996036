"""The storage that blob download and table query ask: its clients, and what has to be in it.

    python -m micro_tasks.storage CONNECTION_STRING      fills a storage account, or an emulator such as azurite

The clients (azure-storage-blob, azure-data-tables; `virtualenvs/micro_services.txt`) are imported when a task starts:
the topology can be read, and submitted, where they are not installed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

CONTAINER, TABLE, PARTITION = "microtasks", "microtasks", "rows"
BLOBS, BLOB_BYTES = 16, 100_000
ROWS, ROW_BYTES = 1000, 200
PER_TRANSACTION = 100


def container(connection: str) -> Any:
    """The client of the container with the blobs; it does not try again, so that a refusal is a failed tuple."""
    from azure.storage.blob import BlobServiceClient

    return BlobServiceClient.from_connection_string(connection, retry_total=0).get_container_client(CONTAINER)


def table(connection: str) -> Any:
    """The client of the table with the rows."""
    from azure.data.tables import TableServiceClient

    return TableServiceClient.from_connection_string(connection, retry_total=0).get_table_client(TABLE)


def blob_name(number: int) -> str:
    """The blob that a tuple with this number asks for."""
    return f"blob-{number % BLOBS}"


def row_key(number: int) -> str:
    """The row that a tuple with this number asks for."""
    return f"{number % ROWS:06d}"


def fill(connection: str) -> None:
    """Write blobs and rows; what is there already is written again."""
    from azure.core.exceptions import ResourceExistsError

    blobs, rows = container(connection), table(connection)
    for create in (blobs.create_container, rows.create_table):
        with contextlib.suppress(ResourceExistsError):
            create()
    for number in range(BLOBS):
        blobs.upload_blob(blob_name(number), os.urandom(BLOB_BYTES), overwrite=True)
    entities = [
        {"PartitionKey": PARTITION, "RowKey": row_key(number), "text": f"{number} ".ljust(ROW_BYTES, "x")}
        for number in range(ROWS)
    ]
    for first in range(0, ROWS, PER_TRANSACTION):
        rows.submit_transaction([("upsert", entity) for entity in entities[first : first + PER_TRANSACTION]])


if __name__ == "__main__":
    fill(sys.argv[1])
