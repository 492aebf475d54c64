"""Serves a model of Triton's Python backend, a model.py with a class TritonPythonModel."""

import asyncio
import glob
import importlib
import json
import os
import platform
import sys
import threading
import types

# The model's files and its environment come before this folder, so that no file here hides one of theirs.
_FOLDER = sys.path.pop(0)
sys.path.append(_FOLDER)
sys.dont_write_bytecode = True

import edgewise_backend as wire  # noqa: E402

pb_utils = None  # triton_python_backend_utils, which needs numpy, which may be the environment's

MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"


class Models(wire.Backend):
    """One instance of a model."""

    def __init__(self):
        self._model = None
        self._start = None
        self._server = None
        self._loop = None
        self._background = set()

    def describe(self, start):
        return {"configuration": self._complete(start)}

    def load(self, start, server):
        configuration = self._complete(start, server)
        pb_utils.configured(configuration)
        self._start, self._server = start, server
        self._model = self._class()
        if hasattr(self._model, "initialize"):
            self._model.initialize(_arguments(start, configuration))
        if not hasattr(self._model, "execute"):
            raise wire.BackendError("Python model %s does not implement `execute` method." % _model_file(start))
        pb_utils._Process.may_send = True
        return {"configuration": configuration, "checks": hasattr(self._model, "is_ready"), "note": _versions()}

    def _complete(self, start, server=None):
        """Import the model, and let it complete its configuration when that is wanted."""
        configuration = start["configuration"]
        for key in ("input", "output", "instance_group"):  # Triton's configurations have these always
            configuration.setdefault(key, [])
        configuration.setdefault("parameters", {})
        configuration.setdefault("max_batch_size", 0)
        _begin(start, server)
        self._class = _import(start)
        if not (start.get("complete") and hasattr(self._class, "auto_complete_config")):
            return configuration
        completed = self._class.auto_complete_config(pb_utils.ModelConfig(json.dumps(configuration)))
        if not isinstance(completed, pb_utils.ModelConfig):
            raise wire.BackendError(
                "auto_complete_config function in model '%s' must return a valid pb.ModelConfig object."
                % start["model"]
            )
        return completed.as_dict()

    def execute(self, calls):
        self._execute([pb_utils.InferenceRequest._incoming(call) for call in calls])

    def _execute(self, requests):
        wire.current_call.set(requests[0]._call.number if len(requests) == 1 else 0)
        try:
            result = self._model.execute(requests)
            if asyncio.iscoroutine(result):
                if pb_utils._Process.decoupled:
                    self._run_behind(result, requests)
                    return
                result = self._run(result)
            self._returned(requests, result)
        except BaseException as error:
            self._fail(requests, error)
        again = [
            request for request in requests if request._release == pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
        ]
        if again:
            self._reschedule(again)

    def _returned(self, requests, responses):
        """Send what execute has returned, after Triton's rules."""
        if responses is None:
            return
        if pb_utils._Process.decoupled:
            raise pb_utils.TritonModelException(
                "Python model '%s' is using the decoupled mode and the execute function must "
                "return None." % self._name()
            )
        if not isinstance(responses, list):
            raise pb_utils.TritonModelException(
                "Expected a list in the execute return, found type '%s'." % type(responses)
            )
        if len(responses) != len(requests):
            raise pb_utils.TritonModelException(
                "Number of InferenceResponse objects do not match the number of InferenceRequest objects. "
                "InferenceRequest(s) size is:%d, and InferenceResponse(s) size is:%d\n"
                % (len(requests), len(responses))
            )
        for request, response in zip(requests, responses):
            _check(request, response)
        for request, response in zip(requests, responses):
            if response is not None:
                request._sender._returned(response)

    def _fail(self, requests, error):
        """Answer all requests of a batch that have no last answer with an exception of the model's."""
        what = wire.explain(error, self._start)
        message = "Failed to process the request(s) for model '%s', message: %s" % (self._name(), what)
        self._server.log(wire.ERRORS, message)
        for request in requests:
            request._release = pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL
            with request._sender._lock:
                request._sender._closed = True
            if not request._call.ended:
                request._call.fail(message, wire.error_code(error), wait=True)

    def _name(self):
        return self._start["instance"]["name"]

    def _reschedule(self, requests):
        """Execute requests once more, after the batches that wait already."""
        for request in requests:
            request._release = pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL
        self._server.submit(lambda: (self._execute(requests), self._server.flush()))

    # --- coroutines run on one event loop in a thread of its own ---

    def _future(self, coroutine):
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="edgewise-asyncio", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _run(self, coroutine):
        return self._future(coroutine).result()

    def _run_behind(self, coroutine, requests):
        """Let a decoupled model go on after the batch. A failure answers what is still open."""
        future = self._future(coroutine)
        self._background.add(future)
        future.add_done_callback(lambda done: self._ended_behind(done, requests))

    def _ended_behind(self, future, requests):
        self._background.discard(future)
        try:
            error = future.exception()
            if error is not None:
                self._fail(requests, error)
                self._server.flush()
        finally:
            requests.clear()  # or they would live as long as the future

    def check(self):
        result = self._model.is_ready()
        if asyncio.iscoroutine(result):
            result = self._run(result)
        if not isinstance(result, bool):
            raise pb_utils.TritonModelException("is_ready() must return a boolean value")
        return result or "is_ready() returned False"

    def unload(self):
        pb_utils._Process.may_send = False
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        if hasattr(self._model, "finalize"):
            try:
                self._model.finalize()
            except BaseException as error:
                self._server.log(
                    wire.ERRORS, "finalize of model '%s': %s" % (self._name(), wire.explain(error, self._start))
                )


def _versions():
    """Say what a model runs in."""
    packages = [(name, sys.modules[module].__version__) for name, module in (("NumPy", "numpy"), ("PyTorch", "torch"))
                if hasattr(sys.modules.get(module), "__version__")]
    return ", ".join("%s %s" % pair for pair in [("Python", platform.python_version()), *packages])


def _check(request, response):
    """Refuse what execute may not return for a request."""
    if response is None:
        return
    if request._release == pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE:
        raise pb_utils.TritonModelException(
            "Expected a None object in the execute function return list for reschduled request, "
            "found type '%s'." % type(response)
        )
    if not isinstance(response, pb_utils.InferenceResponse):
        raise pb_utils.TritonModelException(
            "Expected an 'InferenceResponse' object in the execute function return list, found "
            "type '%s'." % type(response)
        )


def _begin(start, server):
    global pb_utils
    _use_environment(start)
    wire.use_numpy()
    import triton_python_backend_utils

    pb_utils = triton_python_backend_utils
    pb_utils.begin(start, server)


def _arguments(start, configuration):
    """Return the argument of initialize: strings only."""
    instance = start["instance"]
    return {
        "model_config": json.dumps(configuration),
        "model_instance_kind": instance["kind"].replace("KIND_", "", 1),
        "model_instance_device_id": str(instance.get("device", 0)),
        "model_instance_name": instance["name"],
        "model_repository": start["model_directory"],
        "model_version": str(start["version"]),
        "model_name": start["model"],
    }


def _model_file(start):
    name = start["configuration"].get("default_model_filename") or "model.py"
    if not name.endswith(".py"):
        raise wire.BackendError("Model name must end with '.py'. Model name is \"%s\"." % name)
    return name


def _import(start):
    """Import the model as VERSION.FILE, and return its class."""
    name = _model_file(start)
    directory, version = start["directory"], str(start["version"])
    if not os.path.isfile(os.path.join(directory, name)):
        raise wire.BackendError("Python model file not found in '%s/%s'" % (version, name))
    for folder in (directory, start["model_directory"]):
        if folder not in sys.path:
            sys.path.insert(sys.path.index(_FOLDER), folder)
    package = types.ModuleType(version)
    package.__path__ = [directory]
    sys.modules[version] = package
    module = importlib.import_module("%s.%s" % (version, name[: -len(".py")]))
    if not hasattr(module, "TritonPythonModel"):
        raise wire.BackendError("%s/%s has no class TritonPythonModel" % (version, name))
    return module.TritonPythonModel


# --- the environment of a model ---


def _use_environment(start):
    """Put the packages of the model's environment before those of the system."""
    folder = _environment(start)
    if folder is None:
        return
    version = "python%d.%d" % sys.version_info[:2]
    packages = os.path.join(folder, "lib", version, "site-packages")
    if not os.path.isdir(packages):
        raise wire.BackendError(_why_not(folder, version))
    before = list(sys.path)
    import site

    site.addsitedir(packages)  # reads its .pth files, too
    added = [path for path in sys.path if path not in before]
    sys.path[:] = added + before
    os.environ["VIRTUAL_ENV"] = folder


def _environment(start):
    """Return the folder that EXECUTION_ENV_PATH names, else a folder venv of the version or the model, else None."""
    parameter = start["configuration"].get("parameters", {}).get("EXECUTION_ENV_PATH", {})
    path = parameter.get("string_value", "")
    if path:
        if path.startswith(MODEL_DIRECTORY):
            return _inside(start, path[len(MODEL_DIRECTORY) :])
        return path
    for folder in (start["directory"], start["model_directory"]):
        if os.path.isdir(os.path.join(folder, "venv")):
            return os.path.join(folder, "venv")
    return None


def _inside(start, path):
    """Return a path below the folder of the model, which may be made of links into that of the version."""
    whole = os.path.normpath(start["model_directory"] + "/" + path)
    for folder in (start["model_directory"], start["directory"]):
        if os.path.realpath(whole).startswith(os.path.realpath(folder) + "/"):
            return whole
    raise wire.BackendError("EXECUTION_ENV_PATH '%s%s' leaves the folder of the model" % (MODEL_DIRECTORY, path))


def _why_not(folder, version):
    """Say why a folder cannot be the environment."""
    if os.path.isfile(folder):
        return (
            "EXECUTION_ENV_PATH '%s' is a file: unpack it and name its folder, which saves time and disk at each load"
            % folder
        )
    try:
        os.listdir(folder)
    except PermissionError:
        return (
            "EXECUTION_ENV_PATH '%s' is outside of what a model may read: put it into the folder of the model, or add it "
            "to `read` in the backend.yaml of the Python backend" % folder
        )
    except OSError as error:
        return "EXECUTION_ENV_PATH '%s': %s" % (folder, error.strerror)
    others = sorted(glob.glob(os.path.join(folder, "lib", "python*")))
    if others:
        return "the environment '%s' is made for %s, and the backend runs %s" % (
            folder,
            os.path.basename(others[0]),
            version,
        )
    return "the environment '%s' has no folder lib/%s/site-packages" % (folder, version)


if __name__ == "__main__":
    # models import this module's neighbours by their own names, and this one by none
    wire.check("numpy")  # unless the environments of all models have it
    wire.serve(Models())
