"""`evenreel elements`: a dictionary of what clips may show, and which of its phrases lie nearest to each clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.evaluate.command import check_place
from evenreel.cli.options import MOST, DeviceOption, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.text_lines import lines_of
from evenreel.config import OptionForm
from evenreel.errors import CorpusError, FeaturesError, UsageError
from evenreel.provenance import provenance_of

if TYPE_CHECKING:
    from evenreel.audits.dictionary import ChosenElements, NamedCaptions
    from evenreel.checkpoint import Pretrained
    from evenreel.features import FoundClips, SetAside, StoredClips
    from evenreel.features.scene_elements import EmbeddedDictionary
    from evenreel.language.scene_elements import Elements, MiningSettings, SceneDictionary
    from evenreel.report.result import AuditResult
    from evenreel.types import Encoder

KAPPA = 20
TRAIN = "train"
CountOption = Annotated[int, typer.Option(min=1, max=MOST)]
MINED, LISTED = "Phrases from captions", "Phrases from elsewhere"
Looked = tuple["ChosenElements | None", Path | None, Sequence["SetAside"]]
"""Scene elements of clips, the file that keeps them, and clips that had been skipped."""
NO_CLIPS: Looked = (None, None, ())


@dataclass(frozen=True)
class PhraseSources:
    """Sources of phrases, of which at most one is given.

    Attributes:
        text: mine this file: UTF-8, a caption a line; lines that begin with # are skipped.
        entities, activities: UTF-8, a phrase a line, the most important first; lines that begin with # are skipped.
        packaged: everyday things, for clips without captions.
        dictionary: folder of a dictionary that this command or Python made, for another corpus for example.
    """

    text: Path | None = None
    entities: Path | None = None
    activities: Path | None = None
    packaged: bool = False
    dictionary: Path | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that are given."""
        lists = self.entities or self.activities
        options = {"--text": self.text, "--entities and --activities": lists, "--packaged": self.packaged}
        return tuple(option for option, value in {**options, "--dictionary": self.dictionary}.items() if value)

    def check(self, split: str | None) -> None:
        """Check that one source is given at most, and none beside a split whose captions are to be mined."""
        if len(self.given) > 1:
            raise UsageError(
                "Give one of these: --text, --entities with --activities, --packaged, --dictionary; or none of them to "
                "mine the captions of CORPUS."
            )
        if self.given and split is not None:
            raise UsageError(
                f"--split says which captions of CORPUS are mined, and with {self.given[0]} none are; leave one of "
                "them out."
            )

    def read(self, settings: MiningSettings) -> SceneDictionary | None:
        """Read the dictionary from the given source; None where the captions of the corpus are to be mined."""
        from evenreel.features.scene_elements import load_dictionary
        from evenreel.language.scene_elements import dictionary_of, given, packaged

        if self.dictionary is not None:
            return load_dictionary(self.dictionary)
        if self.packaged:
            return packaged()
        if self.text is not None:
            named = _named(lines_of(self.text, "caption"), settings)
            return dictionary_of(named, settings, f"captions of {self.text.name}, read by {_tagger_name(settings)}")
        files = (self.entities, self.activities)
        if not any(files):
            return None
        lists = [[] if path is None else lines_of(path, "phrase") for path in files]
        return given(lists[0], lists[1], " and ".join(path.name for path in files if path is not None))


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
        """Return where the dictionary goes, if what is asked for can be had."""
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
        """Read the synonyms into the settings."""
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
    from evenreel.cli.show_library import print_json
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
    read = None
    if whole is not None:
        from evenreel.audits.dictionary import NamedCaptions

        splits = whole.clips.select("clip_id", "split")
        table = whole.captions.join(splits, on="clip_id", how="left", maintain_order="left")
        named = _named(table["text"].to_list(), settings)
        read = NamedCaptions(named, table["clip_id"].to_list(), table["split"].fill_null("").to_list())
    found = found or mined(read, captions.split, settings)
    _make_room(found, place, replaces=asked.replace)
    embedded = _kept(found, encoder, place)
    clips, path, aside = _look(looked_at, embedded, asked.top or KAPPA, place) if looked_at and embedded else NO_CLIPS
    audit = _audited(found, read, clips)
    if report is not None and audit is not None:
        inputs = {
            "corpus": asked.corpus, "features": features, "captions": sources.text,
            "phrases": [sources.entities, sources.activities], "dictionary": sources.dictionary,
            "synonyms": captions.synonyms,
        }  # fmt: skip
        write_page(audit_page([audit]), report, provenance_of(inputs))
    told = {
        "dictionary": place,
        "digest": found.digest,
        "entities": len(found.entities),
        "activities": len(found.activities),
        "captions": found.captions,
        "source": found.source,
        "uses": found.uses,
        "notices": found.notices,
        "encoder_id": embedded.encoder_id if embedded else None,
        "clips": len(clips.top.clip_ids) if clips else None,
        "elements": path,
        "set_aside": aside,
        "audit": audit.to_json() if audit else None,
        "report": report,
    }
    if as_json:
        print_json(told)
    else:
        _show(told, found, clips, audit)
    if aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def mined(read: NamedCaptions | None, split: str | None, settings: MiningSettings) -> SceneDictionary:
    """Make a dictionary of the captions of one split: `train` by default, or all where no clip has a split."""
    from evenreel.language.scene_elements import dictionary_of

    if read is None:
        raise UsageError(
            "Name a CORPUS to mine its captions, or give --text, --entities, --activities, --packaged or --dictionary."
        )
    there = list(dict.fromkeys(one for one in read.splits if one))
    asked = split or (TRAIN if there else "")
    if asked and not there:
        raise CorpusError(f"The clips of the corpus have no split, so none is {asked!r}; leave --split out.")
    if asked and asked not in there:
        raise CorpusError(
            f"The corpus has no captions of the split {asked!r} (it has captions of {', '.join(there)}); name with "
            "--split those to mine. A dictionary of test captions knows the answers."
        )
    own = [one for one, of in zip(read.named, read.splits, strict=True) if of == asked]
    source = f"captions{f' of {asked}' if asked else ''}, read by {_tagger_name(settings)}"
    return replace(dictionary_of(own, settings, source), splits=(asked,) if asked else ())


def phrase_encoder(features: Path | None, model: str | None, device: str) -> Encoder | None:
    """Load the text tower that phrases are embedded with: that of the features, or the model; None without either."""
    from evenreel.encoders import load_encoder
    from evenreel.features import read_manifest

    if features is None:
        return None if model is None else load_encoder(model, device=device)
    manifest = read_manifest(features)
    if manifest.streams:
        raise FeaturesError(
            f"The features in {features} were computed elsewhere ({manifest.title}), and which text tower belongs to "
            "them is not known; give features that `evenreel features` computed."
        )
    name = model or manifest.encoder_id
    encoder = load_encoder(name, device=device, precision=manifest.precision)
    if encoder.weights_hash != manifest.weights_hash:
        raise FeaturesError(
            f"The features in {features} are of {manifest.encoder_id} with other weights than {name} has here; compute "
            "them again, or name with --model the encoder that they are of."
        )
    return encoder


def text_tower(pretrained: Pretrained, folder: Path | None, features: Path, device: str) -> Encoder | None:
    """Load the text tower that a matcher's features come from; None where they were computed elsewhere."""
    from evenreel.checkpoint.records import ENCODER

    note = pretrained.about.encoder
    if note.stored_name is not None:
        return None
    own = str(folder / ENCODER) if folder is not None and note.trained_further else None
    return phrase_encoder(features, own, device)


def _named(captions: list[str], settings: MiningSettings) -> list[Elements]:
    from evenreel.language.scene_elements import read_elements

    with share_bar("reading the captions") as progress:
        return read_elements(captions, settings=settings, progress=progress)


def _tagger_name(settings: MiningSettings) -> str:
    from evenreel.language import load_tagger

    return load_tagger(settings.tagger).name


def _make_room(dictionary: SceneDictionary, place: Path, *, replaces: bool) -> None:
    """Make room for a dictionary where another one lies, of which something may have been trained."""
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


def _look(found: FoundClips | StoredClips, embedded: EmbeddedDictionary, count: int, place: Path) -> Looked:
    """The nearest phrases of every clip, kept beside the dictionary."""
    from evenreel.audits.dictionary import ChosenElements
    from evenreel.features.scene_elements import clip_means, save_elements, top_of_means

    videos, aside = found.load()
    means = clip_means(videos)
    with share_bar("looking at the clips") as progress:
        top = top_of_means(means, embedded, count, videos.ids, progress)
    path = save_elements(top, embedded.dictionary, place, found.fingerprint())
    return ChosenElements(means, embedded, top), path, aside


def _audited(
    dictionary: SceneDictionary, read: NamedCaptions | None, clips: ChosenElements | None
) -> AuditResult | None:
    """What captions and clips say of the dictionary; None where there are neither."""
    from evenreel.audits.dictionary import audit_dictionary

    if read is None and clips is None:
        return None
    with share_bar("auditing the dictionary") as progress:
        return audit_dictionary(dictionary, read, clips, progress=progress)


_PHRASES, _MANY = 8, 10


def _show(
    told: dict[str, Any], dictionary: SceneDictionary, clips: ChosenElements | None, audit: AuditResult | None
) -> None:
    from evenreel.cli.show_library import WITHOUT, console, list_aside, safe
    from evenreel.report.result import effect_words
    from evenreel.wording import count

    out = console()
    sizes = f"{told['entities']:,} entities and {told['activities']:,} activities"
    read = f" ({count(dictionary.captions, 'caption')})" if dictionary.captions else ""
    out.print(f"{sizes} in {safe(told['dictionary'])}: {safe(dictionary.source)}{read}.")
    for notice in dictionary.notices if audit is None else ():  # an audit tells them too
        out.print(f"[yellow]{safe(notice)}[/]")
    for kind, phrases in (("entities", dictionary.entities), ("activities", dictionary.activities)):
        more = ", ..." if len(phrases) > _PHRASES else ""
        if phrases:
            out.print(f"  {kind}: {safe(', '.join(phrases[:_PHRASES]))}{more}")
    by = told["encoder_id"]
    out.print("  not embedded: give --features or --model for that" if by is None else f"  embedded by {safe(by)}")
    if clips is not None:
        kept = ((clips.top.entities.shape[1], "entities"), (clips.top.activities.shape[1], "activities"))
        sizes = " and ".join(f"{number} {kind}" for number, kind in kept if number)
        out.print(f"The nearest {sizes} of {count(told['clips'], 'clip')}: {safe(told['elements'])}")
        list_aside(told["set_aside"], WITHOUT, most=_MANY)
    if audit is not None:
        out.print(safe(audit.sentence))
        out.print(f"[dim]{safe(effect_words(audit))}[/]")
        for notice in audit.notices:
            out.print(f"[yellow]{safe(notice)}[/]")
    if told["report"]:
        out.print(f"The page with tables and figures: {safe(told['report'])}")
