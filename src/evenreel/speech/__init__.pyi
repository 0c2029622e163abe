from .subtitles import Subtitles as Subtitles, parse_subtitles as parse_subtitles
from .utterances import SpokenWord as SpokenWord, Utterance as Utterance
