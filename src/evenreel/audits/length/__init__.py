"""Does a ranking favour clips for their length? Preferences, ratios of lengths, and the lengths of training."""
