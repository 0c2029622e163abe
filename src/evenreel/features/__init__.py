"""What is kept of each clip: the features of its frames and the words read on its screen."""
