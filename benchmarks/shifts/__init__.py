"""What twelve shifts of videos cost at five strengths; read `low`, `middle`, `high`, `world`, `cells`, `page`."""
