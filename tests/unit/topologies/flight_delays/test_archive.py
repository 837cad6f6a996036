"""The file of flights, shared among tasks by offsets."""

import sys
import zipfile
from itertools import islice

import pytest

from flight_delays import archive
from flight_delays.archive import data_dir, rows, share

LINES = ["a", "b", "c", "d", "e", "f", "g"]


@pytest.fixture
def folder(tmp_path):
    """A data folder with seven flights."""
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as file:
        file.writestr("flights.csv", "\r\n".join(["header", *LINES]) + "\r\n")
    return tmp_path


def test_the_real_archive_has_every_flight_of_2013():
    assert sum(1 for _ in rows(data_dir())) == 336_776


def test_the_data_is_found_without_importing_its_package():
    data_dir()
    assert archive.PACKAGE not in sys.modules


def test_a_folder_without_the_archive_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"flights\.data\.dir: no flights\.csv\.zip in"):
        data_dir(str(tmp_path))


def test_a_host_without_the_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr(archive, "PACKAGE", "no_such_package_here")
    with pytest.raises(FileNotFoundError, match="install the Python package no_such_package_here"):
        data_dir()


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_the_shares_of_all_tasks_are_the_whole_file_once(folder, tasks):
    shares = [list(share(folder, index, tasks)) for index in range(tasks)]
    flights = sorted((flight, line) for part in shares for _, flight, line in part)
    assert flights == list(enumerate(LINES))
    for part in shares:
        assert [offset for offset, _, _ in part] == list(range(len(part)))


def test_a_loop_goes_on_counting_flights_where_the_file_ends(folder):
    first = list(islice(share(folder, 1, 3, loop=True), 6))
    assert first == [(0, 1, "b"), (1, 4, "e"), (2, 7, "a"), (3, 10, "d"), (4, 13, "g"), (5, 16, "c")]


@pytest.mark.parametrize("first_offset", [0, 1, 2, 3, 7, 40])
@pytest.mark.parametrize("limit", [0, 20, 200])
def test_an_offset_means_the_same_flight_after_a_restart(folder, first_offset, limit):
    whole = list(islice(share(folder, 1, 3, loop=True, limit=limit), 60))
    resumed = list(islice(share(folder, 1, 3, first_offset, loop=True, limit=limit), max(60 - first_offset, 0)))
    assert resumed == whole[first_offset:]


def test_an_offset_means_the_same_flight_after_a_restart_without_loop(folder):
    assert list(share(folder, 0, 2, 2)) == [(2, 4, "e"), (3, 6, "g")]
    assert list(share(folder, 0, 2, 99)) == []


@pytest.mark.parametrize(("loop", "limit", "expected"), [(False, 5, 5), (False, 50, 7), (True, 50, 50)])
def test_the_limit_is_over_all_tasks(folder, loop, limit, expected):
    assert sum(len(list(share(folder, index, 3, loop=loop, limit=limit))) for index in range(3)) == expected
