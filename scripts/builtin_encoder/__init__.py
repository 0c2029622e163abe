"""The parts of the training of the encoder inside the package, see `scripts.train_builtin`."""
