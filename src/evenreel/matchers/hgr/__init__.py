"""HGR (Chen et al., CVPR 2020): captions as graphs of events, actions and entities."""
