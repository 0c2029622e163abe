"""The two models behind on-screen text, as protocols and as RapidOCR's parts (PP-OCR on onnxruntime).

The models are inside the rapidocr wheel; nothing is ever downloaded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels

Corners = NDArray[np.float32]
"""(N, 4, 2): x, y in pixels of the corners of N lines: top left, top right, bottom right, bottom left."""


class Detector(Protocol):
    def heat(self, picture: Pixels) -> FloatArray:
        """Compute how likely each pixel belongs to text: (H, W, 3) RGB, sides multiples of 32 -> (H, W), 0 to 1."""

    def lines(self, heat: FloatArray) -> Corners:
        """Return the lines of text in a heat map, in its pixels, in reading order."""


class Recognizer(Protocol):
    def read(self, crops: Sequence[Pixels]) -> list[tuple[str, float]]:
        """Read (H, W, 3) RGB crops of one line each; return text and confidence, 0 to 1, of each."""


class RapidDetector:
    def __init__(self, threads: int) -> None:
        from rapidocr.ch_ppocr_det import TextDetector

        config = _config("Det", threads)
        # A side limit that no picture reaches: the caller decides about size.
        config.limit_type, config.limit_side_len = "max", 2**30
        self._detector = TextDetector(config)

    def heat(self, picture: Pixels) -> FloatArray:
        batch = self._detector.get_preprocess()(_bgr(picture))
        return np.asarray(self._detector.session(batch)[0, 0], dtype=np.float32)

    def lines(self, heat: FloatArray) -> Corners:
        boxes, _ = self._detector.postprocess_op(heat[None, None], heat.shape)
        if len(boxes) == 0:
            return np.zeros((0, 4, 2), np.float32)
        return np.asarray(self._detector.sorted_boxes(boxes), dtype=np.float32)


class RapidRecognizer:
    """RapidOCR's text recogniser; crops are sorted by width and read in batches."""

    def __init__(self, threads: int) -> None:
        from rapidocr.ch_ppocr_rec import TextRecognizer

        self._recognizer = TextRecognizer(_config("Rec", threads))

    def read(self, crops: Sequence[Pixels]) -> list[tuple[str, float]]:
        if not crops:
            return []
        from rapidocr.ch_ppocr_rec import TextRecInput

        output = self._recognizer(TextRecInput(img=[_bgr(crop) for crop in crops]))
        return [(text.strip(), float(score)) for text, score in zip(output.txts, output.scores, strict=True)]


def engine_id() -> str:
    """Return the id of the engine and its models for the catalog; readings under different ids are never mixed."""
    names = "+".join(_model(part).stem for part in ("det", "rec"))
    return f"rapidocr-{version('rapidocr')}/{names}"


def _config(part: str, threads: int) -> Any:
    """RapidOCR's own settings of one part, with the model in its wheel and our number of threads."""
    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    from rapidocr import RapidOCR

    parameters = {
        "Global.log_level": "error",
        "EngineConfig.onnxruntime.intra_op_num_threads": threads,
        "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    }
    settings = RapidOCR(params=parameters).cfg
    config = settings[part]
    config.engine_cfg = settings.EngineConfig[config.engine_type.value]
    config.font_path = None
    # A given path keeps RapidOCR from comparing with, and fetching from, its model server.
    config.model_path = str(_model(part.lower()))
    return config


def _model(part: str) -> Path:
    import rapidocr

    folder = Path(rapidocr.__file__).parent / "models"
    found = sorted(folder.glob(f"*_{part}_*.onnx"))
    if not found:
        raise EncoderError(
            f"The text model '{part}' is not in {folder}; install rapidocr 3.10 or newer, "
            "whose wheel holds its models, or index without on-screen text (--no-ocr)."
        )
    return found[0]


def _bgr(picture: Pixels) -> Pixels:
    """RapidOCR's models were trained on blue, green, red."""
    return np.ascontiguousarray(picture[..., ::-1])
