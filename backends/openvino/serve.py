"""OpenVINO's models for the appliance, where the interpreter has the package openvino.

A model is NAME/1/model.xml with model.bin beside it. Its signature is read out of it. Parameters of the configuration
that OpenVINO's CPU device knows as properties, such as INFERENCE_NUM_THREADS or PERFORMANCE_HINT, are set.
"""

import os

import edgewise_backend
import edgewise_batches


class OpenVINO(edgewise_batches.Model):
    """A compiled model."""

    def describe(self, start):
        return self._read(start)

    def _read(self, start):
        import openvino

        self.configuration = start["configuration"]
        name = self.configuration.get("default_model_filename") or "model.xml"
        path = os.path.join(start["directory"], name)
        if not os.path.exists(path):
            raise edgewise_backend.BackendError("the file %s is missing" % name, edgewise_backend.NOT_FOUND)
        self.core = openvino.Core()
        self.model = self.core.read_model(path)
        ports = self.model.inputs, self.model.outputs
        return edgewise_batches.ready(self.configuration, *[[self._describe(port) for port in side] for side in ports])

    @staticmethod
    def _describe(port):
        dims = [-1 if dim.is_dynamic else dim.get_length() for dim in port.get_partial_shape()]
        return port.get_any_name(), edgewise_batches.type_of(port.get_element_type().to_dtype()), dims

    def open(self, start):
        ready = self._read(start)
        settings = {"INFERENCE_NUM_THREADS": str(start.get("threads") or 1)}
        known = self.core.get_property("CPU", "SUPPORTED_PROPERTIES")
        for name in self.configuration.get("parameters") or {}:
            if name in known:
                settings[name] = self.parameter(name)
        self.compiled = self.core.compile_model(self.model, "CPU", settings)
        name = self.core.get_property("CPU", "FULL_DEVICE_NAME")
        return dict(ready, note="OpenVINO %s on the CPU (%s)" % (edgewise_batches.version_of("openvino"), name))

    def run(self, inputs):
        results = self.compiled(inputs)
        return {port.get_any_name(): results[port] for port in self.compiled.outputs}


if __name__ == "__main__":
    edgewise_backend.check("numpy", "openvino")
    edgewise_backend.serve(OpenVINO())
