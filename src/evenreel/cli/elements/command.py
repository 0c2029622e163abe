"""`evenreel elements`: a dictionary of what clips may show, and which of its phrases lie nearest to each clip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.elements.library import check_forget, check_library_alone, tell_library
from evenreel.cli.elements.sources import TRAIN, PhraseSources, mined, phrase_encoder, read_captions
from evenreel.cli.evaluate.files import check_place
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import MOST, DeviceOption, JsonOption
from evenreel.cli.progress import share_bar
from evenreel.errors import FeaturesError, UsageError
from evenreel.provenance import provenance_of

if TYPE_CHECKING:
    from evenreel.audits.dictionary.measures import NamedCaptions
    from evenreel.cli.elements.show import LookedAt
    from evenreel.features import FoundClips, StoredClips
    from evenreel.features.scene_elements import EmbeddedDictionary
    from evenreel.language.scene_dictionary import SceneDictionary
    from evenreel.language.scene_elements import MiningSettings
    from evenreel.report.result.record import AuditResult
    from evenreel.types import Encoder

KAPPA = 20

CountOption = Annotated[int, typer.Option(min=1, max=MOST)]
MINED, LISTED, LIBRARY = "Phrases from captions", "Phrases from elsewhere", "In a library"
CORPUS_HELP = "Folder of the corpus: its captions are mined, and its clips looked at."
OUT_HELP = "Where the dictionary goes, with its embeddings and the phrases of each clip."
SPLIT_HELP = (
    f"Part of the corpus whose captions are mined; those of a test split know its answers.  \\[default: {TRAIN}]"
)
TOP_HELP = f"Phrases of each kind that a clip gets.  \\[default: {KAPPA}]"
FEATURES_HELP = "Folder of the corpus's features: their encoder embeds the phrases, and every clip is looked at."
MODEL_HELP = "Model that embeds the phrases, where no features say which one."
LIBRARY_HELP = "Find what the clips of this library show, in place of a CORPUS."
GROUPS_HELP = "Words that count as one, lines such as 'noun: sofa, couch'."


def elements(
    corpus: Annotated[Path | None, typer.Argument(metavar="CORPUS", help=CORPUS_HELP)] = None,
    out: Annotated[Path | None, typer.Option(help=OUT_HELP)] = None,
    features: Annotated[Path | None, typer.Option(help=FEATURES_HELP)] = None,
    rule: Annotated[
        str | None, typer.Option(help="How the features' frames were sampled.  \\[default: the last run's]")
    ] = None,
    model: Annotated[str | None, typer.Option(help=MODEL_HELP)] = None,
    top: Annotated[int | None, typer.Option(min=1, max=MOST, help=TOP_HELP)] = None,
    report: Annotated[Path | None, typer.Option(help="Also write a page with figures to this file.")] = None,
    replaces: Annotated[bool, typer.Option("--replace", help="Replace another dictionary that lies in --out.")] = False,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    split: Annotated[str | None, typer.Option(help=SPLIT_HELP, rich_help_panel=MINED)] = None,
    synonyms: Annotated[Path | None, typer.Option(help=GROUPS_HELP, rich_help_panel=MINED)] = None,
    settings: MiningSettings = from_settings(
        "evenreel.language.scene_elements:MiningSettings",
        leave_out=("synonyms",),
        panel=MINED,
        min_captions=CountOption,
        max_entities=CountOption,
        max_activities=CountOption,
    ),
    sources: PhraseSources = from_settings(
        PhraseSources, panel=LISTED, text=Annotated[Path | None, typer.Option(rich_help_panel=MINED)]
    ),
    library: Annotated[Path | None, typer.Option("--library", "-l", help=LIBRARY_HELP, rich_help_panel=LIBRARY)] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="The library's clips are to show nothing.", rich_help_panel=LIBRARY)
    ] = False,
) -> None:
    """Make a scene dictionary, and find in every clip what it shows. Exit status 3 if clips had been set aside.

    With --library, find what the clips of a library show, to be read on search results and filtered by; where no
    phrases are named, those that come with evenreel are looked for.
    """
    from evenreel.cli.elements.show import Made, show_elements
    from evenreel.corpus import load_corpus
    from evenreel.features import find_clips
    from evenreel.language import NO_SYNONYMS, read_synonyms
    from evenreel.language.scene_dictionary import packaged as packaged_dictionary
    from evenreel.report import write_page
    from evenreel.report.result.page import audit_page

    sources.check(split)
    if forget:
        check_forget(library, sources.given)
    settings = replace(settings, synonyms=NO_SYNONYMS if synonyms is None else read_synonyms(synonyms))
    if library is not None:
        of_a_corpus = {
            "CORPUS": corpus, "--out": out, "--features": features, "--rule": rule, "--model": model, "--top": top,
            "--report": report, "--replace": replaces or None, "--split": split,
        }  # fmt: skip
        check_library_alone(of_a_corpus)
        wanted = None if forget else sources.read(settings) or packaged_dictionary()
        tell_library(library, wanted, device, as_json)
        return
    if features is None and (rule is not None or top is not None):
        raise UsageError("--rule and --top are about clips, which are looked at where --features says; give that too.")
    place = _place(corpus, out, features, report)
    found = sources.read(settings)
    whole = None if corpus is None else load_corpus(corpus)
    encoder = phrase_encoder(features, model, device)
    looked_at = find_clips(features, whole, rule=rule, windows=False) if features and whole else None
    read = None if whole is None else read_captions(whole, settings)
    found = found or mined(read, split, settings)
    _make_room(found, place, replaces=replaces)
    embedded = _kept(found, encoder, place)
    clips = _look(looked_at, embedded, top or KAPPA, place) if looked_at and embedded else None
    made = Made(place, found, embedded, clips, _audited(found, read, clips))
    if report is not None and made.audit is not None:
        inputs = {
            "corpus": corpus, "features": features, "captions": sources.text,
            "phrases": [sources.entities, sources.activities], "dictionary": sources.dictionary, "synonyms": synonyms,
        }  # fmt: skip
        write_page(audit_page([made.audit]), report, provenance_of(inputs))
    show_elements(made, report, as_json)
    if clips is not None and clips.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _place(corpus: Path | None, out: Path | None, features: Path | None, report: Path | None) -> Path:
    """Where the dictionary goes, if what is asked for can be had."""
    if out is None:
        raise UsageError("Say with --out where the dictionary goes: evenreel elements CORPUS --out DIR.")
    if corpus is None and features is not None:
        raise UsageError(f"The features in {features} are of a corpus; name its folder too.")
    if corpus is None and report is not None:
        raise UsageError("The page of --report is about captions and clips; name the folder of their CORPUS too.")
    if report is not None:
        check_place(report)
    return out


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
    from evenreel.audits.dictionary.measures import ChosenElements
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
    from evenreel.audits.dictionary.audit import audit_dictionary

    if read is None and clips is None:
        return None
    with share_bar("auditing the dictionary") as progress:
        return audit_dictionary(dictionary, read, clips.chosen if clips else None, progress=progress)
