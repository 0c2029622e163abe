"""Scene elements of a library: what a search would be sure of, found anew when clips come, made whole by a repair."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evenreel.errors import LibraryError, UsageError
from evenreel.language.scene_dictionary import SceneDictionary, given
from evenreel.library import open_library, tag_library, untag_library
from evenreel.library.elements import (
    FEW,
    MOST,
    DamagedElementsError,
    least_above,
    read_elements,
)
from evenreel.library.facets import FacetValue
from evenreel.library.index import tagging as tagging_module
from evenreel.library.search.hits import Element
from evenreel.library.store import seals
from evenreel.library.store.catalog import get_meta, set_meta
from evenreel.library.store.confidence import FITS, update_null_scores
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.writer import Store
from tests.library.damage import change
from tests.library.fakes import SUBJECTS, Library, WordsEncoder, on_disk
from tests.library.test_facets import ALWAYS

ACTIVITIES = ("drive bus", "run on beach", "sleep")
DICTIONARY = given((*SUBJECTS, "bus", "unicorn"), ACTIVITIES)


def make(folder: Path, subjects: dict[str, list[str]]) -> Library:
    """A library on disk: clip id -> what each of its frames shows."""
    made = on_disk(folder)
    for clip_id, seen in subjects.items():
        made.add_clip(clip_id, seen)
        made.add_file(f"/v/{clip_id}.mp4", clip_id, {"element": "gold"})
    settle(made)
    return made


def settle(made: Library) -> None:
    """What an index run derives."""
    rebuild_full_text(made.connection)
    set_meta(made.connection, {"vectors_end": str(made.vectors.rows)})
    update_null_scores(made.connection, made.vectors, made.encoder)


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six clips, each of one subject for some frames and of nothing for others; not to be changed."""
    place = tmp_path_factory.mktemp("six")
    clips = {f"c{number}": [subject, f"filler{number}"] for number, subject in enumerate(SUBJECTS)}
    make(place, clips).connection.close()
    return place


@pytest.fixture(scope="module")
def tagged(six: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with its elements; not to be changed."""
    place = shutil.copytree(six, tmp_path_factory.mktemp("tagged") / "library")
    tag(place)
    return place


@pytest.fixture
def folder(six: Path, tmp_path: Path) -> Path:
    """A copy of the six."""
    return shutil.copytree(six, tmp_path / "library")


@pytest.fixture
def own(tagged: Path, tmp_path: Path) -> Path:
    """A copy of the six with their elements."""
    return shutil.copytree(tagged, tmp_path / "library")


def tag(folder: Path, dictionary: SceneDictionary = DICTIONARY) -> tagging_module.TagReport:
    return tag_library(folder, dictionary, encoder=WordsEncoder())


def phrases(folder: Path) -> dict[str, list[str]]:
    """Clip id -> its elements in their order."""
    with open_library(folder, encoder=WordsEncoder()) as library:
        found = {f"c{number}": library.clip(f"c{number}").elements for number in range(6)}
    return {clip_id: [element.phrase for element in elements] for clip_id, elements in found.items()}


def test_a_clip_has_the_phrases_that_a_search_would_find_it_by(folder: Path) -> None:
    """Of eleven phrases one, 'sleep', is a little nearer to a filler than nonsense: enough for one search alone."""
    report = tag(folder)
    found = phrases(folder)
    with open_library(folder, encoder=WordsEncoder()) as library:
        for phrase in (*DICTIONARY.entities, *DICTIONARY.activities):
            sure = {hit.clip_id for hit in library.search(phrase, k=6).hits if (hit.above_nonsense or 0) >= FITS}
            named = {clip_id for clip_id, elements in found.items() if phrase in elements}
            assert named == (set() if phrase == "sleep" else sure), phrase
    assert found["c0"] == ["red bus", "bus", "drive bus"]
    assert found["c2"] == ["snow mountain"]
    assert (report.clips, report.tagged, report.elements) == (6, 6, sum(map(len, found.values())))
    assert (report.entities, report.activities) == (8, 3)
    assert report.often[0] == ("blue boat", 1)


def test_hits_tell_their_elements(tagged: Path) -> None:
    with open_library(tagged, encoder=WordsEncoder()) as library:
        first = library.search("red bus").hits[0]
        assert library.stats().with_elements == 6
    assert [(element.phrase, element.kind) for element in first.elements] == [
        ("red bus", "entity"),
        ("bus", "entity"),
        ("drive bus", "activity"),
    ]
    assert first.elements[0].score > first.elements[1].score > 0


def test_the_surest_come_first_and_there_are_not_too_many(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(12)]
    make(tmp_path, {"c0": [*words, "rest"], "c1": ["else"]}).connection.close()
    tag(tmp_path, given(words, [f"{word} slowly" for word in words]))
    with open_library(tmp_path, encoder=WordsEncoder()) as library:
        elements = library.clip("c0").elements
        assert library.clip("c1").elements == ()
    for kind, most in MOST.items():
        scores = [element.score for element in elements if element.kind == kind]
        assert len(scores) == most
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(("clips", "told"), [(FEW - 1, True), (FEW, False)])
def test_what_most_clips_show_tells_none_from_another(tmp_path: Path, clips: int, told: bool) -> None:
    everywhere = clips // 2 + 1
    seen = {f"c{number}": [f"only{number}", "sky" if number < everywhere else "dusk"] for number in range(clips)}
    make(tmp_path, seen).connection.close()
    tag(tmp_path, given(["sky", "dusk", "only1"], []))
    with open_library(tmp_path, encoder=WordsEncoder()) as library:
        shown = [element.phrase for element in library.clip("c1").elements]
        assert [element.phrase for element in library.clip(f"c{clips - 1}").elements] == ["dusk"]
    assert sorted(shown) == (["only1", "sky"] if told else ["only1"])


def test_a_library_without_a_dictionary_has_none(six: Path) -> None:
    with open_library(six, encoder=WordsEncoder()) as library:
        assert library.search("red bus").hits[0].elements == ()
        assert library.stats().with_elements is None
        assert [facet.column for facet in library.facets()] == [*ALWAYS, "element"]
        assert len(library.search("bus", where="element = 'gold'").hits) == 6  # of the metadata
        with pytest.raises(UsageError, match="no column 'elements'"):
            library.search("bus", where="elements = 'bus'")


def test_filters_and_facets(tagged: Path) -> None:
    with open_library(tagged, encoder=WordsEncoder()) as library:

        def passing(where: str) -> list[str]:
            return sorted(hit.clip_id for hit in library.search("x", k=6, where=where).hits)

        every = [f"c{number}" for number in range(6)]
        assert passing("element = 'bus'") == passing("'bus' = ELEMENT") == ["c0"]
        assert passing("element != 'bus'") == passing("not element = 'bus'") == every[1:]
        assert passing("element in ('bus', 'dog beach')") == ["c0", "c1"]
        assert passing("element not in ('bus', 'dog beach')") == every[2:]
        assert passing("element like '%B%A%'") == ["c1", "c5"]
        assert passing("element is null") == []
        assert passing("element is not null and element = 'bus' or duration_s < 0") == ["c0"]
        assert passing("metadata.element = 'gold'") == every
        assert passing("element = 'it''s; --'") == []
        for no_order in ("element < 'bus'", "element between 'a' and 'b'", "'a' >= element"):
            with pytest.raises(UsageError, match="have no order; compare element with"):
                passing(no_order)
        with pytest.raises(UsageError, match="element \\(text\\) and 3 \\(number\\)"):
            passing("element = 3")
        (facet,) = [facet for facet in library.facets() if facet.column == "element"]
        assert {value.value for value in facet.values} >= {"red bus", "bus", "drive bus"}
        assert FacetValue("bus", 1) in facet.values
        assert "metadata.element" in {facet.column for facet in library.facets()}
        assert library.favours(["c0"], "element = 'bus'").all == 1


def test_a_library_without_elements_says_how_to_find_them(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    made.add_clip("c0", ["red bus"])
    made.add_file("/v/0.mp4", "c0")
    settle(made)
    made.connection.close()
    with (
        open_library(tmp_path, encoder=WordsEncoder()) as library,
        pytest.raises(UsageError, match="no scene elements to filter by; .* evenreel elements --library"),
    ):
        library.search("bus", where="element = 'bus'")


def test_clips_that_come_later_have_theirs_found_without_a_model(own: Path) -> None:
    made = on_disk(own)
    made.add_clip("c6", ["red bus"])
    made.add_file("/v/6.mp4", "c6")
    store = Store(own, made.connection, {})
    assert store.elements_hold()  # nothing can be told before nonsense is measured on the new clip
    settle(made)
    assert not store.elements_hold()
    store.update_elements()
    assert store.elements_hold()
    made.connection.close()
    with open_library(own, encoder=WordsEncoder()) as library:
        assert [element.phrase for element in library.clip("c6").elements] == ["red bus", "bus", "drive bus"]


def test_another_dictionary_takes_the_place_and_can_be_taken_away(own: Path) -> None:
    before = list(own.glob("elements.*"))
    tag(own, given(["bus"], []))
    assert len(before) == 1
    assert list(own.glob("elements.*")) != before
    assert phrases(own)["c0"] == ["bus"]
    untag_library(own)
    assert not list(own.glob("elements.*"))
    assert set(map(tuple, phrases(own).values())) == {()}


def test_what_fails_halfway_leaves_the_elements_as_they_were(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = phrases(own)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tagging_module, "update_elements", killed)
    with pytest.raises(KeyboardInterrupt):
        tag(own, given(["bus"], []))
    assert phrases(own) == before
    assert len(list(own.glob("elements.*"))) == 2  # the next success, or a repair, tidies up


def test_what_cannot_be_done_is_said(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(LibraryError, match="other weights"):
        tag_library(folder, DICTIONARY, encoder=WordsEncoder("other"))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(LibraryError, match="There is no library"):
        tag_library(elsewhere, DICTIONARY)
    assert not list(elsewhere.iterdir())
    blind = on_disk(elsewhere)
    blind.connection.execute("DELETE FROM meta WHERE key = 'dimension'")
    blind.connection.close()
    with pytest.raises(UsageError, match="has no vision"):
        tag_library(elsewhere, DICTIONARY)


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 0x40
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "what"), [(spoil, "is damaged"), (Path.unlink, "is missing"), (lambda p: p.write_bytes(b""), "damaged")]
)
def test_a_damaged_file_is_never_read(own: Path, damage: Callable[[Path], None], what: str) -> None:
    (path,) = own.glob("elements.*")
    embedded = read_elements(path, "words-1")
    assert embedded.dictionary.digest == DICTIONARY.digest
    assert embedded.entities.shape == (8, 64)
    with pytest.raises(DamagedElementsError, match="not with the library's model"):
        read_elements(path, "another")
    damage(path)
    with pytest.raises(DamagedElementsError, match=what):
        read_elements(path, "words-1")


def test_a_phrase_of_both_kinds_is_an_entity(folder: Path) -> None:
    tag(folder, given(["bus"], ["drive bus", "bus"]))
    assert phrases(folder)["c0"] == ["bus", "drive bus"]


def test_a_dictionary_of_one_kind_and_equal_frames(tmp_path: Path) -> None:
    make(tmp_path, {"c0": ["red bus"], "c1": ["red bus"] * 600, "c2": ["snow"]}).connection.close()
    tag(tmp_path, given([], ["drive bus"]))
    with open_library(tmp_path, encoder=WordsEncoder()) as library:
        short, long = library.clip("c0").elements, library.clip("c1").elements
    assert short == long == (Element("drive bus", "activity", short[0].score),)


def test_equally_sure_phrases_are_in_the_order_of_the_dictionary(folder: Path) -> None:
    for equal in (["bus red", "red bus"], ["red bus", "bus red"]):
        tag(folder, given(equal, []))
        assert phrases(folder)["c0"] == equal


def test_scores_are_those_of_a_slow_loop(own: Path) -> None:
    made = on_disk(own)
    null = {row[0]: row[1:] for row in made.connection.execute("SELECT * FROM null_scores")}
    rows = made.connection.execute("SELECT clip_id, first_row, count FROM vector_rows").fetchall()
    stored = {
        (clip_id, phrase): score
        for clip_id, phrase, score in made.connection.execute("SELECT clip_id, phrase, score FROM clip_elements")
    }
    best = sorted(json.loads(get_meta(made.connection)["null_best"]))
    expected = {}
    for clip_id, first, count in rows:
        frames = made.vectors.read(first, count).astype(np.float64)
        for phrase in (*DICTIONARY.entities, *DICTIONARY.activities):
            vector = made.encoder.encode_text([phrase]).sentence[0].astype(np.float64)
            z = (max(float(frame @ vector) for frame in frames) - null[clip_id][0]) / null[clip_id][1]
            if sum(value < z for value in best) >= FITS * len(best) and z >= least_above(11):
                expected[clip_id, phrase] = z
    assert stored.keys() == expected.keys()
    assert stored == pytest.approx(expected, abs=0.01)


def test_rows_that_were_changed_are_noticed(own: Path) -> None:
    made = on_disk(own)
    assert not seals.broken(made.connection, ("clip_elements",))
    made.connection.execute("DELETE FROM files WHERE clip_id = 'c5'")
    made.connection.execute("DELETE FROM clips WHERE clip_id = 'c5'")  # a clip that goes takes its elements along
    assert not seals.broken(made.connection)
    change(own, "UPDATE clip_elements SET phrase = 'bu5' WHERE phrase = 'bus'")
    assert seals.broken(made.connection) == [("clip_elements", "c0")]
