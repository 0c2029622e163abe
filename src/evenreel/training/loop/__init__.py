"""One training run: `run.train` builds the module, Lightning steps it, `milestones` evaluates and saves."""
