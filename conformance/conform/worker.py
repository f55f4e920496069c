"""The other end of the arm ref:interpreted: a process that has the reference as Python source and nothing compiled.

It is started as a script in a folder where it finds only ortwin/ref/*.py, and takes pickled requests on stdin until
that ends: (model, arrays by name) for the bits of the outputs, or the reason why there are none. The first answer,
before any request, says where its reference comes from.
"""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from typing import Any, BinaryIO

from ortwin.ref import ModelError, OrtwinError, Session, UnsupportedError, unary

KEPT = 64
"""Sessions kept for the next request."""


def serve(source: BinaryIO, target: BinaryIO) -> None:
    """Answers requests until the source ends."""
    sessions: OrderedDict[bytes, Session] = OrderedDict()

    def answer(value: Any) -> None:
        pickle.dump(value, target)
        target.flush()

    answer(unary.__file__)
    while True:
        try:
            model, feeds = pickle.load(source)
        except EOFError:
            return
        try:
            if model not in sessions:
                sessions[model] = Session(model)
                if len(sessions) > KEPT:
                    sessions.popitem(last=False)
            made = sessions[model].run(None, feeds)
            answer(("made", *((y.dtype, y.shape, y.tobytes()) for y in made)))
        except (UnsupportedError, ModelError) as error:
            answer(("declined", str(error)))
        except OrtwinError as error:
            answer(("failed", str(error)))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
