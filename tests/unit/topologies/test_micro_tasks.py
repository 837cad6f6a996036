"""The micro tasks: what each does with a tuple."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from micro_tasks import storage
from micro_tasks.blob_download import BlobDownload
from micro_tasks.file_write import BATCH, LINE_BYTES, BatchFileWrite
from micro_tasks.parse_xml import ParseXml, document, total
from micro_tasks.pi import Pi, viete
from micro_tasks.settings import Settings
from micro_tasks.table_query import TableQuery


class Tuple:
    def __init__(self, *values: Any):
        self.values = values


def run(bolt: Any, conf: dict[str, Any], count: int = 1) -> list[list[Any]]:
    """What the bolt sends for the numbers 0, 1, ..."""
    sent: list[list[Any]] = []
    bolt.emit = sent.append
    bolt.initialize(conf, {"taskid": 4})
    for number in range(count):
        bolt.process(Tuple(number))
    return sent


def bolt(kind: type) -> Any:
    return kind.__new__(kind)


def test_pi_comes_nearer_with_every_term() -> None:
    errors = [abs(float(viete(terms, 50)) - math.pi) for terms in (1, 5, 10, 15)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-8
    assert run(bolt(Pi), {})[0] == [0, pytest.approx(math.pi)]


def test_every_value_of_the_documents_is_added() -> None:
    documents = [document(i) for i in range(3)]
    expected = sum(float(v) for d in documents for v in re.findall(r"<value>([-\d.]+)</value>", d))
    assert total(documents) == pytest.approx(expected)
    assert run(bolt(ParseXml), {"micro.xml.documents": 3})[0] == [0, pytest.approx(expected)]


def test_a_document_is_the_same_for_the_same_number() -> None:
    assert document(7) == document(7)
    assert document(7) != document(8)


def test_lines_are_written_when_the_batch_is_full(tmp_path: Path) -> None:
    kept = bolt(BatchFileWrite)
    sent = run(kept, {"micro.file.dir": str(tmp_path)}, BATCH + 2)
    assert [waiting for _, waiting in sent[:2]] == [1, 2]
    assert [waiting for _, waiting in sent[-3:]] == [0, 1, 2]
    assert kept.file.stat().st_size == BATCH * LINE_BYTES
    assert kept.file.read_text().splitlines()[-1].strip() == str(BATCH - 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("micro.rate.tps", 0), ("micro.xml.documents", 0), ("micro.pi.digits", "many"), ("micro.file.dir", 3)],
)
def test_a_wrong_setting_is_named(key: str, value: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(key)):
        Settings.from_storm_conf({key: value})


class Account:
    """A storage account with a container and a table of the tasks; the clients of Azure are not installed here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        monkeypatch.setattr(storage, "container", lambda connection: self)
        monkeypatch.setattr(storage, "table", lambda connection: self)

    def download_blob(self, name: str) -> Account:
        self.asked.append(name)
        return self

    def readall(self) -> bytes:
        return b"x" * 7

    def get_entity(self, partition: str, key: str) -> dict[str, str]:
        self.asked.append(f"{partition}/{key}")
        return {"text": "a row"}


STORAGE = {"micro.storage.connection": "UseDevelopmentStorage=true"}


def test_every_tuple_downloads_a_blob_and_the_blobs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(monkeypatch)
    assert run(bolt(BlobDownload), STORAGE, storage.BLOBS + 1)[-1] == [storage.BLOBS, 7]
    assert account.asked[0] == account.asked[-1] == "blob-0"
    assert len(set(account.asked)) == storage.BLOBS


def test_every_tuple_reads_a_row_by_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(monkeypatch)
    assert run(bolt(TableQuery), STORAGE, 2) == [[0, "a row"], [1, "a row"]]
    assert account.asked == ["rows/000000", "rows/000001"]


@pytest.mark.parametrize("kind", [BlobDownload, TableQuery])
def test_task_without_a_storage_account_names_the_key_that_is_missing(kind: type) -> None:
    with pytest.raises(ValueError, match=r"micro\.storage\.connection"):
        run(bolt(kind), {})
