from .recogniser import (
    ClipSpeech as ClipSpeech,
    SpeechReader as SpeechReader,
    load_speech_reader as load_speech_reader,
    read_speech as read_speech,
)
from .subtitles import Subtitles as Subtitles, parse_subtitles as parse_subtitles
from .synthesis import VOICES as VOICES, can_speak as can_speak, speak_text as speak_text
from .subtitles import (
    SpeechSource as SpeechSource,
    SpokenWord as SpokenWord,
    Transcript as Transcript,
    Utterance as Utterance,
)
