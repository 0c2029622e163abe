"""`evenreel features`: what a model sees and reads in the clips of a corpus, computed once and kept."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.options import MOST, JsonOption, from_settings
from evenreel.cli.progress import bars, share_bar
from evenreel.cli.show_library import AGAIN, console, list_aside, list_notes, print_json, safe
from evenreel.config import AUTO, DEFAULT_MODEL, OptionForm
from evenreel.errors import UsageError
from evenreel.features.settings import DEFAULT_FRAMES, Words
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.encoders.loading import LoadedEncoder
    from evenreel.features import FeatureReport, FeatureSettings, StoredSettings

MANY = 10
_FOR_STORED = frozenset(("corpus", "frames", "out", "stored", "name", "ids", "as_json"))
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


@dataclass(frozen=True)
class FeaturePlaces:
    """A corpus, where its videos are, and where its features go.

    Attributes:
        corpus: folder of the corpus.
        videos: folder in which the paths of the clips begin; None for CORPUS.
        out: where the features go; None for CORPUS/features/MODEL-HASH.
    """

    corpus: Annotated[Path, typer.Argument(metavar="CORPUS")]
    videos: Path | None = None
    out: Path | None = None


@dataclass(frozen=True)
class TowerChoice:
    """The model that computes features, and how it runs.

    Attributes:
        model: image and text towers: a hub id, a folder, `builtin`, or a name of `evenreel models`.
        device: where the model runs: auto, cpu, cuda, cuda:1, mps.
        precision: float32, bfloat16, float16 or int8; `auto` is float32, or what the name of the model says.
        accept_licence: accept the model's licence where that forbids commercial use.
    """

    model: str = DEFAULT_MODEL
    device: str = "auto"
    precision: str = AUTO
    accept_licence: bool = False

    def load(self) -> LoadedEncoder:
        """Load the model and its processors."""
        from evenreel.encoders import load_encoder

        return load_encoder(self.model, device=self.device, precision=self.precision)


@dataclass(frozen=True)
class FrameChoice:
    """Frames and words of a clip that become features.

    Attributes:
        frames: frames of each clip, the middles of equal parts; None for 12.
        rule: instead of --frames: which frames, for example 'every 0.5 s' or 'clip4clip 12'.
        words: on-screen text: read by OCR, or the corpus's own (its texts.parquet), believed.
    """

    frames: Annotated[int | None, OptionForm(least=1, most=MOST)] = None
    rule: str | None = None
    words: Annotated[Words, typer.Option()] = "ocr"

    def __post_init__(self) -> None:
        if self.frames is not None and self.rule is not None:
            raise UsageError("Give either --frames or --rule; '--frames 12' is --rule '12 midpoints'.")


@dataclass(frozen=True)
class StoredChoice:
    """Features that others computed.

    Attributes:
        stored: compute nothing: take arrays that others computed, such as rgb=arrays/rgb; may be given again.
        name: with --stored: what these features are called; None for the streams.
        ids: with --stored: names of the rows of an .npy, one a line; may be given again.
    """

    stored: Annotated[tuple[str, ...], typer.Option(metavar="STREAM=PLACE")] = ()
    name: str | None = None
    ids: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if not self.stored and (self.name is not None or self.ids):
            raise UsageError("--name and --ids are about features of others; give these with --stored STREAM=PLACE.")

    def settings(self, frames: int | None) -> StoredSettings:
        """Make the settings of reading the features, at most so many frames of each clip; None for all."""
        from evenreel.features import StoredSettings

        streams: dict[str, list[Path]] = {}
        for one in self.stored:
            stream, equals, place = one.partition("=")
            if not (equals and place and _NAME.fullmatch(stream)):
                raise UsageError(f"--stored takes STREAM=PLACE, for example rgb=arrays/rgb, not {one!r}.")
            streams.setdefault(stream, []).append(Path(place))
        if self.ids and not any(place.suffix.lower() == ".npy" for places in streams.values() for place in places):
            raise UsageError("--ids names the rows of an .npy, and no place is one; leave it out.")
        called = self.name or "-".join(streams)
        if not _NAME.fullmatch(called):
            raise UsageError(f"--name {called!r} cannot be used; a name has letters, digits, dots, - and _.")
        return StoredSettings(called, streams, frames, self.ids)


def features(
    context: typer.Context,
    places: FeaturePlaces = from_settings(FeaturePlaces),
    towers: TowerChoice = from_settings(TowerChoice),
    chosen: FrameChoice = from_settings(FrameChoice),
    settings: FeatureSettings = from_settings(
        "evenreel.features.settings:FeatureSettings",
        leave_out=("rule", "videos"),
        windows=Annotated[int, typer.Option(min=1, max=3_600)],
    ),
    others: StoredChoice = from_settings(StoredChoice),
    as_json: JsonOption = False,
) -> None:
    """Compute the features of a corpus once; what is there is kept, and a broken-off run goes on."""
    if others.stored:
        _check_computes_nothing(context)
        _store(places, others.settings(chosen.frames), as_json)
        return
    from evenreel.corpus import load_corpus, load_texts
    from evenreel.encoders.loading import check_licence
    from evenreel.features import compute_features, feature_folder
    from evenreel.media import parse_rule

    corpus = places.corpus
    own_words = chosen.words == "corpus"
    if own_words and not settings.read_text:
        raise UsageError("Leave --no-ocr out: --words corpus reads no text in frames, and --no-ocr asks for none.")
    check_licence(towers.model, towers.accept_licence)
    settings = replace(
        settings,
        rule=str(parse_rule(chosen.rule or f"{chosen.frames or DEFAULT_FRAMES} midpoints")),  # before a model is loaded
        videos=places.videos or corpus,
    )
    shipped = load_texts(corpus) if own_words else None
    if own_words and shipped is None:
        raise UsageError(f"The corpus {corpus} ships no words on screen; leave --words out to read them by OCR.")
    tables = load_corpus(corpus)
    with bars() as progress:
        progress.stage("loading the model")
        encoder = towers.load()
        place = places.out or feature_folder(corpus, encoder)
        report = compute_features(tables, place, encoder, settings, progress, words=shipped)
    _show(report, as_json)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _check_computes_nothing(context: typer.Context) -> None:
    """Refuse what says how features are computed."""
    others = {one.name: one.opts[0] for one in context.command.params if one.name and one.name not in _FOR_STORED}
    sources = {option: context.get_parameter_source(name) for name, option in others.items()}
    if strange := [option for option, source in sources.items() if source and source.name == "COMMANDLINE"]:
        raise UsageError(f"--stored takes features that are computed already; leave {' and '.join(strange)} out.")


def _store(places: FeaturePlaces, settings: StoredSettings, as_json: bool) -> None:
    from evenreel.corpus import load_corpus
    from evenreel.features import read_manifest, store_features

    folder = places.out or places.corpus / "features" / settings.name
    with share_bar("reading the arrays") as progress:
        report = store_features(load_corpus(places.corpus), folder, settings, progress)
    streams = read_manifest(folder).streams
    if as_json:
        print_json(report.to_json() | {"streams": dict(streams)})
    else:
        shown = console()
        parts = " + ".join(f"{stream} {size:,}" for stream, size in streams)
        whole = f" = {sum(size for _, size in streams):,}" if len(streams) > 1 else ""
        shown.print(f"Features of {safe(report.encoder_id)} in {safe(folder)}:")
        shown.print(f"  {count(report.computed, 'clip')} ({count(report.frames, 'frame')}) of {parts}{whole} numbers")
        shown.print("  every stream, and every frame of all streams together, is of unit length")
        more = f", the first {MANY} of which are (--json lists them all)" if len(report.set_aside) > MANY else ""
        list_aside(report.set_aside, more=more, most=MANY)
    if report.set_aside:
        raise typer.Exit(EXIT_SET_ASIDE)


def _show(report: FeatureReport, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    out = console()
    there = f"{count(report.unchanged, 'clip')} and {count(report.texts_unchanged, 'caption')}"
    rate = f", {report.frames / report.seconds:.1f} frames/s" if report.frames and report.seconds else ""
    done = f"{count(report.computed, 'clip')} ({count(report.frames, 'frame')}) and {count(report.texts, 'caption')}"
    if report.did_nothing:
        out.print(f"Nothing to do: {there} are up to date in {safe(report.folder)}.")
    else:
        out.print(f"Features of {safe(report.encoder_id)} in {safe(report.folder)}:")
        out.print(f"  {done} computed in {report.seconds:.1f} s{rate}")
        out.print(f"  {there} were up to date")
    for path in report.damaged:
        out.print(f"  [yellow]damaged, computed anew:[/] {safe(path)}")
    list_notes(report.notes)
    list_aside(report.set_aside, more=AGAIN)
