# SPDX-License-Identifier: MIT
"""PyTorch's tensors in kept memory: cenote.torch.keep() and load()."""

import gc
import subprocess
import sys
import warnings

import cenote
import pytest
from cenote import kept

from kept_test import daemon, nothing_is_held  # noqa: F401 (fixtures)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch's own imports
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    import cenote.torch


def make():
    """A small module, the same as the other process's."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 8)).eval()


def test_weights_are_used_by_the_next_process_without_a_copy():
    code = ("import warnings\nwarnings.simplefilter('ignore')\nimport torch, cenote.torch\n"
            "torch.manual_seed(1)\n"
            "module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 8))\n"
            "cenote.torch.keep('model', module.state_dict())")
    subprocess.run([sys.executable, "-c", code], check=True)
    module, given = make(), torch.arange(128.0).reshape(2, 64)
    with torch.no_grad():
        expected = module(given)
    weights = cenote.torch.load("model")
    assert list(weights) == list(module.state_dict()) and kept.list("model")[0].holder_count == 1
    for key, each in (*module.named_parameters(), *module.named_buffers()):
        each.data = weights[key]
        assert each.data_ptr() == weights[key].data_ptr()
    with torch.no_grad():
        assert torch.equal(module(given), expected)
    del module, weights, each
    gc.collect()
    assert kept.list("model")[0].holder_count == 0


def test_any_tensors_come_back():
    given = {"none": torch.empty(0, 3), "one": torch.tensor(5), "half": torch.arange(5, dtype=torch.bfloat16),
             "yes": torch.tensor([True, False]), "rows": torch.arange(12.0).reshape(3, 4).t(),
             "complex": torch.ones(3, dtype=torch.complex128)}
    generation = cenote.torch.keep("a", given, cache=True)
    got = cenote.torch.load("a", generation=generation)
    assert list(got) == list(given)
    for key, each in given.items():
        assert got[key].dtype == each.dtype and got[key].shape == each.shape and torch.equal(got[key], each)
        assert not each.numel() or got[key].data_ptr() % 256 == 0


def test_other_objects_are_refused():
    kept.put("a", b"x")
    with pytest.raises(ValueError, match="was not made by"):
        cenote.torch.load("a")
    for place in ('["float32",[3],0]', '["float32",[1],-4]', '["float32",[-1],0]', '["float32",[1],2]'):
        kept.put("a", bytes(8), blob=b'{"layout":"cenote.torch 1","tensors":{"x":%s}}' % place.encode())
        with pytest.raises(ValueError, match="damaged"):
            cenote.torch.load("a")
    cenote.torch.keep("a", {})
    assert cenote.torch.load("a") == {}
