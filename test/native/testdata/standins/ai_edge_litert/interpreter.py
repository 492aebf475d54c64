"""Every model doubles its input; one whose file says "signature" has a signature."""

import numpy as np

_X = {"name": "x", "index": 0, "shape": np.array([1, 3]), "shape_signature": np.array([-1, 3]), "dtype": np.float32}
_Y = dict(_X, name="y", index=1)


class _Runner:
    def get_input_details(self):
        return {"x": _X}

    def get_output_details(self):
        return {"y": _Y}

    def __call__(self, x):
        return {"y": x * 2}


class Interpreter:
    def __init__(self, model_path, num_threads):
        assert num_threads == 1
        with open(model_path) as file:
            self.signature = "signature" in file.read()
        self.tensors, self.shape = {}, None

    def get_signature_list(self):
        return {"serving_default": {"inputs": ["x"], "outputs": ["y"]}} if self.signature else {}

    def get_signature_runner(self, name):
        assert name == "serving_default"
        return _Runner()

    def get_input_details(self):
        return [_X]

    def get_output_details(self):
        return [_Y]

    def resize_tensor_input(self, index, shape):
        self.shape = tuple(shape)

    def allocate_tensors(self):
        assert self.shape

    def set_tensor(self, index, array):
        assert array.shape == self.shape
        self.tensors[index] = array

    def invoke(self):
        self.tensors[1] = self.tensors[0] * 2

    def get_tensor(self, index):
        return self.tensors[index]
