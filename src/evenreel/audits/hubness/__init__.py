"""Do a few clips stand first for many captions, more than chance would have it?"""
