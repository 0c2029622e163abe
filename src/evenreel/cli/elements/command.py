"""`evenreel elements`: a dictionary of what clips may show, and which of its phrases lie nearest to each clip."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.elements.sources import PhraseSources, mined, phrase_encoder, read_captions
from evenreel.cli.evaluate.command import check_place
from evenreel.cli.options import MOST, DeviceOption, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.config import OptionForm
from evenreel.errors import FeaturesError, UsageError
from evenreel.provenance import provenance_of

if TYPE_CHECKING:
    from evenreel.audits.dictionary import NamedCaptions
    from evenreel.cli.elements.show import LookedAt
    from evenreel.features import FoundClips, StoredClips
    from evenreel.features.scene_elements import EmbeddedDictionary
    from evenreel.language.scene_dictionary import SceneDictionary
    from evenreel.language.scene_elements import MiningSettings
    from evenreel.report.result import AuditResult
    from evenreel.types import Encoder

KAPPA = 20

CountOption = Annotated[int, typer.Option(min=1, max=MOST)]
MINED, LISTED = "Phrases from captions", "Phrases from elsewhere"


@dataclass(frozen=True)
class ElementsOptions:
    """The corpus that a scene dictionary is about, and what is written.

    Attributes:
        corpus: folder of the corpus: its captions are mined, and its clips looked at.
        out: where the dictionary goes, with its embeddings and the phrases of each clip.
        features: folder of the corpus's features: their encoder embeds the phrases, and every clip is looked at.
        rule: how the features' frames were sampled; None for the last run's.
        model: model that embeds the phrases, where no features say which one.
        top: phrases of each kind that a clip gets; None for 20.
        report: also write a page with figures to this file.
        replace: replace another dictionary that lies in --out.
    """

    corpus: Annotated[Path | None, typer.Argument(metavar="CORPUS")] = None
    out: Path | None = None
    features: Path | None = None
    rule: str | None = None
    model: str | None = None
    top: Annotated[int | None, OptionForm(least=1, most=MOST)] = None
    report: Path | None = None
    replace: bool = False

    def place(self) -> Path:
        """Return where the dictionary goes, if what is asked for can be had.

        Raises:
            UsageError: no place is named, or an option has nothing that it could be about.
            OutputError: the page cannot be written.
        """
        if self.features is None and (self.rule is not None or self.top is not None):
            raise UsageError(
                "--rule and --top are about clips, which are looked at where --features says; give that too."
            )
        if self.out is None:
            raise UsageError("Say with --out where the dictionary goes: evenreel elements CORPUS --out DIR.")
        if self.corpus is None and self.features is not None:
            raise UsageError(f"The features in {self.features} are of a corpus; name its folder too.")
        if self.corpus is None and self.report is not None:
            raise UsageError("The page of --report is about captions and clips; name the folder of their CORPUS too.")
        if self.report is not None:
            check_place(self.report)
        return self.out


@dataclass(frozen=True)
class MinedCaptions:
    """Captions that phrases are mined from.

    Attributes:
        split: part of the corpus whose captions are mined; those of a test split know its answers; None for train.
        synonyms: words that count as one, lines such as 'noun: sofa, couch'.
        settings: how phrases are found in captions.
    """

    settings: MiningSettings
    split: str | None = None
    synonyms: Path | None = None

    def rules(self) -> MiningSettings:
        """Read the synonyms into the settings.

        Raises:
            CorpusError: the file of synonyms cannot be read.
        """
        from evenreel.language import NO_SYNONYMS, read_synonyms

        groups = NO_SYNONYMS if self.synonyms is None else read_synonyms(self.synonyms)
        return replace(self.settings, synonyms=groups)


def elements(
    asked: ElementsOptions = from_settings(ElementsOptions),
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    captions: MinedCaptions = from_settings(
        MinedCaptions,
        panel=MINED,
        settings=from_settings(
            "evenreel.language.scene_elements:MiningSettings",
            leave_out=("synonyms",),
            panel=MINED,
            min_captions=CountOption,
            max_entities=CountOption,
            max_activities=CountOption,
        ),
    ),
    sources: PhraseSources = from_settings(
        PhraseSources, panel=LISTED, text=Annotated[Path | None, typer.Option(rich_help_panel=MINED)]
    ),
) -> None:
    """Make a scene dictionary, and find in every clip what it shows. Exit status 3 if clips had been skipped."""
    from evenreel.cli.elements.show import Made, show_elements
    from evenreel.corpus import load_corpus
    from evenreel.features import find_clips
    from evenreel.report import write_page
    from evenreel.report.page import audit_page

    sources.check(captions.split)
    settings = captions.rules()
    place, features, report = asked.place(), asked.features, asked.report
    found = sources.read(settings)
    whole = None if asked.corpus is None else load_corpus(asked.corpus)
    encoder = phrase_encoder(features, asked.model, device)
    looked_at = find_clips(features, whole, rule=asked.rule, windows=False) if features and whole else None
    read = None if whole is None else read_captions(whole, settings)
    found = found or mined(read, captions.split, settings)
    _make_room(found, place, replaces=asked.replace)
    embedded = _kept(found, encoder, place)
    clips = _look(looked_at, embedded, asked.top or KAPPA, place) if looked_at and embedded else None
    made = Made(place, found, embedded, clips, _audited(found, read, clips))
    if report is not None and made.audit is not None:
        inputs = {
            "corpus": asked.corpus, "features": features, "captions": sources.text,
            "phrases": [sources.entities, sources.activities], "dictionary": sources.dictionary,
            "synonyms": captions.synonyms,
        }  # fmt: skip
        write_page(audit_page([made.audit]), report, provenance_of(inputs))
    show_elements(made, report, as_json)
    if clips is not None and clips.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _make_room(dictionary: SceneDictionary, place: Path, *, replaces: bool) -> None:
    """Make room for a dictionary where another one lies, of which something may have been trained.

    Raises:
        UsageError: another one, or what cannot be read, is not to be replaced.
    """
    from evenreel.features.scene_elements import TABLE, load_dictionary, remove_dictionary

    if not (place / TABLE).exists():
        return
    try:
        there = load_dictionary(place).digest
    except FeaturesError as error:
        there, what = None, f"a dictionary that cannot be read ({error.__cause__ or error})"
    else:
        what = "another dictionary"
    if there == dictionary.digest:
        return
    if not replaces:
        raise UsageError(f"{place} holds {what}; name another --out, or give --replace.")
    remove_dictionary(place)


def _kept(dictionary: SceneDictionary, encoder: Encoder | None, place: Path) -> EmbeddedDictionary | None:
    """The dictionary is kept, and embedded where there is an encoder."""
    from evenreel.features.scene_elements import embed, save_dictionary, save_embedded

    if encoder is None:
        save_dictionary(dictionary, place)
        return None
    with share_bar("embedding the phrases") as progress:
        embedded = embed(dictionary, encoder, progress)
    save_embedded(embedded, place)
    return embedded


def _look(found: FoundClips | StoredClips, embedded: EmbeddedDictionary, count: int, place: Path) -> LookedAt:
    """The nearest phrases of every clip, kept beside the dictionary."""
    from evenreel.audits.dictionary import ChosenElements
    from evenreel.cli.elements.show import LookedAt
    from evenreel.features.scene_elements import clip_means, save_elements, top_of_means

    videos, aside = found.load()
    means = clip_means(videos)
    with share_bar("looking at the clips") as progress:
        top = top_of_means(means, embedded, count, videos.ids, progress)
    path = save_elements(top, embedded.dictionary, place, found.fingerprint())
    return LookedAt(ChosenElements(means, embedded, top), path, aside)


def _audited(dictionary: SceneDictionary, read: NamedCaptions | None, clips: LookedAt | None) -> AuditResult | None:
    """What captions and clips say of the dictionary; None where there are neither."""
    from evenreel.audits.dictionary import audit_dictionary

    if read is None and clips is None:
        return None
    with share_bar("auditing the dictionary") as progress:
        return audit_dictionary(dictionary, read, clips.chosen if clips else None, progress=progress)
