"""What repeated reports under local differential privacy reveal about the person who sends them."""

__version__ = "0.1.0"
