from __future__ import annotations

import tempfile
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from evenreel.language.folding import fold, words
from evenreel.library.search.query import Query, UnfinishedText, content_words
from evenreel.library.search.result import SearchResult
from evenreel.library.search.searcher import Searcher
from evenreel.library.search.words import marks
from evenreel.library.store.fulltext import rebuild_full_text
from evenreel.library.store.vectors import FITS
from tests.library.fakes import Library, spelt, word_hits

SIGNS = {
    "hyundai": "HYUNDAI", "misread": "HYUNDRI", "cup": "WINTER CUP 2024", "joined": "WINTERCUP",
    "pool": "SWIMMING POOL", "harbour": "HARBOUR", "pharmacy": "PHARMACY", "cat": "CAT", "car": "CAR",
    "police": "POLICE", "policy": "POLICY",
    "wifi": "FREE WI-FI", "japan": "JAPANNETHERLANDS", "left": "LEFT", "men": "MEN", "even": "EVEN", "carpet": "CARPET",
    "new": "NEW", "tea": "TEA ROOMS", "wed": "WED 12", "exit": "EXIT", "universe": "UNIVERSE",
}  # fmt: skip
"""What is written on the screen of each clip."""

NAMES = {
    "beach": ("holidaybeach_01.mp4", ""), "party": ("birthday-party.mp4", ""), "dog": ("a.mp4", "two dogs in snow"),
    "train": ("b.mp4", "a train in the rainforest"), "black": ("c.mp4", "a black bag"), "block": ("d.mp4", "a block"),
    "swim": ("e.mp4", "she swims across the swimming pools"), "bmw": ("bmw_x5.mp4", ""),
    "news": ("f.mp4", "evening news"),
    "goal": ("wintercup_final.mp4", "the goal of the match"), "city": ("g.mp4", "cities at night"),
    "colour": ("h.mp4", "a colour film"), "mouse": ("i.mp4", "a mouse eats"), "leaf": ("j.mp4", "a leaf falls"),
}  # fmt: skip
"""Name and caption of the file of each clip."""


def search(
    folder: Path,
    query: str,
    signs: Mapping[str, str] = SIGNS,
    names: Mapping[str, tuple[str, str]] = NAMES,
    *,
    typing: bool = False,
) -> SearchResult:
    """A search by words in a library of signs and of names with captions; the clips are named by their keys."""
    library = Library(folder)
    for clip_id, sign in signs.items():
        library.add_clip(f"sign {clip_id}")
        library.add_track(f"sign {clip_id}", sign)
        library.add_file(f"/{clip_id}/x.mp4", f"sign {clip_id}")
    for clip_id, (name, caption) in names.items():
        library.add_clip(f"name {clip_id}")
        library.add_file(f"/{clip_id}/{name}", f"name {clip_id}", {"caption": caption})
    rebuild_full_text(library.connection)
    return Searcher(library.connection, lambda _: None, lambda: None).search(
        Query(UnfinishedText(query) if typing else query, k=100)
    )


HOSTILE = [
    # swapped, wrong, missing and superfluous letters
    ("hyundia", [], ["sign hyundai"], "letters that have changed places"),
    ("hyundai", ["sign hyundai"], ["sign misread"], "exact before misread"),
    ("pharmasy", [], ["sign pharmacy"], "a wrong letter"),
    ("pharamcy", [], ["sign pharmacy"], "swapped in the middle"),
    ("harobur", [], ["sign harbour"], "swapped in the middle"),
    ("birhtday party", [], ["name party"], "one word of two is misspelt"),
    ("blakc", [], ["name black"], "not the block, which is two letters off"),
    # split and joined
    ("wintercup", ["sign cup", "sign joined", "name goal"], [], "one word for two"),
    ("winter cup", ["sign cup", "sign joined", "name goal"], [], "two words for one"),
    ("wi fi", ["sign wifi"], [], "a hyphen is a space"),
    ("wifi", ["sign wifi"], [], "and none is"),
    ("holiday beach", ["name beach"], [], "a name without spaces"),
    ("birthdayparty", ["name party"], [], "a name with a hyphen"),
    ("tearooms", ["sign tea"], [], "a compound that is written apart"),
    ("japan netherlands", ["sign japan"], [], "a line that lost its space"),
    # the same word in another form
    ("swimming pools", ["sign pool", "name swim"], [], "plural"),
    ("swimming pool", ["sign pool", "name swim"], [], "singular"),
    ("harbours", ["sign harbour"], [], "plural"),
    ("harbors", [], ["sign harbour"], "plural and another spelling"),
    ("color", [], ["name colour"], "another spelling"),
    ("dog", ["name dog"], [], "singular of a caption's plural"),
    ("city", ["name city"], [], "a plural that changes a letter"),
    ("mice", ["name mouse"], [], "a plural that keeps none"),
    ("man", ["sign men"], [], "the same"),
    ("leaves", ["name leaf"], [], "not the sign LEFT, though that is a form of leave"),
    ("exits", ["sign exit"], [], "a short word has forms too"),
    # what must not be found, or not above what is exact
    ("cat", ["sign cat"], [], "short words are not guessed: neither CAR nor CARPET"),
    ("cats", ["sign cat"], [], "nor are their forms"),
    ("car", ["sign car"], [], "not CAT, not CARPET"),
    ("black", ["name black"], [], "where the word is written in names, others are not guessed"),
    ("rain", [], [], "a train is none, and in a rainforest it is part of a longer word of a caption"),
    ("new", ["sign new"], [], "not the news"),
    ("news", ["name news"], [], "not NEW"),
    ("wedding", [], ["sign wed"], "a noun of doing is hardly the form of a verb"),
    ("evening", ["name news"], ["sign even"], "the same"),
    ("university", [], [], "no form of universe"),
    ("police", ["sign police"], ["sign policy"], "on signs a letter may be misread, in the second place"),
    ("bmw x6", [], [], "numbers are not guessed: the rarer half of it is not there"),
    ("quarterly", [], [], "nothing at all"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "whole", "half", "why"), HOSTILE, ids=[query for query, *_ in HOSTILE])
def test_words_are_found_as_people_type_them(
    tmp_path: Path, query: str, whole: list[str], half: list[str], why: str
) -> None:
    result = search(tmp_path, query)
    ids = [hit.clip_id for hit in result.hits]
    assert sorted(hit.clip_id for hit in result.hits if hit.written >= FITS) == sorted(whole), why
    assert sorted(hit.clip_id for hit in result.hits if not hit.weaker) == sorted(whole + half), why
    assert ids[: len(whole)] == sorted(whole, key=ids.index), "what is written as a whole stands first"


TYPED = [
    ("pha", ["sign pharmacy"]),
    ("pharm", ["sign pharmacy"]),
    ("winter cu", ["name goal", "sign cup", "sign joined"]),
    ("birthday par", ["name party"]),
    ("hol", ["name beach"]),
    ("po", ["name swim", "sign police", "sign policy", "sign pool"]),
    ("p", []),
]
"""What is typed so far, and what the last word may become."""


@pytest.mark.parametrize(("typed", "found"), TYPED)
def test_the_last_word_may_be_the_beginning_of_one_while_it_is_typed(
    tmp_path: Path, typed: str, found: list[str]
) -> None:
    result = search(tmp_path, typed, typing=True)
    assert sorted(hit.clip_id for hit in result.hits if not hit.weaker) == found


def test_only_while_it_is_typed_and_only_the_last_one(tmp_path: Path) -> None:
    assert search(tmp_path / "a", "pha").hits == ()
    assert search(tmp_path / "b", "pha ", typing=True).hits == (), "a space ends a word"
    found = {hit.clip_id: hit.weaker for hit in search(tmp_path / "c", "win final", typing=True).hits}
    assert found == {"name goal": True}, "only 'final' is there"
    exact = search(tmp_path / "d", "car", typing=True)
    assert [(hit.clip_id, hit.weaker) for hit in exact.hits] == [("sign car", False), ("sign carpet", False)]


def test_a_query_of_the_library_s_own_words_finds_them_first(tmp_path: Path) -> None:
    for clip_id, sign in SIGNS.items():
        first = search(tmp_path / clip_id, sign).hits[0]
        assert first.written == 1.0


@pytest.mark.parametrize(
    ("query", "clip_id", "marked"),
    [
        ("hyundia", "sign hyundai", ["HYUNDAI"]),
        ("wintercup", "sign cup", ["WINTER CUP"]),
        ("winter cup", "sign joined", ["WINTERCUP"]),
        ("swimming pools", "sign pool", ["SWIMMING", "POOL"]),
        ("japan", "sign japan", ["JAPAN"]),
        ("harbors", "sign harbour", ["HARBOUR"]),
        ("exits", "sign exit", ["EXIT"]),
    ],
)
def test_what_was_found_is_marked(tmp_path: Path, query: str, clip_id: str, marked: list[str]) -> None:
    (hit,) = (hit for hit in search(tmp_path, query).hits if hit.clip_id == clip_id)
    (sign,) = hit.on_screen
    assert [sign.text[start:end] for start, end in marks(sign.text, sign.matched, sign.found)] == marked


SERIES = [
    *(f"basketball game {letter}" for letter in ("alpha", "beta", "gamma", "delta", "omega", "sigma")),
    *(f"gate {number}" for number in (1, 2, 3, 4)), *(f"lecture part {number}" for number in (1, 2, 3)),
    "a dog sleeps", "skateboarding", "telecommunicationstowe", "boat", "INVOICE 10452", "PLATFORM57",
]  # fmt: skip
"""Texts that are written on one clip each."""

RUNS = [
    ("basketball dog", ["a dog sleeps"], "the run 'basketballdog' is not BASKETBALL misread: there is no dog"),
    ("dog basketball", ["a dog sleeps"], "the same"),
    ("skateboarding bird", [], "half of it is not there, and the rarer half"),
    ("skateboarding birds", [], "no base form of a run makes it shorter"),
    ("gate 7", [], "numbers are not guessed"),
    ("gate 2", ["gate 2", "lecture part 2"], "nor where the number is there; the other has the rarer half"),
    ("lecture part 9", [], "nor in three words"),
    ("gate7", [], "nor as one word"),
    ("invoice 10453", [], "however long"),
    ("platform 5", [], "a number is not the beginning of another one"),
    ("platform 57", ["PLATFORM57"], "a lost space"),
    ("telecommunications tower", ["telecommunicationstowe"], "each word long enough for a misread letter"),
    ("boat red boat", [], "'boatred' has no base form, and 'boatr' would be boat"),
]
"""What is asked for, which texts answer it, and why no other does."""


@pytest.mark.parametrize("source", ["signs", "names"])
@pytest.mark.parametrize(("query", "answering", "why"), RUNS, ids=[query for query, *_ in RUNS])
def test_a_word_alone_is_not_the_run_of_two(
    tmp_path: Path, source: str, query: str, answering: list[str], why: str
) -> None:
    texts = {text: text for text in SERIES}
    result = (
        search(tmp_path, query, texts, {})
        if source == "signs"
        else search(tmp_path, query, {}, {text: ("x.mp4", text) for text in texts})
    )
    assert {hit.clip_id.partition(" ")[2] for hit in result.hits if not hit.weaker} == set(answering), why


def test_a_sign_with_one_word_of_two_matches_that_word_alone(tmp_path: Path) -> None:
    (hit,) = search(tmp_path, "basketball dog", {"": "BASKETBALL"}, {}).hits
    assert [(sign.matched, sign.found) for sign in hit.on_screen] == [(("basketball",), ("basketball",))]


@given(st.lists(st.text("ab1", min_size=1, max_size=18), min_size=2, max_size=3), st.data())
def test_what_stands_for_a_run_has_each_of_its_words(run: list[str], data: st.DataObject) -> None:
    """Derived another way: some cut of the spelling gives every word of the run with its own allowed errors."""
    joined = "".join(run)
    cut = data.draw(st.integers(0, len(joined)))
    written = {*run, joined[:cut], joined[cut:], joined[:cut] + joined[cut + 1 :], joined[:cut] + "b" + joined[cut:]}
    for one in spelt(written - {""}, run):
        assert joined in one or pieces_are_near(one, run)


def pieces_are_near(spelt: str, run: list[str]) -> bool:
    """Whether a text can be cut into the words of a run, each with its allowed errors at most."""
    if not run:
        return not spelt
    return any(
        OSA.distance(run[0], spelt[:cut]) <= (len(run[0]) - 1) // 4 and pieces_are_near(spelt[cut:], run[1:])
        for cut in range(len(spelt) + 1)
    )


letters = st.characters(exclude_categories=("Cs",))
any_text = st.text(letters, max_size=40) | st.text("aAbeéÉßﬁ\u0301\u3099ｶ가각 -_1²東京", max_size=30)


def pieces(text: str, matched: list[str], found: list[str]) -> list[str]:
    return [text[start:end] for start, end in marks(text, matched, found)]


@pytest.mark.parametrize(
    ("text", "matched", "found", "expected"),
    [
        ("Japan - NETHERLANDS 2:0", "japan netherlands", "japan netherlands", ["Japan", "NETHERLANDS"]),
        ("JAPANNETHERLANDS", "japan netherlands", "japannetherlands", ["JAPANNETHERLANDS"]),
        ("JAPANNETHERLAMDS", "japan netherlands", "japannetherlamds", ["JAPANNETHERLAMDS"]),  # joined and misread
        ("JAPANNETHERLANDS", "japan", "japannetherlands", ["JAPAN"]),
        ("HYUNDRI HYUNG", "hyundai", "hyundri", ["HYUNDRI"]),
        ("the news at newsstands", "news", "news newsstands", ["news", "news"]),
        ("bus busses", "bus", "bus", ["bus"]),
        ("trains", "train", "trains", ["train"]),  # what is asked for, not what is found
        ("TRAIN", "trains", "train", ["TRAIN"]),
        ("tramtramway", "tram", "tramtramway", ["tramtram"]),
        ("Crème BRÛLÉE", "creme brulee", "creme brulee", ["Crème", "BRÛLÉE"]),
        ("cre\u0300me!", "creme", "creme", ["cre\u0300me"]),
        ("Straßenbahnhof", "strassenbahn", "strassenbahnhof", ["Straßenbahn"]),
        ("Straßenbahnhof", "stras", "strassenbahnhof", ["Straß"]),  # half a letter is marked as one
        ("ＴＲＡＭ　９", "tram", "tram", ["ＴＲＡＭ"]),
        ("東京駅まで", "東京", "東京駅まで", ["東京"]),
        ("가나다라", "나다", "가나다라", ["나다"]),
        ("🚋 tram 🚋", "tram", "tram", ["tram"]),
        ("<b>tram</b>", "tram", "tram", ["tram"]),
        ("tram", "", "", []),
        ("tram", "tram", "", []),  # it was found by another reading
        ("", "tram", "tram", []),
        ("--- ...", "tram", "tram", []),
    ],
)
def test_what_is_marked(text: str, matched: str, found: str, expected: list[str]) -> None:
    assert pieces(text, matched.split(), found.split()) == expected


@pytest.mark.parametrize("text", ["WINTER CUP", "Winter - CUP!", "the winter cup 24"])
def test_a_pair_that_stands_for_a_word_is_marked_with_what_is_between(text: str) -> None:
    (found,) = pieces(text, ["wintercup"], ["winter cup"])
    assert words(found) == ["winter", "cup"]
    assert pieces(f"{text} winter", ["wintercup"], ["winter cup"]) == [found]
    assert pieces("mind the gap, the gap!", ["mind the gap"], ["mind the gap"]) == ["mind the gap"]


foldeds = st.lists(any_text.map(fold).filter(bool), max_size=4, unique=True)


@given(text=any_text, matched=foldeds, found=foldeds)
def test_stretches_lie_in_the_text_apart_and_in_order(text: str, matched: list[str], found: list[str]) -> None:
    places = [place for stretch in marks(text, matched, [*found, *words(text)]) for place in stretch]
    assert places == sorted(set(places))
    assert not places or (places[0] >= 0 and places[-1] <= len(text))


@given(text=any_text)
def test_every_word_of_a_text_is_marked_where_all_are_asked_for(text: str) -> None:
    found = marks(text, words(text), words(text))
    rest = list(text)
    for start, end in found:
        rest[start:end] = " " * (end - start)
    assert words("".join(rest)) == []


@given(before=any_text, word=st.text("abcdefgéü", min_size=1, max_size=8), after=any_text)
def test_an_exact_word_is_always_marked(before: str, word: str, after: str) -> None:
    text = f"{before} {word} {after}"
    start = len(before) + 1
    assert any(first <= start and start + len(word) <= last for first, last in marks(text, [fold(word)], words(word)))


@given(text=st.text("abc àß", max_size=30), word=st.text("xyz", min_size=1, max_size=8))
def test_nothing_is_marked_that_was_not_found(text: str, word: str) -> None:
    assert marks(text, [word, *words(text)], [word]) == ()


@given(text=any_text, word=st.text("abcdeßé", min_size=4, max_size=6))
def test_offsets_count_code_points_of_the_text_as_it_is(text: str, word: str) -> None:
    """A text in another normal form has its marks elsewhere, on the same words."""
    assume(fold(word).isalpha())
    whole = f"{word}x {text}"
    for form in ("NFC", "NFD"):
        same = unicodedata.normalize(form, whole)
        first = pieces(same, [fold(word)], words(same))[0]
        assert fold(first).startswith(fold(word))


SHOWN = st.sampled_from(["Japan", "NETHERLANDS", "japannetherlands", "HYUNDRI", "hyundai-cup", "gold", "go", "東京駅"])
ASKED = st.sampled_from(["japan", "netherlands", "hyundai", "gold", "東京", "cup", "japam"])


@given(
    signs=st.lists(st.lists(SHOWN, max_size=4).map(" ".join), min_size=1, max_size=4),
    query=st.lists(ASKED, min_size=1, max_size=3, unique=True).map(" ".join),
)
def test_marks_are_there_wherever_the_index_finds_the_text(signs: list[str], query: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder))
    for number, sign in enumerate(signs):
        library.add_clip(str(number))
        library.add_track(str(number), sign)
    rebuild_full_text(library.connection)
    found = {hit.clip_id: hit.hits[0] for hit in word_hits(library.connection, "on_screen", query)}
    for number, sign in enumerate(signs):
        hit = found.get(str(number))
        assert hit is None or marks(sign, hit.matched, hit.found)
        exact = set(content_words(query)) & set(words(sign))
        assert hit is not None or not exact
