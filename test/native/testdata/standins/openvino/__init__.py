"""Stands in for OpenVINO in tests: every model doubles its input of 3 numbers. Nothing of it is real."""

import numpy as np


__version__ = "9.1"


class _Dim:
    def __init__(self, size):
        self.is_dynamic, self.size = size < 0, size

    def get_length(self):
        return self.size


class _Type:
    @staticmethod
    def to_dtype():
        return np.dtype("float32")


class _Port:
    def __init__(self, name):
        self.name = name

    def get_any_name(self):
        return self.name

    @staticmethod
    def get_partial_shape():
        return [_Dim(-1), _Dim(3)]

    @staticmethod
    def get_element_type():
        return _Type()


class _Model:
    def __init__(self):
        self.inputs, self.outputs = [_Port("x")], [_Port("y")]

    def __call__(self, inputs):
        return {self.outputs[0]: inputs["x"] * 2}


class Core:
    def read_model(self, path):
        return _Model()

    def get_property(self, device, name):
        assert device == "CPU" and name in ("SUPPORTED_PROPERTIES", "FULL_DEVICE_NAME"), name
        return "a stand-in" if name == "FULL_DEVICE_NAME" else {"INFERENCE_NUM_THREADS": "RW", "PERFORMANCE_HINT": "RW"}

    def compile_model(self, model, device, settings):
        assert device == "CPU" and settings == {"INFERENCE_NUM_THREADS": "1", "PERFORMANCE_HINT": "LATENCY"}, settings
        return model
