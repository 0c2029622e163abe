"""What a ranking loses where clips or captions are edited: pictures, words, or words laid over pictures."""
