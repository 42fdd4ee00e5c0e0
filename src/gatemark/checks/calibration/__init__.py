"""The calibration exam: whether stated confidences match observed accuracy."""
