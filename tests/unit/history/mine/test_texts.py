"""Texts of queries are kept with the names of their inputs left open."""

from __future__ import annotations

from pathlib import Path

from stormpilot.history.mine import texts
from stormpilot.history.mine.texts import Text, Texts, key_of, opened_up

NONE = Path("/dev/null")  # nothing is shipped


def make() -> None:
    """A finding."""


def test_text_is_the_same_for_inputs_of_other_names() -> None:
    views = [("cut_1", 'SELECT x FROM "kept_3"'), ("cut_2", "SELECT * FROM cut_1 JOIN kept_31")]
    text = opened_up("SELECT * FROM cut_2, kept_3", views, ["kept_3", "kept_31"])
    query, bodies = text.filled(["a", "b"], ["v", "w"])
    assert query == "SELECT * FROM w, a"
    assert bodies == ['SELECT x FROM "a"', "SELECT * FROM v JOIN b"]
    assert text.filled(["kept_3", "kept_31"], ["cut_1", "cut_2"])[1] == [body for _, body in views]


def test_text_without_inputs_stays_as_it_is() -> None:
    assert opened_up("SELECT {'a': 1}", [], []).filled([], []) == ("SELECT {'a': 1}", [])


def test_what_was_saved_is_found_by_the_next_process(tmp_path: Path) -> None:
    first = Texts(tmp_path / "queries", NONE)
    assert first.find("k") is None
    first.add("k", Text("SELECT 1", ["SELECT 2"]))
    assert first.find("k") == Text("SELECT 1", ["SELECT 2"])
    first.save()
    second = Texts(tmp_path / "queries", NONE)
    assert second.find("k") == Text("SELECT 1", ["SELECT 2"])
    second.add("l", Text("SELECT 3"))
    second.save()
    assert Texts(tmp_path / "queries", NONE).find("k") and Texts(tmp_path / "queries", NONE).find("l")


def test_half_a_file_and_one_of_other_code_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / f"{texts._code()}.json").write_text('{"k": [')
    found = Texts(tmp_path, NONE)
    assert found.find("k") is None
    found.add("k", Text("SELECT 1"))
    found.save()
    assert [f.name for f in tmp_path.iterdir()] == [f"{texts._code()}.json"]


def test_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = Texts(tmp_path / "file" / "queries", NONE)
    found.add("k", Text("SELECT 1"))
    found.save()
    assert found.find("k") == Text("SELECT 1")


def test_shipped_texts_are_of_these_definitions_or_nothing(tmp_path: Path) -> None:
    file, built = tmp_path / "queries.json", Texts()
    assert texts.shipped(file) == {}
    built.add("k", Text("SELECT 1"))
    texts.write(file, built)
    assert Texts(shipped=file).find("k") == Text("SELECT 1")
    for other in (file.read_text().replace(texts._definitions(), "older"), '{"code": '):
        file.write_text(other)
        assert Texts(tmp_path / "queries", file).find("k") is None


def test_same_finding_with_and_without_an_input_are_two() -> None:
    keys = {key_of(make, inputs) for inputs in ([1, 2], [1, None])}
    assert len(keys) == 2 and None not in keys
    assert key_of(lambda: None, []) is None
