"""The text in the picture at present, brought up to date from frame to frame with the least work.

A glance (the detector at a small size) runs over what changed since it was last looked at. Where it feels text
that no known sign explains, a close look (the detector at full size) finds the lines, and only lines that are
new or look different are read.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from evenreel.errors import EncoderError
from evenreel.types import FloatArray, Pixels


@dataclass(frozen=True)
class TextSettings:
    """Settings that decide what reading costs and what counts as text.

    Attributes:
        threads: threads of each model; 1 where one reader process runs on each core.
        close_side_px: the shorter side of the picture in a close look. Smaller pictures are enlarged to it,
            as RapidOCR does by default; larger ones keep their size.
        max_side_px: the longer side of the picture in a close look never exceeds this.
        glance_side_px: the shorter side of the picture in a glance.
        glance_level: heat (0 to 1) in the glance above which a place is worth a close look.
        large_line_px: lines at least this high in the glance are read from there, without a close look.
        change_level: grey levels (0 to 255) by which a 3 x 3 patch of the glance must differ to be looked at.
        same_look_level: grey levels by which a patch of two crops may differ and still show the same sign.
        min_confidence: readings below this are not reported.
        few_letters: confidence that a sign of one, two or three different letters and digits needs.
        shape_letters: letters that shapes are read as (a ring, a crescent, a cross). A sign of one of them needs
            `shape_confidence`, or a word as high beside it.
        shape_confidence: see `shape_letters`.
    """

    threads: int = 1
    close_side_px: int = 736
    max_side_px: int = 2000
    glance_side_px: int = 256
    glance_level: float = 0.1
    large_line_px: int = 8
    change_level: int = 12
    same_look_level: int = 24
    min_confidence: float = 0.5
    few_letters: tuple[float, ...] = (0.98, 0.9, 0.75)
    shape_letters: str = "co0q中十口日山半大"
    shape_confidence: float = 0.999

    @property
    def digest(self) -> str:
        """Return eight hex digits over all that changes a reading; the number of threads does not."""
        values = {name: value for name, value in asdict(self).items() if name != "threads"}
        return hashlib.sha256(repr(sorted(values.items())).encode()).hexdigest()[:8]


CELL_PX = 32  # the detector halves its input five times: every side that it takes is a multiple of this

# Above this share of the picture one pass over all of it is cheaper than many with their margins.
_WHOLE_SHARE = 0.6
Mask = NDArray[np.bool_]
Box = tuple[float, float, float, float]


Rect = tuple[slice, slice]
"""Rows and columns of cells."""


def pixels(area: Rect) -> Rect:
    rows, columns = (slice(part.start * CELL_PX, part.stop * CELL_PX) for part in area)
    return rows, columns


def cells_of(mask: Mask, rows: int, columns: int) -> Mask:
    """Reduce a mask of (H, W) pixels to (rows, columns) cells, True where any pixel of the cell is True."""
    import cv2

    shares = cv2.resize(mask.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    return np.asarray(shares > 0)


def under(box: Box, shape: tuple[int, int]) -> tuple[slice, slice]:
    """Return the index of the part of an array of `shape` under a box (fractions of the picture), never empty."""
    x0, y0, x1, y1 = box
    spans = [(y0, y1, shape[0]), (x0, x1, shape[1])]
    first = [min(int(start * length), length - 1) for start, _, length in spans]
    last = [max(math.ceil(end * length), one + 1) for one, (_, end, length) in zip(first, spans, strict=True)]
    return slice(first[0], last[0]), slice(first[1], last[1])


def rectangles(mask: Mask, margin: tuple[int, int] = (1, 1)) -> list[Rect]:
    """Cover every True cell by disjoint rectangles with `margin` (rows, columns) of cells around it."""
    import cv2

    kernel = np.ones((2 * margin[0] + 1, 2 * margin[1] + 1), np.uint8)
    covered = cv2.dilate(mask.astype(np.uint8), kernel) > 0
    while True:
        _, _, parts, _ = cv2.connectedComponentsWithStats(covered.astype(np.uint8), connectivity=8)
        rects = [(slice(y, y + h), slice(x, x + w)) for x, y, w, h, _ in parts[1:].tolist()]  # without the background
        painted = np.zeros_like(covered)
        for rect in rects:
            painted[rect] = True
        if painted.mean() > _WHOLE_SHARE:
            return [(slice(0, mask.shape[0]), slice(0, mask.shape[1]))]
        if np.array_equal(painted, covered):
            return rects
        covered = painted


Quad = NDArray[np.float32]
"""(4, 2): the corners of one line as x, y in pixels: top left, top right, bottom right, bottom left."""

_SPECKLE = 6  # parts of the glance's heat with fewer pixels come from texture: two letters have more
MIN_SIGN_PX = 4  # lines lower or narrower than this hold no legible text; RapidOCR drops them too
END_ROOM = 0.3  # heights of a line read at both its ends: the detector often cuts off half a letter there
_READ_WIDTH_PX = 160  # narrower crops are padded to this: letters alone need the room
_SHORT = 2.5  # length over height up to which a sign has no such room: shapes with room are read as letters
READ_PX = 48  # height in pixels at which the recogniser reads a line
SAME_LINE = 0.6  # share of its area by which a box that lies in another one is the same line, or a part of it

# Height over width: between these a crop may be a word that runs downwards, or a slim one such as '11'.
_MAY_RUN_DOWN, _RUNS_DOWN = 1.2, 2.5

# Height and width at which looks are compared: a letter still covers several pixels.
_LOOK_SIZE = (24, 128)


@dataclass(frozen=True)
class TextLine:
    """A line of text that was read; `look` is its crop at that time, grey and small, without the room at its ends."""

    quad: Quad
    box: Box
    text: str
    confidence: float
    look: Pixels


def crop(picture: Pixels, quad: Quad, end_room: float = END_ROOM) -> Pixels:
    """Cut out a line, with room at both ends, as an upright rectangle with a shorter side of at least `READ_PX`.

    Small lines are enlarged while they are straightened, with bicubic weights. Cropped first and enlarged by the
    recognizer, bilinearly, they are misread more often (HYUNDRI for HYUNDAI at a height of 10 pixels).
    """
    import cv2

    width, height = sides(quad)
    scale = max(1.0, READ_PX / max(min(width, height), 1.0))
    wide, high = max(1, int(width * scale)), max(1, int(height * scale))
    room = int(end_room * min(wide, high)) if max(wide, high) > _SHORT * min(wide, high) else 0
    x, y = (room, 0) if width >= height else (0, room)
    target = np.array([[x, y], [x + wide, y], [x + wide, y + high], [x, y + high]], np.float32)
    how = {"borderMode": cv2.BORDER_REPLICATE, "flags": cv2.INTER_CUBIC}
    line = cv2.warpPerspective(picture, cv2.getPerspectiveTransform(quad, target), (wide + 2 * x, high + 2 * y), **how)
    return np.asarray(line, dtype=np.uint8)


def ways_to_read(line: Pixels) -> list[Pixels]:
    """Return a crop in each orientation to read it in: turned where it runs downwards, both ways where in doubt."""
    slimness = line.shape[0] / line.shape[1]
    turned = np.ascontiguousarray(np.rot90(line))
    if slimness >= _RUNS_DOWN:
        return [turned]
    return [line] if slimness < _MAY_RUN_DOWN else [line, turned]


def look_of(picture: Pixels, quad: Quad) -> Pixels:
    import cv2

    grey = cv2.cvtColor(crop(picture, quad, end_room=0.0), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, _LOOK_SIZE[::-1], interpolation=cv2.INTER_AREA), dtype=np.uint8)


def bounding_box(quad: Quad, shape: tuple[int, int]) -> Box:
    """Return x0, y0, x1, y1 as fractions of a picture of `shape` (height, width)."""
    corners = np.clip(quad / np.array(shape[::-1], np.float32), 0, 1)
    (x0, y0), (x1, y1) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    return x0, y0, x1, y1


def sides(quad: Quad) -> tuple[float, float]:
    edges = np.linalg.norm(quad - np.roll(quad, -1, axis=0), axis=1).tolist()
    return max(edges[0], edges[2]), max(edges[1], edges[3])


def height_of(quad: Quad) -> float:
    return min(sides(quad))


def share_inside(inner: Box, outer: Box) -> float:
    width = min(inner[2], outer[2]) - max(inner[0], outer[0])
    height = min(inner[3], outer[3]) - max(inner[1], outer[1])
    area = (inner[2] - inner[0]) * (inner[3] - inner[1])
    return max(width, 0.0) * max(height, 0.0) / area if area > 0 else 0.0


def explains(known: Box, line: Box, shape: tuple[int, int]) -> bool:
    """Return whether a known sign is the found line: covers most of it and lacks no letter at either end."""
    height, width = shape
    sideways = max(known[0] - line[0], line[2] - known[2]) * width
    upwards = max(known[1] - line[1], line[3] - known[3]) * height
    letter = min((line[2] - line[0]) * width, (line[3] - line[1]) * height)
    return share_inside(line, known) > SAME_LINE and max(sideways, upwards) <= letter


class SceneText:
    """The text in the current picture of a video, for pictures of one size."""

    def __init__(self, shape: tuple[int, int], models: Models, settings: TextSettings) -> None:
        self.shape = shape  # height and width of the pictures
        self.signs: list[TextLine] = []  # the lines shown in the last picture, also the doubtful ones, in reading order
        self._models = models
        self._settings = settings
        self._close_shape = close_shape(shape, settings)
        self._glance_shape = _shrunk(self._close_shape, min(1.0, settings.glance_side_px / min(self._close_shape)))
        self._heat = np.zeros(self._glance_shape, np.float32)
        self._seen: Pixels | None = None

    def look(self, picture: Pixels) -> None:
        """Bring `signs` up to date with `picture`, (H, W, 3) RGB of the scene's shape."""
        glance = _resized(picture, self._glance_shape)
        areas = self._changed(glance)
        if not areas:
            return
        touched = np.zeros(self._glance_shape, np.bool_)
        for area in map(pixels, areas):
            self._heat[area] = self._models.detector.heat(glance[area])
            self._seen[area] = glance[area]  # type: ignore[index]
            touched[area] = True
        kept, lost = self._sort_out(picture, touched)
        found = self._large_lines(touched)
        if places := self._places(touched, kept, lost):
            found += self._close_look(picture, places)
        self.signs = self._with_new(picture, kept, found)

    def _changed(self, glance: Pixels) -> list[Rect]:
        """Rectangles of the glance around all that differs from when it was last looked at, with whole signs."""
        import cv2

        rows, columns = (side // CELL_PX for side in self._glance_shape)
        if self._seen is None:
            self._seen = glance.copy()
            return [(slice(0, rows), slice(0, columns))]
        patches = cv2.blur(cv2.absdiff(glance, self._seen), (3, 3))
        cells = np.asarray(cells_of(patches > self._settings.change_level, rows, columns).any(axis=2))
        touched = np.zeros_like(cells)
        for area in rectangles(cells):
            touched[area] = True
        for sign in self.signs:
            if touched[under(sign.box, cells.shape)].any():
                cells[under(sign.box, cells.shape)] = True
        return rectangles(cells)

    def _sort_out(self, picture: Pixels, touched: Mask) -> tuple[list[TextLine], list[TextLine]]:
        """Known signs, apart: those still shown as they were read, and those in a changed area that are not."""
        import cv2

        kept: list[TextLine] = []
        lost: list[TextLine] = []
        for sign in self.signs:
            same = not touched[under(sign.box, self._glance_shape)].any()
            if not same:  # the mean of a 3 x 3 patch sees a changed digit, and no noise of the coding
                differs = cv2.blur(cv2.absdiff(sign.look, look_of(picture, sign.quad)), (3, 3)).max()
                same = int(differs) <= self._settings.same_look_level
            (kept if same else lost).append(sign)
        return kept, lost

    def _large_lines(self, touched: Mask) -> list[Quad]:
        """Lines high enough in the glance to be taken from it, in pixels of the picture."""
        quads = self._models.detector.lines(np.where(touched, self._heat, 0))
        scale = np.divide(self.shape[::-1], self._glance_shape[::-1], dtype=np.float32)
        return [quad * scale for quad in quads if height_of(quad) >= self._settings.large_line_px]

    def _places(self, touched: Mask, kept: list[TextLine], lost: list[TextLine]) -> list[Rect]:
        """Rectangles of the close look: unexplained heat in changed areas, and where signs were lost."""
        hot = touched & (self._heat > self._settings.glance_level)
        hot = _small_lines(hot, self._settings.large_line_px)
        for sign in kept:
            hot[under(sign.box, self._glance_shape)] = False
        shrink = self._glance_shape[0] / self.shape[0]
        for sign in lost:
            if height_of(sign.quad) * shrink < self._settings.large_line_px:
                hot[under(sign.box, self._glance_shape)] = True
        rows, columns = (side // CELL_PX for side in self._close_shape)
        # Twice as much room sideways: a line runs on further than the glance felt it.
        return rectangles(cells_of(hot, rows, columns), margin=(1, 2))

    def _close_look(self, picture: Pixels, places: list[Rect]) -> list[Quad]:
        """Corners of the lines in the places, in pixels of the picture."""
        close = _resized(picture, self._close_shape)
        scale = np.divide(self.shape[::-1], self._close_shape[::-1], dtype=np.float32)
        found: list[Quad] = []
        for place in places:
            rows, columns = pixels(place)
            corner = np.array([columns.start, rows.start], np.float32)
            heat = self._models.detector.heat(close[rows, columns])
            quads = (self._models.detector.lines(heat) + corner) * scale
            found += [quad for quad in quads if height_of(quad) >= MIN_SIGN_PX]
        return found

    def _with_new(self, picture: Pixels, kept: list[TextLine], found: list[Quad]) -> list[TextLine]:
        """The kept signs and the newly read ones; a longer line takes the place of a kept part of it."""
        new: list[tuple[Quad, Box]] = []
        for quad in found:
            box = bounding_box(quad, self.shape)
            known = [sign.box for sign in kept] + [other for _, other in new]
            if not any(explains(other, box, self.shape) for other in known):
                new.append((quad, box))
        still = [sign for sign in kept if not any(share_inside(sign.box, box) > SAME_LINE for _, box in new)]
        read = self._read(picture, new) if new else []
        return sorted(still + read, key=lambda sign: (sign.box[1], sign.box[0]))

    def _read(self, picture: Pixels, lines: list[tuple[Quad, Box]]) -> list[TextLine]:
        ways = [ways_to_read(crop(picture, quad)) for quad, _ in lines]
        readings = iter(self._models.recognizer.read([way for options in ways for way in options]))
        best = [max((next(readings) for _ in options), key=itemgetter(1)) for options in ways]
        return [
            TextLine(quad, box, text, confidence, look_of(picture, quad))
            for (quad, box), (text, confidence) in zip(lines, best, strict=True)
        ]


def close_shape(shape: tuple[int, int], settings: TextSettings) -> tuple[int, int]:
    """Return height and width of a close look at a picture of `shape`, both multiples of `CELL_PX`."""
    return _shrunk(shape, min(max(1.0, settings.close_side_px / min(shape)), settings.max_side_px / max(shape)))


def _shrunk(shape: tuple[int, int], scale: float) -> tuple[int, int]:
    # Truncated before it is rounded, as RapidOCR does: the close look then has the very pixels that it would see.
    height, width = (max(1, round(int(side * scale) / CELL_PX)) * CELL_PX for side in shape)
    return height, width


def _resized(picture: Pixels, shape: tuple[int, int]) -> Pixels:
    import cv2

    how = cv2.INTER_AREA if shape[0] < picture.shape[0] else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, shape[::-1], interpolation=how), dtype=np.uint8)


def _small_lines(hot: Mask, large_px: int) -> Mask:
    """The connected parts of a mask that are more than speckles and hold no square of `large_px` a side."""
    import cv2

    pixels = hot.astype(np.uint8)
    _, parts, stats, _ = cv2.connectedComponentsWithStats(pixels, connectivity=8)
    small = stats[:, cv2.CC_STAT_AREA] >= _SPECKLE
    small[parts[cv2.erode(pixels, np.ones((large_px, large_px), np.uint8)) > 0]] = False
    small[0] = False  # the background
    return np.asarray(small[parts])


Corners = NDArray[np.float32]
"""(N, 4, 2): x, y in pixels of the corners of N lines: top left, top right, bottom right, bottom left."""


class Detector(Protocol):
    def heat(self, picture: Pixels) -> FloatArray:
        """Compute how likely each pixel belongs to text: (H, W, 3) RGB, sides multiples of 32 -> (H, W), 0 to 1."""

    def lines(self, heat: FloatArray) -> Corners:
        """Find the lines of text in a heat map, in its pixels, in reading order."""


class Recognizer(Protocol):
    def read(self, crops: Sequence[Pixels]) -> list[tuple[str, float]]:
        """Read (H, W, 3) RGB crops of one line each: text and confidence, 0 to 1."""


class Models(NamedTuple):
    detector: Detector
    recognizer: Recognizer


class RapidDetector:
    def __init__(self, threads: int) -> None:
        from rapidocr.ch_ppocr_det import TextDetector

        config = _config("Det", threads)
        # A side limit that no picture reaches: the caller decides about size.
        config.limit_type, config.limit_side_len = "max", 2**30
        self._detector = TextDetector(config)
        # Once: these read the settings anew at each call, a tenth of a glance, and count in float64.
        self._prepare = self._detector.get_preprocess()
        self._prepare.mean, self._prepare.std = np.float32(self._prepare.mean), np.float32(self._prepare.std)

    def heat(self, picture: Pixels) -> FloatArray:
        return np.asarray(self._detector.session(self._prepare(_bgr(picture)))[0, 0], dtype=np.float32)

    def lines(self, heat: FloatArray) -> Corners:
        boxes, _ = self._detector.postprocess_op(heat[None, None], heat.shape)
        return np.asarray(self._detector.sorted_boxes(boxes), dtype=np.float32).reshape(-1, 4, 2)


class RapidRecognizer:
    """RapidOCR's text recogniser; a crop padded to the widest of a batch, or to 320 pixels, costs more to read."""

    def __init__(self, threads: int) -> None:
        from rapidocr.ch_ppocr_rec import TextRecognizer

        config = _config("Rec", threads)
        config.rec_img_shape, config.rec_batch_num = [3, READ_PX, _READ_WIDTH_PX], 1
        self._recognizer = TextRecognizer(config)

    def read(self, crops: Sequence[Pixels]) -> list[tuple[str, float]]:
        if not crops:
            return []
        from rapidocr.ch_ppocr_rec import TextRecInput

        output = self._recognizer(TextRecInput(img=[_bgr(crop) for crop in crops]))
        return [(text.strip(), float(score)) for text, score in zip(output.txts, output.scores, strict=True)]


def engine_id() -> str:
    """Name the engine and its models for the catalog; readings under different names are never mixed."""
    return f"rapidocr-{version('rapidocr')}/{_model('det').stem}+{_model('rec').stem}"


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


_READ_SCRIPTS = frozenset({"Latn", "Hans", "Hant", "Jpan"})
# Languages that are usually written in others.
_IN_OTHERS = """
ab ae am apc ar ary arz as av ba bal be bg bho bn bo ce chr ckb cr cu cv dv dz el fa gu he hi hy ii iu ka kk km kn ko
ks kv ky lo mai mk ml mn mni mr my ne new or os pa ps ru sa sat sd si sr syc ta te tg th ti tt ug uk ur yi
"""


class SheetReader:
    """Reader of sheets: dark letters on white and nothing else, as subtitles are drawn."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._recognizer: RapidRecognizer | None = None

    def can_read(self, language: str | None) -> bool:
        """Return whether a language (BCP 47) is written in a script that is read, as far as it is known."""
        known, *more = (language or "").split("-")
        script = next((part for part in more if len(part) == 4), None)
        return script in _READ_SCRIPTS if script else known not in _IN_OTHERS.split()

    def read(self, sheet: Pixels) -> tuple[str, float]:
        """Read a sheet, (H, W) grey; return its words in one line and their mean confidence, 0 to 1."""
        self._recognizer = self._recognizer or RapidRecognizer(self._threads)
        read = self._recognizer.read(lines_of(sheet))
        letters = sum(len(text) for text, _ in read)
        sure = sum(confidence * len(text) for text, confidence in read)
        return " ".join(text for text, _ in read if text), sure / letters if letters else 0.0


def lines_of(sheet: Pixels) -> list[Pixels]:
    """Cut a sheet into its lines, and these where words are far apart: (H, W, 3) at the height that is read."""
    import cv2

    rows = _runs(np.any(sheet < 128, axis=1), 0)
    highest = max((end - start for start, end in rows), default=0)
    made = []
    for start, end in rows:
        if 3 * (end - start) < highest:  # dots and accents that stand above all letters of their line
            continue
        for left, right in _runs(np.any(sheet[start:end] < 128, axis=0), 3 * highest):
            if min(end - start, right - left) >= MIN_SIGN_PX:
                line = np.pad(sheet[start:end, left:right], max(2, highest // 6), constant_values=255)
                size = max(1, round(line.shape[1] * READ_PX / len(line))), READ_PX
                how = cv2.INTER_AREA if len(line) > READ_PX else cv2.INTER_CUBIC
                scaled = np.asarray(cv2.resize(line, size, interpolation=how), np.uint8)
                made.append(np.repeat(scaled[..., None], 3, axis=2))
    return made


def _runs(written: NDArray[np.bool_], gap: int) -> list[tuple[int, int]]:
    """Starts and ends of what is written, where no more than a gap is left empty."""
    runs: list[tuple[int, int]] = []
    for place in np.flatnonzero(written).tolist():
        start = runs.pop()[0] if runs and place - runs[-1][1] <= gap else place
        runs.append((start, place + 1))
    return runs
