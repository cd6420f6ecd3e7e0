# SPDX-License-Identifier: MIT
"""
PyTorch's tensors in Cenote's memory, and between processes.

    import cenote.torch, torch.multiprocessing as mp

    cenote.torch.register()                             # in each process that sends tensors
    weights = cenote.torch.share(model_weights)         # copied once, into memory that can be shared
    queue.put(weights)                                  # no copy; the receiver's tensor is the same memory

A tensor here is PyTorch's own, over a Block: its storage keeps the block, and the block is freed, in the order of a
stream, when the last tensor over it goes. A block that another process still holds then stays until that process has
let go of it or has died, and goes back to its pool at once. That is the library's doing, so a consumer that is killed
leaves nothing behind.

PyTorch's caching allocator does not free: it keeps what tensors leave and gives it to others. Tensors that were made by
it (everything that PyTorch allocates by itself) are therefore never shared in place: either copied, once, or left to
PyTorch's own way.

Order on a GPU is that of PyTorch's current stream in the thread that calls. multiprocessing.Queue pickles in a thread
of its own, where that is the default stream: what another stream does to a tensor must be done, or waited for, before
put(). PyTorch's own way has the same rule.
"""

from __future__ import annotations

import functools
import json
import math
import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any, Mapping, Sequence

import torch
import torch.multiprocessing  # installs PyTorch's own reducers
from torch.multiprocessing import reductions
from torch.utils.dlpack import from_dlpack

from . import _pickling, _share, kept
from ._cenote import Block, Pool, View, device_kind, devices

__all__ = ["block", "default_pool", "empty", "is_shareable", "keep", "load", "register", "share", "share_module",
           "tensor", "unregister"]

CUDA, CUDA_HOST = 2, 3  # of DLPack's devices
# The types that PyTorch of any version takes by DLPack, by their names here. The others are set on bytes.
PLAIN = {getattr(torch, name): name for name in ("uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                                                 "float32", "float64", "complex64", "complex128")}
SIZES = {}       # of element types
LAYOUT, ALIGN = "cenote.torch 1", 256  # of what keep() writes
_lock = threading.Lock()
_pools = {}      # PyTorch's device -> the Pool for what share() and empty() make
_copies = False  # what register() was told about other tensors
CLASSES = (torch.Tensor, torch.nn.Parameter)  # of what is sent; subclasses are PyTorch's own business


# ---- Devices and streams ----


@functools.cache
def _is_host():
    """Is Cenote's device this machine's memory?"""
    devices()  # the library chooses with its first use, for good
    return device_kind() == "host"


def _device(device):
    """A torch.device with an index, of what PyTorch accepts as one; None is what Cenote has."""
    if device is None:
        return torch.device("cpu") if _is_host() else torch.device("cuda", torch.cuda.current_device())
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu") if device.type == "cpu" else device


def _stream(device):
    """PyTorch's current stream, as Cenote takes it. The processor's tensors have none."""
    return _raw_stream(device.index) if device.type == "cuda" else None


def _raw_stream(index):
    return torch.cuda.current_stream(index).cuda_stream


_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", _raw_stream)  # a tenth of the time
_from_capsule = getattr(torch._C, "_from_dlpack", from_dlpack)  # what that calls, in the end


def default_pool(device: torch.device | str | int | None = None) -> Pool:
    """
    The Pool in which share() and empty() allocate if they are given none: one for each device.

    On a GPU machine the one of "cpu" is memory of the host that the GPU can read too.
    """
    device = _device(device)
    with _lock:
        if device not in _pools:
            if device.type == "cuda":
                _pools[device] = Pool(device.index)
            elif device.type == "cpu":
                _pools[device] = Pool() if _is_host() else Pool(location=("numa", 0))
            else:
                raise ValueError(f"Cenote has no memory for {device}")
        return _pools[device]


# ---- Tensors from blocks ----


def _view(memory, block_):
    """A Block's or View's memory as a tensor, whose storage keeps it; its order is the current stream's."""
    kind, ordinal = memory.__dlpack_device__()
    if kind == CUDA:
        block_.use(_raw_stream(ordinal))
    elif kind == CUDA_HOST:  # PyTorch does not know it by DLPack
        return torch.frombuffer(memoryview(memory).cast("B"), dtype=torch.uint8)
    return _from_capsule(memory.__dlpack__(stream=-1))  # the block is in the order that is wanted


def _untyped(tensor_):
    """A tensor's storage, without its type."""
    return tensor_.storage().untyped()


_untyped = getattr(torch.Tensor, "untyped_storage", _untyped)  # PyTorch 2


def _place(flat, offset, shape, stride, dtype):
    """A tensor on the storage of `flat`; offset and stride in elements. Not a view, for autograd."""
    made = torch.empty(0, dtype=dtype, device=flat.device)
    return made.set_(_untyped(flat), offset, shape, stride) if flat.numel() else made.reshape(shape)


def _rows(shape):
    """The strides of a contiguous tensor."""
    stride = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        stride[i] = stride[i + 1] * max(1, shape[i + 1])
    return tuple(stride)


def _item_bytes(dtype):
    size = SIZES.get(dtype)
    if size is None:
        size = SIZES[dtype] = torch.empty(0, dtype=dtype).element_size()
    return size


def tensor(memory: Block | View, shape: int | Sequence[int] | None = None,
           dtype: torch.dtype | None = None) -> torch.Tensor:
    """
    A tensor over a Block or a View, without a copy.

    The tensor's storage keeps the memory; the memory can be freed when all tensors over it have gone. From a View,
    shape and type are its own if none are given; from a Block, a flat tensor. On a GPU, from now on the block's order
    is that of PyTorch's current stream, behind what the block has to do: work in other streams must be joined before
    the tensor goes, as with PyTorch's own memory.
    """
    if isinstance(memory, View):
        block_, offset, nbytes = memory.block, memory.offset, memory.nbytes
        if dtype is None:
            dtype, shape = getattr(torch, memory.dtype), memory.shape if shape is None else shape
    else:
        block_, offset, nbytes, dtype = memory, 0, memory.nbytes, dtype or torch.uint8
    size = _item_bytes(dtype)
    shape = (nbytes // size,) if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    if math.prod(shape) * size > nbytes:
        raise ValueError(f"a tensor of shape {shape} and type {dtype} needs {math.prod(shape) * size} bytes, and there "
                         f"are {nbytes}")
    return _make(block_, offset, shape, dtype)


def _make(block_, offset, shape, dtype):
    """A contiguous tensor of a block's memory, from an offset in bytes on. It fits."""
    if dtype in PLAIN and block_.__dlpack_device__()[0] != CUDA_HOST:
        return _view(block_.view(shape, PLAIN[dtype], offset), block_)
    return _place(_view(block_.view(offset=offset), block_), 0, shape, _rows(shape), dtype)


def empty(*shape: int | Sequence[int], dtype: torch.dtype | None = None,
          device: torch.device | str | int | None = None, pool: Pool | None = None) -> torch.Tensor:
    """A new tensor in memory that can be shared, as torch.empty() makes one: not zeroed."""
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    dtype = dtype or torch.get_default_dtype()
    device = _device(device)
    pool = pool or default_pool(device)
    nbytes = math.prod(shape) * _item_bytes(dtype)
    if not nbytes:
        return torch.empty(shape, dtype=dtype, device=device)
    return _make(pool.allocate(nbytes, _stream(device)), 0, shape, dtype)


def share(source: torch.Tensor, pool: Pool | None = None) -> torch.Tensor:
    """
    A tensor's copy in memory that can be shared; a tensor that lies there already is returned as it is.

    This is the one copy, in PyTorch's current stream: sending the result makes none. The copy is contiguous and a leaf.
    """
    if is_shareable(source):
        return source
    made = empty(source.shape, dtype=source.dtype, device=source.device, pool=pool)
    made.copy_(source.detach())
    return made.requires_grad_(source.requires_grad)


def share_module(module: torch.nn.Module, pool: Pool | None = None) -> torch.nn.Module:
    """
    Move a module's parameters and buffers into memory that can be shared, and return the module.

    Each is copied once, and parameters stay the same objects, so that optimizers go on. What is written to them later,
    in place, is seen by all processes that have them.
    """
    for each in (*module.parameters(), *module.buffers()):
        if not is_shareable(each):
            each.data = share(each.data, pool)
    return module


# ---- Blocks from tensors ----


def _find_block(source):
    """The Block of a tensor's whole storage, in the order of PyTorch's current stream; None: it lies in no pool."""
    storage = _untyped(source)
    nbytes = storage.nbytes()
    stream = _raw_stream(source.get_device()) if source.is_cuda else None  # source.device would take longer
    return Block._lent(storage.data_ptr(), nbytes, storage, stream) if nbytes else None


def block(source: torch.Tensor) -> Block:
    """
    The Block in which a tensor lies: all of its storage. ValueError: it lies in no pool of this process.

    The Block keeps the storage, as another tensor would.
    """
    found = _find_block(source)
    if found is None:
        raise ValueError("the tensor lies in no pool of Cenote's: cenote.torch.share() copies it into one")
    return found


def is_shareable(source: torch.Tensor) -> bool:
    """Whether a tensor lies in memory of this process that can be shared, so that sending it makes no copy."""
    if source.layout != torch.strided or source.device.type not in ("cpu", "cuda"):
        return False
    found = _find_block(source)
    return found is not None and not found.imported


# ---- Kept memory ----


def keep(name: str, tensors: Mapping[str, torch.Tensor], **options: Any) -> int:
    """
    Keep a copy of tensors under a name, after this process: load() has them in any other. Returns the generation.

    tensors: a mapping of names to tensors, as module.state_dict() is, on the processor or on one GPU. They are copied
    once, into memory of that device. options: as of cenote.kept.create().
    """
    places, end = {}, 0
    for key, each in tensors.items():
        places[key] = [str(each.dtype)[6:], [*each.shape], end]
        end += -(-each.numel() * each.element_size() // ALIGN) * ALIGN
    index = next((each.device.index for each in tensors.values() if each.is_cuda), None)
    if not _is_host():
        options.setdefault("device", torch.cuda.current_device() if index is None else index)
    blob = json.dumps({"layout": LAYOUT, "tensors": places}, separators=(",", ":")).encode()
    with kept.create(name, {"tensors": max(end, 1)}, blob=blob, **options) as made:
        for key, each in _lay_out(made).items():
            each.copy_(tensors[key].detach())
            del each
        return made.generation


def load(name: str, **options: Any) -> dict[str, torch.Tensor]:
    """
    The tensors that keep() was given, by their names, without a copy: module.load_state_dict(load(name), assign=True).

    The memory is open until the last of them goes, whatever becomes of the name, and can only be read: PyTorch has no
    read-only tensors, and a program that writes to one ends, with an error of the device or by a signal. options: as of
    cenote.kept.open().
    """
    return _lay_out(kept.open(name, **options))


def _lay_out(opened):
    """The tensors of an object that keep() has made. Its creator is not trusted: they lie in its memory."""
    layout, part = json.loads(opened.blob or b"{}"), opened[0]
    if layout.get("layout") != LAYOUT:
        raise ValueError(f"{opened.name} was not made by cenote.torch.keep()")
    flat, made = _view(part.view(), part), {}
    for key, (dtype, shape, offset) in layout["tensors"].items():
        dtype = getattr(torch, dtype)
        size = _item_bytes(dtype)
        if min((offset, *shape)) < 0 or offset % size or offset + math.prod(shape) * size > part.nbytes:
            raise ValueError(f"the layout of {opened.name} is damaged")
        made[key] = _place(flat, offset // size, shape, _rows(shape), dtype)
    return made


# ---- torch.multiprocessing ----


def _rebuild_view(record):
    """In the receiver: the tensor over a View that has come, which most are."""
    memory = _share.restore(record)
    return _view(memory, memory.block)


def _rebuild(record, offset, shape, stride, dtype, requires_grad, is_parameter):
    """In the receiver: any other tensor, over a Block that has come."""
    memory, dtype = _share.restore(record), getattr(torch, dtype)
    if stride == _rows(shape):
        made = _make(memory, offset * _item_bytes(dtype), shape, dtype)
    else:
        made = _place(_view(memory, memory), offset, shape, stride, dtype)
    if is_parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_() if requires_grad else made


def _is_plain(source):
    """Whether shape, strides and bytes say all about a tensor."""
    return (type(source) in CLASSES and source.layout == torch.strided and (source.is_cuda or source.is_cpu)
            and not source.is_quantized and not source.is_conj() and not source.is_neg()
            and not source.has_names() and (source.is_leaf or not source.requires_grad))


def _reduce(source):
    """What is pickled for a tensor."""
    if not _is_plain(source):
        return reductions.reduce_tensor(source)
    sent, found = source, _find_block(source)
    if (found is None or found.imported) and _copies and source.numel() and (source.is_cuda or _is_host()):
        sent = share(source.detach())
        found = _find_block(sent)
    if found is None:
        return reductions.reduce_tensor(source)
    if found.imported:
        raise RuntimeError("the tensor is another process's memory, which only that process can send: send a copy, "
                           "made by cenote.torch.share(), or let register(copy=True) make it")
    name = PLAIN.get(source.dtype)
    if source.requires_grad:
        torch.utils.hooks.warn_if_has_hooks(source)
    elif name and type(source) is torch.Tensor and sent.is_contiguous() and (source.is_cuda or _is_host()):
        view = found.view(tuple(sent.shape), name, sent.storage_offset() * sent.element_size())
        return _rebuild_view, (_pickling.pack(view),)
    # Numbers and words, and no classes: what a pickle looks up by name costs more than all else here.
    return _rebuild, (_pickling.pack(found), sent.storage_offset(), tuple(sent.shape), sent.stride(),
                      str(sent.dtype)[6:], source.requires_grad, type(source) is torch.nn.Parameter)


def register(copy: bool = False) -> None:
    """
    From now on torch.multiprocessing, and multiprocessing, pass tensors of this process over Cenote.

    Queues, pipes, pools and arguments of processes then send a tensor that lies in a pool of Cenote's as a name of some
    hundred bytes: no file in /dev/shm, no descriptor that the receiver fetches out of this process, no count that a
    killed receiver leaves behind. Receivers need not call this.

    copy=False leaves all other tensors to PyTorch's own way, which shares them in place. copy=True copies them, once,
    into memory of Cenote's: the receiver then has a tensor of its own, and does not see what is written here later.
    """
    global _copies
    _copies = bool(copy)
    for each in CLASSES:
        ForkingPickler.register(each, _reduce)


def unregister() -> None:
    """PyTorch's own way again, for all tensors."""
    for each in CLASSES:
        ForkingPickler.register(each, reductions.reduce_tensor)
