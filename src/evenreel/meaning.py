"""What a text means, as a vector: a table of words whose weights lie in a wheel, or a model of sentences.

The default, `wordllama`, has a vector for each of 32,000 pieces of words; a text is the mean of its pieces (Miller,
WordLlama, 2024, MIT). Two files of its package are read, which is not imported. Any other model is a folder or a hub
id with weights as safetensors: tables by model2vec, others by sentence-transformers. No code of a model is run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from evenreel.encoders.checkpoint import read_settings
from evenreel.encoders.encoder import of_model, quiet
from evenreel.errors import EncoderError
from evenreel.extras import cached_folder, fetch, file_digest, installed, located, to_install
from evenreel.types import FloatArray, TextEmbedding

WORDLLAMA = "wordllama"
_ITS_FILES = ("weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json")
_WANTED = ("*.json", "*.txt", "*.model", "*.safetensors")  # of other models; weights that may hold code are not fetched
AT_ONCE = 1_024  # texts that are encoded together

Encode: TypeAlias = Callable[[list[str]], FloatArray]
"""Makes rows (N, D) of N texts, of any length."""


class ModelFiles(NamedTuple):
    encoder_id: str
    folder: Path
    files: tuple[Path, ...]  # that are read

    @property
    def is_static(self) -> bool:
        settings = read_settings(self.folder / "config.json")
        return settings.get("model_type") == "model2vec" or settings.get("architectures") == ["StaticModel"]

    def digest(self) -> str:
        parts = (f"{path.relative_to(self.folder)}\0{file_digest(path)}\n" for path in self.files)
        return hashlib.sha256("".join(parts).encode()).hexdigest()


def locate_text_model(name: str, *, here: bool = False) -> ModelFiles:
    """Find a model: `wordllama`, a folder, or a hub id, which is downloaded where it is missing, unless `here` is set.

    Raises:
        EncoderError: it is not there, is no model of texts, or a package that it needs is not installed.
    """
    if name == WORDLLAMA:
        package = importlib.util.find_spec(WORDLLAMA) if installed(WORDLLAMA) else None
        for place in (package and package.submodule_search_locations) or ():
            files = tuple(Path(place, file) for file in _ITS_FILES)
            if all(path.is_file() for path in files):
                return ModelFiles(WORDLLAMA, Path(place), files)
        raise EncoderError(
            f"The model wordllama is not installed: {to_install('meaning')}; where it has no wheel (Python 3.14, Linux "
            "on Arm), name another, such as meaning=minishlab/potion-base-8M, which needs model2vec."
        )
    nothing = EncoderError(
        f"{name!r} is neither wordllama, nor a folder that exists, nor a hub id such as minishlab/potion-base-8M that "
        f"is {'on this machine' if here else 'known'}; name one of these."
    )

    def get(repository: str, revision: str | None) -> Path:
        if not here:
            return fetch(repository, revision or "main", _WANTED, _missing, otherwise="leave meaning out for now")
        if (folder := cached_folder(repository, revision or "main")) is None:
            raise nothing
        return folder

    encoder_id, folder = located(name, None, get, nothing)
    if missing := _missing(folder):
        raise EncoderError(f"{folder} is no model of texts that can be used here: it lacks {', '.join(missing)}.")
    its = sorted({path for pattern in _WANTED for path in folder.rglob(pattern) if path.is_file()})
    found = ModelFiles(encoder_id, folder, tuple(its))
    needed = "model2vec" if found.is_static else "sentence-transformers"
    if not installed(needed.replace("-", "_")):
        raise EncoderError(f"The model {name} needs {needed}, which is not installed: pip install {needed}.")
    return found


def _missing(folder: Path) -> list[str]:
    return [name for name in ("config.json", "*.safetensors") if next(folder.glob(name), None) is None]


class TextModel:
    """Encodes texts by their meaning; made by `load_text_model`."""

    def __init__(self, found: ModelFiles, encode: Encode) -> None:
        self.encoder_id, self.weights_hash = found.encoder_id, found.digest()
        self._folder, self._encode = found.folder, encode
        self.dimension = encode(["a text"]).shape[1]

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Encode texts as rows of unit length (N, D); one that no word of is known lies on the diagonal."""
        rows = np.zeros((len(texts), self.dimension), np.float32)
        with of_model(self._folder, "cannot encode a text"):
            for start in range(0, len(texts), AT_ONCE):
                rows[start : start + AT_ONCE] = self._encode(list(texts[start : start + AT_ONCE]))
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        if not np.isfinite(lengths).all():
            raise EncoderError(f"The model {self.encoder_id} gave a vector of a text that is no number; name another.")
        rows[lengths[:, 0] == 0], lengths[lengths == 0] = 1.0, self.dimension**0.5
        return np.asarray(rows / lengths, np.float32)

    def encode_text(self, captions: Sequence[str]) -> TextEmbedding:
        sentence = self.encode(captions)
        return TextEmbedding(sentence[:, None], np.ones((len(captions), 1), np.bool_), sentence)


@lru_cache(maxsize=2)
def load_text_model(name: str) -> TextModel:
    """Load a model, see `locate_text_model`; it is kept for this process."""
    found = locate_text_model(name)
    with of_model(found.folder, "cannot be loaded"):
        make = _table if found.encoder_id == WORDLLAMA else _static if found.is_static else _sentences
        return TextModel(found, make(found))


def _table(found: ModelFiles) -> Encode:
    from safetensors import safe_open
    from tokenizers import Tokenizer

    weights, tokens = found.files
    with safe_open(weights, "np") as opened:
        table = opened.get_tensor("embedding.weight")
    tokenizer = Tokenizer.from_file(str(tokens))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def encode(texts: list[str]) -> FloatArray:
        made = [one.ids for one in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        rows = [table[ids].mean(0, dtype=np.float32) if ids else np.zeros(table.shape[1]) for ids in made]
        return np.array(rows, np.float32)

    return encode


def _static(found: ModelFiles) -> Encode:
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(found.folder)
    return lambda texts: np.asarray(model.encode(texts), np.float32)


def _sentences(found: ModelFiles) -> Encode:
    from sentence_transformers import SentenceTransformer

    modules = found.folder / "modules.json"
    parts = json.loads(modules.read_text("utf-8")) if modules.is_file() else []
    if not all(part["type"].startswith("sentence_transformers.") for part in parts):
        raise EncoderError(f"The model {found.encoder_id} has code of its own, which is not run; name another.")
    kept = {"use_safetensors": True}  # what may hold code is not read
    with quiet():
        model = SentenceTransformer(str(found.folder), local_files_only=True, model_kwargs=kept)
    return lambda texts: np.asarray(model.encode(texts, show_progress_bar=False), np.float32)
