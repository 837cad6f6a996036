"""What keeping progress asks of ZooKeeper: run over the double and over the real thing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flight_delays.progress import Progress, TaskProgress, read_progress, task_path
from flight_delays.progress_store import DeposedError, ZooKeeperStore

ROOT = "/flights"
TOPOLOGY_ID = "flights-1-1732158000"


class ProgressContract:
    """Needs a fixture `client`: a KazooClient, or what stands for one, without the znodes of TOPOLOGY_ID."""

    def store(self, client, index: int = 0, tasks: int = 2) -> ZooKeeperStore:
        return ZooKeeperStore(client, ROOT, TOPOLOGY_ID, index, tasks)

    def test_a_new_task_begins_at_zero(self, client):
        assert self.store(client).claim() == TaskProgress(index=0, tasks=2, incarnation=1)

    def test_a_restarted_task_goes_on_from_what_was_written(self, client):
        first = self.store(client)
        written = replace(first.claim(), committed=70, emitted=90, acked=85, failed=3, replayed=4)
        first.save(written)
        assert self.store(client).claim() == replace(written, incarnation=2)

    def test_progress_is_written_again_and_again(self, client):
        store = self.store(client)
        claimed = store.claim()
        for committed in (1, 2, 3):
            store.save(replace(claimed, committed=committed))
        assert read_progress(client, TOPOLOGY_ID, ROOT) == [replace(claimed, committed=3)]

    def test_an_older_process_cannot_write_any_more(self, client):
        old, new = self.store(client), self.store(client)
        before = old.claim()
        claimed = new.claim()
        with pytest.raises(DeposedError, match="is run by process 2"):
            old.save(replace(before, committed=50))
        new.save(replace(claimed, committed=5))
        assert read_progress(client, TOPOLOGY_ID, ROOT) == [replace(claimed, committed=5)]

    def test_a_write_whose_answer_was_lost_does_not_depose_its_writer(self, client):
        store = self.store(client)
        claimed = store.claim()
        client.set(task_path(ROOT, TOPOLOGY_ID, 0), replace(claimed, committed=1).to_json())
        store.save(replace(claimed, committed=2))
        assert read_progress(client, TOPOLOGY_ID, ROOT) == [replace(claimed, committed=2)]

    def test_a_cleared_znode_is_written_anew(self, client):
        store = self.store(client)
        claimed = store.claim()
        client.delete(task_path(ROOT, TOPOLOGY_ID, 0))
        for committed in (8, 9):
            store.save(replace(claimed, committed=committed))
        assert read_progress(client, TOPOLOGY_ID, ROOT) == [replace(claimed, committed=9)]

    def test_the_reader_lists_all_tasks_in_order(self, client):
        for index in (2, 10, 0):
            self.store(client, index, tasks=11).claim()
        assert [part.index for part in read_progress(client, TOPOLOGY_ID, ROOT)] == [0, 2, 10]

    def test_a_topology_without_progress_has_none(self, client):
        assert read_progress(client, TOPOLOGY_ID, ROOT) == []

    def test_the_stream_is_done_when_all_its_tasks_are(self, client):
        first, second = self.store(client, 0), self.store(client, 1)
        first.save(replace(first.claim(), committed=5, emitted=5, acked=6, replayed=1, done=True))
        assert not Progress.total(read_progress(client, TOPOLOGY_ID, ROOT)).done
        claimed = second.claim()
        assert not Progress.total(read_progress(client, TOPOLOGY_ID, ROOT)).done
        second.save(replace(claimed, committed=4, emitted=4, acked=4, done=True))
        total = Progress.total(read_progress(client, TOPOLOGY_ID, ROOT))
        assert total == Progress(tasks=2, committed=9, emitted=9, acked=10, failed=0, replayed=1, done=True)
