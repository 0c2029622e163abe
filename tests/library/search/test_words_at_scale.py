"""20,000 signs with misreadings: what is found, in which order, with which score, by plain loops over all tracks."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from evenreel.language.folding import words
from evenreel.library.search.query import Query, UnfinishedText
from evenreel.library.search.words import NUMBER, SOURCES, Vocabulary
from evenreel.library.store.fulltext import BLOCK, index_clip_text, rebuild_full_text, remove_clip_text
from tests.library.fakes import empty_catalog, word_hits

CLIPS, SIGNS, LETTERS = 4_000, 5, "abcdefghijklmnopqrstuvwxyz"
LOOKS_LIKE = {"o": "0", "l": "1", "s": "5", "b": "8", "m": "rn", "d": "cl", "e": "c", "u": "v"}

Track = tuple[int, str, str, float, float, float]
"""Id, clip, text, confidence, start and end."""


def misread(word: str, chance: random.Random) -> str:
    """Two letters swapped, one lost, or one taken for another as recognisers do."""
    at = chance.randrange(len(word))
    kind = chance.randrange(3)
    if kind == 0:
        return word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
    if kind == 1 and len(word) > 1:
        return word[:at] + word[at + 1 :]
    return word[:at] + LOOKS_LIKE.get(word[at], chance.choice(LETTERS)) + word[at + 1 :]


def made_up(chance: random.Random, number: int) -> list[str]:
    syllables = [one + two for one in "bdfgklmnprst" for two in ("a", "e", "i", "o", "u", "ar", "en", "ing", "or")]
    found = {"".join(chance.choices(syllables, k=chance.randint(1, 5))) for _ in range(2 * number)}
    return sorted(found)[:: max(1, len(found) // number)]


class Corpus:
    """A catalog of made-up signs, few of whose confidences and times differ, so that clips have equal scores."""

    def __init__(self) -> None:
        self.chance = chance = random.Random(7)
        self.vocabulary = made_up(chance, 3_000)
        chance.shuffle(self.vocabulary)
        odds = [1 / rank for rank in range(1, len(self.vocabulary) + 1)]
        self.pool = iter(chance.choices(self.vocabulary, odds, k=150_000))
        self.connection = empty_catalog()
        rows, names = [], []
        for clip in range(CLIPS):
            clip_id = f"{chance.randrange(16**8):08x}{clip:08x}"
            names.append((clip_id, "_".join(self.drawn(3))))
            for number in range(SIGNS if clip else 400):  # one is a ticker
                text = " ".join(misread(word, chance) if chance.random() < 0.1 else word for word in self.drawn(5))
                start_s = float(chance.randrange(20) * 10)
                rows.append(
                    (clip_id, number, text, json.dumps([text]), chance.randint(5, 10) / 10, start_s, start_s + 5)
                )
        self.connection.executemany(
            "INSERT INTO clips VALUES (?, 'mp4', 'h264', 640, 360, 12, 25, 0, 1, '[]', '')",
            [name[:1] for name in names],
        )
        self.connection.executemany(
            "INSERT INTO files VALUES ('/' || ?1 || '/' || ?2, ?2, '/', 1, 1, 1, 'indexed', ?1, NULL, NULL, '{}')",
            names,
        )
        self.connection.executemany(
            "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, '[0, 0, 1, 1]')",
            rows,
        )
        rebuild_full_text(self.connection)
        self.known = Vocabulary(SOURCES["on_screen"])
        self.known.refresh(self.connection)
        self.clip_ids = [clip_id for clip_id, _ in names]
        self.names = dict(names)
        self.tracks: list[Track] = self.connection.execute(
            "SELECT track_id, clip_id, text, confidence, start_s, end_s FROM tracks"
        ).fetchall()
        texts = [list(dict.fromkeys(words(track[2]))) for track in self.tracks]
        self.seen = {word for text in texts for word in text}
        self.written = [{*text, *(f"{one} {two}" for one, two in pairwise(text))} for text in texts]

    def drawn(self, number: int) -> list[str]:
        return [next(self.pool) for _ in range(number)]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus()


def queries(corpus: Corpus) -> list[tuple[str, bool]]:
    """Common, rare and misread words, several of them, whole signs, words joined and begun."""
    chance, vocabulary = random.Random(3), corpus.vocabulary
    rare = chance.sample(vocabulary[100:], 5)
    found = [(word, False) for word in (*vocabulary[:3], *rare, *(misread(word, chance) for word in rare))]
    found += [
        (f"{vocabulary[0]} {vocabulary[1]}", False),
        (f"{vocabulary[2]} {rare[0]} {misread(rare[1], chance)}", False),
    ]
    found += [(f"{vocabulary[0]}{vocabulary[4]}", False), (" ".join(vocabulary[:7]), False)]
    found += [(corpus.tracks[place][2].lower(), False) for place in chance.sample(range(len(corpus.tracks)), 3)]
    found += [(word[:cut], True) for word in rare[:4] for cut in (2, 4)]
    found += [(f"{vocabulary[1]} {rare[2][:3]}", True), ("nothing of that", False)]
    return found


def closeness(one: Track, other: Track) -> float:
    gap_s = max(0.0, one[4] - other[5], other[4] - one[5])
    return 0.5 + 0.5 / (1 + gap_s / 30)


def slowly(corpus: Corpus, query: str, typing: bool, allowed: set[str]) -> list[tuple[str, float, float]]:
    """Clip, score and coverage by the rule that `words` states."""
    wanted = Query(UnfinishedText(query) if typing else query)
    spelt = corpus.known.lookups(wanted)
    counts = [sum(term in there for there in corpus.written) for term in wanted.terms]
    weights = [math.log(1 + (len(corpus.written) - count + 0.5) / (count + 0.5)) for count in counts]
    clips: dict[str, list[tuple[Track, dict[int, float]]]] = defaultdict(list)
    for track, there in zip(corpus.tracks, corpus.written, strict=True):
        alike: dict[int, float] = {}
        for word in there & spelt.keys():
            for place, similarity in spelt[word].items():
                alike[place] = max(similarity, alike.get(place, 0.0))
        if alike and track[1] in allowed:
            clips[track[1]].append((track, alike))
    found = []
    for clip_id, tracks in clips.items():
        own = {
            track[0]: track[3] * sum(weights[place] * one for place, one in alike.items()) for track, alike in tracks
        }
        anchors = sorted((track for track, _ in tracks), key=lambda track: (-own[track[0]], track[4], track[0]))[:32]
        scores = []
        for anchor in anchors:
            best = [
                max(
                    (alike.get(place, 0.0) * (track[3] * closeness(anchor, track)) for track, alike in tracks),
                    default=0,
                )
                for place in range(len(weights))
            ]
            scores.append(math.fsum(map(math.prod, zip(weights, best, strict=True))) / math.fsum(weights))
        covered = [max(alike.get(place, 0.0) for _, alike in tracks) for place in range(len(weights))]
        coverage = math.fsum(map(math.prod, zip(weights, covered, strict=True))) / math.fsum(weights)
        found.append((clip_id, max(scores), coverage))
    return found


def test_the_clips_and_their_scores_are_those_of_a_loop_over_all_tracks(corpus: Corpus) -> None:
    for number, (query, typing) in enumerate(queries(corpus)):
        allowed = set(corpus.clip_ids if number % 2 else random.Random(number).sample(corpus.clip_ids, 300))
        expected = {clip_id: found for clip_id, *found in slowly(corpus, query, typing, allowed)}
        found = word_hits(corpus.connection, "on_screen", query, allowed, typing=typing, shown=0)
        assert {one.clip_id for one in found} == expected.keys(), query
        assert len(found) == len(expected)
        for one in found:
            assert [one.score, one.coverage] == pytest.approx(expected[one.clip_id], abs=1e-9), query
        # Clips that are equal by the rule share a score, so that they share a rank.
        assert len({one.score for one in found}) == len({round(score, 9) for score, _ in expected.values()}), query


def test_what_is_shown_of_a_clip_is_its_best_tracks(corpus: Corpus) -> None:
    """Of a clip with one word of the query: by confidence and similarity, the earlier of equals, and closeness."""
    (word,) = corpus.vocabulary[:1]
    by_id = {track[0]: track for track in corpus.tracks}
    for written in word_hits(corpus.connection, "on_screen", word, shown=50)[:50]:
        spelt = corpus.known.lookups(Query(word))
        own = {}
        for track in by_id.values():
            if track[1] == written.clip_id and (there := set(words(track[2])) & spelt.keys()):
                own[track] = track[3] * max(spelt[one][0] for one in there)
        centre = min(own, key=lambda track: (-own[track], track[4], track[0]))
        seen = sorted(own, key=lambda track: (-own[track] * closeness(centre, track), -own[track], track[4], track[0]))
        assert [(hit.text, hit.start_s, hit.end_s) for hit in written.hits] == [(t[2], t[4], t[5]) for t in seen[:5]]
        for hit in written.hits:
            assert hit.matched == (word,)
            assert set(hit.found) == set(words(hit.text)) & spelt.keys()


def test_a_word_of_very_many_names_finds_all_of_them(corpus: Corpus) -> None:
    word = corpus.vocabulary[0]
    expected = {clip_id for clip_id, name in corpus.names.items() if word in name.split("_")}
    found = word_hits(corpus.connection, "about", word)
    assert {one.clip_id for one in found if one.coverage == 1.0} == expected
    assert len(expected) > 700


@settings(max_examples=20)
@given(data=st.data())
def test_misread_words_are_found_as_by_comparing_with_every_word(corpus: Corpus, data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(corpus.vocabulary))
    for _ in range(data.draw(st.integers(0, 4))):
        word = misread(word, data.draw(st.randoms(use_true_random=False))) or word
    for errors in (1, 2, 3, 4):
        if len(word) > 4 * errors:
            found = dict(corpus.known._misread(word, errors))
            near = {one: distance for one in corpus.seen if (distance := OSA.distance(word, one)) <= errors}
            assert found == {one: 1 - distance / len(word) for one, distance in near.items() if digits_kept(one, word)}


def digits_kept(written: str, query: str) -> bool:
    return all(number in NUMBER.findall(written) for number in NUMBER.findall(query))


def content(connection: sqlite3.Connection) -> list[list[tuple[object, ...]]]:
    queries = ("* FROM track_words", "* FROM track_blocks", "word, texts FROM track_vocabulary WHERE texts > 0")
    return [sorted(connection.execute(f"SELECT {query}"), key=repr) for query in queries]


def test_blocks_step_by_step_are_those_from_scratch() -> None:
    """Also across the end of a block, where a clip is taken out, and where its tracks come again."""
    connection = empty_catalog()
    for number in range(5):
        connection.execute(
            "INSERT INTO clips VALUES (?, 'mp4', 'h264', 640, 360, 12, 25, 0, 1, '[]', '')", (f"c{number}",)
        )
        connection.executemany(
            "INSERT INTO tracks (clip_id, number, text, readings, confidence, start_s, end_s, box)"
            " VALUES (?, ?, 'EXIT', '[]', 0.5, ?, 9, '[]')",
            [(f"c{number}", place, place) for place in range(BLOCK // 3)],
        )
        index_clip_text(connection, f"c{number}")
    for clip_id in ("c4", "c1"):
        remove_clip_text(connection, clip_id)
        connection.execute("DELETE FROM tracks WHERE clip_id = ?", (clip_id,))
    step_by_step = content(connection)
    assert len(step_by_step[1]) == 2
    rebuild_full_text(connection)
    assert content(connection) == step_by_step
