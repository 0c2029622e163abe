from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact, hypergeom

import evenreel
from evenreel.errors import UsageError
from evenreel.library.favours import (
    MAX_SOURCES,
    Favours,
    GroupShare,
    Population,
    as_bytes,
    favours,
    length_edges,
    length_p_value,
    read_clips,
    selects_length,
    share_p_value,
)
from evenreel.library.search.filters import Filter

from .fakes import Library as Fake
from .fakes import empty_catalog, on_disk

CLIPS = 60


def population(sources: str, lengths_s: list[float] | None = None, words: list[bool] | None = None) -> Population:
    """A clip a letter: the first letter of its source."""
    names = tuple(dict.fromkeys(sources))
    count = len(sources)
    order = sorted(range(count), key=str)
    return Population(
        clip_ids=as_bytes(map(str, order)),
        source_names=names,
        sources=np.array([names.index(source) for source in sources], np.int64)[order],
        lengths_s=np.array(lengths_s or [10.0] * count)[order],
        text_read=np.full(count, words is not None),
        has_words=np.array(words or [False] * count)[order],
    )


def ids(rows: range | list[int]) -> list[str]:
    return [str(row) for row in rows]


@given(data=st.data(), all_of=st.integers(1, 300))
def test_a_share_is_tested_as_by_fisher(data: st.DataObject, all_of: int) -> None:
    all_, shown_of = data.draw(st.integers(0, all_of)), data.draw(st.integers(1, all_of))
    shown = data.draw(st.integers(max(0, shown_of + all_ - all_of), min(shown_of, all_)))
    table = [[shown, shown_of - shown], [all_ - shown, all_of - all_ - shown_of + shown]]
    assert share_p_value(shown, shown_of, all_, all_of) == pytest.approx(fisher_exact(table).pvalue, rel=1e-6)


def test_a_share_of_a_large_library_is_tested_too() -> None:
    table = [[100, 100], [300_000 - 100, 700_000 - 100]]
    assert share_p_value(100, 200, 300_000, 10**6) == pytest.approx(fisher_exact(table).pvalue, rel=1e-6)


@pytest.mark.parametrize(("shown", "all_"), [([4, 0, 0], [4, 4, 4]), ([1, 0, 3], [6, 2, 4]), ([0, 1, 1], [9, 1, 1])])
def test_lengths_are_tested_as_by_all_possible_draws(shown: list[int], all_: list[int]) -> None:
    ranges = np.repeat(np.arange(len(all_)), all_)
    ranks = np.array([np.mean(np.flatnonzero(ranges == number)) for number in ranges])  # equal ones share a rank
    means = np.array([np.mean(ranks[list(drawn)]) for drawn in combinations(range(len(ranges)), sum(shown))])
    found = np.repeat(np.arange(len(all_)), shown)
    seen = np.mean([np.mean(np.flatnonzero(ranges == number)) for number in found])
    expected = np.mean(np.abs(means - ranks.mean()) >= abs(seen - ranks.mean()) - 1e-9)
    assert length_p_value(np.array(shown), np.array(all_)) == pytest.approx(expected, abs=0.015)


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=80))
def test_ranges_of_length_hold_every_clip_and_none_is_empty(lengths: list[float]) -> None:
    lengths_s = np.array(lengths)
    edges = length_edges(lengths_s)
    counts, _ = np.histogram(lengths_s, [*edges, np.inf])
    assert edges == sorted(set(edges))
    assert edges[0] == 0
    assert len(edges) <= 6
    assert counts.sum() == len(lengths)
    assert len(edges) == 1 or counts.all()


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        (np.linspace(2, 8, 200), [0.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
        (np.full(50, 10.0), [0.0]),
        (np.array([10.0] * 98 + [60.0] * 2), [0.0, 20.0]),
        (np.geomspace(5, 7200, 600), [0.0, 15.0, 60.0, 180.0, 600.0, 2400.0]),
        (np.array([0.0, 0.0, 0.02]), [0.0]),
    ],
)
def test_ranges_of_length_begin_at_readable_numbers(lengths: np.ndarray, expected: list[float]) -> None:
    assert length_edges(lengths) == expected


def test_a_preferred_source_is_said() -> None:
    found = favours(population("a" * 20 + "c" * 20 + "b" * 20), ids([*range(14), 20, 21, 22, 40, 41, 42]))
    assert found.groups[0] == GroupShare("source", "a", 14, 20, 0.7, 20, 60, 1 / 3, found.groups[0].p_value)
    assert found.groups[0].p_value == pytest.approx(fisher_exact([[14, 6], [6, 34]]).pvalue)
    assert found.sentences == ("14 of 20 results come from a; of all 60 clips, 20 do (by chance: 1 in 14,000).",)
    assert found.note.startswith("The 20 clips shown are compared with all 60 that could be shown.")
    assert found.lengths is None


def test_of_two_sources_only_the_preferred_one_is_said() -> None:
    found = favours(population("a" * 20 + "b" * 40), ids([*range(14), *range(20, 26)]))
    assert [group.shown for group in found.groups] == [14, 6]
    assert len(found.sentences) == 1
    assert found.sentences[0].startswith("14 of 20 results come from a; of all 60 clips, 20 do")


def test_preferred_lengths_and_words_are_said() -> None:
    lengths = [float(1 + number % 30) for number in range(CLIPS)]
    words = [length > 20 for length in lengths]
    shown = [number for number in range(CLIPS) if words[number]]
    found = favours(population("a" * CLIPS, lengths, words), ids(shown))
    (group,) = found.groups
    assert group.p_value < 1e-9
    assert replace(group, p_value=0.0) == GroupShare(
        "on-screen text", "words on screen", 20, 20, 1.0, 20, 60, 1 / 3, 0.0
    )
    assert found.sentences == (
        "20 of 20 results have words on screen; of all 60 clips, 20 do (by chance: fewer than 1 in 1,000,000).",
        "The results are longer: their median length is 25.5 s, that of all 60 clips 15.5 s (by chance: 1 in 10,000).",
    )
    assert found.lengths is not None
    ends, counts = [0.0, 6.0, 10.0, 15.0, 20.0, 25.0, None], [(0, 10), (0, 8), (0, 10), (0, 10), (8, 10), (12, 12)]
    assert [(one.start_s, one.end_s) for one in found.lengths.bins] == [*pairwise(ends)]
    assert [(one.shown, one.all) for one in found.lengths.bins] == counts


def test_a_difference_that_rounds_to_none_is_not_said() -> None:
    lengths = [5.0] * 100 + [12.0] * 100 + [20.0] * 100
    longer = favours(population("a" * 300, lengths), ids([*range(20), *range(100, 160), *range(200, 270)]))
    assert longer.lengths is not None
    assert (longer.lengths.p_value, longer.lengths.median_shown_s, longer.sentences) == (1e-4, 12.0, ())
    count = 200_000
    half = favours(population("a" * count + "b" * count), ids([*range(count - 2000), *range(count, 2 * count - 900)]))
    assert half.groups[0].p_value < 1e-6
    assert half.sentences == ()


@pytest.mark.parametrize(
    ("query", "where", "by_length"),
    [
        ("a short clip of a tram", None, True),
        ("tram", "source = 'x' and duration_s < 60", True),
        ("a tram in 20 seconds", None, True),
        ("tram", "name = 'duration_s'", False),
        ("shorts on a line", None, False),
    ],
)
def test_where_a_query_chooses_by_length_lengths_are_left_out(query: str, where: str | None, by_length: bool) -> None:
    assert selects_length(query, where) is by_length
    lengths = [float(1 + number % 30) for number in range(CLIPS)]
    shown = ids([number for number in range(CLIPS) if lengths[number] > 20])
    found = favours(population("a" * CLIPS, lengths), shown, lengths_too=not by_length)
    assert (found.lengths is None, found.sentences == ()) == (by_length, by_length)


def test_the_whole_library_favours_nothing() -> None:
    lengths = [float(number) for number in range(CLIPS)]
    everything = population("a" * 5 + "b" * 55, lengths, [number < 5 for number in range(CLIPS)])
    found = favours(everything, ids(range(CLIPS)))
    assert found.sentences == ()
    assert {group.p_value for group in found.groups} == {1.0}
    assert found.lengths is not None
    assert found.lengths.p_value == 1.0
    assert "nothing to favour" in found.note


@pytest.mark.parametrize("shown", [[], ["nowhere"]])
def test_no_clip_is_compared_with_nothing(shown: list[str]) -> None:
    assert favours(population("ab"), shown) == Favours(0, 2, (), None, (), "No clip is shown, so nothing was compared.")


def test_a_clip_that_could_not_be_shown_is_no_clip_to_compare_with() -> None:
    found = favours(population("A" * 59 + "B").without("59"), ids(range(59)))
    assert (found.shown, found.all, found.sentences) == (59, 59, ())
    assert "nothing to favour" in found.note
    middle = population("AABBB", [1.0, 2.0, 3.0, 4.0, 5.0]).without("1")
    assert middle.clip_ids.tolist() == [b"0", b"2", b"3", b"4"]
    assert middle.lengths_s.tolist() == [1.0, 3.0, 4.0, 5.0]
    assert middle.sources.tolist() == [0, 1, 1, 1]


def test_a_clip_counts_once() -> None:
    found = favours(population("aabb"), ["0", "0", "nowhere", "3"])
    assert (found.shown, found.all) == (2, 4)
    assert [(group.shown, group.shown_of) for group in found.groups] == [(1, 2), (1, 2)]
    assert favours(population("aaaa"), ids([0, 1])).groups == ()  # one source is nothing to compare
    assert favours(read_clips(empty_catalog(), Filter()), []).all == 0


@settings(max_examples=20)
@given(data=st.data(), sources=st.text("abcde", min_size=1, max_size=40))
def test_counts_agree_whatever_is_shown(data: st.DataObject, sources: str) -> None:
    count = len(sources)
    lengths = data.draw(st.lists(st.floats(0, 500) | st.just(float("nan")), min_size=count, max_size=count))
    words = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    shown = data.draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))
    found = favours(population(sources, lengths, words), ids(shown))
    by_source = [group for group in found.groups if group.measure == "source"]
    if len(set(sources)) > 1:
        assert sum(group.shown for group in by_source) == len(shown)
        assert sum(group.all for group in by_source) == count
    for group in found.groups:
        assert group.shown <= group.all
        assert group.share_shown == group.shown / group.shown_of
        assert 0 <= group.p_value <= 1
    if found.lengths is not None:
        assert sum(found_in.all for found_in in found.lengths.bins) == int(np.sum(~np.isnan(lengths)))
        assert sum(found_in.shown for found_in in found.lengths.bins) == int(
            np.sum(~np.isnan(np.array(lengths)[shown]))
        )


def mixed(seed: int) -> Population:
    """A library of three sources, many lengths, and words in a third of its clips."""
    rng = np.random.default_rng(seed)
    sources = "".join(rng.choice(list("abc"), CLIPS, p=[0.5, 0.3, 0.2]))
    return population(sources, rng.lognormal(2.3, 0.8, CLIPS).tolist(), (rng.random(CLIPS) < 0.33).tolist())


def test_random_results_have_a_sentence_in_at_most_one_of_twenty() -> None:
    rng = np.random.default_rng(7)
    library, draws = mixed(1), 500
    said = sum(bool(favours(library, ids(rng.permutation(CLIPS)[:20].tolist())).sentences) for _ in range(draws))
    assert said <= 41  # Binomial(500, 0.05) is above with probability 0.001


def test_a_planted_preference_is_found() -> None:
    """Clips of one source are five times as likely to be shown."""
    rng = np.random.default_rng(8)
    library, found = mixed(2), 0
    weight = np.where(library.sources == library.source_names.index("c"), 5.0, 1.0)
    for _ in range(100):
        shown = library.clip_ids[rng.choice(CLIPS, 20, replace=False, p=weight / weight.sum())].astype(str).tolist()
        found += any("come from c" in sentence for sentence in favours(library, shown).sentences)
    assert found > 50


def test_clips_are_read_as_a_search_would_find_them(tmp_path: Path) -> None:
    made = Fake(tmp_path)
    for clip_id, length_s in (("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)):
        made.add_clip(clip_id, duration_s=length_s)
    made.add_track("b", "WORDS")
    made.add_file("/v/2.mp4", "a", {"source": "second"})
    made.add_file("/v/1.mp4", "a", {"source": "first"})
    made.add_file("/v/3.mp4", "b", {"source": ""})
    made.add_file("/v/4.mp4", "c", {"source": 7})
    made.add_file("/v/5.mp4", "d", {"source": "gone"}, state="missing")
    made.connection.execute("UPDATE clips SET has_text = 0, duration_s = NULL WHERE clip_id = 'c'")
    found = read_clips(made.connection, Filter())
    told = {
        clip_id.decode(): (found.source_names[source], bool(found.text_read[row]), bool(found.has_words[row]))
        for row, clip_id in enumerate(found.clip_ids.tolist())
        for source in [found.sources[row]]
    }
    assert told == {"a": ("first", True, False), "b": ("unknown", True, True), "c": ("7", False, False)}
    assert found.lengths_s[found.places(["b"])].tolist() == [2.0]
    assert np.isnan(found.lengths_s[found.places(["c"])]).all()
    assert read_clips(made.connection, Filter("clips.duration_s < ?", (1.5,))).clip_ids.tolist() == [b"a"]


@settings(max_examples=20)
@given(
    files=st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from("xyz"), st.integers(0, 3), st.sampled_from(["indexed", "missing"])
        ),
        max_size=12,
    ),
    least=st.integers(0, 4),
)
def test_the_first_file_that_passes_a_filter_gives_the_source(
    files: list[tuple[int, str, int, str]], least: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = Fake(Path(folder))
        for clip in range(6):
            made.add_clip(str(clip))
        wanted: dict[str, str] = {}
        for number, (clip, source, length, state) in enumerate(files):
            made.add_file(f"/v/{number:02}.mp4", str(clip), {"source": source, "size": length}, state=state)
            if state == "indexed" and length >= least:
                wanted.setdefault(str(clip), source)
        where = Filter("json_extract(files.metadata, '$.size') >= ?", (least,))
        found = read_clips(made.connection, where)
    told = [found.source_names[source] for source in found.sources]
    assert dict(zip(found.clip_ids.astype(str).tolist(), told, strict=True)) == wanted
    counts = Counter(wanted.values())
    assert list(found.source_names) == sorted(counts, key=lambda source: (-counts[source], source))


def test_many_sources_are_told_by_the_most_frequent(tmp_path: Path) -> None:
    made = Fake(tmp_path)
    for number in range(MAX_SOURCES + 5):
        for copy in range(2 if number < 3 else 1):
            made.add_clip(f"{number}.{copy}")
            made.add_file(f"/v/{number}.{copy}.mp4", f"{number}.{copy}", {"source": f"s{number:02}"})
    told = favours(read_clips(made.connection, Filter()), ["24.0", "0.0"]).groups
    found = [group for group in told if group.measure == "source"]
    assert [group.label for group in found] == [*(f"s{number:02}" for number in range(MAX_SOURCES)), "other sources"]
    assert (found[-1].shown, found[-1].all) == (1, 5)


def test_a_library_tells_what_a_result_favours_now(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    for number in range(12):
        made.add_clip(str(number))
        made.add_file(f"/v/{number}.mp4", str(number), {"source": "camera" if number % 2 else "sora", "number": number})
    with evenreel.open_library(tmp_path) as library:
        assert library.favours(["0", "2"]).all == 12
        assert library.favours(["0", "2"], "number < 6").all == 6
        with pytest.raises(UsageError, match="no column"):
            library.favours(["0"], "colour = 'red'")
        with closing(sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)) as writer:
            writer.execute("UPDATE files SET state = 'missing' WHERE path = '/v/7.mp4'")
        assert library.favours(["0", "2"]).all == 11
    made.connection.close()


def test_few_long_clips_among_equal_ones_are_nothing_much() -> None:
    """Where nearly all are of one length a normal approximation would be sure of a difference."""
    lengths = [10.0] * 950 + [60.0] * 50
    shown = [*range(17), 950, 951, 952]
    found = favours(population("a" * 1000, lengths), ids(shown))
    assert found.lengths is not None
    assert [found_in.shown for found_in in found.lengths.bins] == [17, 3]
    assert found.lengths.p_value == pytest.approx(hypergeom(1000, 50, 20).sf(2), abs=0.01)
    assert found.sentences == ()
