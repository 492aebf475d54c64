"""LiteRT's models, formerly TensorFlow Lite's, for the appliance, where one of MODULES is installed.

A model is NAME/1/model.tflite. Its signature is read out of it: that of the parameter SIGNATURE, serving_default by
itself; a file without signatures has the names of its tensors.
"""

import importlib
import os
import sys

import edgewise_backend
import edgewise_batches

MODULES = ("ai_edge_litert.interpreter", "tflite_runtime.interpreter", "tensorflow.lite.python.interpreter")


def interpreter_class():
    """Return the class, and the package that has it."""
    for name in MODULES:
        try:
            return importlib.import_module(name).Interpreter, name.partition(".")[0]
        except ModuleNotFoundError:
            continue
    raise edgewise_backend.BackendError(
        "none of the modules %s is installed for %s" % (", ".join(MODULES), sys.executable),
        edgewise_backend.UNAVAILABLE,
    )


class LiteRT(edgewise_batches.Model):
    """An interpreter with a file."""

    def describe(self, start):
        return self._read(start)

    def open(self, start):
        return self._read(start)

    def _read(self, start):
        self.configuration = start["configuration"]
        name = self.configuration.get("default_model_filename") or "model.tflite"
        path = os.path.join(start["directory"], name)
        if not os.path.exists(path):
            raise edgewise_backend.BackendError("the file %s is missing" % name, edgewise_backend.NOT_FOUND)
        interpreter, package = interpreter_class()
        self.interpreter = interpreter(model_path=path, num_threads=start.get("threads") or 1)
        signatures = self.interpreter.get_signature_list()
        self.runner = None
        if signatures:
            wanted = self.parameter("SIGNATURE", "serving_default")
            if wanted not in signatures:
                wanted = next(iter(signatures))
            self.runner = self.interpreter.get_signature_runner(wanted)
            inputs, outputs = self.runner.get_input_details(), self.runner.get_output_details()
        else:
            inputs = {detail["name"]: detail for detail in self.interpreter.get_input_details()}
            outputs = {detail["name"]: detail for detail in self.interpreter.get_output_details()}
        self.inputs, self.outputs = inputs, outputs
        sides = inputs, outputs
        tensors = [[self._describe(*detail) for detail in side.items()] for side in sides]
        note = "LiteRT (%s %s) on the CPU, %s" % (
            package, edgewise_batches.version_of(package), "signature " + wanted if signatures else "no signature"
        )
        return dict(edgewise_batches.ready(self.configuration, *tensors), note=note)

    @staticmethod
    def _describe(name, detail):
        dims = [int(dim) for dim in detail.get("shape_signature", detail["shape"])]
        return name, edgewise_batches.type_of(detail["dtype"]), dims

    def run(self, inputs):
        if self.runner:
            return self.runner(**inputs)
        for name, array in inputs.items():
            self.interpreter.resize_tensor_input(self.inputs[name]["index"], array.shape)
        self.interpreter.allocate_tensors()
        for name, array in inputs.items():
            self.interpreter.set_tensor(self.inputs[name]["index"], array)
        self.interpreter.invoke()
        return {name: self.interpreter.get_tensor(detail["index"]) for name, detail in self.outputs.items()}


if __name__ == "__main__":
    edgewise_backend.check("numpy", "ai_edge_litert|tflite_runtime|tensorflow")
    edgewise_backend.serve(LiteRT())
