# SPDX-License-Identifier: MIT
"""
CUDA's errors as exceptions.

Each code of CUDA's has a class of its own, named as CUDA names it: CUDA_ERROR_OUT_OF_MEMORY is OutOfMemoryError. All
are CudaError. Some are also what Python would raise itself, so that `except MemoryError` works.
"""

from . import _cenote

CODES_END = 1000  # all of CUDA's codes are below


class CudaError(RuntimeError):
    """
    A call failed.

    code: CUDA's number. name: its name, as in "CUDA_ERROR_INVALID_VALUE". reason: why, as a sentence.
    """

    def __init__(self, code, name, reason):
        super().__init__(code, name, reason)
        self.code = code
        self.name = name
        self.reason = reason

    def __str__(self):
        return f"{self.name}: {self.reason}" if self.reason else self.name


# (NotImplementedError is a RuntimeError as CudaError is; OSErrors have fields of their own and are left out.)
BESIDE = {
    "CUDA_ERROR_OUT_OF_MEMORY": MemoryError,
    "CUDA_ERROR_INVALID_VALUE": ValueError,
    "CUDA_ERROR_NOT_SUPPORTED": NotImplementedError,
    "CUDA_ERROR_NOT_FOUND": LookupError,
}


def class_name(name):
    """CUDA_ERROR_OUT_OF_MEMORY -> OutOfMemoryError"""
    words = name.removeprefix("CUDA_ERROR_").split("_")
    return "".join(word.capitalize() for word in words) + "Error"


def _make_classes():
    """{code: class}, one for each code that the library has a name for."""
    classes = {}
    for code in range(1, CODES_END):
        name = _cenote.error_name(code)
        if name is None:
            continue
        bases = (CudaError, BESIDE[name]) if name in BESIDE else (CudaError,)
        classes[code] = type(class_name(name), bases, {"__module__": "cenote", "__doc__": name})
    return classes


CLASSES = _make_classes()
_cenote.set_errors(CudaError, CLASSES)
globals().update({made.__name__: made for made in CLASSES.values()})
__all__ = ["CudaError", *(made.__name__ for made in CLASSES.values())]
