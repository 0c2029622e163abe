"""Audit of edited captions, read `choices`, then `audit`: does a ranking read sentences, or bags of words?"""
