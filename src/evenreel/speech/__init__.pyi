from .loading import load_speech_reader as load_speech_reader
from .reader import ClipSpeech as ClipSpeech, SpeechReader as SpeechReader, read_speech as read_speech
from .subtitles import Subtitles as Subtitles, parse_subtitles as parse_subtitles
from .synthesis import VOICES as VOICES, can_speak as can_speak, speak_text as speak_text
from .transcripts import Transcript as Transcript
from .utterances import SpeechSource as SpeechSource, SpokenWord as SpokenWord, Utterance as Utterance
