# SPDX-License-Identifier: MIT
"""
PyTorch's tensors over blocks, and back. Debian's PyTorch is for the processor: scripts/gpu_python.py is for a GPU.
"""

import gc
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # PyTorch's own imports
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    import torch.multiprocessing  # noqa: F401
    import cenote.torch


def test_a_tensor_is_the_blocks_memory(pool):
    block = pool.allocate(48)
    made = cenote.torch.tensor(block, (3, 4), torch.float32)
    made.fill_(2)
    assert made.data_ptr() == block.ptr and block.tobytes() == made.numpy().tobytes()
    assert made.is_contiguous() and made.stride() == (4, 1) and not made._is_view()


def test_a_block_cannot_be_freed_under_a_tensor(pool):
    block = pool.allocate(64)
    made = cenote.torch.tensor(block, 16, torch.float32)
    part = made[2:4]
    del made
    with pytest.raises(BufferError):
        block.free()
    del part
    block.free()
    assert pool.stats.live_blocks == 0


def test_the_storage_keeps_the_block(pool):
    made = cenote.torch.tensor(pool.allocate(64), dtype=torch.int64)
    part = made[1:2]
    del made
    gc.collect()
    assert pool.stats.live_blocks == 1
    part.fill_(7)
    del part
    assert pool.stats.live_blocks == 0


def test_a_view_gives_its_shape_type_and_place(pool):
    view = pool.allocate(64).view((2, 3), "int16", 8)
    made = cenote.torch.tensor(view)
    assert made.shape == (2, 3) and made.dtype == torch.int16 and made.data_ptr() == view.ptr
    assert cenote.torch.tensor(view, dtype=torch.uint8).shape == (12,)
    assert cenote.torch.tensor(view, (3, 2)).shape == (3, 2)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.float64,
                                   torch.complex64])
def test_every_element_type(pool, dtype):
    source = torch.tensor([1, 0, 1]).to(dtype)
    made = cenote.torch.share(source, pool)
    assert made.dtype == dtype and torch.equal(made, source) and made.data_ptr() != source.data_ptr()


def test_a_tensor_that_does_not_fit_is_refused(pool):
    with pytest.raises(ValueError, match="needs 68 bytes, and there are 64"):
        cenote.torch.tensor(pool.allocate(64), 17, torch.float32)


def test_nothing_has_no_block(pool):
    made = cenote.torch.empty(0, 3, pool=pool)
    assert made.shape == (0, 3) and not cenote.torch.is_shareable(made)
    assert cenote.torch.tensor(pool.allocate(0)).shape == (0,)


def test_the_block_of_a_tensor(pool):
    made = cenote.torch.empty((4, 4), pool=pool)
    block = cenote.torch.block(made[1:, :2].t())
    assert block.ptr == made.data_ptr() and block.nbytes == 64 and block.pool is pool
    del made
    gc.collect()
    assert pool.stats.live_blocks == 1  # the Block keeps the storage
    block.free()
    assert pool.stats.live_blocks == 0


def test_other_tensors_have_none():
    with pytest.raises(ValueError, match="share"):
        cenote.torch.block(torch.ones(3))
    assert not cenote.torch.is_shareable(torch.ones(3))
    assert not cenote.torch.is_shareable(torch.ones(3).to_sparse())


def test_share_copies_once(pool):
    source = torch.arange(6.0).reshape(2, 3).t()
    made = cenote.torch.share(source, pool)
    assert torch.equal(made, source) and made.is_contiguous()
    assert cenote.torch.share(made) is made
    source.zero_()
    assert made.sum() == 15


def test_share_keeps_what_autograd_knows(pool):
    source = torch.ones(3, requires_grad=True)
    made = cenote.torch.share(source, pool)
    assert made.requires_grad and made.is_leaf
    made.sum().backward()
    assert torch.equal(made.grad, torch.ones(3)) and source.grad is None


def test_a_module_is_moved_and_goes_on_learning(pool):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    before = {name: each.clone() for name, each in module.state_dict().items()}
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    parameters = list(module.parameters())
    assert cenote.torch.share_module(module, pool) is module
    assert all(torch.equal(each, before[name]) for name, each in module.state_dict().items())
    assert all(now is then for now, then in zip(module.parameters(), parameters))
    addresses = [each.data_ptr() for each in parameters]
    module(torch.randn(8, 4)).square().sum().backward()
    optimizer.step()
    assert not torch.equal(module[0].weight, before["0.weight"])
    assert [each.data_ptr() for each in parameters] == addresses
    assert all(cenote.torch.is_shareable(each) for each in (*module.parameters(), *module.buffers()))


def test_a_tied_parameter_is_moved_once(pool):
    module = torch.nn.ModuleList([torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)])
    module[1].weight = module[0].weight
    cenote.torch.share_module(module, pool)
    assert pool.stats.live_blocks == 1


def test_the_default_pool_is_one_for_a_device():
    assert cenote.torch.default_pool() is cenote.torch.default_pool("cpu")
    made = cenote.torch.empty(5)
    assert cenote.torch.block(made).pool is cenote.torch.default_pool()
    with pytest.raises(ValueError, match="no memory for meta"):
        cenote.torch.default_pool("meta")
