"""Tensors as DLPack capsules and back, for the data types that numpy's own functions leave out: BF16 and booleans."""

import ctypes

import numpy as np

import edgewise_backend as wire

CPU, CUDA, CUDA_HOST = 1, 2, 3  # kinds of devices

_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6  # codes of data types
_CODES = {"i": _INT, "u": _UINT, "f": _FLOAT, "b": _BOOL}


class Unsupported(Exception):
    """A capsule that no tensor can be made of."""


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_python = ctypes.pythonapi
_new = _python.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_valid = _python.PyCapsule_IsValid
_valid.restype, _valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_pointer = _python.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_rename = _python.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]

_lent = {}  # address of a structure that a capsule points to -> what must live as long


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _returned(address):
    """Called by who has read a capsule, when the memory is used no more."""
    _lent.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _unread(capsule):
    """Called when a capsule ends. One that was read has another name, and its reader returns the memory."""
    if _valid_at(capsule, b"dltensor"):
        _lent.pop(_pointer_at(capsule, b"dltensor"), None)


_valid_at = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))


def capsule_of(array, datatype):
    """Return a capsule over the memory of a contiguous array."""
    managed = _Managed(
        data=array.ctypes.data,
        device_type=CPU,
        device_id=0,
        ndim=array.ndim,
        code=_BFLOAT if datatype == wire.BF16 else _CODES[array.dtype.kind],
        bits=array.itemsize * 8,
        lanes=1,
        shape=(ctypes.c_int64 * max(array.ndim, 1))(*array.shape),
        strides=None,
        byte_offset=0,
        context=None,
        deleter=ctypes.cast(_returned, ctypes.c_void_p),
    )
    address = ctypes.addressof(managed)
    _lent[address] = (managed, array)
    return _new(address, b"dltensor", ctypes.cast(_unread, ctypes.c_void_p))


class _Memory:
    """The memory of a capsule that was read, until the last array of it ends."""

    def __init__(self, address, managed, shape, typestr):
        self._address, self._deleter = address, managed.deleter
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": typestr,
            "data": (managed.data + managed.byte_offset, False),
        }

    def __del__(self):
        if self._deleter:
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._deleter)(self._address)


def array_of(source):
    """Return the data type and an array over the memory of a capsule, or of an object that gives one."""
    if type(source).__name__ != "PyCapsule":
        source = _asked(source)
    if not _valid(source, b"dltensor"):
        raise Unsupported("the DLPack capsule was read before")
    address = _pointer(source, b"dltensor")
    managed = _Managed.from_address(address)
    if managed.device_type not in (CPU, CUDA_HOST):
        raise Unsupported(_device(managed.device_type))
    shape = tuple(managed.shape[: managed.ndim])
    _check_order(managed, shape)
    datatype, dtype = _datatype(managed)
    if 0 in shape:
        return datatype, np.empty(shape, dtype)
    memory = _Memory(address, managed, shape, dtype.str)
    _rename(source, b"used_dltensor")
    return datatype, np.asarray(memory)


def _asked(source):
    if not hasattr(source, "__dlpack__") or not hasattr(source, "__dlpack_device__"):
        raise Unsupported(
            "Provided tensor is not supported. Tensor must be a DLPack capsule or have `__dlpack__` and "
            "`__dlpack_device__` attributes"
        )
    device = source.__dlpack_device__()[0]
    if device not in (CPU, CUDA_HOST):
        raise Unsupported(_device(device))
    return source.__dlpack__()


def _device(kind):
    if kind == CUDA:
        return "DLPack capsule passed pointer to memory allocated on GPU device, when GPU is not available"
    return "DLDevice type %d is not support by Python backend." % kind


def _check_order(managed, shape):
    if not managed.strides:
        return
    expected = 1
    for size, stride in reversed(list(zip(shape, managed.strides[: managed.ndim]))):
        if size != 1 and stride != expected:
            raise Unsupported(
                "DLPack tensor is not contiguous. Only contiguous DLPack tensors that are stored in C-Order are "
                "supported."
            )
        expected *= size


def _datatype(managed):
    if managed.lanes == 1:
        if (managed.code, managed.bits) == (_BFLOAT, 16):
            return wire.BF16, wire.dtype_of(wire.BF16)
        for datatype in range(wire.BOOL, wire.BYTES):
            dtype = wire.dtype_of(datatype)
            if (_CODES[dtype.kind], dtype.itemsize * 8) == (managed.code, managed.bits):
                return datatype, dtype
    raise Unsupported(
        "DLPack data type with code %d, %d bits and %d lanes is none of Triton's"
        % (managed.code, managed.bits, managed.lanes)
    )
