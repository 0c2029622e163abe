"""The two files of a person's own records: nothing is lost by damage, a kill or two writers; hazards 190 and 191."""

from __future__ import annotations

import multiprocessing
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenreel.errors import LibraryError, UsageError
from evenreel.library.personal import file
from evenreel.library.personal.file import COPY, FILE, LOCK, changing, mend_personal, personal_problems, read_personal
from evenreel.library.personal.records import LONGEST_NOTE, PersonalMark, PersonalRecords, SavedSearch, moment_of
from evenreel.library.store.sealed_lines import sealed_line

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MARKS = st.builds(
    PersonalMark,
    clip_id=st.sampled_from(["a" * 32, "b" * 32, "c" * 32]),
    time_s=st.none() | st.floats(0, 1e5).map(moment_of),
    favourite=st.booleans(),
    note=TEXTS,
    path=st.sampled_from(["/v/a.mp4", "/v/\udcff.mp4", "/v/a\nb.mp4"]),
    made=st.just("2026-11-28T00:00:00+00:00"),
)
SEARCHES = st.builds(SavedSearch, name=TEXTS.filter(str.strip), query=TEXTS.filter(str.strip), seen=st.just(("a",)))


def put(folder: Path, *given: PersonalMark | SavedSearch) -> None:
    with changing(folder) as records:
        for one in given:
            if isinstance(one, PersonalMark):
                records.marks[one.key] = one
            else:
                records.searches[one.name] = one


def plain(records: PersonalRecords) -> tuple[list[PersonalMark], list[SavedSearch]]:
    return list(records.marks.values()), list(records.searches.values())


@given(marks=st.lists(MARKS, max_size=6), searches=st.lists(SEARCHES, max_size=3), data=st.data())
@settings(max_examples=20)
def test_damage_anywhere_in_one_of_the_files_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    marks: list[PersonalMark],
    searches: list[SavedSearch],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("own")
    wanted = {mark.key: mark for mark in marks}, {one.name: one for one in searches}
    put(folder, *marks, *searches)
    if not marks and not searches:
        assert not (folder / FILE).exists()
        return
    hurt = folder / data.draw(st.sampled_from([FILE, COPY]))
    written = bytearray(hurt.read_bytes())
    at = data.draw(st.integers(0, len(written) - 1))
    written[at] ^= 1 << data.draw(st.integers(0, 7))
    hurt.write_bytes(written)
    found = read_personal(folder)
    assert (found.marks, found.searches) == wanted
    assert [name for name, _ in personal_problems(folder)] == [hurt.name]
    assert mend_personal(folder)
    assert (folder / FILE).read_bytes() == (folder / COPY).read_bytes()
    assert (read_personal(folder).marks, read_personal(folder).searches) == wanted
    assert personal_problems(folder) == mend_personal(folder) == []
    assert len(list(folder.glob("*.broken-1"))) == 1


@pytest.mark.parametrize("gone", [FILE, COPY])
def test_one_of_the_files_may_be_gone(tmp_path: Path, gone: str) -> None:
    put(tmp_path, PersonalMark("a" * 32, note="x"))
    (tmp_path / gone).unlink()
    assert [name for name, _ in personal_problems(tmp_path)] == [gone]
    put(tmp_path, PersonalMark("b" * 32, note="y"))
    assert [mark.note for mark in read_personal(tmp_path).marks.values()] == ["x", "y"]
    assert personal_problems(tmp_path) == []


def test_lines_lost_in_both_files_cost_themselves_alone(tmp_path: Path) -> None:
    put(tmp_path, *(PersonalMark(letter * 32, note=letter) for letter in "abc"))
    for name, line in ((FILE, 1), (COPY, 2)):
        lines = (tmp_path / name).read_bytes().splitlines(keepends=True)
        (tmp_path / name).write_bytes(b"".join([*lines[:line], b"spoilt\n", *lines[line + 1 :]]))
    assert sorted(mark.note for mark in read_personal(tmp_path).marks.values()) == ["a", "b", "c"]
    for name in (FILE, COPY):
        lines = (tmp_path / name).read_bytes().splitlines(keepends=True)
        (tmp_path / name).write_bytes(b"".join([*lines[:3], b"spoilt\n"]))
    assert sorted(mark.note for mark in read_personal(tmp_path).marks.values()) == ["a", "b"]
    (sentence,) = mend_personal(tmp_path)
    assert "gone" in sentence


def test_a_kill_between_the_two_files_leaves_what_was_written_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, PersonalMark("a" * 32, note="before"))

    def killed(path: Path, payload: bytes) -> None:
        if path.name == COPY:
            raise SystemExit("killed")
        path.write_bytes(payload)

    monkeypatch.setattr(file, "write_durably", killed)
    with pytest.raises(SystemExit):
        put(tmp_path, PersonalMark("b" * 32, note="after"))
    monkeypatch.undo()
    assert [mark.note for mark in read_personal(tmp_path).marks.values()] == ["before", "after"]
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes().replace(b"before", b"befora"))
    assert sorted(mark.note for mark in read_personal(tmp_path).marks.values()) == ["after", "before"]


def test_an_error_in_the_middle_writes_nothing(tmp_path: Path) -> None:
    put(tmp_path, PersonalMark("a" * 32, note="before"))
    with pytest.raises(UsageError), changing(tmp_path) as records:
        records.marks.clear()
        raise UsageError("no")
    assert len(read_personal(tmp_path).marks) == 1


def test_no_more_than_can_be_written_with_each_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenreel.library.personal.records.MOST_MARKS", 2)
    put(tmp_path, PersonalMark("a" * 32, note="x"), PersonalMark("b" * 32, note="y"))
    with pytest.raises(UsageError, match="remove some first"):
        put(tmp_path, PersonalMark("c" * 32, note="z"))
    assert len(read_personal(tmp_path).marks) == 2


def test_hazard_245_notes_have_room_in_all_and_can_always_be_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, *(PersonalMark(f"{n:032}", note="é" * 50) for n in range(10)))  # 1,000 bytes
    monkeypatch.setattr("evenreel.library.personal.records.MOST_NOTE_BYTES", 800)
    with pytest.raises(UsageError, match=r"keeps at most .* MiB of notes in all; shorten or delete some first"):
        put(tmp_path, PersonalMark("c" * 32, note="z"))
    put(tmp_path, PersonalMark("c" * 32, favourite=True))
    with changing(tmp_path) as records:
        records.marks.pop(("0" * 32, None))
    assert read_personal(tmp_path).note_bytes == 900


@pytest.mark.parametrize("name", [FILE, COPY, LOCK])
def test_hazard_245_a_folder_in_the_place_of_a_file_is_called_one(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(LibraryError, match=rf"{name} is a folder.*move it away"):
        put(tmp_path, PersonalMark("a" * 32, note="x"))


def _write_ten(folder: Path, letter: str) -> None:
    for number in range(10):
        put(folder, PersonalMark(letter * 32, float(number), note=letter))


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_ten, args=(tmp_path, letter)) for letter in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(read_personal(tmp_path).marks) == 30
    assert personal_problems(tmp_path) == []


def test_files_of_a_later_version_are_not_touched(tmp_path: Path) -> None:
    line = sealed_line({"format": 9, "revision": 1, "rows": 0})
    (tmp_path / FILE).write_text(line)
    with pytest.raises(LibraryError, match="update evenreel"):
        put(tmp_path, PersonalMark("a" * 32, note="x"))
    assert (tmp_path / FILE).read_text() == line


def test_rows_of_a_kind_that_we_do_not_know_are_passed_over(tmp_path: Path) -> None:
    rows = [{"table": "marks", "row": {"colour": "red"}}, {"table": "smells", "row": {}}]
    rows.append({"table": "marks", "row": asdict(PersonalMark("a" * 32, note="x"))})
    text = "".join(map(sealed_line, [{"format": 1, "revision": 1, "rows": 3}, *rows]))
    (tmp_path / FILE).write_text(text)
    assert [mark.note for mark in read_personal(tmp_path).marks.values()] == ["x"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PersonalMark("a", float("nan")), "no time in a clip"),
        (lambda: PersonalMark("a", -1.0), "no time in a clip"),
        (lambda: PersonalMark("a", note="x" * (LONGEST_NOTE + 1)), "at most 10,000"),
        (lambda: PersonalMark("a", note="\udcff"), "not text"),
        (lambda: SavedSearch(" ", "bus"), "name of a saved search is empty"),
        (lambda: SavedSearch("bus", ""), "query is empty"),
        (lambda: moment_of(float("inf")), "no time in a clip"),
    ],
)
def test_what_can_be_no_mark_or_search_is_refused_in_a_sentence(make: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()  # type: ignore[operator]
