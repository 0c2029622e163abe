"""TITAN (MM 2023), a file for each section: rematching, counterfactual captions, bias correction, pseudo-labels."""
