"""Taggers: hand-tagged captions, rules one by one, annotated narrations, and spaCy where it is installed."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nltk
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.language import narrations, word_agreement
from evenreel.errors import UsageError
from evenreel.language import Tagged, annotate, lemmas, load_tagger, unknown_share
from evenreel.language.folding import dictionary
from evenreel.language.taggers import PatternTagger, SpacyTagger, _rules_for, _textblob
from evenreel.language.tokens import split_words
from tests.language.words import WORDS

TAGGER = PatternTagger()


def tag(caption: str) -> Tagged:
    [tokens] = TAGGER.tag([caption])
    return tokens


@pytest.mark.parametrize(
    ("caption", "verbs", "nouns", "adjectives"),
    [
        ("a man is slicing a tomato", "be slice", "man tomato", ""),
        ("take plate", "take", "plate", ""),
        ("open door", "open", "door", ""),
        ("wash hands", "wash", "hand", ""),
        ("close fridge and take out milk", "close take", "fridge milk", ""),
        ("still wash bowl", "wash", "bowl", ""),
        ("continue rinsing saucepan", "continue rinse", "saucepan", ""),
        ("wash cutting board", "wash", "cutting board", ""),
        ("put fork and spoon in drying rack", "put", "fork spoon drying rack", ""),
        ("put spoon into sink", "put", "spoon sink", ""),
        ("squeeze sponge", "squeeze", "sponge", ""),
        ("take chopped onion", "take", "onion", "chopped"),
        ("crush can", "crush", "can", ""),
        ("a woman fires a gun", "fire", "woman gun", ""),
        ("a girl jumps into a river", "jump", "girl river", ""),
        ("the lady cut the fish in half", "cut", "lady fish half", ""),
        ("a man cooking pasta", "cook", "man pasta", ""),
        ("two boys are dancing", "be dance", "boy", ""),
        ("a running dog catches a ball", "catch", "dog ball", "running"),
        ("two cooks make a cake", "make", "cook cake", ""),
        ("a man uses a funnel to pour something", "use pour", "man funnel something", ""),
        ("on the liquid", "", "liquid", ""),
        ("someone practicing karate", "practice", "someone karate", ""),
        ("a man s belly", "", "man belly", ""),
        ("kitchen knives on a table", "", "kitchen knife table", ""),
        ("a swimming pool", "", "swimming pool", ""),
        ("water", "", "water", ""),
        ("two bears investigate dirt", "investigate", "bear dirt", ""),
        ("this shows a dog", "show", "dog", ""),
        ("throw peels", "throw", "peel", ""),
        ("put down curry powder", "put", "curry powder", ""),
        ("a man tries to save a woman", "try save", "man woman", ""),
        ("add spices to bowl", "add", "spice bowl", ""),
        ("a number of ferrets sleep", "sleep", "number ferret", ""),
        ("a cat and dog play together", "play", "cat dog", ""),
        ("a wolf and a bear run around", "run", "wolf bear", ""),
        ("a man and a woman kiss", "kiss", "man woman", ""),
        ("two boys swing in a park.", "swing", "boy park", ""),
        ("a group of kids dance", "dance", "group kid", ""),
        ("a man sings and two women dance", "sing dance", "man woman", ""),
        ("a man eats bread and cheese slice", "eat", "man bread cheese slice", ""),
        ("rinse", "rinse", "", ""),
        ("a small dog barks", "bark", "dog", "small"),
    ],
)
def test_hand_tagged_captions(caption: str, verbs: str, nouns: str, adjectives: str) -> None:
    tokens = tag(caption)
    assert " ".join(lemmas(tokens, "verb")) == verbs
    assert " ".join(lemmas(tokens, "noun")) == nouns
    assert " ".join(token.text for token in tokens if token.part == "adjective") == adjectives


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("", ""),
        ("  \n ", ""),
        ("it's a man's dog, isn't it?", "it 's a man 's dog , is n't it ?"),
        ("it’s his", "it ’s his"),
        ("stir-fried 2.5 eggs 10:30", "stir-fried 2.5 eggs 10:30"),
        ("dog🐕runs...", "dog 🐕 runs . . ."),
        ("日本 café", "日本 café"),
    ],
)
def test_words_and_marks(caption: str, words: str) -> None:
    assert split_words(caption) == words.split()


@given(st.text(max_size=60))
def test_any_text_is_tagged_and_loses_nothing(text: str) -> None:
    tokens = tag(text)
    assert "".join(token.text for token in tokens) == "".join(text.split())
    assert all(token.tag and token.lemma == token.lemma.lower() for token in tokens)


@given(st.lists(st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join), max_size=6))
def test_a_caption_has_its_tags_whatever_stands_around_it(captions: list[str]) -> None:
    together = TAGGER.tag(captions)
    assert together == [tag(caption) for caption in captions]
    shout = [[(one.lemma, one.tag) for one in tokens] for tokens in TAGGER.tag([one.upper() for one in captions])]
    assert shout == [[(one.lemma, one.tag) for one in tokens] for tokens in together]


@given(st.lists(st.sampled_from(WORDS), max_size=8))
def test_leaving_rules_out_changes_nothing(words: list[str]) -> None:
    """The context rules of the tags that are there do what all of them do."""
    parser, context = _textblob()
    plain = parser.find_tags(words)
    few = _rules_for(frozenset(one for _, one in plain))
    assert type(context).apply(few, [list(one) for one in plain]) == context.apply([list(one) for one in plain])


def test_symbols_are_no_nouns() -> None:
    assert lemmas(tag("😀 dog ♥ runs !!!"), "noun") == ["dog"]


@pytest.mark.parametrize(
    ("captions", "share"),
    [(["a dog runs", "the cats"], 0), (["un hombre toca la guitarra"], 0.8), (["собака бежит"], 1), (["the of"], 0)],
)
def test_words_of_another_language_are_unknown(captions: list[str], share: float) -> None:
    assert unknown_share(TAGGER.tag(captions)) == pytest.approx(share, abs=0.2)


def test_nothing_is_ever_asked_of_nltk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nltk was asked for its data")

    monkeypatch.setattr(nltk, "download", refuse)
    monkeypatch.setattr(nltk.data, "find", refuse)
    monkeypatch.setattr(nltk.data, "load", refuse)
    assert len(tag("an entirely new caption that no cache has seen")) == 9


def test_importing_the_layer_is_cheap_and_two_runs_are_equal() -> None:
    code = (
        "import sys, evenreel.language as l\n"
        "heavy = {'textblob', 'nltk', 'numpy', 'polars', 'lemminflect', 'spacy', 'torch'} & set(sys.modules)\n"
        "found = l.annotate([('a', 'a man cuts two tomatoes'), ('b', 'turn on tap')], l.load_tagger('pattern'))\n"
        "print(sorted(heavy), found)"
    )
    command = [sys.executable, "-c", code]  # with another seed of hashes than this process
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "1"})
    assert done.stdout == f"[] {annotate([('a', 'a man cuts two tomatoes'), ('b', 'turn on tap')], TAGGER)}\n"


@pytest.mark.parametrize(
    ("name", "nouns", "count", "least"),
    [
        ("EPIC_100_retrieval_test.csv", "all_nouns", 3858, (0.99, 0.97, 0.93)),
        ("EPIC_100_retrieval_train_sentence.csv", "nouns", 15989, (0.98, 0.96, 0.92)),  # no rule was made for them
    ],
)
def test_annotated_narrations(
    shared_data: Path, name: str, nouns: str, count: int, least: tuple[float, float, float]
) -> None:
    """Shares of main verbs that are right, of found nouns that are annotated, of annotated nouns that are found."""
    rows = narrations(shared_data / "epic_kitchens_100" / name, nouns)
    assert len(rows) == count
    shares = word_agreement(rows, TAGGER.tag)
    assert all(share > floor for share, floor in zip(shares, least, strict=True)), shares


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
