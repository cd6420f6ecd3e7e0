# SPDX-License-Identifier: MIT
"""What other libraries see of a block: the buffer protocol, NumPy, DLPack, views."""

import array
import ctypes
import gc
import os
import struct
import threading

import cenote
import numpy
import pytest
from cenote import _cenote
from conftest import record_of

KINDS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
         "float64", "complex64", "complex128"]


def test_a_block_is_a_buffer(pool):
    with pool.allocate(16) as block:
        with memoryview(block) as view:
            assert (view.nbytes, view.format, view.shape, view.readonly) == (16, "B", (16,), False)
            view[:4] = struct.pack("f", 1.5)
        assert block.tobytes()[:4] == struct.pack("f", 1.5)


def test_a_buffer_keeps_the_block_from_being_freed(pool):
    block = pool.allocate(16)
    view = memoryview(block)
    with pytest.raises(BufferError, match="1 views"):
        block.free()
    view.release()
    block.free()
    with pytest.raises(ValueError, match="freed"):
        memoryview(block)


def test_a_block_is_an_array(pool):
    block = pool.allocate(64)
    array = numpy.asarray(block)
    assert array.dtype == numpy.uint8 and array.shape == (64,)
    assert array.__array_interface__["data"][0] == block.ptr  # nothing was copied
    array[:] = 7
    with pytest.raises(BufferError):
        block.free()
    del array
    assert block.tobytes() == bytes([7]) * 64


def test_an_array_keeps_the_block_alive(pool):
    array = numpy.asarray(pool.allocate(64).view(16, "float32"))
    gc.collect()
    assert pool.stats.live_blocks == 1
    array[:] = 3
    assert float(array.sum()) == 48


@pytest.mark.parametrize("kind", KINDS)
def test_views_have_numpys_types(pool, kind):
    block = pool.allocate(6 * 16)
    for dtype in (kind, numpy.dtype(kind), numpy.dtype(kind).type, numpy.dtype(kind).str):
        view = block.view((2, 3), dtype)
        assert view.dtype == kind and view.shape == (2, 3) and view.nbytes == 6 * numpy.dtype(kind).itemsize
    array = numpy.asarray(view)
    assert array.dtype == numpy.dtype(kind) and array.shape == (2, 3) and array.flags.c_contiguous
    array[:] = numpy.arange(6).reshape(2, 3)
    assert (numpy.from_dlpack(view) == array).all() if kind != "bool" else True
    interface = type("Other", (), {"__array_interface__": view.__array_interface__})()
    assert (numpy.asarray(interface) == array).all()


def test_shapes(pool):
    block = pool.allocate(100)
    assert block.view().shape == (100,)
    assert block.view(dtype="int32").shape == (25,)
    assert block.view(dtype="int32", offset=96).shape == (1,)
    assert block.view((), "int64").shape == () and numpy.asarray(block.view((), "int64")).shape == ()
    assert block.view((5, 0, 7)).nbytes == 0
    assert block.view([2, 5], "int64").offset == 0 and block.view(1, offset=3).offset == 3
    assert block.view(1, offset=3).ptr == block.ptr + 3
    assert "(2, 5) of int64" in repr(block.view([2, 5], "int64"))
    for shape, dtype in ((101, "uint8"), ((10, 11), "uint8"), (-1, "uint8"), ((2**62, 2**62), "uint8"), (13, "int64"),
                         ((2**62, 0), "float32"), ((2**32, 0, 2**32), "uint8")):
        with pytest.raises(ValueError, match="fit"):
            block.view(shape, dtype)
    assert block.view((), "int64", 92).offset == 92
    for offset in (93, 99, 100):
        with pytest.raises(ValueError, match="fit"):
            block.view((), "int64", offset)
    with pytest.raises(ValueError, match="fit"):
        pool.allocate(0).view((), "uint8")
    with pytest.raises(ValueError, match="offset"):
        block.view(1, offset=101)
    with pytest.raises(TypeError, match="float19"):
        block.view(1, "float19")
    with pytest.raises(ValueError, match="dimensions"):
        block.view([1] * 33)
    for dtype in (">f4", numpy.dtype(">f4"), numpy.dtype(">i8"), numpy.dtype("datetime64[s]"), numpy.dtype("f4,f4")):
        with pytest.raises(TypeError, match="big-endian|no element type"):
            block.view(1, dtype)
    assert block.view(1, numpy.dtype("<f4")).dtype == block.view(1, numpy.dtype("=f4")).dtype == "float32"


def test_a_forged_view_stays_in_its_block(pool):
    """A record comes from another process: its view may not begin where the block ends."""
    block = pool.allocate(512)
    record = record_of(block.view((), "float64", 504))
    offset = len(record) - 8
    assert record[offset:] == (504).to_bytes(8, "little")
    descriptor = pool._export()
    imported = cenote.Pool._import(descriptor.fileno(), 0, True)
    pools = {_cenote.read_record(record)[3]: imported}
    assert _cenote.restore(record, None, pools, {}, None).offset == 504
    for forged in (505, 512):
        with pytest.raises(ValueError, match="fit"):
            _cenote.restore(record[:offset] + forged.to_bytes(8, "little"), None, pools, {}, None)
    imported.close()


def test_a_view_is_an_export(pool):
    block = pool.allocate(100)
    view = block.view()
    with pytest.raises(BufferError):
        block.free()
    del view
    block.free()
    with pytest.raises(ValueError, match="freed"):
        block.view()


def test_bfloat16_is_dlpacks_alone(pool):
    view = pool.allocate(100).view(50, "bfloat16")
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(view)
    assert not hasattr(view, "__array_interface__")
    assert "dltensor" in repr(view.__dlpack__())


def test_the_host_has_no_cuda_interface(pool):
    block = pool.allocate(10)
    assert not hasattr(block, "__cuda_array_interface__")
    assert block.__dlpack_device__() == (1, 0)


def test_fortran_order_is_refused(pool):
    view = pool.allocate(100).view((10, 10))
    buffer = (ctypes.c_char * 200)()
    f_contiguous = 0x58  # PyBUF_F_CONTIGUOUS | PyBUF_STRIDES
    with pytest.raises(BufferError, match="Fortran"):
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), buffer, f_contiguous)


def test_a_reader_comes_after_the_streams_work(pool):
    """The buffer protocol knows no stream, so it waits for the block's."""
    gate = threading.Event()
    with cenote.Stream() as stream:
        block = pool.allocate(8, stream)
        block.copy_from(bytes(8))
        late = memoryview(block)
        stream.call(gate.wait)
        stream.call(lambda: late.__setitem__(slice(0, 8), b"in order"))
        threading.Thread(target=gate.set).start()
        assert bytes(memoryview(block)) == b"in order"
        late.release()
        block.free()


def test_a_reader_comes_after_another_threads_default_stream(pool):
    """Stream 2 is another stream in each thread."""
    driver, gate, blocks = ctypes.CDLL("libcenote-driver.so.1"), threading.Event(), []
    host_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def work():
        block = pool.allocate(8, 2)
        block.copy_from(bytes(8))
        for step in steps:
            assert driver.cuLaunchHostFunc(ctypes.c_void_p(2), step, None) == 0
        blocks.append(block)

    steps = [host_function(lambda _: gate.wait()),
             host_function(lambda _: ctypes.memmove(blocks[0].ptr, b"in order", 8) and None)]
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not blocks[0].stream.done
    threading.Thread(target=gate.set).start()
    assert bytes(memoryview(blocks[0])) == b"in order"
    blocks.clear()


# ---- DLPack ----


def test_dlpack_goes_to_numpy_without_a_copy(pool):
    block = pool.allocate(64)
    array = numpy.from_dlpack(block.view((4, 4), "float32"))
    assert array.__array_interface__["data"][0] == block.ptr and array.shape == (4, 4)
    with pytest.raises(BufferError):
        block.free()
    del array
    block.free()


def test_capsules_are_versioned_if_asked(pool):
    block = pool.allocate(64)
    assert '"dltensor"' in repr(block.__dlpack__())
    assert '"dltensor"' in repr(block.__dlpack__(max_version=(0, 8)))
    assert '"dltensor_versioned"' in repr(block.__dlpack__(max_version=(1, 0)))
    wishes = {"stream": None, "max_version": (2, 0), "dl_device": (1, 0), "copy": False}
    assert '"dltensor_versioned"' in repr(block.__dlpack__(**wishes))
    for wrong in ({"copy": True}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            block.__dlpack__(**wrong)
    for wrong in ([1, 0], (1,), (1, "0"), 1):
        for word in ("max_version", "dl_device"):
            with pytest.raises(TypeError, match="tuple of two integers|integer"):
                block.__dlpack__(**{word: wrong})
        array = type("Array", (), {"__dlpack__": block.__dlpack__, "__dlpack_device__": lambda self: wrong})()
        with pytest.raises(TypeError, match="__dlpack_device__|integer"):
            cenote.Block.from_dlpack(array)
    capsule = block.__dlpack__()
    with pytest.raises(BufferError):
        block.free()
    del capsule  # not used: it gives back by itself
    block.free()


def test_a_blocks_array_is_a_block_again(pool):
    block = pool.allocate(64)
    array = numpy.asarray(block.view(16, "int32"))
    again = cenote.Block.from_dlpack(array)
    assert (again.ptr, again.nbytes, again.pool) == (block.ptr, 64, pool)
    assert again.pool is pool and again == block
    part = cenote.Block.from_dlpack(array[4:8])
    assert (part.ptr, part.nbytes) == (block.ptr + 16, 16)
    del array
    with pytest.raises(BufferError):
        block.free()  # `again` and `part` keep the array
    again.free()
    part.free()
    block.free()


def test_an_array_that_can_only_be_read_is_such_a_block(pool):
    """NumPy before 2.1 exports no such array. So the flag is set in the capsule of a block."""
    block = pool.allocate(64)
    capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi))

    class ReadOnly:
        __dlpack_device__ = block.__dlpack_device__

        def __dlpack__(self, **wishes):
            capsule = block.__dlpack__(**wishes)
            managed = capsule_pointer(capsule, b"dltensor_versioned")
            ctypes.c_uint64.from_address(managed + 24).value = 1  # behind the version, the context and the deleter
            return capsule

    again = cenote.Block.from_dlpack(ReadOnly())
    assert again.read_only and not block.read_only and memoryview(again).readonly
    assert not numpy.asarray(again.view(16, "int32")).flags.writeable
    with pytest.raises(BufferError, match="read"):
        again.copy_from(b"x")
    there = cenote.attach(again.name())
    assert there.read_only and memoryview(there.view(8)).readonly
    assert not cenote.attach(block.name()).read_only
    assert not cenote.Block.from_dlpack(numpy.asarray(block)).read_only


def test_other_memory_is_no_block(pool):
    with pytest.raises(ValueError, match="no pool"):
        cenote.Block.from_dlpack(numpy.zeros(4))
    array = numpy.asarray(pool.allocate(64).view((4, 4), "float32"))
    with pytest.raises(ValueError, match="contiguous"):
        cenote.Block.from_dlpack(array[:, 1])
    with pytest.raises(AttributeError):
        cenote.Block.from_dlpack(5)


# ---- share() ----


@pytest.mark.parametrize("kind", KINDS)
def test_share_copies_an_array(pool, kind):
    array = numpy.arange(12).reshape(3, 4).astype(kind)
    view = cenote.share(array, pool)
    assert (view.shape, view.dtype) == ((3, 4), kind)
    copied = numpy.asarray(view)
    assert (copied == array).all()
    array[0, 0] += 1
    assert copied[0, 0] != array[0, 0] or kind == "bool"


@pytest.mark.parametrize("array, kind", [
    (array.array("d", [1, 2, 3]), "float64"),
    (array.array("b", [1, 2, 3]), "int8"),
    (array.array("L", [1, 2, 3]), "uint64"),
    ((ctypes.c_int * 3 * 2)((1, 2, 3), (4, 5, 6)), "int32"),
    (ctypes.c_double(7), "float64"),
    (ctypes.create_string_buffer(b"abc"), "uint8"),
    (memoryview(bytes(16)).cast("f", (2, 2)), "float32"),
    (memoryview(bytes(2)).cast("?"), "bool"),
    (numpy.float32(5), "float32"),
])
def test_share_keeps_a_buffers_shape_and_type(pool, array, kind):
    view = cenote.share(array, pool)
    with memoryview(array) as buffer:
        assert (view.shape, view.dtype, bytes(view)) == (buffer.shape, kind, buffer.tobytes())


@pytest.mark.parametrize("kind", [*KINDS, "bfloat16"])
def test_share_copies_a_view(pool, kind):
    block = pool.allocate(200)
    block.copy_from(bytes(range(200)))
    view = block.view((2, 3), kind, 16)
    copied = cenote.share(view, pool)
    assert (copied.shape, copied.dtype, copied.block.nbytes) == ((2, 3), kind, view.nbytes)
    assert copied.block.tobytes() == bytes(range(200))[16:16 + view.nbytes]
    assert cenote.share(block, pool).block.tobytes() == bytes(range(200))


@pytest.mark.parametrize("wrong", [
    numpy.zeros(3, "datetime64[s]"), numpy.zeros(3, "timedelta64[ms]"), numpy.array([None]), numpy.zeros(3, ">f4"),
    numpy.zeros(3, "f4,i4"), numpy.zeros(3, "longdouble"), array.array("u", "text"), 5,
])
def test_share_says_which_types_it_has_not(pool, wrong):
    with pytest.raises(TypeError, match="shared|bytes-like"):
        cenote.share(wrong, pool)


@pytest.mark.parametrize("wrong", [
    numpy.arange(8)[::2], numpy.zeros((3, 4)).T, numpy.zeros((4, 4))[:, 1], memoryview(bytes(8))[::2],
])
def test_share_says_that_an_array_is_not_contiguous(pool, wrong):
    with pytest.raises(ValueError, match="not contiguous"):
        cenote.share(wrong, pool)


def test_share_takes_bytes_and_refuses_what_it_cannot(pool):
    assert bytes(cenote.share(b"some bytes", pool)) == b"some bytes"
    assert cenote.share(numpy.zeros((3, 0)), pool).shape == (3, 0)
    own = cenote.share(b"x")
    assert own.block.pool.shareable and cenote.share(b"y").block.pool is own.block.pool
    with pytest.raises(TypeError):
        cenote.share(numpy.array(["text"]), pool)
