"""What Triton's Python backend offers to models under this name, over the appliance's protocol for backends.

Names, arguments, rules and messages are Triton's, so that a model.py runs unchanged. serve.py calls begin() before it
imports a model.
"""

import asyncio
import contextvars
import enum
import json
import struct
import threading

import numpy as np

import edgewise_backend as wire
import edgewise_dlpack

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

TRITON_STRING_TO_NUMPY = {
    "TYPE_BOOL": bool,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}
_CODES = dict(zip(TRITON_STRING_TO_NUMPY, range(1, 14)), TYPE_BF16=wire.BF16)
_NAMES = {code: name[len("TYPE_") :] for name, code in _CODES.items()}

_LONGEST_STRING = struct.Struct("<I")


class TritonModelException(wire.BackendError):
    """The exception of this module, and one for models."""

    def __init__(self, *arguments):
        super().__init__(*(arguments or ("",))[:1])
        self.args = arguments


class _Process:
    """What belongs to this process: the connection, once there is one, and the model's configuration."""

    server = None
    directory = ""
    decoupled = False
    may_send = False  # requests to other models: not in initialize and finalize
    verbose = False
    outputs = {}  # declared outputs: name -> number of the data type
    warned = set()


def begin(start, server=None):
    """Connect this module. server is None while only the configuration is wanted."""
    _Process.server = server
    _Process.directory = start["directory"]
    _Process.verbose = start.get("log") == "verbose"


def configured(configuration):
    """Take over the model's completed configuration."""
    _Process.decoupled = using_decoupled_model_transaction_policy(configuration)
    _Process.outputs = {
        output["name"]: _CODES.get(output.get("data_type")) for output in configuration.get("output", [])
    }


# --- functions ---


def serialize_byte_tensor(input_tensor):
    """Return the elements of an array of bytes or strings, each after its length as four bytes."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype.kind not in "OS":
        return None
    parts = []
    for element in input_tensor.ravel().tolist():
        if not isinstance(element, bytes):
            element = str(element).encode()
        parts += (_LONGEST_STRING.pack(len(element)), element)
    return b"".join(parts)


def deserialize_bytes_tensor(encoded_tensor):
    """Return the elements of what serialize_byte_tensor made, as an array of bytes objects with one dimension."""
    elements, at = [], 0
    while at < len(encoded_tensor):
        begin_of = at + _LONGEST_STRING.size
        at = begin_of + _LONGEST_STRING.unpack_from(encoded_tensor, at)[0]
        elements.append(bytes(encoded_tensor[begin_of:at]))
    array = np.empty(len(elements), np.object_)
    array[:] = elements
    return array


def _named(tensors, name):
    for tensor in tensors:
        if tensor.name() == name:
            return tensor
    return None


def get_input_tensor_by_name(inference_request, name):
    """Return the input of a request, or None."""
    return _named(inference_request.inputs(), name)


def get_output_tensor_by_name(inference_response, name):
    """Return the output of a response, or None."""
    return _named(inference_response.output_tensors(), name)


def get_input_config_by_name(model_config, name):
    """Return the configuration of an input, or None."""
    return next((each for each in model_config.get("input", ()) if each["name"] == name), None)


def get_output_config_by_name(model_config, name):
    """Return the configuration of an output, or None."""
    return next((each for each in model_config.get("output", ()) if each["name"] == name), None)


def using_decoupled_model_transaction_policy(model_config):
    """Say whether a configuration has the decoupled transaction policy."""
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_to_numpy_type(data_type):
    """Return the numpy type of a number from 1 to 13, else None."""
    return (None, np.bool_, *list(TRITON_STRING_TO_NUMPY.values())[1:])[data_type] if 1 <= data_type <= 13 else None


def numpy_to_triton_type(data_type):
    """Return the number from 1 to 13 of a numpy type, else None."""
    return wire.code_of(np.dtype(data_type))


def triton_string_to_numpy(triton_type_string):
    """Return the numpy type of a name such as TYPE_FP32."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def get_model_dir():
    """Return the folder of the model's version."""
    return _Process.directory


def _control(request):
    if _Process.server is None:
        raise TritonModelException("models cannot be loaded while the configuration is completed")
    try:
        return _Process.server.control(request)
    except wire.BackendError as error:
        raise TritonModelException(str(error)) from None


def load_model(model_name, config="", files=None):
    """Load a model of the appliance and wait for it."""
    request = {"load": model_name}
    if config:
        request["config"] = config
    if files:
        request["files"] = wire.encode_files(files)
    _control(request)


def unload_model(model_name, unload_dependents=False):
    """Unload a model of the appliance."""
    _control({"unload": model_name, "unload_dependents": bool(unload_dependents)})


def is_model_ready(model_name, model_version=""):
    """Say whether a model of the appliance is ready."""
    return bool(_control({"ready": model_name, "version": model_version}).get("ready"))


# --- errors, memory, trace ---


class TritonError:
    """An error of one response, with a code."""

    class __ErrorCode(enum.IntEnum):
        UNKNOWN = 0
        INTERNAL = 1
        NOT_FOUND = 2
        INVALID_ARG = 3
        UNAVAILABLE = 4
        UNSUPPORTED = 5
        ALREADY_EXISTS = 6
        CANCELLED = 7

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = __ErrorCode

    def __init__(self, message, code=__ErrorCode.INTERNAL):
        if not isinstance(message, str):
            raise TypeError("the message of a TritonError must be str, not %s" % type(message).__name__)
        self._message = message
        self._code = type(TritonError.UNKNOWN)(code)

    def message(self):
        return self._message

    def code(self):
        return self._code


class MemoryType(enum.Enum):
    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1


TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU


class PreferredMemory:
    """Where the outputs of a request should be. They are in the processor's memory whatever it says."""

    def __init__(self, preferred_memory_type, preferred_device_id=0):
        self.preferred_memory_type = MemoryType(preferred_memory_type)
        self.preferred_device_id = int(preferred_device_id)


class InferenceTrace:
    """The trace of a request, for requests that belong to it."""

    def __init__(self, call=0, context=None):
        self._call = call
        self._context = context

    def get_context(self):
        """Return the trace context as JSON, or None when the request has no trace."""
        return self._context


_TRACE = "edgewise.traceparent"  # the parameter that carries the trace of a request


# --- tensors ---


class Tensor:
    """A named tensor in the processor's memory."""

    __slots__ = ("_name", "_datatype", "_array")

    def __init__(self, name, array):
        if name == "":
            raise TritonModelException("Tensor name cannot be an empty string.")
        if not isinstance(array, np.ndarray):
            raise TypeError("a Tensor is made of a numpy array, not of %s" % type(array).__name__)
        self._name = name
        self._array = array
        self._datatype = wire.code_of(array.dtype)
        if self._datatype is None:
            raise TritonModelException("tensor '%s': numpy's data type %s is none of Triton's" % (name, array.dtype))

    @classmethod
    def _of(cls, name, datatype, array):
        tensor = cls.__new__(cls)
        tensor._name, tensor._datatype, tensor._array = name, datatype, array
        return tensor

    def name(self):
        return self._name

    def as_numpy(self):
        if self._datatype == wire.BF16:
            raise TritonModelException(
                "Tensor dtype is BF16 and cannot be converted to NumPy. Use " "to_dlpack() and from_dlpack() instead."
            )
        return self._array

    def shape(self):
        return list(self._array.shape)

    def triton_dtype(self):
        return self._datatype

    def is_cpu(self):
        return True

    def to_dlpack(self):
        """Return the tensor as a DLPack capsule, which shares its memory."""
        if self._datatype == wire.BYTES:
            raise TritonModelException("DLPack does not have support for string tensors.")
        self._array = np.ascontiguousarray(self._array)
        return edgewise_dlpack.capsule_of(self._array, self._datatype)

    def __dlpack__(self, stream=None):
        return self.to_dlpack()

    def __dlpack_device__(self):
        return (edgewise_dlpack.CPU, 0)

    @staticmethod
    def from_dlpack(name, obj):
        """Return a tensor that shares the memory of a DLPack capsule, or of an object that gives one."""
        if name == "":
            raise TritonModelException("Tensor name cannot be an empty string.")
        try:
            datatype, array = edgewise_dlpack.array_of(obj)
        except edgewise_dlpack.Unsupported as error:
            raise TritonModelException(str(error)) from None
        return Tensor._of(name, datatype, array)


# --- requests and responses ---


def _checked_parameters(parameters):
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise TritonModelException("Expect dict, got %s" % type(parameters))
    for key, value in parameters.items():
        if not isinstance(key, str):
            raise TritonModelException("Expect parameters keys to have type str, found type %s" % type(key))
        if not isinstance(value, (bool, int, float, str)):
            raise TritonModelException(
                "Expect parameters values to have type bool/int/str, found type %s" % type(value)
            )
    return dict(parameters)


def _text(value):
    """Return a string of Python, also of an element of an array of bytes."""
    return value.decode() if isinstance(value, bytes) else value


class InferenceRequest:
    """A request of a client, or one that a model sends to another model."""

    def __init__(
        self,
        request_id="",
        correlation_id=0,
        inputs=None,
        requested_output_names=None,
        model_name=None,
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters=None,
    ):
        if inputs is None or requested_output_names is None or model_name is None:
            raise TypeError("an InferenceRequest needs inputs, requested_output_names and model_name")
        if isinstance(correlation_id, bool) or not isinstance(correlation_id, (int, str)):
            raise TritonModelException("Correlation ID must be integer or string")
        self._id, self._model = _text(request_id), _text(model_name)
        names = [_text(name) for name in requested_output_names]
        for tensor in inputs:
            if tensor is None:
                raise TritonModelException(
                    "Input tensor for request with id '%s' and model name '%s' should not be empty."
                    % (self._id, self._model)
                )
            if not isinstance(tensor, Tensor):
                raise TypeError("an input is a pb_utils.Tensor, not %s" % type(tensor).__name__)
        if "" in names:
            raise TritonModelException(
                "Requested output name for request with id '%s' and model name '%s' should not be empty."
                % (self._id, self._model)
            )
        self._inputs, self._outputs = list(inputs), names
        self._correlation, self._version, self._flags, self._timeout = (
            correlation_id,
            int(model_version),
            int(flags),
            int(timeout),
        )
        self._parameters = _checked_parameters(parameters)
        self._trace = trace or InferenceTrace()
        self._call = self._sender = None
        self._release = TRITONSERVER_REQUEST_RELEASE_ALL

    @classmethod
    def _incoming(cls, call):
        request = cls.__new__(cls)
        request._id, request._correlation, request._flags = call.id, call.correlation, call.flags
        request._model, request._version, request._timeout = "", -1, call.timeout
        request._inputs = [Tensor._of(*tensor) for tensor in call.inputs]
        request._outputs = call.wanted or list(_Process.outputs)
        request._context = call.parameters.pop(_TRACE, None)
        request._parameters = call.parameters
        request._trace = None  # made when it is asked for
        request._call = call
        request._sender = InferenceResponseSender(call, frozenset(request._outputs))
        request._release = TRITONSERVER_REQUEST_RELEASE_ALL
        return request

    def inputs(self):
        return self._inputs

    def request_id(self):
        return self._id

    def correlation_id(self):
        return self._correlation

    def flags(self):
        return self._flags

    def set_flags(self, flags):
        self._flags = int(flags)

    def timeout(self):
        return self._timeout

    def parameters(self):
        return json.dumps(self._parameters)

    def trace(self):
        if self._trace is None:
            context = None if self._context is None else json.dumps({"traceparent": self._context})
            self._trace = InferenceTrace(self._call.number, context)
        return self._trace

    def requested_output_names(self):
        return set(self._outputs)

    def model_name(self):
        return self._model

    def is_cancelled(self):
        return self._call is not None and self._call.cancelled

    def set_release_flags(self, flags):
        if flags not in (TRITONSERVER_REQUEST_RELEASE_ALL, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException("unknown release flags %s" % flags)
        self._release = flags

    def get_response_sender(self):
        return self._sender

    def exec(self, decoupled=False):
        """Send the request and wait: for its response, or with decoupled for an iterator over its responses."""
        if not _Process.may_send:
            raise TritonModelException("BLS is only supported during the 'execute' function.")
        try:
            replies = _Process.server.execute(
                wire.Request(
                    self._model,
                    [(tensor._name, tensor._datatype, tensor._array) for tensor in self._inputs],
                    self._outputs,
                    self._version,
                    decoupled,
                    call=self.trace()._call or wire.current_call.get(),
                    id=self._id,
                    correlation=self._correlation,
                    flags=self._flags,
                    timeout=self._timeout,
                    parameters=self._parameters,
                )
            )
        except wire.BackendError as error:
            raise TritonModelException(str(error)) from None
        return ResponseIterator(replies) if decoupled else InferenceResponse._incoming(next(replies))

    def async_exec(self, decoupled=False):
        """Return an awaitable of what exec returns."""
        context = contextvars.copy_context()
        return asyncio.get_running_loop().run_in_executor(None, lambda: context.run(self.exec, decoupled))


class InferenceResponse:
    """A response of a model: outputs, or an error."""

    __slots__ = ("_outputs", "_error", "_parameters")

    def __init__(self, output_tensors=(), error=None, parameters=None):
        for tensor in output_tensors:
            if tensor is None:
                raise TritonModelException("Output tensor for inference response should not be empty.")
            if not isinstance(tensor, Tensor):
                raise TypeError("an output is a pb_utils.Tensor, not %s" % type(tensor).__name__)
        if error is not None and not isinstance(error, TritonError):
            raise TypeError("the error of a response is a pb_utils.TritonError, not %s" % type(error).__name__)
        self._outputs, self._error, self._parameters = list(output_tensors), error, _checked_parameters(parameters)

    @classmethod
    def _incoming(cls, reply):
        response = cls.__new__(cls)
        response._outputs = [Tensor._of(*tensor) for tensor in reply.outputs]
        response._error = None if reply.error is None else TritonError(reply.error[1], reply.error[0] - 1)
        response._parameters = reply.parameters
        return response

    def output_tensors(self):
        return self._outputs

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self):
        return json.dumps(self._parameters)


class ResponseIterator:
    """Iterates over the responses to a request. A second iteration begins anew after the last response."""

    def __init__(self, replies):
        self._replies = replies
        self._responses = []
        self._at = None  # in responses, once all have come

    def __iter__(self):
        if self._at is not None and self._at >= len(self._responses):
            self._at = 0
        return self

    def __next__(self):
        if self._at is None:
            try:
                response = InferenceResponse._incoming(next(self._replies))
                self._responses.append(response)
                return response
            except StopIteration:
                self._at = len(self._responses)
        if self._at >= len(self._responses):
            raise StopIteration
        self._at += 1
        return self._responses[self._at - 1]

    def cancel(self):
        """Ask for the end of the request. Its last response still comes."""
        self._replies.cancel()


class InferenceResponseSender:
    """Sends the responses of a request, from any thread."""

    def __init__(self, call, names):
        self._call = call
        self._names = names
        self._lock = threading.Lock()
        self._sent = 0
        self._closed = False

    def is_cancelled(self):
        return self._call.cancelled

    def send(self, response=None, flags=0):
        """Send a response, the mark of the end, or both."""
        if flags not in (0, TRITONSERVER_RESPONSE_COMPLETE_FINAL):
            raise TritonModelException("Unable to send response. Unsupported flag provided.")
        if flags == 0 and response is None:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if response is not None and not isinstance(response, InferenceResponse):
            raise TypeError("a response is a pb_utils.InferenceResponse, not %s" % type(response).__name__)
        with self._lock:
            self._count(response, flags)
            if _Process.decoupled:
                self._answer(response, bool(flags), False)
            elif response is not None:  # the one response of the request is the last one, too
                self._answer(response, True, False)

    def _returned(self, response):
        """Send what execute has returned. It goes with the end of the batch."""
        with self._lock:
            self._count(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            self._answer(response, True, True)

    def _count(self, response, flags):
        if not _Process.decoupled:
            if response is not None and self._sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send more than one response."
                )
            if response is None and flags and not self._sent:
                raise TritonModelException(
                    "Unable to send response. Non-decoupled model cannot send complete final "
                    "before sending a response."
                )
        if self._closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        self._closed = bool(flags)
        self._sent += 1

    def _answer(self, response, final, wait):
        call = self._call
        try:
            if response is None:
                call.end(wait)
            elif response._error is not None:
                call.fail(response._error.message(), response._error.code() + 1, final, response._parameters, wait)
            else:
                outputs = [_declared(tensor) for tensor in response._outputs if tensor._name in self._names]
                call.answer(outputs, final, response._parameters, wait)
        except wire.BackendError as error:
            if call.ended:
                raise TritonModelException(str(error)) from None
            self._closed = True
            call.fail(str(error), wire.INTERNAL, True, None, wait)


def _declared(tensor):
    """Return an output in its declared data type. Triton sends what it gets; here the signature holds for callers."""
    name, datatype, array = tensor._name, tensor._datatype, tensor._array
    declared = _Process.outputs.get(name)
    if declared == datatype or declared is None:
        return name, datatype, array
    if wire.BYTES not in (declared, datatype) and wire.BF16 not in (declared, datatype):
        wanted = wire.dtype_of(declared)
        converted = array.astype(wanted)
        if wanted.kind == "f" or np.array_equal(converted, array):
            if name not in _Process.warned:
                _Process.warned.add(name)
                Logger.log_warn(
                    "output '%s' has data type %s and is converted to %s, as the configuration says"
                    % (name, _NAMES[datatype], _NAMES[declared])
                )
            return name, declared, converted
    raise TritonModelException(
        "output '%s' has data type %s, the configuration of the model says %s"
        % (name, _NAMES[datatype], _NAMES[declared])
    )


# --- log and metrics ---


class Logger:
    """Writes into the appliance's log."""

    class LogLevel(enum.Enum):
        INFO = wire.INFO
        WARNING = wire.WARNING
        ERROR = wire.ERRORS
        VERBOSE = wire.VERBOSE

    INFO, WARNING, ERROR, VERBOSE = LogLevel

    @staticmethod
    def log(message, level=LogLevel.INFO):
        if level.value == wire.VERBOSE and not _Process.verbose:
            return
        if _Process.server is None:
            print(message, flush=True)
        else:
            _Process.server.log(level.value, message)

    @staticmethod
    def log_info(message):
        Logger.log(message, Logger.INFO)

    @staticmethod
    def log_warn(message):
        Logger.log(message, Logger.WARNING)

    @staticmethod
    def log_error(message):
        Logger.log(message, Logger.ERROR)

    @staticmethod
    def log_verbose(message):
        Logger.log(message, Logger.VERBOSE)


class MetricKind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class _Series:
    """The value of a metric in this process. The appliance adds up those of all instances."""

    def __init__(self):
        self.value = 0.0
        self.lock = threading.Lock()


class Metric:
    """One series of a family. MetricFamily.Metric makes it."""

    def __init__(self, family, labels, series):
        self._family, self._labels, self._series = family, labels, series

    def _tell(self, operation, value):
        _send_metric({"op": operation, "family": self._family._name, "labels": self._labels, "value": float(value)})

    def _refuse(self, action, operation):
        raise TritonModelException(
            "Failed to %s metric value: TRITONSERVER_METRIC_KIND_%s does not support %s"
            % (action, self._family._kind.name, operation)
        )

    def increment(self, value):
        kind = self._family._kind
        if kind is MetricKind.HISTOGRAM:
            self._refuse("increment", "Increment")
        if kind is MetricKind.COUNTER and value < 0:
            raise TritonModelException(
                "Failed to increment metric value: TRITONSERVER_METRIC_KIND_COUNTER can only be "
                "incremented monotonically by non-negative values."
            )
        with self._series.lock:
            self._series.value += value
            self._tell("increment", value)

    def set(self, value):
        if self._family._kind is not MetricKind.GAUGE:
            self._refuse("set", "Set")
        with self._series.lock:
            self._series.value = float(value)
            self._tell("set", value)

    def observe(self, value):
        if self._family._kind is not MetricKind.HISTOGRAM:
            self._refuse("observe", "Observe")
        self._tell("observe", value)

    def value(self):
        """Return the value that this instance of the model has made."""
        if self._family._kind is MetricKind.HISTOGRAM:
            self._refuse("get", "Value")
        return self._series.value


def _send_metric(values):
    if _Process.server is None:
        raise TritonModelException("metrics cannot be made while the configuration is completed")
    _Process.server.metric(values)


class MetricFamily:
    """Metrics of one name, which differ in their labels."""

    COUNTER, GAUGE, HISTOGRAM = MetricKind
    _series = {}  # (family, labels) -> _Series

    def __init__(self, name, description, kind):
        self._name, self._kind = name, MetricKind(kind)
        _send_metric({"op": "family", "family": name, "description": description, "kind": self._kind.value})

    def Metric(self, labels=None, buckets=None):
        """Make the metric with these labels."""
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException("Failed to create metric. Labels must be a dictionary.")
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException("Failed to create metric. Buckets must be a list.")
        if buckets is not None and self._kind is not MetricKind.HISTOGRAM:
            raise TritonModelException("Failed to create metric. Unexpected buckets found.")
        if buckets is None and self._kind is MetricKind.HISTOGRAM:
            raise TritonModelException("Failed to create metric. Missing required buckets.")
        labels = {str(key): str(value) for key, value in (labels or {}).items()}
        values = {"op": "metric", "family": self._name, "labels": labels}
        if buckets is not None:
            values["buckets"] = [float(bucket) for bucket in buckets]
        _send_metric(values)
        series = MetricFamily._series.setdefault((self._name, tuple(sorted(labels.items()))), _Series())
        return Metric(self, labels, series)


# --- the configuration ---


class ModelConfig:
    """A model's configuration, which auto_complete_config adds to."""

    def __init__(self, model_config):
        self._model_config = json.loads(model_config)

    def as_dict(self):
        return self._model_config

    def _name(self):
        return self._model_config.get("name", "")

    def set_max_batch_size(self, max_batch_size):
        configured_size = self._model_config.get("max_batch_size", 0)
        if configured_size > max_batch_size:
            raise ValueError(
                "configuration specified max_batch_size %s, but in auto-complete-config function for model '%s' "
                "specified max_batch_size %s" % (configured_size, self._name(), max_batch_size)
            )
        self._model_config["max_batch_size"] = max_batch_size

    def set_dynamic_batching(self):
        for other in ("sequence_batching", "ensemble_scheduling"):
            if other in self._model_config:
                raise ValueError(
                    "Configuration specified scheduling_choice as '%s', but auto-complete-config function for model "
                    "'%s' tries to set scheduling_choice as 'dynamic_batching'" % (other, self._name())
                )
        self._model_config.setdefault("dynamic_batching", {})

    def add_input(self, input):
        self._add(
            "input", input, ("name", "data_type", "dims", "optional"), "'name', 'data_type', 'dims' and 'optional'"
        )

    def add_output(self, output):
        self._add("output", output, ("name", "data_type", "dims"), "'name', 'data_type' and 'dims'")

    def _add(self, kind, tensor, allowed, listed):
        place = "in auto-complete-config function for model '%s'" % self._name()
        if any(key not in allowed for key in tensor):
            raise ValueError(
                "%s '%s' %s contains property other than %s." % (kind, tensor.get("name", ""), place, listed)
            )
        for key in ("name", "data_type", "dims"):
            if key not in tensor:
                subject = kind if key == "name" else "%s '%s'" % (kind, tensor["name"])
                raise ValueError("%s %s is missing '%s' property." % (subject, place, key))
        tensors = self._model_config.setdefault(kind, [])
        for present in tensors:
            if present["name"] == tensor["name"]:
                self._agree(kind, present, tensor)
                present.update(tensor)
                return
        tensors.append(tensor)

    def _agree(self, kind, present, tensor):
        """Refuse what contradicts the configuration. What it leaves open may be set."""
        if present.get("data_type", "TYPE_INVALID") not in ("TYPE_INVALID", tensor["data_type"]):
            raise ValueError(
                "unable to load model '%s', configuration expects datatype %s for %s '%s', model provides %s"
                % (self._name(), present["data_type"], kind, tensor["name"], tensor["data_type"])
            )
        subject = "model '%s', tensor '%s': the model expects " % (self._name(), tensor["name"])
        if present.get("dims") and not _same_dims(present["dims"], tensor["dims"]):
            raise ValueError(
                "%sdims %s but the model configuration specifies dims %s" % (subject, tensor["dims"], present["dims"])
            )
        if "optional" in present and "optional" in tensor and present["optional"] != tensor["optional"]:
            raise ValueError(
                "%soptional %s but the model configuration specifies optional %s"
                % (subject, tensor["optional"], present["optional"])
            )

    def set_model_transaction_policy(self, transaction_policy_dict):
        if any(key != "decoupled" for key in transaction_policy_dict):
            raise ValueError(
                "model transaction property in auto-complete-config function for model '%s' contains property "
                "other than 'decoupled'." % self._name()
            )
        policy = self._model_config.setdefault("model_transaction_policy", {})
        if "decoupled" in transaction_policy_dict:
            wanted = transaction_policy_dict["decoupled"]
            if policy.get("decoupled", wanted) != wanted:
                raise ValueError(
                    "trying to change decoupled property in auto-complete-config for model '%s', which is already "
                    "set to '%s'." % (self._name(), policy["decoupled"])
                )
            policy["decoupled"] = wanted


def _same_dims(one, other):
    return [int(size) for size in one] == [int(size) for size in other]
