"""Loading an encoder by the model's name: where its files are, a first reading that can be killed, the form they have.

Files of a stranger's model can hang libraries, or crash them. A folder that was read well once is known by the state of
its files, and is read at once from then on.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import logging
import string
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from evenreel.config import AUTO, DEFAULT_MODEL, MediaLimits, check_kind, described
from evenreel.documents import brief
from evenreel.encoders.checkpoint import (
    ENDINGS,
    OPEN_CLIP_CONFIG,
    OPEN_CLIP_WEIGHTS,
    PICTURES,
    TEXT,
    TOKENIZER,
    TOKENIZER_FILES,
    has_onnx,
    is_open_clip,
    missing_onnx_parts,
    missing_parts,
    onnx_names,
    open_checkpoint,
    open_onnx,
    read_record,
)
from evenreel.encoders.encoder import (
    OnnxEncoder,
    accelerator,
    cached_by,
    garbage_left,
    of_model,
    pieces_file,
    write_pieces,
)
from evenreel.errors import EncoderError, MediaError, UsageError
from evenreel.extras import HUB_ID, Told, cached_folder, fetch, installed, located, named_folder
from evenreel.files import write_durably
from evenreel.media.workers import Message, Worker
from evenreel.types import Encoder

if TYPE_CHECKING:
    from evenreel.encoders.towers import TowerEncoder

log = logging.getLogger("evenreel")

LoadedEncoder: TypeAlias = "TowerEncoder | OnnxEncoder"
Precision = Literal["auto", "float32", "bfloat16", "float16", "int8"]
SAMPLES = ("", "a red ball", string.printable, "ﬁ Ａ é 红球 мяч كرة ０１ 🏖️")  # captions that it is tried with
MOST_TWICE = 4 * 2**30  # bytes of weights that are loaded onto the CPU too, to see whether a GPU is faster
LEAST_BYTES, LEAST_S = 4 * 2**30, 120.0  # that any model may take, beside what its files are worth

_PUNCTUATION = r"""[!"\#\$%\&'\(\)\*\+,\-\./:;<=>\?@\[\\\]\^_`\{\|\}\~]"""
_CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PATTERNS = frozenset(
    {" ", "``", "''", r"\s+", " {2,}", _CLIP, rf"<\|startoftext\|>|<\|endoftext\|>|{_CLIP}"}
    | {_QWEN, _QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")}  # the latter is Llama's
    | {_PUNCTUATION, f"[{string.punctuation}]", r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"}
)
"""What the tokenizers of the known families look for, as a text or a regular expression."""
STEPS = {
    "normalizer": frozenset(
        {"BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend", "Replace"}
        | {"Sequence", "Strip", "StripAccents"}
    ),
    "pre_tokenizer": frozenset(
        {"BertPreTokenizer", "ByteLevel", "Digits", "Metaspace", "Punctuation", "Sequence", "Split", "Whitespace"}
        | {"WhitespaceSplit"}
    ),
    "model": frozenset({"BPE", "Unigram", "WordPiece"}),
}
"""Kinds of steps that they have."""
MOST_STEPS = 16
LONGEST_WORD, LONGEST_LETTER = 1_000, 128  # letters of a word that is cut to pieces; bytes that a letter may become


def load_encoder(
    name: str | PathLike[str],
    *,
    device: str = "auto",
    precision: str = AUTO,
    revision: str | None = None,
    batch_size: int = 32,
) -> LoadedEncoder:
    """Load a model in safetensors or in ONNX form; nothing else is read, and no code of a model is run.

    The families that are understood are in `evenreel.encoders.checkpoint`. A model in ONNX form runs on ONNX Runtime
    on the CPU; so does the built-in one, and any checkpoint with its export in the same folder, unless another device
    or precision is named. Without torch, graphs beside a checkpoint are taken whoever made them.

    int8, and float16 where torch cannot calculate it, are graphs of their own (`onnx/vision_model_int8.onnx`): their
    vectors are others, so they have a hash and an id of their own, which ends in `#int8` or `#float16`.

    A model of the hub that is in the cache is used from there without a look at the network. A folder is read in a
    process of its own at first, which is stopped where it takes too much time or memory.

    Args:
        name: `builtin`, a folder, or a hub id `org/name` or `org/name@revision`; `#int8` after it names a precision.
        device: `auto` (a CUDA GPU where there is one, for a checkpoint), `cpu`, `cuda`, `cuda:1`, ...
        precision: the numbers the towers calculate with: `float32`, `bfloat16` (torch), `float16` (torch on a GPU, or
            graphs), `int8` (graphs); `auto` is that of the name, else float32.
        revision: commit, branch or tag of a hub id.
        batch_size: frames or captions at a time; it halves by itself where memory does not suffice.

    Raises:
        UsageError: the call itself is wrong.
        EncoderError: the model cannot be had, read or trusted, or needs torch, which is not installed.
    """
    check_kind(name, (str, PathLike), "name", "give builtin, a folder, or a hub id")
    check_kind(device, str, "device", "give its name, such as auto or cpu")
    if not isinstance(precision, str) or precision not in get_args(Precision):
        raise UsageError(f"The precision {described(precision)} is not one of {', '.join(get_args(Precision))}.")
    check_kind(batch_size, Integral, "batch_size", "give a whole number")
    if batch_size < 1:
        raise UsageError(f"The batch size is {batch_size}; it must be 1 or more.")
    plain, precision = named_precision(fspath(name), precision)
    encoder_id, folder = locate(plain, revision, precision=precision)
    known = read_first(folder, device, precision)
    return _open(encoder_id, folder, device, precision, batch_size, known)


def named_precision(name: str, precision: str = AUTO) -> tuple[str, str]:
    """Take the precision off a name such as `org/name#int8`, by which libraries know graphs in another precision."""
    plain, _, said = name.rpartition("#")
    if not plain or said not in ENDINGS or named_folder(name):
        return name, "float32" if precision == AUTO else precision
    if precision not in (AUTO, said):
        raise UsageError(f"The model {name} is in {said}, not in {precision}; leave --precision out.")
    return plain, said


def _open(
    encoder_id: str, folder: Path, device: str, precision: str, batch_size: int = 32, known: str = ""
) -> LoadedEncoder:
    """Load a model from its folder, in the form that it has; where that is the one that is `known`, so is its hash."""
    form, _, hashed = known.partition(" ")

    def towers() -> TowerEncoder:
        if not installed("torch"):  # asked first: of a hub's checkpoint, its settings alone are fetched then
            raise EncoderError(
                f"The model in {folder} is a checkpoint, which needs torch: pip install 'evenreel[torch]'; or use a "
                "model in ONNX form (--model FOLDER or ORG/NAME of the hub), or the small one inside the package "
                "(--model builtin)."
            )
        checkpoint = open_checkpoint(folder)
        with ThreadPoolExecutor(1) as pool, garbage_left():
            # Hashing 600 MB takes a second or two, about as long as the imports below: do both at once.
            digest = pool.submit(lambda: hashed if form == "checkpoint" else checkpoint.digest())
            import torch

            from evenreel.encoders.towers import TowerEncoder, load_towers, usable_device

            apple = device == "auto" and precision == "float32" and torch.backends.mps.is_available()
            target = usable_device("mps" if apple else device, precision)

            def loaded(on: torch.device) -> TowerEncoder:
                return TowerEncoder(load_towers(checkpoint, on, precision), encoder_id, digest.result(), batch_size)

            encoder = loaded(target)
            small = sum(path.stat().st_size for path in checkpoint.weights) < MOST_TWICE
            if device == "auto" and target.type != "cpu" and precision != "float16" and small:
                encoder.on_cpu = lambda: loaded(torch.device("cpu"))
            return encoder

    beside, on_cpu = not missing_parts(folder), device in ("auto", "cpu")
    if precision == "int8" or (precision == "float16" and not (beside and installed("torch"))):
        encoder_id, plain = f"{encoder_id}#{precision}", on_cpu
    elif not has_onnx(folder):
        return towers()
    else:
        plain = on_cpu and precision == "float32"
        if beside and not (plain and (read_record(folder) or not (installed("torch") or missing_onnx_parts(folder)))):
            return towers()
    if not plain:
        raise UsageError(
            f"The model in {folder} is in ONNX form, which runs on the CPU in float32 here, or in int8 or float16 by "
            "graphs of its own; leave --device and --precision out, or use its checkpoint."
        )
    model = open_onnx(folder, precision)
    digest, then = hashed if form == "graphs" else model.weights_hash(), towers if beside else None
    encoder = OnnxEncoder(model, encoder_id, digest, batch_size, then)
    if device == "auto" and (offered := accelerator()):
        encoder.device, encoder.on_cpu = offered, lambda: OnnxEncoder(model, encoder_id, digest, batch_size, then)
    return encoder


def read_first(folder: Path, device: str, precision: str) -> str:
    """Read a folder in a process of its own, unless it was read well before as it is now; return its form and hash.

    The hash is that of the weights as they were read then: to hash 1.5 GB takes longer than a search.
    """
    if folder == BUILTIN_FOLDER:
        return ""
    forms = f"{precision} {device in ('auto', 'cpu')} {installed('torch')}"  # by which `_open` chooses one to read
    known = cached_by(_files(folder), forms)
    with contextlib.suppress(OSError, ValueError):
        form, hashed = known.read_text(encoding="ascii").split(" ")  # unless it is damaged
        return f"{form} {hashed}"
    size = sum(path.stat().st_size for path in _files(folder))
    limits = MediaLimits(stall_timeout_s=LEAST_S + size / 2e7, memory_bytes=LEAST_BYTES + 4 * size)
    worker = Worker("evenreel.encoders.loading:FirstReading", {}, limits)
    try:
        told = [header for header, _ in worker.run({"folder": str(folder), "device": device, "precision": precision})]
    except MediaError as error:
        raise EncoderError(
            f"The model in {folder} is not used: {error}. Its files ask for more than a model of {size / 2**20:,.0f} "
            "MiB needs, or break what reads them; use a copy from its maker."
        ) from error
    finally:
        worker.close()
    if refused := told[0]["refused"]:
        raise EncoderError(refused)
    if made := told[0]["read"]:
        with contextlib.suppress(OSError):  # it is read in a process of its own again then
            write_durably(known, made.encode())
    return str(made)


class FirstReading:
    """Reads a model and encodes with it, in the process that `read_first` can kill; says what was wrong with it."""

    def __call__(self, task: Mapping[str, Any]) -> Iterator[Message]:
        folder, refused, read = Path(task["folder"]), None, ""
        try:
            with of_model(folder, "cannot be used"):
                check_tokenizer(folder)
                encoder = _open(str(folder), folder, task["device"], task["precision"])
                for caption in SAMPLES:
                    encoder.encode_text([caption])
                encoder.encode_windows(np.zeros((1, 1, 3, 48, 64), np.uint8))
            read = f"checkpoint {encoder.weights_hash}"
            if isinstance(encoder, OnnxEncoder):
                read = f"graphs {encoder.weights_hash}"
                with contextlib.suppress(Exception):  # captions are cut by the whole tokenizer then
                    write_pieces(folder / TOKENIZER, pieces_file(folder / TOKENIZER))
        except UsageError:  # the caller's own, who is told by what reads it next
            pass
        except EncoderError as error:
            refused = str(error)
        yield {"refused": refused, "read": read}, None


def check_tokenizer(folder: Path) -> None:
    """Refuse a tokenizer with steps that no known family has: such as one that doubles a text again and again."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return
    try:
        rules = json.loads(path.read_text(encoding="utf-8"))
        parts = {**rules, "model": rules["model"] or {}}
        found = [(part, step) for part in STEPS for step in _steps(parts[part])]
        wrong = f"more than {MOST_STEPS} steps" if len(found) > MOST_STEPS else ""
        wrong = next(filter(None, (_trouble(part, step) for part, step in found)), wrong)
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise EncoderError(
            f"The tokenizer {path} cannot be read ({brief(error)}); download the model again."
        ) from error
    if wrong:
        raise EncoderError(
            f"The tokenizer {path} has {wrong}, as no tokenizer of the known kinds of models has; use a copy of the "
            "model from its maker."
        )


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """A part of the rules, and those that it is made of."""
    if part is not None:
        yield part
        for one in part.get("normalizers") or part.get("pretokenizers") or ():
            yield from _steps(one)


def _trouble(part: str, step: Mapping[str, Any]) -> str:
    """What is wrong with a step; '' for nothing."""
    kind = step.get("type") or ("BPE" if "merges" in step else None)
    if kind not in STEPS[part]:
        return f"a {part} of the kind {brief(kind)}"
    if part == "model" and not (step["vocab"] and step.get("max_input_chars_per_word", 0) <= LONGEST_WORD):
        return "no words, or words of any length"
    pattern = step.get("pattern", {" ": " "})
    if not PATTERNS.issuperset(pattern.values()) or len(step.get("content", step.get("prepend", ""))) > 1:
        return f"a {kind} with {brief({key: value for key, value in step.items() if key != 'type'})}"
    charsmap = base64.b64decode(step.get("precompiled_charsmap") or "")
    start = 4 + int.from_bytes(charsmap[:4], "little")  # after a trie, the texts that letters become
    if max(map(len, charsmap[start:].split(b"\0"))) > LONGEST_LETTER:
        return "a table that makes long texts of letters"
    return ""


def _files(folder: Path) -> list[Path]:
    """All that its hash can be of, also where a folder in it is a link, which `rglob` does not follow."""
    places = (folder, *folder.iterdir())
    return sorted({path for place in places for path in place.rglob("*") if path.is_file()})


BUILTIN = "builtin"
BUILTIN_FOLDER = Path(__file__).parent / "builtin" / "checkpoint"

SAFETENSORS_REVISIONS = {"openai/clip-vit-base-patch32": "c237dc49a33fc61debc9276459120b7eac67e7ef"}
"""Models whose main branch holds a pickle only, and the commit of the hub's own conversion of it."""

SETTINGS_WANTED = (
    *("config.json", OPEN_CLIP_CONFIG, "preprocessor_config.json", "processor_config.json"),
    *("video_preprocessor_config.json", "1_Pooling/config.json", *TOKENIZER_FILES),
)
WEIGHTS_WANTED = ("model.safetensors", "model.safetensors.index.json", "model-*.safetensors")
"""All that is fetched of a model: no pickle, no code; of one without safetensors, its graphs in ONNX form."""


def locate(name: str, revision: str | None = None, told: Told | None = None, precision: str = AUTO) -> tuple[str, Path]:
    """Find the id and the folder of a model, downloading it where it is missing and that is allowed.

    Whoever is `told` how far that is loads the model later, which says what a name stands for.
    """
    name, precision = named_precision(name, precision)
    if (known := model_id(name)) != name:
        if told is None:
            log.warning("the model '%s' is %s", name, known)
        name = known
    name = name if revision else _loadable(name, quiet=told is not None, precision=precision)
    if name == BUILTIN and revision is None:
        return BUILTIN, BUILTIN_FOLDER
    get = functools.partial(_fetched, told=told, precision=precision)
    return located(name, revision, get, _nothing(name))


def _fetched(repository: str, revision: str | None, told: Told | None, precision: str) -> Path:
    wanted, otherwise = _revision(repository, revision), "add --no-vision to search by words only for now"
    if lacks_torch(f"{repository}@{wanted}"):
        otherwise = "use its checkpoint, which is here and needs torch: pip install 'evenreel[torch]'"

    def get(*files: str) -> Path:
        missing = functools.partial(_missing, precision=precision)
        return fetch(repository, wanted, (*SETTINGS_WANTED, *files), missing, told, otherwise)

    if precision != "int8" and installed("torch"):
        found = get(*WEIGHTS_WANTED)
        if is_open_clip(found):
            return get(*WEIGHTS_WANTED, OPEN_CLIP_WEIGHTS)
        if not _missing(found):
            return found
    for names in zip(onnx_names(TEXT, precision), onnx_names(PICTURES, precision), strict=True):
        found = get(*(f"{at}{name}{end}" for name in names for at in ("onnx/", "") for end in ("", "_data", ".data")))
        if not _missing(found, precision):
            break
    return found


def folder_here(name: str) -> Path | None:
    """Find the folder of a model that can be loaded without a download."""
    name, precision = named_precision(name)
    name = _loadable(model_id(name), quiet=True, precision=precision)
    if name == BUILTIN:
        return BUILTIN_FOLDER
    if folder := named_folder(name):
        return folder
    found = _cached(name)
    return found if found and not _missing(found, precision) else None


def download_bytes(name: str) -> int | None:
    """Return about how much a run with a model downloads, without the network: 0 if it is here, None if not known."""
    if folder_here(name) is not None:
        return 0
    known = known_models().find(name)
    return known.file_bytes if known else None


def lacks_torch(name: str) -> bool:
    """Return whether a model of the hub is on this machine as a checkpoint, which only torch is missing for."""
    name = model_id(named_precision(name)[0])
    if installed("torch") or name == BUILTIN or named_folder(name):
        return False
    found = _cached(name)
    return found is not None and bool(_missing(found)) and not missing_parts(found)


def _cached(name: str) -> Path | None:
    """The folder of a hub id in the cache, whole or not; None where it has none."""
    from huggingface_hub.errors import HFValidationError

    hub = HUB_ID.fullmatch(name)
    if hub is None or ".." in name:
        raise _nothing(name)
    try:
        return cached_folder(hub["repository"], _revision(hub["repository"], hub["revision"]))
    except HFValidationError as error:
        raise _nothing(name) from error


def _loadable(name: str, *, quiet: bool = False, precision: str = "float32") -> str:
    """The id of a known export in place of a checkpoint that needs torch, where it is not installed, or lacks int8."""
    known, in_int8 = known_models().find(name), precision == "int8"
    if known is None or not known.onnx or name != known.id or named_folder(name):
        return name
    if installed("torch") and not in_int8:
        return name
    own = cached_folder(name, _revision(name, None))
    if own is not None and not _missing(own, precision):
        return name
    if not quiet:
        why = "%s in int8 is %s" if in_int8 else "torch is not installed, so %s is used in ONNX form: %s"
        log.warning(why, name, known.onnx)
    return known.onnx


def _revision(repository: str, named: str | None) -> str:
    return named or SAFETENSORS_REVISIONS.get(repository, "main")


def _missing(folder: Path, precision: str = "float32") -> list[str]:
    """What a folder lacks: nothing where a form is whole that can be used, else parts of the one preferred here."""
    graphs = missing_onnx_parts(folder, precision)
    return missing_parts(folder) if graphs and installed("torch") and precision != "int8" else graphs


def _nothing(name: str) -> EncoderError:
    return EncoderError(
        f"{name!r} is neither 'builtin', nor a folder that exists, nor a hub id such as "
        f"{DEFAULT_MODEL}, nor one of the names that `evenreel models` lists; name one of these."
    )


@dataclass(frozen=True)
class PublishedFigure:
    """A figure that others published, and its source, a key of `ModelTable.sources`; none was measured here."""

    measure: str
    value: float
    source: str


@dataclass(frozen=True)
class KnownModel:
    """A model with what is known of it; what is not is None or empty."""

    id: str  # hub id, `builtin`, or a folder
    kind: str = ""  # what a vector is made of: `pictures`, `windows` of frames, or by an `embedder` with instructions
    family: str = ""
    name: str = ""  # short name, such as `fast`
    parameters_m: float | None = None  # in millions
    size_mb: float | None = None  # of its files in float32, in megabytes, in either form
    licence: str = ""
    non_commercial: bool = False  # whether the licence of its weights forbids commercial use
    languages: str = ""
    dimension: int | None = None
    onnx: str = ""  # id of an export in ONNX form that others made, which stands in for it where torch is not installed
    figures: tuple[PublishedFigure, ...] = ()

    @property
    def file_bytes(self) -> int | None:
        """About how large its files are, by their size or by its parameters in float32; None where neither is known."""
        megabytes = self.size_mb or (self.parameters_m and 4 * self.parameters_m)
        return round(megabytes * 1e6) if megabytes else None


@dataclass(frozen=True)
class ModelTable:
    """The known models, the smallest of a family first, what short names mean, and where figures come from."""

    names: Mapping[str, str]
    sources: Mapping[str, str]
    models: tuple[KnownModel, ...]

    def find(self, name: str) -> KnownModel | None:
        """Return the model of a short name or id, whatever its revision or precision; None for any other."""
        name = name.partition("#")[0]
        repository = name.partition("@")[0]
        return next((model for model in self.models if name == model.name or repository == model.id), None)


@functools.cache
def known_models() -> ModelTable:
    given = json.loads((Path(__file__).parent / "known_models.json").read_text(encoding="utf-8"))
    models = (
        KnownModel(**{**row, "figures": tuple(PublishedFigure(*figure) for figure in row["figures"])})
        for row in given["models"]
    )
    return ModelTable(given["names"], given["sources"], tuple(models))


def model_id(name: str) -> str:
    """Return the id that a short name stands for; any other name is returned as it is."""
    return next((model.id for model in known_models().models if model.name and model.name == name), name)


def check_licence(name: str, accepted: bool) -> None:
    """Refuse a model whose licence forbids commercial use, unless it was accepted."""
    found = known_models().find(name)
    if found is not None and found.non_commercial and not accepted:
        raise UsageError(
            f"The weights of {found.id} are under {found.licence}, which forbids commercial use; read it on "
            f"https://huggingface.co/{found.id}, and give --accept-licence (of a library, --set accept_licence=yes) if "
            "you keep to it."
        )


@dataclass(frozen=True)
class EncoderSpeed:
    frames_per_s: float
    captions_per_s: float


def measure_speed(encoder: Encoder, seconds: float = 2.0) -> EncoderSpeed:
    """Measure how many frames of 640 x 360 pixels, and captions of 13 words, an encoder prepares and encodes."""

    def rate(work: Callable[[], object], count: int) -> float:
        work()
        done, started = 0, time.perf_counter()
        while (passed := time.perf_counter() - started) < seconds or not done:
            work()
            done += count
        return done / passed

    frames = encoder.window.frames
    windows = max(1, 16 // frames)
    pixels = np.random.default_rng(0).integers(0, 256, (windows, frames, 360, 640, 3), dtype=np.uint8)
    pixels = pixels.transpose(0, 1, 4, 2, 3)  # as readers hand frames over
    captions = [f"a person in a {colour} coat walks over a bridge in the rain" for colour in ("red", "blue") * 16]
    return EncoderSpeed(
        rate(lambda: encoder.encode_windows(pixels), windows * frames),
        rate(lambda: encoder.encode_text(captions), len(captions)),
    )
