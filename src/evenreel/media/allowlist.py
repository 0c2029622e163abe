"""Allowlists for FFmpeg: the only containers, decoders and protocols that it may use for files from users.

FFmpeg decides by content, not by name, what a file is. A text file named `clip.mp4` that begins with
`ffconcat` or `#EXTM3U` is a playlist for it, and a playlist opens other files and addresses. And each of its
500 decoders is code that a hostile file can reach. So every opening of a file passes these three lists to FFmpeg.
"""

from __future__ import annotations

from evenreel.config import MediaLimits

DEMUXERS = (
    "mov",  # mp4, m4v, mov, 3gp
    "matroska",  # mkv, webm
    "avi",
    "mpegts",
    "mpeg",  # program stream: mpg, vob
    "mpegvideo",  # elementary stream: m2v
    "gif",
    "apng",
    "flv",
    "ogg",
    "asf",  # wmv
    "mxf",
    "dv",
)
"""Containers, by FFmpeg's names. None of them refers to other files, or only with an option that is off."""

DECODERS = (
    "h264",
    "hevc",
    "libdav1d",  # AV1
    "av1",
    "vp8",
    "vp9",
    "mpeg4",
    "mpeg2video",
    "mpeg1video",
    "mjpeg",
    "prores",
    "dnxhd",
    "dvvideo",
    "theora",
    "gif",
    "apng",
    "png",
    "wmv1",
    "wmv2",
    "wmv3",
    "vc1",
    "msmpeg4v1",
    "msmpeg4v2",
    "msmpeg4",
    "h263",
    "flv",
    "ffv1",
    "huffyuv",
    "utvideo",
    "qtrle",
    "cinepak",
    "rawvideo",
)
"""Video decoders, by FFmpeg's names: what cameras, editors, browsers and archives write."""

SOUND_DECODERS = (
    "aac",
    "aac_latm",
    "mp3float",
    "mp3",
    "mp2float",
    "mp2",
    "ac3",
    "eac3",
    "dca",
    "truehd",
    "mlp",
    "flac",
    "alac",
    "opus",
    "libopus",
    "vorbis",
    "wmav1",
    "wmav2",
    "wmapro",
    "amrnb",
    "amrwb",
    "libopencore_amrnb",
    "libopencore_amrwb",
    "speex",
    "nellymoser",
    "wavpack",
    "adpcm_ms",
    "adpcm_ima_wav",
    "adpcm_ima_qt",
    "adpcm_swf",
    "s302m",
    "dvaudio",
    *(f"pcm_{kind}" for kind in ("u8", "s8", "mulaw", "alaw", "bluray", "dvd")),
    *(f"pcm_{kind}{end}" for kind in ("s16", "s24", "s32", "f32", "f64") for end in ("le", "be")),
)
"""Sound decoders, by FFmpeg's names: what cameras, phones, editors, discs and broadcasts write."""

TEXT_SUBTITLES = frozenset({"subrip", "srt", "text", "mov_text", "webvtt", "ass", "ssa"})
"""Kinds of subtitle streams whose packets are text, by FFmpeg's names."""

PICTURE_SUBTITLES = ("pgssub", "dvdsub", "dvbsub")
"""Decoders of subtitles in pictures, by FFmpeg's names: of Blu-ray discs (PGS), of DVDs (VobSub), of broadcasts (DVB).

No other reading of a file has them.
"""

CONTAINER_NAMES = {"mov,mp4,m4a,3gp,3g2,mj2": "mp4", "matroska,webm": "matroska"}
"""Short names of the demuxers that FFmpeg names by a list."""


def open_options(limits: MediaLimits) -> dict[str, str]:
    """Return the FFmpeg options with which every file is opened: the allowlists, and the pixel limit while probing."""
    return {
        "format_whitelist": ",".join(DEMUXERS),
        "codec_whitelist": ",".join(DECODERS),
        "protocol_whitelist": "file",
        **codec_options(limits),
    }


def sound_options() -> dict[str, str]:
    """Return the FFmpeg options with which a file is opened for its sound: no decoder of pictures is run."""
    return {
        "format_whitelist": ",".join(DEMUXERS),
        "codec_whitelist": ",".join(SOUND_DECODERS),
        "protocol_whitelist": "file",
    }


def copy_options(limits: MediaLimits) -> dict[str, str]:
    """Return the FFmpeg options with which a file is opened to copy its pictures and sound: all trusted decoders."""
    return {**open_options(limits), "codec_whitelist": ",".join((*DECODERS, *SOUND_DECODERS))}


def codec_options(limits: MediaLimits) -> dict[str, str]:
    """Return the FFmpeg decoder option that limits pixels a picture, for sizes that no header gives.

    FFmpeg counts the padding of its buffers too.
    """
    return {"max_pixels": str(limits.max_pixels * 11 // 10 + 2**16)}


def picture_subtitle_options(max_pixels: int) -> dict[str, str]:
    """Return the FFmpeg options of a decoder of subtitles in pictures."""
    return {"codec_whitelist": ",".join(PICTURE_SUBTITLES), "max_pixels": str(max_pixels)}


def packet_options() -> dict[str, str]:
    """Return the FFmpeg options with which a file is opened for packets that are read without any decoder."""
    return {"format_whitelist": ",".join(DEMUXERS), "codec_whitelist": "none", "protocol_whitelist": "file"}
