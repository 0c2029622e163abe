"""The audit of a scene dictionary: slow loops over small worlds, and worlds of which the answer is known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from evenreel.audits.dictionary import ChosenElements, NamedCaptions, audit_dictionary, gain_of_named, measure
from evenreel.audits.exchange import first_share
from evenreel.audits.settings import AuditSettings
from evenreel.errors import UsageError
from evenreel.evaluation.intervals import resampled_weights
from evenreel.features.scene_elements import EmbeddedDictionary, top_of_means
from evenreel.language.scene_elements import Elements, SceneDictionary, given
from evenreel.report.page import audit_page, render
from evenreel.report.result import AuditTable

SETTINGS = AuditSettings(resamples=40, seed=3)
ENTITIES, ACTIVITIES = ("a", "b", "c", "d", "e", "f"), ("x", "y")


def small_world(seed: int, count: int = 2) -> tuple[SceneDictionary, NamedCaptions, ChosenElements]:
    """Ten clips, two without a caption; captions also name what the dictionary lacks."""
    random = np.random.default_rng(seed)
    named = [
        Elements(
            tuple(one for one in (*ENTITIES[:5], "strange") if random.random() < 0.3),
            tuple(one for one in (*ACTIVITIES, "odd") if random.random() < 0.4),
        )
        for _ in range(16)
    ]
    of = [f"v{random.integers(8)}" for _ in named]
    splits = ["train" if int(clip[1]) % 2 else "test" for clip in of]
    own = given(ENTITIES, ACTIVITIES)
    embedded = EmbeddedDictionary(own, *(_unit(random, len(some)) for some in (ENTITIES, ACTIVITIES)), "x", "h")
    means = _unit(random, 10)
    top = top_of_means(means, embedded, count, tuple(f"v{n}" for n in range(10)))
    return own, NamedCaptions(named, of, splits), ChosenElements(means, embedded, top)


def _unit(random: np.random.Generator, rows: int) -> np.ndarray:
    values = random.normal(size=(rows, 3))
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_measures_are_those_of_slow_loops(seed: int) -> None:
    own, captions, chosen = small_world(seed)
    entity, activity = measure(own, captions, chosen, SETTINGS)
    said: dict[str, set[str]] = {}
    for one, clip in zip(captions.named, captions.clip_ids, strict=True):
        said.setdefault(clip, set()).update(one.entities)
    got = {
        clip: {ENTITIES[n] for n in places}
        for clip, places in zip(chosen.top.clip_ids, chosen.top.entities, strict=True)
    }
    gains = entity.gains
    assert gains is not None
    assert gains.clips == len(said)
    for place, phrase in enumerate(ENTITIES):
        named = [clip for clip in said if phrase in said[clip]]
        others = [clip for clip in said if phrase not in said[clip]]
        hits = sum(phrase in got[clip] for clip in named)
        other_hits = sum(phrase in got[clip] for clip in others)
        assert (gains.named[place], gains.hits[place], gains.other_hits[place]) == (len(named), hits, other_hits)
        assert entity.mentions is not None and entity.chosen is not None
        assert entity.mentions[place] == sum(phrase in one.entities for one in captions.named)
        assert entity.chosen[place] == sum(phrase in some for some in got.values())
        if not (named and others):
            assert np.isnan(gains.gain[place])
            continue
        assert gains.gain[place] == pytest.approx(100 * (hits / len(named) - other_hits / len(others)))
        assert gains.low[place] <= gains.gain[place] <= gains.high[place]
        assert gains.precision[place] == pytest.approx(_precision(chosen, place, list(said), set(named)))
    assert activity.phrases == ACTIVITIES


def _precision(chosen: ChosenElements, place: int, clips: list[str], named: set[str]) -> float:
    cosine = {
        clip: float(mean @ chosen.embedded.entities[place])
        for clip, mean in zip(chosen.top.clip_ids, chosen.means, strict=True)
    }
    ranked = sorted(clips, key=lambda clip: -cosine[clip])
    found, total = 0, 0.0
    for rank, clip in enumerate(ranked, start=1):
        if clip in named:
            found += 1
            total += found / rank
    return 100 * total / found


def test_coverage_by_split() -> None:
    named = [Elements(("a", "strange"), ()), Elements(("strange",), ("x",)), Elements((), ()), Elements(("a", "b"), ())]
    captions = NamedCaptions(named, ["v", "v", "w", "w"], ["train", "train", "train", "test"])
    entity, activity = measure(given(["a", "b"], ["y"]), captions, None, SETTINGS)
    train, test = entity.coverage
    assert (train.split, train.captions, train.covered, train.phrases, train.held) == ("train", 3, 1, 2, 1)
    assert (train.mentions, train.held_mentions) == (3, 1)
    assert (test.split, test.covered, test.phrases, test.held_mentions) == ("test", 1, 2, 2)
    assert [(one.covered, one.phrases, one.held) for one in activity.coverage] == [(0, 1, 0), (0, 0, 0)]


def test_the_interval_of_the_gain_is_of_samples_of_clips() -> None:
    own, captions, chosen = small_world(1)
    found = [one.gains for one in measure(own, captions, chosen, SETTINGS)]
    gains = [one for one in found if one is not None]
    described = [n for n in range(10) if f"v{n}" in captions.clip_ids]
    means = []
    for times in np.concatenate(list(resampled_weights(np.arange(len(described)), 40, 3))):
        drawn = [described[n] for n, count in enumerate(times) for _ in range(int(count))]
        means.append(np.mean(_gains_of(drawn, captions, chosen)))
    interval = gain_of_named(gains, 0.9)
    assert [interval.low, interval.high] == pytest.approx(np.quantile(means, [0.05, 0.95]))
    assert interval.value == pytest.approx(np.mean(_gains_of(described, captions, chosen)))


def _gains_of(clips: list[int], captions: NamedCaptions, chosen: ChosenElements) -> list[float]:
    """The gain of a phrase once for each clip that names it."""
    found: list[float] = []
    for kind, phrases, places in (
        ("entities", ENTITIES, chosen.top.entities),
        ("activities", ACTIVITIES, chosen.top.activities),
    ):
        for place, phrase in enumerate(phrases):
            says = [
                any(
                    phrase in getattr(one, kind)
                    for one, of in zip(captions.named, captions.clip_ids, strict=True)
                    if of == f"v{clip}"
                )
                for clip in clips
            ]
            hits = [place in places[clip] for clip in clips]
            with_it = [hit for hit, said in zip(hits, says, strict=True) if said]
            without = [hit for hit, said in zip(hits, says, strict=True) if not said]
            if with_it and without:
                found += [float(100 * (np.mean(with_it) - np.mean(without)))] * len(with_it)
    return found


def known_world(clips: int) -> tuple[SceneDictionary, NamedCaptions, ChosenElements]:
    """Every clip is one of three phrases to the encoder, and its caption says so; `<b>x</b>` is a hub of activities."""
    own = given(["dog", "cat", "<i>cow</i>"], ["<b>x</b>", "run"])
    embedded = EmbeddedDictionary(
        own, np.eye(3, dtype=np.float32), np.array([[1, 1, 1], [0, 0, -1]], np.float32) / 3**0.5, "x", "h"
    )
    means = np.eye(3, dtype=np.float32)[np.arange(clips) % 3]
    names = tuple(f"v{n}" for n in range(clips))
    said = [Elements((own.entities[n % 3],), ("run",) if n % 2 else ()) for n in range(clips)]
    return (
        own,
        NamedCaptions(said, names, [""] * clips),
        ChosenElements(means, embedded, top_of_means(means, embedded, 1, names)),
    )


def test_a_dictionary_that_is_right_about_everything() -> None:
    own, captions, chosen = known_world(36)
    entity = measure(own, captions, chosen, SETTINGS)[0].gains
    assert entity is not None
    assert (entity.gain.tolist(), entity.precision.tolist()) == ([100.0] * 3, pytest.approx([100.0] * 3))
    result = audit_dictionary(own, captions, chosen, SETTINGS)
    assert result.effect.is_significant and result.effect.enough
    assert "The commonest activity of clips is '<b>x</b>': 100.0% of them get it." in result.sentence
    assert (
        "100.0% of captions name one of its entities and 50.0% of captions name one of its activities."
        in result.sentence
    )
    names = [table.title for table in result.tables]
    assert names[:3] == ["What captions name, and the dictionary has", "In short", "Phrases that clips get the most"]
    assert _table(result.tables, "Every phrase").rows[0][:6] == ("entities", "dog", 12, 100.0, 0.0, 100.0)
    assert _table(result.tables, "Phrases that gain the least").rows[-1][1] == "run"
    json.dumps(result.to_json(), allow_nan=False)


def _table(tables: tuple[AuditTable, ...], title: str) -> AuditTable:
    return next(table for table in tables if table.title == title)


def test_the_page_takes_phrases_for_text() -> None:
    page = render(audit_page([audit_dictionary(*known_world(36), SETTINGS)]))
    assert "<b>x</b>" not in page and "<i>cow</i>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "What captions name and what clips get" in page


def test_few_clips_are_too_few() -> None:
    result = audit_dictionary(*known_world(6), SETTINGS)
    assert result.sentence.startswith("Too few clips have captions (6)")
    assert not result.effect.is_significant


def test_without_clips_or_without_captions() -> None:
    own, captions, chosen = known_world(36)
    words = audit_dictionary(own, captions, None, SETTINGS)
    seen = audit_dictionary(own, None, chosen, SETTINGS)
    for result in (words, seen):
        assert np.isnan(result.effect.value)
        assert "gain" not in result.sentence
        render(audit_page([result]))
        json.dumps(result.to_json(), allow_nan=False)
    assert [table.title for table in words.tables] == ["What captions name, and the dictionary has", "In short"]
    assert [table.title for table in seen.tables] == ["In short", "Phrases that clips get the most"]
    with pytest.raises(UsageError, match="by captions, by clips or by both"):
        audit_dictionary(own)


def test_what_must_be_known_is_told() -> None:
    own, captions, chosen = known_world(36)
    silent = NamedCaptions(captions.named[:34], captions.clip_ids[:34], captions.splits[:34])
    result = audit_dictionary(replace(own, splits=("test",)), silent, chosen, SETTINGS)
    assert result.notices == (
        "What is made with this dictionary uses scene elements from captions of test: name it beside every figure.",
        "2 of 36 clips have no caption and are in no gain.",
    )


def test_phrases_of_a_list_are_named_by_captions_in_base_form() -> None:
    """A phrase in the captions' letters comes before one in others, then the first; a caption names a phrase once."""
    named = [Elements(("dog", "red ball"), ("run",)), Elements(("Red Balls", "red ball"), ()), Elements(("cats",), ())]
    captions = NamedCaptions(named, ["v0", "v1", "v2"], ["", "", ""])
    own = given(["Red Balls", "Dogs", "dog", "Red ball"], ["is running"])
    entity, activity = measure(own, captions, None, SETTINGS)
    assert entity.mentions is not None and activity.mentions is not None
    assert (entity.mentions.tolist(), activity.mentions.tolist()) == ([2, 0, 1, 0], [1])
    assert (entity.coverage[0].covered, activity.coverage[0].covered) == (2, 1)


@pytest.mark.parametrize(("count", "told"), [(3, False), (4, True)])
def test_clips_that_get_most_phrases_are_told(count: int, told: bool) -> None:
    """Of six entities; of the two activities they get both."""
    notices = audit_dictionary(*small_world(0, count), SETTINGS).notices
    assert any(one.startswith("Every clip gets 4 of the 6 entities, so gains are small") for one in notices) == told
    assert any(one.startswith("Every clip gets 2 of the 2 activities,") for one in notices)


def test_a_kind_that_is_lacking_is_told_and_has_no_column() -> None:
    own, captions, chosen = known_world(36)
    embedded = replace(chosen.embedded, dictionary=given(own.entities, []), activities=chosen.embedded.activities[:0])
    alone = ChosenElements(chosen.means, embedded, top_of_means(chosen.means, embedded, 1, chosen.top.clip_ids))
    result = audit_dictionary(embedded.dictionary, captions, alone, SETTINGS)
    assert result.notices[0].startswith("The dictionary has no activities, so clips get none;")
    assert _table(result.tables, "In short").columns == ("what", "entities")
    assert "activit" not in result.sentence
    render(audit_page([result]))


def test_a_kind_that_no_caption_names_has_no_gain() -> None:
    own, captions, chosen = known_world(36)
    silent = replace(captions, named=[replace(one, activities=()) for one in captions.named])
    rows = {row[0]: row[1:] for row in _table(audit_dictionary(own, silent, chosen, SETTINGS).tables, "In short").rows}
    assert rows["phrases with a gain"] == (3, 0)
    assert rows["gain of named phrases, points"] == ("100.0 (95% interval 100.0 to 100.0)", None)


def test_figures_of_counts() -> None:
    assert first_share(np.array([9, *[1] * 11])) == pytest.approx(100 * 18 / 20)
