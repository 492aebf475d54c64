"""Stands in for TensorFlow in tests: a SavedModel is a folder with a file that says what it does. None of it is real."""

import json
import os

import numpy as np


class _Type:
    def __init__(self, kind):
        self.as_numpy_dtype = np.dtype(kind)


class _Shape(list):
    def as_list(self):
        return list(self)


class _Spec:
    def __init__(self, kind, shape):
        self.dtype, self.shape = _Type(kind), _Shape(shape)


class _Tensor:
    def __init__(self, array):
        self.array = array

    def numpy(self):
        return self.array


def constant(array):
    return _Tensor(array)


class _Function:
    structured_input_signature = ((), {"x": _Spec("float32", [None, 3]), "s": _Spec("O", [None, 1])})
    structured_outputs = {"y": _Spec("float32", [None, 3]), "t": _Spec("O", [None, 1])}

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x, s):
        texts = np.array([[b"<" + element + b">"] for element in s.array.ravel()], dtype=object)
        return {"y": _Tensor((x.array * self.factor).astype(np.float32)), "t": _Tensor(texts)}


class _Loaded:
    def __init__(self, path, tags):
        with open(os.path.join(path, "standin.json")) as file:
            said = json.load(file)
        assert tags == [said["tag"]]
        self.signatures = {name: _Function(factor) for name, factor in said["signatures"].items()}


class saved_model:
    @staticmethod
    def load(path, tags):
        return _Loaded(path, tags)


class _Device:
    name = "/physical_device:CPU:0"


__version__ = "2.99"


class config:
    @staticmethod
    def list_physical_devices():
        return [_Device()]

    class threading:
        @staticmethod
        def set_intra_op_parallelism_threads(count):
            assert count >= 1

        @staticmethod
        def set_inter_op_parallelism_threads(count):
            assert count >= 1
