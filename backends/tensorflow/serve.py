"""TensorFlow's SavedModels for the appliance, where the interpreter has the package tensorflow.

A model is a folder NAME/1/model.savedmodel. Its signature is read out of it: that of the parameter
TF_SIGNATURE_DEF, serving_default by itself, of the tags in TF_GRAPH_TAG, serve by itself, as for Triton's backend.
"""

import os

import edgewise_backend
import edgewise_batches


class TensorFlow(edgewise_batches.Model):
    """A signature of a SavedModel."""

    def describe(self, start):
        self.configuration = start["configuration"]
        return self._read(start)

    def open(self, start):
        return self._read(start)

    def _read(self, start):
        global tf
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(start.get("threads") or 1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        name = self.configuration.get("default_model_filename") or "model.savedmodel"
        path = os.path.join(start["directory"], name)
        if not os.path.isdir(path):
            raise edgewise_backend.BackendError("the folder %s is missing" % name, edgewise_backend.NOT_FOUND)
        self.model = tf.saved_model.load(path, tags=[self.parameter("TF_GRAPH_TAG", "serve")])
        signature = self.parameter("TF_SIGNATURE_DEF", "serving_default")
        if signature not in self.model.signatures:
            raise edgewise_backend.BackendError(
                "%s has no signature %s, only %s" % (name, signature, ", ".join(self.model.signatures)),
                edgewise_backend.INVALID_ARGUMENT,
            )
        self.function = self.model.signatures[signature]
        sides = self.function.structured_input_signature[1], self.function.structured_outputs
        tensors = [[self._describe(*spec) for spec in side.items()] for side in sides]
        devices = ", ".join(device.name.rpartition("physical_device:")[2] for device in tf.config.list_physical_devices())
        note = "TensorFlow %s on %s, signature %s" % (edgewise_batches.version_of("tensorflow"), devices, signature)
        return dict(edgewise_batches.ready(self.configuration, *tensors), note=note)

    @staticmethod
    def _describe(name, spec):
        return name, edgewise_batches.type_of(spec.dtype.as_numpy_dtype), spec.shape.as_list()

    def run(self, inputs):
        outputs = self.function(**{name: tf.constant(array) for name, array in inputs.items()})
        return {name: tensor.numpy() for name, tensor in outputs.items()}


if __name__ == "__main__":
    edgewise_backend.check("numpy", "tensorflow")
    edgewise_backend.serve(TensorFlow())
