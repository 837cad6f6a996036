"""The progress of a source as JSON."""

import json

import pytest

from doubles.memory_kazoo import MemoryKazoo
from flight_delays.progress import Progress, TaskProgress
from progress_contract import ProgressContract


class TestInMemory(ProgressContract):
    @pytest.fixture
    def client(self):
        return MemoryKazoo()


def test_what_is_written_can_be_read():
    progress = TaskProgress(1, 2, 3, committed=4, emitted=5, acked=6, failed=7, replayed=8, done=True, updated_at=9.5)
    assert TaskProgress.from_json(progress.to_json(), "/flights/t/1") == progress


def test_unknown_fields_are_ignored():
    data = json.dumps({"schema": 1, "index": 0, "tasks": 1, "later": [1, 2]}).encode()
    assert TaskProgress.from_json(data, "/flights/t/0") == TaskProgress(index=0, tasks=1)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "/flights/t/0: expected the progress of a spout task as JSON"),
        (b"[1]", "/flights/t/0: expected the progress of a spout task as JSON"),
        (b"{}", "/flights/t/0: expected the progress of a spout task as JSON"),
        (b'{"schema": 1}', "/flights/t/0: expected the progress of a spout task as JSON"),
        (b'{"schema": 2, "index": 0, "tasks": 1}', "/flights/t/0: expected schema 1, got 2"),
    ],
)
def test_what_is_no_progress_is_refused_by_its_path(data, says):
    with pytest.raises(ValueError, match=says):
        TaskProgress.from_json(data, "/flights/t/0")


def test_no_tasks_are_not_done():
    assert not Progress.total([]).done
