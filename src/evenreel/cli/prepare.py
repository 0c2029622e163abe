"""`evenreel prepare`: what test-time training needs of the source goes into the checkpoint, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import MOST, MOST_SEED, DeviceOption, JsonOption, from_settings
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import WITHOUT, console, list_aside, print_json, safe
from evenreel.config import OptionForm
from evenreel.errors import CheckpointError, CorpusError, FeaturesError, UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.adaptation.prepared import FoundConfounders, Note, PreparedSource, PrepareSettings
    from evenreel.checkpoint import Pretrained
    from evenreel.features import SetAside
    from evenreel.features.scene_elements import EmbeddedDictionary
    from evenreel.training.batches import FeatureExamples
    from evenreel.types import Corpus, VideoFeatures

ELEMENTS, KMEANS = "elements", "kmeans"
VALIDATION = "val"
MANY = 10

CHECKPOINT_HELP = "A trained matcher, as a folder; of the hub, get a copy first."


@dataclass(frozen=True)
class PrepareSource:
    """The clips and captions that a matcher was trained on.

    Attributes:
        corpus: folder of the corpus that the matcher was trained on.
        features: folder of the corpus's features, by the encoder that the matcher was trained with.
        split: part of the corpus that the matcher was trained on.
        validation: split that the correction is measured on; None for val, where the corpus has it.
        pretrained_features: folder of features by the matcher's towers before their training, for one that selects
            scene elements.
    """

    corpus: Annotated[Path, typer.Argument(metavar="CORPUS")]
    features: Path
    split: str = "train"
    validation: str | None = None
    pretrained_features: Path | None = None

    def __post_init__(self) -> None:
        if self.validation == self.split:
            raise UsageError(
                f"--validation is {self.split}, which is prepared from; name another split, or leave it out."
            )


@dataclass(frozen=True)
class FitOptions:
    """How the correction of `evenreel prepare` is fitted, and to which confounders.

    Attributes:
        confounders: what clips tend to show: `elements`, the everyday phrases that they are most like; `kmeans`,
            centres of their frames; the folder of a scene dictionary that `evenreel elements` made; or a file of
            vectors (.npy, .npz, .safetensors).
        count: confounders, except those of a file.
        steps: steps that the correction, and each flow, learns for; None for 1000.
        seed: seed of all that is random; None for 0.
        settings: a YAML file of how it is fitted: causal, causal_fit, flow and seed.
        changes: PLACE=VALUE instead of what is set otherwise: causal_fit.lr=1e-3, causal.lambda_mi=1; may be given
            again.
    """

    confounders: str = ELEMENTS
    count: Annotated[int, OptionForm(least=1, most=MOST)] = 256
    steps: Annotated[int | None, OptionForm(least=0, most=MOST)] = None
    seed: int | None = None
    settings: Path | None = None
    changes: Annotated[tuple[str, ...], OptionForm("--set")] = ()

    def load(self) -> PrepareSettings:
        """Read the settings; --set goes before --steps and --seed, and these before the file."""
        from evenreel.adaptation.prepared import load_prepare_settings

        named = [] if self.steps is None else [f"causal_fit.steps={self.steps}", f"flow.steps={self.steps}"]
        named += [] if self.seed is None else [f"seed={self.seed}"]
        return load_prepare_settings(self.settings, [*named, *self.changes])


def prepare(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    source: PrepareSource = from_settings(PrepareSource),
    fit: FitOptions = from_settings(FitOptions, seed=Annotated[int | None, typer.Option(min=0, max=MOST_SEED)]),
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Keep with a checkpoint what `evenreel adapt` needs of its source, so that no source video is needed later.

    Exit status 3 if clips had been skipped.
    """
    from evenreel.adaptation.prepared import prepare as prepare_source
    from evenreel.adaptation.prepared import save_prepared
    from evenreel.checkpoint import load_matcher
    from evenreel.checkpoint.records import CONFIG, read_config
    from evenreel.corpus import load_corpus
    from evenreel.matchers.adapter import Adapted

    how = fit.load()
    folder = _own_folder(checkpoint)
    weights = read_config(folder / CONFIG).weights_sha256
    pretrained = load_matcher(folder, device=device)
    corpus = load_corpus(source.corpus)
    usual = VALIDATION if source.split != VALIDATION and VALIDATION in corpus.clips["split"].to_list() else None
    measured = source.validation or usual
    learned, aside = _part(pretrained, source, corpus, source.split)
    checked = None if measured is None else _part(pretrained, source, corpus, measured)[0]

    phrases = partial(_packaged, pretrained, folder, source.features, device)
    found = _confounders(fit, pretrained, phrases, learned.video_features, how.seed)
    prepared = prepare_source(pretrained.matcher, learned, found, how, validation=checked, bar=share_bar)
    prepared = replace(prepared, note=replace(prepared.note, corpus=source.corpus.resolve().name, split=source.split))
    place = save_prepared(folder, prepared, weights)
    _show(place, prepared, measured, aside, as_json)
    if not as_json and not isinstance(pretrained.matcher, Adapted):
        console().print("  no adapter in front: TTT++ and TTTFlow cannot adapt it, pseudo-labels can")
    if aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _part(
    pretrained: Pretrained, source: PrepareSource, corpus: Corpus, split: str
) -> tuple[FeatureExamples, tuple[SetAside, ...]]:
    """A split of the corpus that the matcher was trained on, and what had been skipped of it."""
    from evenreel.checkpoint import load_features_for
    from evenreel.corpus import select
    from evenreel.training.batches import FeatureExamples, pairs_of

    part = select(corpus, split=split)
    loaded = load_features_for(pretrained, source.features, part, pretrained_features=source.pretrained_features)
    try:
        pairs = pairs_of(part, loaded.texts.ids, loaded.videos.ids)
    except CorpusError as error:
        raise CorpusError(
            f"No caption of the split {split} has a clip that can be used; is it the right split?"
        ) from error
    return FeatureExamples(pairs, loaded.texts, loaded.videos), loaded.set_aside


def _own_folder(name: str) -> Path:
    """The folder of a checkpoint that can be written to."""
    from evenreel.extras import HUB_ID, named_folder

    folder = named_folder(name)
    if folder is not None:
        return folder
    if HUB_ID.fullmatch(name) and ".." not in name:
        place = name.partition("@")[0].split("/")[1]
        raise CheckpointError(
            f"{name} is a checkpoint of the hub, and what is prepared is kept with it; get a copy with `hf download "
            f"{name.partition('@')[0]} --local-dir {place}` and name that folder."
        )
    raise CheckpointError(f"{name!r} is no folder of a checkpoint; `evenreel train` makes one.")


def _confounders(
    fit: FitOptions,
    pretrained: Pretrained,
    packaged: Callable[[], EmbeddedDictionary],
    videos: VideoFeatures,
    seed: int,
) -> FoundConfounders:
    """The confounders that are named, for the source's clips; the seed is that of the centres of frames."""
    from evenreel.adaptation.prepared import FoundConfounders, confounders_of
    from evenreel.adaptation.titan_correction import read_confounders
    from evenreel.features.scene_elements import load_embedded

    if fit.confounders == KMEANS:
        return confounders_of(videos, None, fit.count, seed)
    if fit.confounders == ELEMENTS:
        return confounders_of(videos, packaged(), fit.count)
    place = Path(fit.confounders)
    if place.is_dir():
        return confounders_of(videos, load_embedded(place, pretrained.about.encoder.weights_hash), fit.count)
    if not place.exists():
        raise UsageError(
            f"--confounders is {fit.confounders!r}; give {ELEMENTS}, {KMEANS}, the folder of a scene dictionary or a "
            "file."
        )
    return FoundConfounders("file", read_confounders(place))


def _packaged(pretrained: Pretrained, folder: Path, features: Path, device: str) -> EmbeddedDictionary:
    """The phrases that come with evenreel, as the text tower of the features reads them."""
    from evenreel.cli.elements import text_tower
    from evenreel.features.scene_elements import embed
    from evenreel.language.scene_elements import packaged

    encoder = text_tower(pretrained, folder, features, device)
    if encoder is None:
        raise FeaturesError(
            "The matcher takes features that were computed elsewhere, and which text tower could read phrases for them "
            f"is not known; give --confounders {KMEANS}, or a file."
        )
    with share_bar("reading the phrases") as progress:
        return embed(packaged(), encoder, progress)


def _show(
    place: Path, prepared: PreparedSource, measured: str | None, aside: tuple[SetAside, ...], as_json: bool
) -> None:
    """Say what was fitted, how well, how large it is and where it lies."""
    size = sum(path.stat().st_size for path in place.iterdir())
    note = prepared.note
    if as_json:
        kept = {"prepared": place, "bytes": size, "validation": measured}
        print_json(kept | asdict(note) | {"uses": prepared.uses, "set_aside": aside})
        return
    out = console()
    read = (
        f"{count(note.captions, 'caption')} and {count(note.clips, 'clip')} of {safe(note.corpus)}, {safe(note.split)}"
    )
    out.print(f"Prepared from {read}, into {safe(place)} ({size / 1e6:,.1f} MB).")
    for line in _lines(note, len(prepared.correction.source) if prepared.correction else 0, measured):
        out.print(f"  {safe(line)}")
    for use in prepared.uses:
        out.print(f"  [yellow]it uses {safe(use)}[/]: scores after adaptation say so")
    list_aside(aside, WITHOUT, most=MANY)


def _lines(note: Note, confounders: int, measured: str | None) -> list[str]:
    names = f" ({', '.join(note.names[:5])}, ...)" if note.names else ""
    kind = {"elements": "phrases that most clips are near", "kmeans": "centres of frames", "file": "vectors of a file"}
    told = note.figures
    lines = [
        f"confounders: {confounders:,} {kind[note.confounders]}{names}",
        f"bias correction: cross-entropy of pairs {told['bce_start']:.3f}, {told['bce_end']:.3f} after "
        f"{told['steps']:,.0f} steps",
    ]
    if measured is not None:
        lines += [
            f"on {measured}, {100 * told['validation_accuracy']:.1f} % of {told['validation_pairs']:,.0f} pairs, and "
            "of as many others, are told right",
            f"on {measured}, the first clip is right for {100 * told['first_cosine']:.1f} % of "
            f"{told['first_captions']:,.0f} captions by cosine, and for {100 * told['first_corrected']:.1f} % by the "
            "correction's choice among the nearest",
        ]
    flows = ", ".join(
        f"{name} {told[f'flow_{part}']:.3f} (a Gaussian: {told[f'gaussian_{part}']:.3f})"
        for name, part in (("captions", "text"), ("clips", "video"))
    )
    return [*lines, f"moments and flows, in nats a number: {flows}"]
