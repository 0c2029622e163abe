"""`evenreel features`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenreel.cli import EXIT_SET_ASIDE
from evenreel.cli.from_settings import from_settings
from evenreel.cli.options import (
    MOST,
    AcceptLicenceOption,
    CorpusArgument,
    DeviceOption,
    JsonOption,
    PrecisionOption,
    VideosOption,
)
from evenreel.cli.progress import bars, share_bar
from evenreel.cli.show_library import AGAIN, console, list_aside, print_json, safe
from evenreel.config import DEFAULT_MODEL
from evenreel.errors import UsageError
from evenreel.features.settings import DEFAULT_FRAMES, Words
from evenreel.wording import count

if TYPE_CHECKING:
    from evenreel.features import FeatureReport, FeatureSettings, StoredSettings

MANY = 10
_FOR_STORED = frozenset(("corpus", "frames", "out", "stored", "name", "ids", "as_json"))
_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*")


def features(
    context: typer.Context,
    corpus: CorpusArgument,
    model: Annotated[
        str,
        typer.Option(help="Image and text towers: a hub id, a folder, 'builtin', or a name of 'evenreel models'."),
    ] = DEFAULT_MODEL,
    frames: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST, help=f"Frames of each clip, the middles of equal parts. \\[default: {DEFAULT_FRAMES}]"
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="Instead of --frames: which frames, for example 'every 0.5 s' or 'clip4clip 12'.")
    ] = None,
    words: Annotated[
        Words, typer.Option(help="On-screen text: read by OCR, or the corpus's own (its texts.parquet), believed.")
    ] = "ocr",
    videos: VideosOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the features go. \\[default: CORPUS/features/MODEL-HASH]")
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "float32",
    accept_licence: AcceptLicenceOption = False,
    settings: FeatureSettings = from_settings(
        "evenreel.features.settings:FeatureSettings",
        leave_out=("rule", "videos"),
        windows=Annotated[int, typer.Option(min=1, max=3_600)],
    ),
    stored: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STREAM=PLACE",
            help="Compute nothing: take arrays that others computed, such as rgb=arrays/rgb; may be given again.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="With --stored: what these features are called. \\[default: the streams]")
    ] = None,
    ids: Annotated[
        list[Path] | None,
        typer.Option(help="With --stored: names of the rows of an .npy, one a line; may be given again."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute the features of a corpus once; what is there is kept, and a broken-off run goes on."""
    if stored:
        _check_computes_nothing(context)
        _store(corpus, out, _stored_settings(stored, name, frames, ids or []), as_json)
        return
    if name is not None or ids:
        raise UsageError("--name and --ids are about features of others; give these with --stored STREAM=PLACE.")
    from evenreel.corpus import load_corpus, load_texts
    from evenreel.encoders import load_encoder
    from evenreel.encoders.known_models import check_licence
    from evenreel.features import compute_features, feature_folder
    from evenreel.media import parse_rule

    if frames is not None and rule is not None:
        raise UsageError("Give either --frames or --rule; '--frames 12' is --rule '12 midpoints'.")
    if words == "corpus" and not settings.read_text:
        raise UsageError("Leave --no-ocr out: --words corpus reads no text in frames, and --no-ocr asks for none.")
    check_licence(model, accept_licence)
    settings = replace(
        settings,
        rule=str(parse_rule(rule or f"{frames or DEFAULT_FRAMES} midpoints")),  # before a model is loaded
        videos=videos or corpus,
    )
    shipped = load_texts(corpus) if words == "corpus" else None
    if words == "corpus" and shipped is None:
        raise UsageError(f"The corpus {corpus} ships no words on screen; leave --words out to read them by OCR.")
    tables = load_corpus(corpus)
    with bars() as progress:
        progress.stage("loading the model")
        encoder = load_encoder(model, device=device, precision=precision)
        place = out or feature_folder(corpus, encoder)
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


def _stored_settings(stored: list[str], name: str | None, frames: int | None, ids: list[Path]) -> StoredSettings:
    """What --stored, --name, --frames and --ids ask for."""
    from evenreel.features import StoredSettings

    streams: dict[str, list[Path]] = {}
    for one in stored:
        stream, equals, place = one.partition("=")
        if not (equals and place and _NAME.fullmatch(stream)):
            raise UsageError(f"--stored takes STREAM=PLACE, for example rgb=arrays/rgb, not {one!r}.")
        streams.setdefault(stream, []).append(Path(place))
    if ids and not any(place.suffix.lower() == ".npy" for places in streams.values() for place in places):
        raise UsageError("--ids names the rows of an .npy, and no place is one; leave it out.")
    called = name or "-".join(streams)
    if not _NAME.fullmatch(called):
        raise UsageError(f"--name {called!r} cannot be used; a name has letters, digits, dots, - and _.")
    return StoredSettings(called, streams, frames, tuple(ids))


def _store(corpus: Path, out: Path | None, settings: StoredSettings, as_json: bool) -> None:
    from evenreel.corpus import load_corpus
    from evenreel.features import read_manifest, store_features

    folder = out or corpus / "features" / settings.name
    with share_bar("reading the arrays") as progress:
        report = store_features(load_corpus(corpus), folder, settings, progress)
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
    for path, note in report.notes[:MANY]:
        out.print(f"  note: {safe(path)}: {safe(note)}")
    if len(report.notes) > MANY:
        out.print(f"  and {len(report.notes) - MANY:,} more notes (--json lists them all)")
    list_aside(report.set_aside, more=AGAIN)
