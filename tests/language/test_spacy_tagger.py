"""The spaCy tagger: through a stand-in for spaCy, and through a real blank pipeline where spaCy is installed."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from evenreel.errors import UsageError
from evenreel.language import annotate, load_tagger
from evenreel.language.folding import dictionary
from evenreel.language.taggers import SpacyTagger

WORDS = {"dogs": ("NNS", "dog"), "run": ("VBP", "run"), "Dogs": ("NNS", "")}


class StandIn:
    """A pipeline that knows three words and counts what goes through it."""

    def __init__(self, words: dict[str, tuple[str, str]]) -> None:
        self.meta = {"version": "1.2"}
        self.pipe_names = ["tagger"]
        self.words = words
        self.seen: list[str] = []

    def pipe(self, texts: list[str], batch_size: int) -> list[list[SimpleNamespace]]:
        assert batch_size > 1
        self.seen += texts
        return [[self.word(one) for one in text.split()] for text in texts]

    def word(self, text: str) -> SimpleNamespace:
        tag, lemma = self.words.get(text, ("", ""))
        return SimpleNamespace(text=text, tag_=tag, lemma_=lemma, is_space=False)


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A stand-in for spaCy in which `en_core_web_sm` is installed."""
    dictionary("dogs")  # LemmInflect hooks into the spaCy that it finds when it is first imported
    made = StandIn(WORDS)
    spacy = ModuleType("spacy")
    spacy.__spec__ = ModuleSpec("spacy", None)

    def load(model: str, exclude: list[str]) -> StandIn:
        if model != "en_core_web_sm":
            raise OSError(f"no model {model}")
        assert "tagger" not in exclude
        return made

    spacy.load = load  # type: ignore[attr-defined]
    model = ModuleType("en_core_web_sm")
    model.__spec__ = ModuleSpec("en_core_web_sm", None)
    monkeypatch.setitem(sys.modules, "spacy", spacy)
    monkeypatch.setitem(sys.modules, "en_core_web_sm", model)
    return made


def test_tokens_of_the_pipeline(pipeline: StandIn) -> None:
    tagger = SpacyTagger()
    assert tagger.name == "spacy (en_core_web_sm 1.2)"
    found = tagger.tag(["dogs run", "", "Dogs run", "dogs run"])
    assert [[(one.text, one.lemma, one.tag) for one in tokens] for tokens in found] == [
        [("dogs", "dog", "NNS"), ("run", "run", "VBP")],
        [],
        [("Dogs", "dog", "NNS"), ("run", "run", "VBP")],  # the dictionary's lemma where the pipeline has none
        [("dogs", "dog", "NNS"), ("run", "run", "VBP")],
    ]
    assert pipeline.seen == ["dogs run", "", "Dogs run"]


@pytest.mark.usefixtures("pipeline")
def test_auto_takes_it_where_a_model_is_installed() -> None:
    tagger = load_tagger("auto")
    assert tagger.name == "spacy (en_core_web_sm 1.2)"
    captions, _ = annotate([("a", "dogs run")], tagger)
    assert (captions.verb_names, captions.noun_names) == (("run",), ("dog",))


def test_auto_is_the_pattern_tagger_without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setattr("evenreel.language.taggers.find_spec", lambda _: None)
    assert load_tagger().name.startswith("pattern")
    with pytest.raises(UsageError, match=r"needs spaCy and an English model: `pip install"):
        load_tagger("spacy")


@pytest.mark.usefixtures("pipeline")
def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="The spaCy model 'nowhere' cannot be loaded"):
        SpacyTagger("nowhere")


def test_a_pipeline_without_tags_is_refused(pipeline: StandIn) -> None:
    pipeline.words = {}
    with pytest.raises(UsageError, match=r"gives no part-of-speech tags \(it has: tagger\)"):
        SpacyTagger().tag(["dogs run"])


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match="There is no tagger 'nltk'; choose auto, pattern or spacy"):
        load_tagger("nltk")  # type: ignore[arg-type]


@pytest.mark.skipif(find_spec("spacy") is None, reason="spaCy is not installed")
def test_a_real_pipeline(tmp_path: Path) -> None:
    import spacy

    pipeline = spacy.blank("en")
    rules = pipeline.add_pipe("attribute_ruler")
    rules.add([[{"LOWER": "dogs"}]], {"TAG": "NNS", "LEMMA": "dog"})
    rules.add([[{"LOWER": "run"}]], {"TAG": "VBP"})
    pipeline.to_disk(tmp_path / "model")
    [tokens] = SpacyTagger(str(tmp_path / "model")).tag(["Dogs  run"])
    assert [(one.text, one.lemma, one.tag) for one in tokens] == [("Dogs", "dog", "NNS"), ("run", "run", "VBP")]
