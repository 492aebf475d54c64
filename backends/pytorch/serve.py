"""PyTorch's models for the appliance: TorchScript files, and those of torch.export where the torch here reads them.

docs/guides/frameworks.md says how inputs and outputs are named, and which parameters there are. They are those of
Triton's PyTorch backend.
"""

import os
import re
import sys

import edgewise_backend
import edgewise_batches

PLACED = re.compile(r".*__(\d+)$")


def true(text):
    return text.lower() in ("true", "1", "yes", "on")


class PyTorch(edgewise_batches.Model):
    """A model in a file."""

    def describe(self, start):
        """A file says neither shapes nor data types: the configuration has to."""
        configuration = start["configuration"]
        if not configuration.get("input") or not configuration.get("output"):
            raise edgewise_backend.BackendError(
                "a file of PyTorch does not say the shapes and data types of its inputs and outputs: declare them in "
                "config.pbtxt. Its function is %s" % signature(read(start)),
                edgewise_backend.INVALID_ARGUMENT,
            )
        return {}

    def open(self, start):
        self.describe(start)
        self.model = read(start)
        global torch
        import torch

        self.device = device(start)
        self.model.to(self.device)

        torch.set_num_threads(int(self.parameter("INTRA_OP_THREAD_COUNT") or start.get("threads") or 1))
        if self.parameter("INTER_OP_THREAD_COUNT"):
            torch.set_num_interop_threads(int(self.parameter("INTER_OP_THREAD_COUNT")))
        for name, switch in (
            ("ENABLE_JIT_EXECUTOR", torch._C._jit_set_profiling_executor),
            ("ENABLE_JIT_PROFILING", torch._C._jit_set_profiling_mode),
            ("ENABLE_TENSOR_FUSER", torch._C._jit_set_texpr_fuser_enabled),
        ):
            if self.parameter(name):
                switch(true(self.parameter(name)))
        self.unoptimized = true(self.parameter("DISABLE_OPTIMIZED_EXECUTION"))
        self.mode = torch.inference_mode if true(self.parameter("INFERENCE_MODE", "true")) else torch.no_grad
        self.arguments = arguments(self.model)
        self._name_inputs()
        self._name_outputs()
        where = "" if self.device.type == "cpu" else " on " + torch.cuda.get_device_name(self.device)
        return {"note": "PyTorch %s%s, %s" % (torch.__version__, where, signature(self.model))}

    def _name_inputs(self):
        """Find out which input is which argument: by name, by the number at its end, otherwise in the order of all."""
        batching = self.configuration.get("sequence_batching") or {}
        names = [i["name"] for i in self.configuration["input"]]
        names += [c["name"] for c in batching.get("control_input", [])] + [s["input_name"] for s in self.states()]
        known = [name for name, _ in self.arguments]
        self.dictionary = len(known) == 1 and self.arguments[0][1].startswith("Dict[str, Tensor]")
        if self.dictionary or not known or all(name in known for name in names):
            places = {name: known.index(name) if name in known else i for i, name in enumerate(names)}
        elif all(PLACED.match(name) for name in names):
            places = {name: int(PLACED.match(name).group(1)) for name in names}
        else:
            places = {name: i for i, name in enumerate(names)}
        self.places = places
        matched = len(set(places.values())) == len(names) and max(places.values()) < len(known)
        if known and not self.dictionary and not matched:
            raise edgewise_backend.BackendError(
                "the inputs %s are not the arguments of %s" % (", ".join(names), signature(self.model)),
                edgewise_backend.INVALID_ARGUMENT,
            )

    def _name_outputs(self):
        names = [o["name"] for o in self.configuration["output"]] + [s["output_name"] for s in self.states()]
        if all(PLACED.match(name) for name in names):
            self.results = {name: int(PLACED.match(name).group(1)) for name in names}
        else:
            self.results = {name: i for i, name in enumerate(names)}
        outputs = [(o["name"], o) for o in self.configuration["output"]]
        self.flat = {name for name, o in outputs if len(o.get("dims", [])) == 0}

    def run(self, inputs):
        values = {name: self._value(name, array) for name, array in inputs.items()}
        with self.mode(), torch.jit.optimized_execution(not self.unoptimized):
            if self.dictionary:
                answer = self.model(values)
            elif self.arguments:
                answer = self.model(**{self.arguments[self.places[name]][0]: value for name, value in values.items()})
            else:
                answer = self.model(*[values[name] for name in sorted(values, key=self.places.get)])
        if isinstance(answer, dict):
            return {name: self._array(name, answer[name]) for name in self.results if name in answer}
        if not isinstance(answer, (tuple, list)) or answer and isinstance(answer[0], str):
            answer = (answer,)
        return {name: self._array(name, answer[i]) for name, i in self.results.items() if i < len(answer)}

    def _value(self, name, array):
        """Return an array as torch has it: strings are a list."""
        if array.dtype == object:
            return [element.decode() if isinstance(element, bytes) else str(element) for element in array.ravel()]
        try:
            return torch.from_numpy(array).to(self.device)
        except TypeError:
            kind = edgewise_batches.type_name(array.dtype)
            raise edgewise_backend.BackendError(
                "input '%s': PyTorch has no %s" % (name, kind), edgewise_backend.UNSUPPORTED
            ) from None

    def _array(self, name, value):
        """Return a tensor, or a list of strings, as an array."""
        np = edgewise_backend.np
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu().contiguous()
            if value.dtype == torch.bfloat16:
                return value.view(torch.int16).numpy().view(np.uint16)
            return value.numpy()
        if isinstance(value, list) and all(isinstance(element, str) for element in value):
            array = np.empty(len(value), np.object_)
            array[:] = [element.encode() for element in value]
            return array.reshape(-1, 1) if self.batches and name not in self.flat else array
        raise edgewise_backend.BackendError(
            "output '%s' is neither a tensor nor a list of strings, but %s" % (name, type(value).__name__)
        )


def device(start):
    """Return where the instance runs."""
    if start["instance"]["kind"] != "KIND_GPU":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        why = "has no CUDA" if torch.version.cuda is None else "finds no GPU"
        raise edgewise_backend.BackendError(
            "its instance group asks for a GPU, and PyTorch %s %s" % (torch.__version__, why), edgewise_backend.UNSUPPORTED
        )
    return torch.device("cuda", int(start["instance"].get("device", 0)))


def read(start):
    """Return the model in the version's file."""
    try:
        import torch
    except ModuleNotFoundError:
        raise edgewise_backend.BackendError(
            "%s has no module torch: on Debian, sudo apt-get install python3-torch" % sys.executable,
            edgewise_backend.UNAVAILABLE,
        ) from None

    name = start["configuration"].get("default_model_filename") or "model.pt"
    path = os.path.join(start["directory"], name)
    if not os.path.exists(path):
        raise edgewise_backend.BackendError("the file %s is missing" % name, edgewise_backend.NOT_FOUND)
    if name.endswith(".pt2"):
        if not hasattr(torch, "export"):
            raise edgewise_backend.BackendError(
                "%s is a file of torch.export, which PyTorch %s does not have" % (name, torch.__version__),
                edgewise_backend.UNSUPPORTED,
            )
        return torch.export.load(path).module()
    try:
        return torch.jit.load(path, map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        raise edgewise_backend.BackendError(
            "%s is not a TorchScript file, which torch.jit.script(model).save(path) makes: %s"
            % (name, str(error).splitlines()[0]),
            edgewise_backend.INVALID_ARGUMENT,
        ) from None


def arguments(model):
    """Return the names and types of the arguments of a model's function; none for one that does not say them."""
    try:
        return [(a.name, a.type.annotation_str) for a in model.forward.schema.arguments[1:]]
    except (AttributeError, RuntimeError):
        return []


def signature(model):
    return "forward(%s)" % ", ".join("%s: %s" % argument for argument in arguments(model))


if __name__ == "__main__":
    edgewise_backend.check("numpy", "torch")
    try:
        import torch  # before START, which a spare process waits for
    except ModuleNotFoundError:
        pass  # read says so
    edgewise_backend.serve(PyTorch())
