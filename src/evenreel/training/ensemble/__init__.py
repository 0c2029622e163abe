"""Ensembles: several training runs (members) that become one matcher, their training clips, and weights of scores."""
