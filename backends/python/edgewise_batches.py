"""Backends of frameworks whose models take tensors by name, and a batch at once.

A framework's backend is a class with two methods:

    class Framework(edgewise_batches.Model):
        def open(self, start): ...               # returns the text of READY
        def run(self, inputs): return outputs    # dictionaries of numpy arrays by name

With max_batch_size above 0 the inputs of the calls of a batch are joined along their first dimension, and each call
gets its part of the outputs. Without it the model is run once for each call.
"""

import importlib.metadata
import sys

import edgewise_backend

TYPES = {
    "TYPE_BOOL": edgewise_backend.BOOL,
    "TYPE_UINT8": edgewise_backend.UINT8,
    "TYPE_UINT16": edgewise_backend.UINT16,
    "TYPE_UINT32": edgewise_backend.UINT32,
    "TYPE_UINT64": edgewise_backend.UINT64,
    "TYPE_INT8": edgewise_backend.INT8,
    "TYPE_INT16": edgewise_backend.INT16,
    "TYPE_INT32": edgewise_backend.INT32,
    "TYPE_INT64": edgewise_backend.INT64,
    "TYPE_FP16": edgewise_backend.FP16,
    "TYPE_FP32": edgewise_backend.FP32,
    "TYPE_FP64": edgewise_backend.FP64,
    "TYPE_STRING": edgewise_backend.BYTES,
    "TYPE_BF16": edgewise_backend.BF16,
}


def type_name(dtype):
    """Return the name in configurations of a numpy data type, "" when it has none."""
    code = edgewise_backend.code_of(dtype)
    return next((name for name, known in TYPES.items() if known == code), "")


def type_of(dtype):
    """Return the name in configurations of what numpy makes a data type of."""
    if edgewise_backend.np is None:
        edgewise_backend.use_numpy()
    kind = edgewise_backend.np.dtype(dtype)
    return "TYPE_STRING" if kind.kind in "SUO" else type_name(kind) or "TYPE_INVALID"


def version_of(package):
    """Return the version of an installed package, "of an unknown version" when it says none."""
    module = sys.modules.get(package)
    try:
        return getattr(module, "__version__", None) or importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"


def ready(configuration, inputs, outputs, size=4):
    """Return the text of READY for a model that knows its tensors: lists of name, type and shape.

    When the first dimension of all is open, it is that of the batch. Triton's batch size, 4, is assumed where the
    configuration has none.
    """
    tensors = inputs + outputs
    batch = all(shape and shape[0] in (-1, None) for _, _, shape in tensors)
    if configuration.get("input") and not configuration.get("max_batch_size"):
        batch = False
    text = {"max_batch_size": (configuration.get("max_batch_size") or size) if batch else 0}
    for key, side in (("inputs", inputs), ("outputs", outputs)):
        text[key] = [
            {"name": name, "data_type": kind, "dims": [-1 if d is None else d for d in shape[1 if batch else 0 :]]}
            for name, kind, shape in side
        ]
    return text


class Model(edgewise_backend.Backend):
    """A model that takes batches."""

    def open(self, start):
        """Load the model and return the text of READY."""
        raise NotImplementedError

    def run(self, inputs):
        """Return the outputs, for inputs that are left out where they are optional."""
        raise NotImplementedError

    def load(self, start, server):
        self.configuration = start["configuration"]
        ready = self.open(start)
        size = ready.get("max_batch_size", self.configuration.get("max_batch_size", 0))
        self.batches = size > 0
        outputs = ready.get("outputs") or self.configuration.get("output", [])
        self.types = {output["name"]: output["data_type"] for output in outputs}
        for state in self.states():
            self.types[state["output_name"]] = state["data_type"]
        return ready

    def states(self):
        """Return the implicit states of sequences, which are inputs and outputs as well."""
        return (self.configuration.get("sequence_batching") or {}).get("state", [])

    def parameter(self, name, otherwise=""):
        """Return a parameter of the configuration as text."""
        value = (self.configuration.get("parameters") or {}).get(name)
        return value.get("string_value", "") if value else otherwise

    def execute(self, calls):
        waiting = []
        for call in calls:
            if call.cancelled:
                call.fail("the request was cancelled", edgewise_backend.CANCELLED)
            else:
                waiting.append(call)
        names = {tuple(sorted(name for name, _, _ in call.inputs)) for call in waiting}
        if self.batches and len(names) == 1 and len(waiting) > 1:
            self._together(waiting)
            return
        for call in waiting:
            try:
                outputs = self._outputs(call, self.run({name: array for name, _, array in call.inputs}))
            except Exception as error:
                message = edgewise_backend.explain(error, {"directory": "", "version": ""})
                call.fail(message, edgewise_backend.error_code(error))
            else:
                call.answer(outputs)

    def _together(self, calls):
        """Run the calls as one."""
        np = edgewise_backend.np
        columns = [{name: array for name, _, array in call.inputs} for call in calls]
        results = self.run({name: np.concatenate([column[name] for column in columns]) for name in columns[0]})
        sizes = [len(next(iter(column.values()))) for column in columns]
        ends = np.cumsum(sizes)
        for name, array in results.items():
            if array.ndim == 0 or len(array) != ends[-1]:
                raise edgewise_backend.BackendError(
                    "output '%s' has the shape %s, want %d in the first dimension: that many elements were in the batch"
                    % (name, list(array.shape), ends[-1])
                )
        for call, size, end in zip(calls, sizes, ends):
            call.answer(self._outputs(call, {name: array[end - size : end] for name, array in results.items()}))

    def _outputs(self, call, results):
        """Return what a call wants of the outputs, as tensors."""
        tensors = []
        for name, declared in self.types.items():
            if call.wanted and name not in call.wanted:
                continue
            if name not in results:
                raise edgewise_backend.BackendError("the model has no output '%s'" % name)
            array, code = results[name], TYPES[declared]
            if code != edgewise_backend.BF16 and edgewise_backend.code_of(array.dtype) != code:
                raise edgewise_backend.BackendError(
                    "output '%s' is of the data type %s, the configuration says %s"
                    % (name, type_name(array.dtype) or array.dtype, declared)
                )
            tensors.append((name, code, array))
        return tensors
