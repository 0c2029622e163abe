"""The default tagger, which needs no download: TextBlob's pattern lexicon, Brill's context rules, caption rules."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from evenreel.language.caption_rules import closed_words, fix_tags
from evenreel.language.folding import dictionary, lemma_of, part_of
from evenreel.language.tokens import Tagged, Token, split_words

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
