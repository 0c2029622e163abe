"""Parts of speech of captions: taggers, patterns of tags, and the rules that set right what they get wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, Literal

from evenreel.errors import UsageError
from evenreel.extras import to_install
from evenreel.language.folding import dictionary, lemma_of, part_of
from evenreel.language.synonyms import caption_synonyms, packaged_lines, stop_verbs
from evenreel.language.tokens import Tagged, Tagger, Token, split_words

# Rules that correct part-of-speech tags of captions: commands without a subject, verbs tagged as nouns, and back.
#
# A tagger trained on newspapers reads `open door` as adjective and noun and `a woman fires a gun` as two nouns. A rule
# looks at one word, what the dictionary knows it as and its neighbours, and gives a new tag or None; it sees the fixed
# tags of the words before. The verbs that captions use are those of the package's synonyms.

PARTICLES = frozenset({"up", "down", "off", "on", "out", "away", "back", "over", "in", "around"})
"""Words that go with a verb without an object of their own."""

_PREPOSITIONS = PARTICLES - {"back"} | {"into", "onto", "from", "inside", "under", "behind", "between", "near", "with"}
_INDEFINITE = frozenset({"someone", "somebody", "something", "everyone", "everybody", "anyone"})
_FORMS_OF_BE = frozenset({"is", "are", "was", "were", "be", "been", "being", "'s", "'re"})
_FINITE = ("VBZ", "VBP", "VBD", "MD")
_NOUNS = ("NN", "NNS", "NNP", "NNPS")
_OPENERS = ("DT", "PRP$", "POS")
_CLAUSE_WORDS = frozenset({"while", "as", "when", "where", "that"})
_SINGULAR = frozenset({"a", "an", "one", "this", "another", "each"})
_JOINS = frozenset({"and", "of"})
_AUXILIARIES = frozenset({"be", "have", "get"})


@dataclass
class _Caption:
    """Words in small letters, and their tags as far as they are fixed."""

    words: Sequence[str]
    tags: list[str]

    def tag(self, place: int) -> str:
        return self.tags[place] if 0 <= place < len(self.tags) else ""

    def word(self, place: int) -> str:
        return self.words[place] if 0 <= place < len(self.words) else ""

    @property
    def is_command(self) -> bool:
        return self.tag(0) == "VB" or (self.tag(0) == "RB" and self.tag(1) == "VB")

    def has_finite_verb(self, place: int, but: frozenset[str] = frozenset()) -> bool:
        """Whether one stands before, in the same clause; some words do not count."""
        for before in range(place - 1, -1, -1):
            if self.tags[before] in _FINITE and self.words[before] not in but:
                return True
            if self.tags[before] in ("CC", ",", ".", "WDT", "WP", "WRB") or self.words[before] in ("while", "as"):
                return False
        return False

    def has_plural_subject(self, place: int) -> bool:
        """Whether `two dogs`, `a cat and a dog` or `a group of dogs` stands right before, where a clause starts."""
        start = place
        while start > 0 and (
            self.tags[start - 1] in (*_NOUNS, *_OPENERS, "JJ", "CD") or self.words[start - 1] in _JOINS
        ):
            start -= 1
        if start > 0 and self.tags[start - 1] not in (",", ".") and self.words[start - 1] not in _CLAUSE_WORDS:
            return self.words[start] == "and" and self.tag(place - 1) == "NNS"
        return self.tag(place - 1) == "NNS" or "and" in self.words[start + 1 : place]

    def opener(self, place: int) -> str:
        """The determiner of the noun phrase that ends before a place."""
        before = place - 1
        while before >= 0 and self.tags[before] in (*_NOUNS, "JJ"):
            before -= 1
        return self.word(before) if before >= 0 and self.tags[before] in (*_OPENERS, "CD") else ""


Rule = Callable[[_Caption, int], "str | None"]


def fix_tags(words: Sequence[str], tags: Sequence[str]) -> list[str]:
    """Return the Penn Treebank tags of a caption's words (in small letters), corrected by every rule.

    >>> fix_tags(["open", "door"], ["JJ", "NN"])
    ['VB', 'NN']
    >>> fix_tags(["a", "woman", "fires", "a", "gun"], ["DT", "NN", "NNS", "DT", "NN"])
    ['DT', 'NN', 'VBZ', 'DT', 'NN']
    """
    caption = _Caption(words, list(tags))
    for rules in (_FIXED, _RULES):  # a command is known by the word after it, so fixed words come first
        for place in range(len(words)):
            new = next((new for rule in rules if (new := rule(caption, place)) is not None), None)
            caption.tags[place] = caption.tags[place] if new is None else new
    return caption.tags


@lru_cache(maxsize=1)
def closed_words() -> frozenset[str]:
    """Return the closed-class words (articles, prepositions, pronouns), never taken for nouns or verbs of their own."""
    return frozenset(packaged_lines("closed_words.txt"))


@lru_cache(maxsize=1)
def _caption_verbs() -> frozenset[str]:
    return frozenset(verb.split()[0] for verb in caption_synonyms().verbs) | stop_verbs()


@cache
def _is(word: str, part: str) -> bool:
    return part in dictionary(word)


@cache
def _is_common_verb(word: str) -> bool:
    """Whether some form of it is a verb that captions use."""
    return _is(word, "verb") and lemma_of(word, "verb") in _caption_verbs()


def _is_base(word: str) -> bool:
    return _is_common_verb(word) and word in dictionary(word)["verb"]


@lru_cache(maxsize=1)
def _compounds() -> frozenset[tuple[str, str]]:
    pairs = (line.split() for line in packaged_lines("compounds.txt"))
    return frozenset((first, second) for first, second in pairs)


def _number(caption: _Caption, place: int) -> str | None:
    """`2`, which the lexicon has as `to`."""
    return "CD" if caption.word(place).isdecimal() else None


def _small_word(caption: _Caption, place: int) -> str | None:
    """`into`, `down`, `someone`, `can`: words of which the lexicon or its rules make another part of speech."""
    word, tag = caption.word(place), caption.tag(place)
    if part_of(tag) and not any(map(str.isalnum, word)):
        return "SYM"
    if word == "still" and caption.tag(place - 1) not in _OPENERS:
        return "RB"
    if word == "can" and tag == "MD" and caption.tag(place + 1)[:2] not in ("VB", "RB", "PR", "NN", "DT", "MD"):
        return "NN"
    if word in _INDEFINITE:
        return "NN"
    if word == "s" and caption.tag(place + 1) != "VBG":  # captions whose apostrophes were stripped
        return "POS"
    return "IN" if word in _PREPOSITIONS and tag not in ("IN", "RB", "RP", "TO") else None


def _impossible(caption: _Caption, place: int) -> str | None:
    """`karate` as a verb, `man` as an adjective: tags that no dictionary has for the word."""
    word, part = caption.word(place), part_of(caption.tag(place))
    known = dictionary(word)
    if part is None or part in known or not known or word in closed_words():
        return None
    if "noun" in known:
        return "NN" if word in known["noun"] else "NNS"
    return "RB" if "adverb" in known else None


def _compound(caption: _Caption, place: int) -> str | None:
    """`wash cutting board`, but not `is cutting boards`."""
    if not caption.word(place).endswith("ing") or caption.word(place - 1) in _FORMS_OF_BE:
        return None
    pair = (caption.word(place), lemma_of(caption.word(place + 1), "noun"))
    return "NN" if pair in _compounds() else None


def _noun_after_preposition(caption: _Caption, place: int) -> str | None:
    """`into sink`, `of ferrets`, `a music video`: things that the lexicon has as verbs."""
    word, tag, before = caption.word(place), caption.tag(place), caption.tag(place - 1)
    if not _is(word, "noun"):
        return None
    if tag == "VBZ":
        return "NNS" if before == "IN" and caption.word(place - 1) not in ("as", "that", "while") else None
    if tag == "VBP" and before in ("NN", "POS") and not _is_common_verb(word):
        return "NN"
    follows = before == "IN" and caption.word(place - 1) in _PREPOSITIONS - PARTICLES | {"in", "on"}
    return "NN" if tag in ("VBP", "VB") and follows else None


def _command(caption: _Caption, place: int) -> str | None:
    """`open door`, `open fridge and close tap`: a base form where a command starts."""
    word, follower = caption.word(place), caption.tag(place + 1)
    starts = place == 0 or (place == 1 and caption.tag(0) == "RB")
    goes_on = caption.is_command and caption.tag(place - 1) in ("CC", ",", "RB")
    if not (starts or goes_on) or not _is_base(word):
        return None
    names_a_thing = word in caption_synonyms().nouns
    if names_a_thing and len(caption.words) == 1:
        return None
    if names_a_thing and not starts and follower in ("", "IN", "TO", "CC", ",", "."):
        return "NN"  # take fork and spoon
    return None if follower in _FINITE or follower in ("VBG", "VBN") else "VB"


def _third_person(caption: _Caption, place: int) -> str | None:
    """`a girl jumps into a river`: a plural after a singular noun that has no verb yet."""
    if caption.tag(place) != "NNS" or caption.tag(place - 1) not in ("NN", "NNP", "PRP", "WDT", "WP", "RB"):
        return None
    if not _is(caption.word(place), "verb") or caption.has_finite_verb(place) or caption.is_command:
        return None
    if caption.tag(place + 1) in _FINITE:
        return None
    sure = caption.opener(place) in _SINGULAR or caption.tag(place - 1) in ("PRP", "WDT", "WP")
    return "VBZ" if sure or _is_common_verb(caption.word(place)) else None


def _bare_verb(caption: _Caption, place: int) -> str | None:
    """`a man cut the cake`, `a cat and dog play together`: a base form after a subject, before what opens an object.

    After a plural subject it may end the clause or stand before an adverb or preposition too.
    """
    if caption.tag(place) not in ("NN", "VB") or caption.tag(place - 1) not in _NOUNS:
        return None
    if caption.is_command or caption.has_finite_verb(place) or not _is_base(caption.word(place)):
        return None
    follower = caption.tag(place + 1)
    ends = follower in ("", ",", ".", "RB", "RP", "IN", "TO", "CC")
    return "VBP" if follower in ("DT", "PRP$", "PRP") or (ends and caption.has_plural_subject(place)) else None


def _progressive(caption: _Caption, place: int) -> str | None:
    """`a man cooking pasta`, `is ice skating`: what ends in -ing after a subject is done."""
    word = caption.word(place)
    if caption.tag(place) not in ("NN", "JJ") or not word.endswith("ing") or not _is_common_verb(word):
        return None
    before = caption.tag(place - 1)
    if _compound(caption, place) or (before in _NOUNS and caption.has_finite_verb(place, but=_FORMS_OF_BE)):
        return None
    goes_on = before == "VB" and lemma_of(caption.word(place - 1), "verb") in stop_verbs() | {"stop"}
    if place == 0 or before == "RB" or goes_on:
        return "VBG" if caption.tag(place + 1) not in ("", *_FINITE) else None
    return "VBG" if before in (*_NOUNS, "PRP", "VBZ", "VBP", "VBD") else None


def _modifier(caption: _Caption, place: int) -> str | None:
    """`take chopped onion`, `a running dog`: a participle before its noun, after what opens a noun phrase."""
    tag, before = caption.tag(place), caption.tag(place - 1)
    if tag not in ("VBN", "VBD", "VBG") or caption.tag(place + 1) not in (*_NOUNS, "JJ"):
        return None
    if before in (*_OPENERS, "JJ", "CD"):
        return "JJ"
    if tag == "VBG":
        return None
    is_object = before.startswith("VB") and lemma_of(caption.word(place - 1), "verb") not in _AUXILIARIES
    return "JJ" if (before in ("IN", "TO", "CC") and place > 1) or is_object else None


def _noun_after_opener(caption: _Caption, place: int) -> str | None:
    """`a funnel`, `on the liquid`: what ends a noun phrase is a noun."""
    tag, before, word = caption.tag(place), caption.tag(place - 1), caption.word(place)
    if not _is(word, "noun") or before not in (*_OPENERS, "JJ"):
        return None
    if tag in ("VB", "VBP") and (before in _OPENERS or caption.opener(place)):
        return "NN"
    ends = caption.tag(place + 1) not in (*_NOUNS, "JJ", "VBG", "VBN", "CC")
    return "NN" if tag == "JJ" and before in _OPENERS and ends else None


def _object_of_command(caption: _Caption, place: int) -> str | None:
    """`squeeze sponge`, `put down drain`: what follows a command is its object."""
    before = place - 1
    if before > 0 and caption.word(before) in PARTICLES:
        before -= 1
    if place == 0 or caption.tag(before) != "VB" or not _is(caption.word(place), "noun"):
        return None
    if caption.tag(place) in ("VB", "VBP", "MD"):
        return "NN"
    return "NNS" if caption.tag(place) == "VBZ" else None


def _plural_after_opener(caption: _Caption, place: int) -> str | None:
    """`two bears`, `some sounds`, but `this shows`."""
    if caption.tag(place) != "VBZ" or not _is(caption.word(place), "noun"):
        return None
    singular = caption.word(place - 1) in _SINGULAR | {"that"}
    return "NNS" if caption.tag(place - 1) in ("CD", "JJ", *_OPENERS) and not singular else None


def _goal(caption: _Caption, place: int) -> str | None:
    """`to save a person`, `add to bowl`: after `to`, a verb before what opens its object, else what captions use."""
    word, tag = caption.word(place), caption.tag(place)
    if caption.tag(place - 1) != "TO" or tag not in ("NN", "VB", "JJ", "IN"):
        return None
    if caption.tag(place + 1) in (*_OPENERS, "PRP"):
        return "VB" if word in dictionary(word).get("verb", ()) else None
    return "NN" if tag == "VB" and _is(word, "noun") and not _is_common_verb(word) else None


_FIXED: tuple[Rule, ...] = (_number, _small_word, _compound, _impossible)
_RULES: tuple[Rule, ...] = (
    _noun_after_preposition,
    _command,
    _object_of_command,
    _third_person,
    _bare_verb,
    _progressive,
    _modifier,
    _noun_after_opener,
    _plural_after_opener,
    _goal,
)


# The default tagger, which needs no download: TextBlob's pattern lexicon, Brill's context rules, caption rules.

_CACHED_CAPTIONS = 1 << 17


class PatternTagger:
    """Offline tagger for English captions; see `evenreel.language.tokens.Tagger`.

    Words are looked up in small letters, so a name is a common noun and capitals change nothing. The lexicon gives
    the tag that a word has most often, Brill's context rules (which TextBlob ships but does not apply) and the rules
    of `caption_rules` fix it.
    """

    @property
    def name(self) -> str:
        """Name of the tagger, `pattern`, with the version of TextBlob."""
        from importlib.metadata import version

        return f"pattern (textblob {version('textblob')})"

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        """Split captions into words and tag them: return the tokens of each caption."""
        return [_tag(caption) for caption in captions]


@lru_cache(maxsize=_CACHED_CAPTIONS)
def _tag(caption: str) -> Tagged:
    texts = split_words(caption)
    words = [text.lower().replace("’", "'") for text in texts]
    if not words:
        return ()
    parser, context = _textblob()
    plain = parser.find_tags(words)
    rules = _rules_for(frozenset(tag for _, tag in plain))
    fixed = type(context).apply(rules, [list(pair) for pair in plain])
    tags = [new if _can_be(word, new) else old for word, (_, old), (_, new) in zip(words, plain, fixed, strict=True)]
    tags = fix_tags(words, tags)
    return tuple(map(_token, texts, words, tags))


@cache
def _rules_for(tags: frozenset[str]) -> list[list[str]]:
    """The context rules that start from one of some tags, which a caption has few of: a third of the time."""
    return [rule for rule in _textblob()[1] if rule[0] in tags or rule[0] == "*"]


@cache
def _can_be(word: str, tag: str) -> bool:
    """Whether the dictionary knows a word as what the context rules make of it: `of` is no verb, whatever they say."""
    part = part_of(tag)
    progressive = tag != "VBG" or word.endswith("ing")
    return part in dictionary(word) and word not in closed_words() and progressive


@cache
def _token(text: str, word: str, tag: str) -> Token:
    """One object for all places of a word: a corpus has far fewer words than places."""
    return Token(text, lemma_of(word, part_of(tag)), tag)


@lru_cache(maxsize=1)
def _textblob() -> tuple[Any, Any]:
    """The parser and the context rules, loaded; that takes a second or two."""
    from textblob.en import lexicon, parser

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # TextBlob leaves closing its files to the interpreter
        len(lexicon), len(lexicon.context)
    return parser, lexicon.context


MODELS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
"""English models, the best first."""

_BATCH = 256
_UNUSED = ("ner", "entity_linker", "textcat")


class SpacyTagger:
    """Tagger of captions that runs a spaCy pipeline; see `evenreel.language.tokens.Tagger`.

    Args:
        model: name of an installed model or path of a folder with one; None takes the best that is installed.
    """

    def __init__(self, model: str | None = None) -> None:
        model = model or installed_model()
        if find_spec("spacy") is None or model is None:
            raise UsageError(
                f"Tagging with spaCy needs spaCy and an English model: `{to_install('spacy')}`, then "
                "`python -m spacy download en_core_web_sm`; or choose the tagger `pattern`, which needs neither."
            )
        self._pipeline = _load(model)
        meta = self._pipeline.meta
        self.name = f"spacy ({model} {meta.get('version', '')})"

    def tag(self, captions: Sequence[str]) -> list[Tagged]:
        """Split captions into words and tag them: return the tokens of each; equal captions are tagged once."""
        distinct = list(dict.fromkeys(captions))
        tagged = map(_tokens, self._pipeline.pipe(distinct, batch_size=_BATCH))
        of_caption = dict(zip(distinct, tagged, strict=True))
        if any(of_caption.values()) and not any(token.tag for tokens in of_caption.values() for token in tokens):
            raise UsageError(
                f"The pipeline {self.name} gives no part-of-speech tags (it has: "
                f"{', '.join(self._pipeline.pipe_names) or 'nothing'}); take one with a tagger."
            )
        return [of_caption[caption] for caption in captions]


def installed_model() -> str | None:
    """Return the name of the best spaCy model that is installed, out of `MODELS`; None where none is."""
    if find_spec("spacy") is None:
        return None
    return next((model for model in MODELS if find_spec(model) is not None), None)


def _load(model: str) -> Any:
    import spacy

    try:
        return spacy.load(model, exclude=list(_UNUSED))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The spaCy model {model!r} cannot be loaded ({error}); give the name of an installed model, such as "
            "en_core_web_sm, or a folder that holds one."
        ) from error


def _tokens(document: Any) -> Tagged:
    """Words of a document; the dictionary gives the lemmas that the pipeline does not."""
    return tuple(
        Token(word.text, (word.lemma_ or lemma_of(word.text, part_of(word.tag_))).lower(), word.tag_)
        for word in document
        if not word.is_space
    )


TaggerName = Literal["auto", "pattern", "spacy"]


def load_tagger(name: TaggerName = "auto") -> Tagger:
    """Load a part-of-speech tagger by name; `auto` is spaCy where an English model of it is installed, else `pattern`.

    Classes found by different taggers differ: keep `Tagger.name` with what is derived from tags.

    Raises:
        UsageError: the name is unknown, or `spacy` is named and it or its model is not installed.
    """
    if name == "pattern" or (name == "auto" and installed_model() is None):
        return PatternTagger()
    if name in ("auto", "spacy"):
        return SpacyTagger()
    raise UsageError(f"There is no tagger {name!r}; choose auto, pattern or spacy.")
