"""`evenreel prepare`: what test-time training needs of the source goes into the checkpoint, once."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import MOST, MOST_SEED, DeviceOption, JsonOption, SeenOption
from evenreel.cli.progress import share_bar
from evenreel.cli.show_library import WITHOUT, console, list_aside, print_json, safe
from evenreel.errors import CheckpointError, CorpusError, FeaturesError, UsageError
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.adaptation.prepared import Note, PreparedSource
    from evenreel.adaptation.preparing import FoundConfounders, SourceSplit
    from evenreel.checkpoint import Pretrained
    from evenreel.features import SetAside
    from evenreel.features.scene_elements import EmbeddedDictionary
    from evenreel.types import Corpus, VideoFeatures

ELEMENTS, KMEANS = "elements", "kmeans"
VALIDATION = "val"
MANY = 10

CHECKPOINT_HELP = "A trained matcher, as a folder; of the hub, get a copy first."
CORPUS_HELP = "Folder of the corpus that it was trained on."
FEATURES_HELP = "Folder of the corpus's features, by the encoder that the matcher was trained with."
CONFOUNDERS_HELP = (
    "What clips tend to show: elements, the everyday phrases that they are most like; kmeans, centres of their frames; "
    "the folder of a scene dictionary that `evenreel elements` made; or a file of vectors (.npy, .npz, .safetensors)."
)
STEPS_HELP = "Steps that the correction, and each flow, learns for.  \\[default: 1000]"
SETTINGS_HELP = "A YAML file of how it is fitted: causal, causal_fit, flow and seed."
SET_HELP = "PLACE=VALUE instead of what is set otherwise: causal_fit.lr=1e-3, causal.lambda_mi=1; may be given again."
VALIDATION_HELP = f"Split that the correction is measured on.  \\[default: {VALIDATION}, where the corpus has it]"


def prepare(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help=CHECKPOINT_HELP)],
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help=CORPUS_HELP)],
    features: Annotated[Path, typer.Option(help=FEATURES_HELP)],
    split: Annotated[str, typer.Option(help="Part of the corpus that the matcher was trained on.")] = "train",
    validation: Annotated[str | None, typer.Option(help=VALIDATION_HELP)] = None,
    seen: SeenOption = None,
    confounders: Annotated[str, typer.Option(help=CONFOUNDERS_HELP)] = ELEMENTS,
    count: Annotated[int, typer.Option(min=1, max=MOST, help="Confounders, except those of a file.")] = 256,
    steps: Annotated[int | None, typer.Option(min=0, max=MOST, help=STEPS_HELP)] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=MOST_SEED, help="Of all that is random.  \\[default: 0]")
    ] = None,
    settings: Annotated[Path | None, typer.Option(help=SETTINGS_HELP)] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Keep with a checkpoint what `evenreel adapt` needs of its source, so that no source video is needed later.

    Exit status 3 if clips had been set aside.
    """
    from evenreel.adaptation.prepared import save_prepared
    from evenreel.adaptation.preparing import prepare as prepare_source
    from evenreel.adaptation.settings_files import load_prepare_settings
    from evenreel.checkpoint import load_matcher
    from evenreel.checkpoint.config_file import CONFIG, read_config
    from evenreel.corpus import load_corpus
    from evenreel.matchers.adapter import Adapted

    named = [] if steps is None else [f"causal_fit.steps={steps}", f"flow.steps={steps}"]
    named += [] if seed is None else [f"seed={seed}"]
    how = load_prepare_settings(settings, [*named, *(changes or ())])
    folder = _own_folder(checkpoint)
    weights = read_config(folder / CONFIG).weights_sha256
    pretrained = load_matcher(folder, device=device)
    whole = load_corpus(corpus)
    read = _Source(folder, pretrained, whole, features, seen, device)
    source, aside = read.part(split)
    measured = _validation(whole, validation, split)
    checked = None if measured is None else read.part(measured)[0]
    found = _confounders(confounders, read, source.videos, count, how.seed)
    prepared = prepare_source(pretrained.matcher, source, found, how, validation=checked, bar=share_bar)
    prepared = replace(prepared, note=replace(prepared.note, corpus=corpus.resolve().name, split=split))
    place = save_prepared(folder, prepared, weights)
    _show(place, prepared, measured, aside, as_json)
    if not as_json and not isinstance(pretrained.matcher, Adapted):
        console().print("  no adapter in front: TTT++ and TTTFlow cannot adapt it, pseudo-labels can")
    if aside:
        raise typer.Exit(EXIT_SET_ASIDE)


@dataclass(frozen=True, eq=False)
class _Source:
    """The checkpoint in its folder, and the corpus and features that it was trained on."""

    folder: Path
    pretrained: Pretrained
    corpus: Corpus
    features: Path
    seen: Path | None
    device: str

    def part(self, split: str) -> tuple[SourceSplit, tuple[SetAside, ...]]:
        """A split, and what had been set aside of it."""
        from evenreel.adaptation.preparing import SourceSplit
        from evenreel.checkpoint import load_features_for
        from evenreel.corpus import select
        from evenreel.training.data.pairs import pairs_of

        part = select(self.corpus, split=split)
        loaded = load_features_for(self.pretrained, self.features, part, seen=self.seen)
        try:
            pairs = pairs_of(part, loaded.texts.ids, loaded.videos.ids)
        except CorpusError as error:
            raise CorpusError(
                f"No caption of the split {split} has a clip that can be used; is it the right split?"
            ) from error
        return SourceSplit(loaded.texts, loaded.videos, pairs), loaded.set_aside


def _own_folder(name: str) -> Path:
    """The folder of a checkpoint that can be written to.

    Raises:
        CheckpointError: it is one of the hub, whose copy in the cache is not ours to change.
    """
    from evenreel.encoders.hub import HUB_ID, named_folder

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


def _validation(corpus: Corpus, asked: str | None, split: str) -> str | None:
    """The split to measure on; None where none is asked for and the corpus has not the usual one, or it is `split`.

    Raises:
        UsageError: what is prepared from was asked to be measured on, which says nothing of other clips.
    """
    if asked == split:
        raise UsageError(f"--validation is {split}, which is prepared from; name another split, or leave it out.")
    if asked is not None:
        return asked
    return VALIDATION if split != VALIDATION and VALIDATION in corpus.clips["split"].to_list() else None


def _confounders(asked: str, source: _Source, videos: VideoFeatures, count: int, seed: int) -> FoundConfounders:
    """Confounders of the source's clips.

    Args:
        asked: the word, the folder or the file that is named.
        source: the checkpoint, and its features.
        videos: of the source.
        count: how many.
        seed: of the centres of frames.
    """
    from evenreel.adaptation.preparing import FoundConfounders, confounders_of
    from evenreel.adaptation.titan.confounders import read_confounders
    from evenreel.features.scene_elements import load_embedded

    if asked == KMEANS:
        return confounders_of(videos, None, count, seed)
    if asked == ELEMENTS:
        return confounders_of(videos, _packaged(source), count)
    place = Path(asked)
    if place.is_dir():
        return confounders_of(videos, load_embedded(place, source.pretrained.about.encoder.weights_hash), count)
    if not place.exists():
        raise UsageError(
            f"--confounders is {asked!r}; give {ELEMENTS}, {KMEANS}, the folder of a scene dictionary or a file."
        )
    return FoundConfounders("file", read_confounders(place))


def _packaged(source: _Source) -> EmbeddedDictionary:
    """The phrases that come with evenreel, as the text tower of the features reads them."""
    from evenreel.cli.elements.sources import text_tower
    from evenreel.features.scene_elements import embed
    from evenreel.language.scene_dictionary import packaged

    encoder = text_tower(source.pretrained, source.folder, source.features, source.device)
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
