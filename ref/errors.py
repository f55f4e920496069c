"""What can go wrong, as exceptions. Every message is one sentence naming the node or value and the rule."""


class OrtwinError(Exception):
    """Base of every error this package raises on purpose."""


class ModelError(OrtwinError):
    """The model can't be read, or is not a valid ONNX model."""


class UnsupportedError(OrtwinError):
    """The model asks for something this backend can't compute exactly as written; known before data is seen (C9)."""


class SizeError(OrtwinError):
    """A value is too large: its size does not fit in memory, or there is not so much memory."""


class InputError(OrtwinError):
    """A feed or a requested output doesn't fit the model, or an operand breaks a rule only visible at run time."""
