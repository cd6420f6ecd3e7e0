# SPDX-License-Identifier: MIT
"""The type files say what is there, and nothing else."""

import ast
import builtins
import importlib.util
import inspect
import types
from pathlib import Path

import cenote
import cenote.aio
import cenote.kept
from cenote import _cenote, _errors

PACKAGE = Path(cenote.__file__).parent
# What every class has, or what a type file says in another way.
COMMON = set(dir(type("Empty", (), {}))) | {"__buffer__", "__new__", "__hash__", "__release_buffer__"}
OF_TUPLES = set(dir(tuple)) | {"n_fields", "n_sequence_fields", "n_unnamed_fields", "__match_args__", "__replace__"}


def names_in(file):
    """{class: names in it} and the names of the file itself."""
    classes, own = {}, set()
    for node in ast.parse((PACKAGE / file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = {each.name if isinstance(each, ast.FunctionDef) else each.target.id
                                  for each in node.body if isinstance(each, (ast.FunctionDef, ast.AnnAssign))}
        elif isinstance(node, ast.FunctionDef):
            own.add(node.name)
    return classes, own


def test_the_extension_is_described():
    classes, functions = names_in("_cenote.pyi")
    real = {name: value for name, value in vars(_cenote).items() if inspect.isclass(value)}
    assert set(classes) - {"CudaStream"} == set(real)
    assert functions == {name for name, value in vars(_cenote).items() if inspect.isbuiltin(value)}
    for name, kind in real.items():
        there = set(dir(kind)) - COMMON - (OF_TUPLES if issubclass(kind, tuple) else set())
        assert classes[name] - COMMON == there, name


def test_methods_have_signatures():
    for name, kind in inspect.getmembers(_cenote, inspect.isclass):
        for own, value in vars(kind).items():
            if isinstance(value, types.MethodDescriptorType) and own[0] != "_" and not issubclass(kind, tuple):
                assert [*inspect.signature(value).parameters][0] == "self", f"{name}.{own}"


def test_every_error_is_described():
    classes, _ = names_in("_errors.pyi")
    assert set(classes) == {"CudaError"} | {made.__name__ for made in _errors.CLASSES.values()}


def test_a_star_leaves_pythons_names_alone():
    """cenote.TimeoutError is CUDA's; after `from cenote import *` TimeoutError is Python's all the same."""
    assert set(cenote.__all__) & set(dir(builtins)) == set()
    assert cenote.TimeoutError is not TimeoutError and issubclass(cenote.TimeoutError, cenote.CudaError)
    assert set(_errors.__all__) - set(cenote.__all__) == {"TimeoutError", "FileNotFoundError"}


def test_everything_public_has_a_docstring():
    for name in cenote.__all__:
        thing = getattr(cenote, name)
        assert thing.__doc__, name
        if inspect.isclass(thing) and not issubclass(thing, (Exception, tuple)):
            for own, value in vars(thing).items():
                assert own.startswith("_") or value.__doc__, f"{name}.{own}"


def public_functions():
    """The functions that are written in Python, of the package and of its modules."""
    modules = [cenote, cenote.aio, cenote.kept]
    if importlib.util.find_spec("torch"):
        modules.append(importlib.import_module("cenote.torch"))
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isfunction(thing):
                yield f"{module.__name__}.{name}", thing
    for watch in (cenote.Watch, cenote.kept.Watch):
        yield from inspect.getmembers(watch, lambda each: inspect.isfunction(each) and each.__name__[0] != "_")


def test_every_public_function_has_types():
    for name, function in public_functions():
        signature = inspect.signature(function)
        assert signature.return_annotation is not signature.empty, name
        untyped = [each.name for each in signature.parameters.values()
                   if each.annotation is each.empty and each.name != "self"]
        assert not untyped, f"{name}: {untyped}"
