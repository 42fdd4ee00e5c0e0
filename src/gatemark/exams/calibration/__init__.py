"""The calibration exam: whether stated confidences come true."""
