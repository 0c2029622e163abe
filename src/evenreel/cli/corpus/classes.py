"""`evenreel corpus classes`: find the verbs and nouns of captions, so that relevance has degrees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from evenreel.cli.options import MOST, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import console, print_json, safe
from evenreel.config import OptionForm
from evenreel.errors import UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.language import ClassRules, Tagged, Tagger, VerbNounClasses
    from evenreel.language.taggers import TaggerName
    from evenreel.types import Corpus

_AT_ONCE = 2000
_SHOWN = 12
_MANY_UNKNOWN = 0.2


@dataclass(frozen=True)
class ClassOptions:
    """How the verb and noun classes of captions and clips are found.

    Attributes:
        tagger: `auto`, `pattern` or `spacy`; `auto` is spaCy where a model is installed.
        synonyms: groups of your own, lines such as 'noun: sofa, couch', besides those inside.
        min_captions: drop a class that fewer captions have.
        share: a clip has the classes of this share of its captions.

    Raises:
        UsageError: the share is not above 0 and at most 1.
    """

    tagger: str = "auto"
    synonyms: Path | None = None
    min_captions: Annotated[int, OptionForm(least=1, most=MOST)] = 1
    share: float = 0.25

    def __post_init__(self) -> None:
        from evenreel.language import check_share

        check_share(self.share)

    def rules(self) -> ClassRules:
        """Read the groups of synonyms.

        Raises:
            CorpusError: the file cannot be read, a line has another form, or a word is in two groups.
        """
        from evenreel.language import ClassRules, caption_synonyms, read_synonyms

        groups = caption_synonyms()
        own = groups if self.synonyms is None else groups.updated(read_synonyms(self.synonyms))
        return ClassRules(own, min_captions=self.min_captions)


def find_classes(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the corpus; it is changed.")],
    options: ClassOptions = from_settings(ClassOptions),
    replace: Annotated[bool, typer.Option("--replace", help="Replace classes that are there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fill the verb and noun classes of captions and clips, for `evenreel evaluate --relevance classes`."""
    from evenreel.corpus import load_corpus, save_corpus
    from evenreel.corpus.annotation import save_class_names, with_classes
    from evenreel.language import classes_of, clip_classes, load_tagger, unknown_share

    rules = options.rules()
    corpus = load_corpus(folder)
    if not replace and _annotated(corpus):
        raise UsageError(f"The corpus in {folder} has classes already; --replace finds new ones.")
    chosen = load_tagger(cast("TaggerName", options.tagger))  # it says which there are, of a word it does not know
    tagged = _tagged(corpus, chosen)
    found = classes_of(tagged, rules)
    clips = clip_classes(found, corpus.captions["clip_id"].to_list(), options.share)
    of_clip = dict(zip(clips.clip_ids, zip(clips.verbs, clips.nouns, strict=True), strict=True))
    save_corpus(with_classes(corpus, (found.verbs, found.nouns), of_clip), folder)
    save_class_names(folder, found.verb_names, found.noun_names, chosen.name)
    _show(found, unknown_share(tagged), chosen, as_json)


def _annotated(corpus: Corpus) -> bool:
    tables = (corpus.clips, corpus.captions)
    return any(table[kind].list.len().sum() for table in tables for kind in ("verb_classes", "noun_classes"))


def _tagged(corpus: Corpus, tagger: Tagger) -> list[Tagged]:
    texts = corpus.captions["text"].to_list()
    tagged: list[Tagged] = []
    with share_bar("finding verbs and nouns") as progress:
        for start in range(0, len(texts), _AT_ONCE):
            tagged += tagger.tag(texts[start : start + _AT_ONCE])
            progress(len(tagged) / len(texts))
    return tagged


def _show(found: VerbNounClasses, unknown: float, tagger: Tagger, as_json: bool) -> None:
    without = sum(not verbs and not nouns for verbs, nouns in zip(found.verbs, found.nouns, strict=True))
    if as_json:
        figures: dict[str, Any] = {"tagger": tagger.name, "captions": len(found.verbs), "without": without}
        figures["unknown_share"] = unknown
        print_json(figures | {"verbs": list(found.verb_names), "nouns": list(found.noun_names)})
        return
    console().print(f"{count(len(found.verbs), 'caption')}, read by {safe(tagger.name)}")
    for what, names in (("verbs", found.verb_names), ("nouns", found.noun_names)):
        more = ", ..." if len(names) > _SHOWN else ""
        console().print(f"  {len(names):,} classes of {what}: {safe(', '.join(names[:_SHOWN]))}{more}")
    if without:
        console().print(f"  {count(without, 'caption')} without any")
    if unknown > _MANY_UNKNOWN:
        console().print(
            f"  note: the dictionary does not know {unknown:.0%} of the nouns, verbs, adjectives and adverbs; it is of "
            "English alone, and classes of other words are each word by itself"
        )
