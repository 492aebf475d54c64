"""The protocol between the appliance and a backend, version 1: the backend's side in Python.

docs/backends.md describes the protocol. A backend is a class with up to five methods:

    import edgewise_backend

    class Double(edgewise_backend.Backend):
        def load(self, start, server):
            return {}

        def execute(self, calls):
            for call in calls:
                name, datatype, array = call.inputs[0]
                call.answer([("y", datatype, array * 2)])

    edgewise_backend.serve(Double())

Tensors are tuples of a name, a data type as the numbers below, and a numpy array. An array of BF16 has elements of
uint16. This file needs the standard library and numpy. It imports numpy when the connection begins, because a model may
bring its own.
"""

import base64
import bisect
import collections
import contextvars
import ctypes
import functools
import importlib.util
import json
import mmap
import os
import queue
import socket
import struct
import sys
import threading
import time
import traceback
import weakref

PROTOCOL = 1
LONGEST_FRAME = 1 << 20
ALIGNMENT = 64
UNTAKEN_RESPONSES = 64  # of one call, that the appliance has not taken
LONGEST_TEXT = 64 << 10  # of an error or a log line, in bytes
# ns that a batch may take before another thread reads, in which no CANCEL or PING is seen: at least, and at most
RELIEF, LAST_RELIEF = 2_000_000, 4_000_000

# from the appliance
START, RUN, CANCEL, TAKEN, REPLY, STOP, PING, ANSWER, CHECK = range(1, 10)
# to the appliance
READY, RESPONSE, DONE, EXEC, DROP, READ, LOG, METRIC, PONG, CONTROL, CHECKED = range(33, 44)
# flags of RUN; of RESPONSE and REPLY; of EXEC
JOINED = 1
FINAL, ERROR, EMPTY = 1, 2, 4
DECOUPLED = 1
# flags of a request
SEQUENCE_START, SEQUENCE_END = 1, 2
# error codes
UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARGUMENT, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(1, 9)
# levels of log lines
VERBOSE, INFO, WARNING, ERRORS = range(4)
# data types
BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, FP32, FP64, BYTES, BF16 = range(1, 15)

_NAMES = {
    BOOL: "bool",
    UINT8: "uint8",
    UINT16: "uint16",
    UINT32: "uint32",
    UINT64: "uint64",
    INT8: "int8",
    INT16: "int16",
    INT32: "int32",
    INT64: "int64",
    FP16: "float16",
    FP32: "float32",
    FP64: "float64",
    BYTES: "object",
    BF16: "uint16",
}

_U8, _U16, _U32, _U64 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
_I64, _F64 = struct.Struct("<q"), struct.Struct("<d")
_HEAD = struct.Struct("<IB")
_NUMBERED = struct.Struct("<IBQ")  # a whole frame of a number
_RUN = struct.Struct("<QBH")
_NAMED = struct.Struct("<QH")  # a number, and the length of the text behind it
_COUNTED = struct.Struct("<IQQH")  # _NUMBERS, and how many parameters follow
_NUMBERS = struct.Struct("<IQQ")  # flags, priority and timeout of a request
_RESPONSE = struct.Struct("<QB")
_ERROR = struct.Struct("<BI")
_DIMENSIONS = [struct.Struct("<%dq" % n) for n in range(256)]  # a tensor's dimensions
_PLACE = struct.Struct("<QQ")  # a tensor's offset and size

np = None  # numpy, from the beginning of the connection
_dtypes = {}
_codes = {}


class ProtocolError(Exception):
    """The appliance sent what the protocol does not know. The backend ends."""


class BackendError(Exception):
    """An error with a code, which the caller of the model reads."""

    def __init__(self, message, code=INTERNAL):
        super().__init__(message)
        self.code = code


class _NobodyWaits(Exception):
    """A response would wait, and its request was cancelled."""


class Backend:
    """What a backend implements."""

    def describe(self, start):
        """Return the text of READY when only the model's configuration is wanted."""
        return {}

    def load(self, start, server):
        """Load the model and return the text of READY."""
        return {}

    def execute(self, calls):
        """Answer the calls of a batch, now or later. An exception fails all calls of it that have no last answer."""
        raise NotImplementedError

    def check(self):
        """Say whether the model is ready: True, or a text that says why it is not."""
        return True

    def unload(self):
        """Release what the model holds. The process ends after it."""


def check(*packages):
    """With the argument --check, say which packages are missing and exit; "a|b" is either. Nothing is imported."""
    if sys.argv[1:] != ["--check"]:
        return
    missing = [names for names in packages if not any(map(importlib.util.find_spec, names.split("|")))]
    if missing:
        print("%s lacks the package %s" % (sys.executable, ", ".join(missing).replace("|", " or ")))
    sys.exit(1 if missing else 0)


def serve(backend):
    """Speak the protocol on descriptors 3 to 5 until the appliance says stop, or is gone."""
    connection = socket.socket(fileno=3)
    start = read_start(connection)
    server = None
    try:
        if start["protocol"] != PROTOCOL:
            raise BackendError("protocol %s is unknown, the backend speaks %d" % (start["protocol"], PROTOCOL))
        if start.get("describe"):
            ready = backend.describe(start)
        else:
            server = Server(connection, start, backend)
            ready = backend.load(start, server)
    except BaseException as error:  # a model may call sys.exit
        ready = {"error": {"code": error_code(error), "message": cut(explain(error, start))}}
    connection.sendall(frame(READY, text(json.dumps(ready))))
    if "error" in ready or server is None:
        leave(1 if "error" in ready else 0)
    server.loop()
    leave(0)


def read_start(connection):
    """Read the first frame."""
    head = _exactly(connection, _HEAD.size)
    length, kind = _HEAD.unpack(head)
    if kind != START or not 1 <= length <= LONGEST_FRAME:
        raise ProtocolError("the first frame is no START")
    return json.loads(_Cursor(_exactly(connection, length - 1)).text(), object_hook=_without_null)


def _without_null(values):
    """Leave out what has no value: models ask whether a key is there."""
    return {key: value for key, value in values.items() if value is not None}


def _exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            leave(1)
        data += more
    return data


def leave(status):
    """End the process without waiting for threads of the model."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def error_code(error):
    """Return the code of an exception."""
    return error.code if isinstance(error, BackendError) else INTERNAL


def explain(error, start):
    """Describe an exception as Triton's Python backend does: type, message, and the lines of code from the innermost."""
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return "%s: %s (%s, line %s)" % (kind, error.msg, _short(error.filename, start), error.lineno)
    own = (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(importlib.__file__))
    lines = []
    for step in reversed(traceback.extract_tb(error.__traceback__)):
        if os.path.dirname(step.filename) not in own and not step.filename.startswith("<frozen"):
            lines.append("  %s(%s): %s" % (_short(step.filename, start), step.lineno, step.name))
    if not lines and isinstance(error, BackendError):  # no code of the model took part
        return str(error)
    where = "\n\nAt:\n" + "\n".join(lines) + "\n" if lines else ""
    return "%s: %s%s" % (kind, error, where)


def _short(path, start):
    """Return a path below the model's folder as VERSION/FILE, others as they are."""
    directory = start["directory"].rstrip("/")
    if path.startswith(directory + "/"):
        return "%s/%s" % (start["version"], path[len(directory) + 1 :])
    return path


def use_numpy():
    """Import numpy, and fill the tables of data types."""
    global np
    import numpy

    for code, name in _NAMES.items():
        _dtypes[code] = numpy.dtype(name)
        if code != BF16:
            _codes[numpy.dtype(name)] = code
    np = numpy


def dtype_of(code):
    """Return the numpy data type of a number of the protocol."""
    return _dtypes[code]


def code_of(dtype):
    """Return the number of a numpy data type, or None."""
    code = _codes.get(dtype)
    if code is None:
        code = BYTES if dtype.kind == "S" else _codes.get(dtype.newbyteorder("="))
    return code


# --- frames ---


def frame(kind, *parts):
    """Return a frame."""
    body = b"".join(parts)
    if len(body) >= LONGEST_FRAME:
        raise BackendError(
            "a message of %d bytes is longer than the %d that the protocol allows" % (len(body), LONGEST_FRAME)
        )
    return _HEAD.pack(1 + len(body), kind) + body


def numbered(kind, number):
    """Return a frame of nothing but a number."""
    return _NUMBERED.pack(1 + _U64.size, kind, number)


def string(value):
    """Return a string of at most 65,535 bytes."""
    data = value.encode() if isinstance(value, str) else value
    return _U16.pack(len(data)) + data


def text(value):
    """Return a long string."""
    data = value.encode("utf-8", "replace")
    return _U32.pack(len(data)) + data


def cut(value):
    """Return the beginning of a text that an error or a log line may have."""
    value = str(value)
    return value if len(value) <= LONGEST_TEXT // 4 else value[: LONGEST_TEXT // 4] + " ..."


def parameters(values):
    """Return parameters: bool, int, float and str."""
    if not values:
        return b"\0\0"
    parts = [_U16.pack(len(values))]
    for name, value in values.items():
        parts.append(string(name))
        if isinstance(value, bool):
            parts += (b"\1", _U8.pack(value))
        elif isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 63:
                raise BackendError("parameter '%s': %d is no integer of 64 bits" % (name, value))
            parts += (b"\2", _I64.pack(value))
        elif isinstance(value, float):
            parts += (b"\3", _F64.pack(value))
        else:
            parts += (b"\4", text(str(value)))
    return b"".join(parts)


class _Cursor:
    """Reads the fields of a frame one after the other."""

    __slots__ = ("data", "at")

    def __init__(self, data, at=0):
        self.data = data
        self.at = at

    def unpack(self, form):
        values = form.unpack_from(self.data, self.at)
        self.at += form.size
        return values

    def take(self, size):
        begin, self.at = self.at, self.at + size
        if self.at > len(self.data):
            raise ProtocolError("a frame ends within a field")
        return self.data[begin : self.at]

    def string(self):
        return self.take(self.unpack(_U16)[0]).decode()

    def text(self):
        return self.take(self.unpack(_U32)[0]).decode()

    def strings(self):
        return [self.string() for _ in range(self.unpack(_U16)[0])]

    def parameters(self):
        values = {}
        for _ in range(self.unpack(_U16)[0]):
            name = self.string()
            kind = self.take(1)
            if kind == b"\1":
                values[name] = self.take(1) != b"\0"
            elif kind == b"\2":
                values[name] = self.unpack(_I64)[0]
            elif kind == b"\3":
                values[name] = self.unpack(_F64)[0]
            else:
                values[name] = self.text()
        return values

    def tensors(self):
        """Read tensors as (name, data type, shape, offset, size)."""
        data, at, tensors = self.data, self.at + _U16.size, []
        for _ in range(_U16.unpack_from(data, self.at)[0]):
            begin = at + _U16.size
            at = begin + _U16.unpack_from(data, at)[0]
            name, dimensions = data[begin:at].decode(), _DIMENSIONS[data[at + 1]]
            shape = dimensions.unpack_from(data, at + 2)
            place = at + 2 + dimensions.size
            tensors.append((name, data[at], shape) + _PLACE.unpack_from(data, place))
            at = place + _PLACE.size
        self.at = at
        return tensors

    def numbered(self):
        """Read a number and a string."""
        number, size = self.unpack(_NAMED)
        return number, self.take(size).decode() if size else ""

    def request(self):
        """Read a request: correlation, flags, priority, timeout, parameters, wanted outputs and inputs."""
        number, name = self.numbered()
        flags, priority, timeout, count = self.unpack(_COUNTED)
        values = {}
        if count:
            self.at -= _U16.size
            values = self.parameters()
        return name or number, flags, priority, timeout, values, self.strings(), self.tensors()

    def error(self):
        code, length = self.unpack(_ERROR)
        return code, self.take(length).decode("utf-8", "replace")


def read_tensors(memory, tensors):
    """Copy tensors out of shared memory."""
    return [
        (name, datatype, _array(memory, datatype, shape, offset, size))
        for name, datatype, shape, offset, size in tensors
    ]


def _array(memory, datatype, shape, offset, size):
    if datatype == BYTES:
        return _elements(memory[offset : offset + size], shape)
    return np.ndarray(shape, _dtypes[datatype], memory, offset if size else 0).copy()


def _elements(data, shape):
    elements, at, end = [], 0, len(data)
    while at < end:
        begin = at + 4
        at = begin + _U32.unpack_from(data, at)[0]
        elements.append(data[begin:at])
    array = np.empty(len(elements), np.object_)
    array[:] = elements
    return array.reshape(shape)


def _joined(array):
    """Return the elements of an array of bytes or strings, each after its length."""
    parts = []
    for element in array.ravel().tolist():
        if not isinstance(element, (bytes, bytearray)):
            element = str(element).encode()
        parts.append(_U32.pack(len(element)))
        parts.append(element)
    return b"".join(parts)


# --- the connection ---


class Server:
    """The appliance: the main thread reads what it sends and executes, and any thread answers.

    So a batch wakes one thread, and no second one. While the main thread executes for longer than RELIEF, or waits for
    what the appliance sends, another thread reads.
    """

    def __init__(self, connection, start, backend):
        if np is None:
            use_numpy()
        self.start = start
        self._backend = backend
        self._connection = connection
        self._inputs = mmap.mmap(4, start["input_bytes"], prot=mmap.PROT_READ) if start["input_bytes"] else b""
        self._outputs = mmap.mmap(5, start["output_bytes"]) if start["output_bytes"] else bytearray()
        self._blocks = _Blocks(start["output_bytes"])
        self._sending = threading.Lock()
        self._pending = []  # frames that go with the next one
        self._turn = threading.Lock()  # guards the next three
        self._jobs = collections.deque()  # functions for the main thread; None ends it
        self._reading = False  # a thread reads
        self._passed = None  # a lock that the main thread waits for, until the other thread has read a job
        self._arrived = []  # jobs; of the thread that reads, as the next two
        self._rest = b""  # of what was received, the beginning of a frame
        self._handlers = {
            RUN: self._run,
            CANCEL: self._cancel,
            TAKEN: self._taken,
            REPLY: self._reply,
            STOP: self._stop,
            PING: self._ping,
            ANSWER: self._answer,
            CHECK: self._check,
        }
        self._timer = _Timer()
        self._calls = {}  # references to open ones, for CANCEL: a call that the model lets go of ends
        self._numbers = threading.Lock()
        self._last = 0
        self._execs = {}
        self._controls = {}
        self._releases = queue.SimpleQueue()  # functions of destructors, which may not wait for a lock themselves
        threading.Thread(target=self._relieve, name="edgewise-reader", daemon=True).start()
        threading.Thread(target=self._release, name="edgewise-release", daemon=True).start()
        self.await_frames()

    def loop(self):
        """Execute batches until the appliance says stop."""
        while True:
            job = self._next()
            if job is None:
                self._backend.unload()
                return
            self._timer.postpone()
            job()
            del job  # or the calls of the last batch would live until the next one

    def _next(self):
        while True:
            with self._turn:
                if self._jobs:
                    return self._jobs.popleft()
                mine, self._reading = not self._reading, True
                if not mine:
                    passed = self._passed = threading.Lock()
                    passed.acquire()
            if mine:
                self._read()
            else:
                passed.acquire()

    def _relieve(self):
        while True:
            self._timer.wait()
            with self._turn:
                mine, self._reading = not self._reading, True
            if mine:
                self._read()

    def await_frames(self):
        """Say that the caller waits for something that the appliance sends."""
        self._timer.expire()

    def submit(self, function):
        """Let the main thread, which calls this, call a function when it has done what was asked before."""
        with self._turn:
            self._jobs.append(function)

    def release(self, function):
        """Let another thread call a function soon. Safe in a destructor."""
        self._releases.put(function)

    def _release(self):
        while True:
            self._releases.get()()

    def log(self, level, message):
        """Write a line into the appliance's log."""
        self.send(frame(LOG, _U8.pack(level), text(cut(message))))

    def metric(self, values):
        """Tell a change of a metric of the model's own."""
        self.send(frame(METRIC, text(json.dumps(values))))

    def control(self, values):
        """Ask the appliance to load or unload a model, or whether it is ready. Waits for the answer."""
        number, answer = self._number(), queue.SimpleQueue()
        self._controls[number] = answer
        self.send(frame(CONTROL, _U64.pack(number), text(json.dumps(values))))
        self.await_frames()
        result = answer.get()
        if "error" in result:
            raise BackendError(result["error"]["message"], result["error"].get("code", INTERNAL))
        return result

    def execute(self, request):
        """Send a request to a model of the appliance, and return its Replies."""
        number = self._number()
        replies = Replies(self, number)
        tensors, block = self._place(request.inputs, None)
        self._execs[number] = replies.frames
        try:
            self.send(
                frame(
                    EXEC,
                    _U64.pack(number),
                    _U64.pack(request.call),
                    _U8.pack(DECOUPLED if request.decoupled else 0),
                    string(request.model),
                    _I64.pack(request.version),
                    request.encode(),
                    tensors,
                )
            )
        except BaseException:
            self._execs.pop(number, None)
            self._blocks.release(block)
            raise
        return replies

    def send(self, data, wait=False):
        """Send a frame. With wait it goes with the next one that does not wait, in the same order."""
        with self._sending:
            self._pending.append(data)
            if not wait:
                self._flush()

    def _flush(self):
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending.clear()
        self._connection.sendall(data)

    def flush(self):
        """Send what waits."""
        with self._sending:
            if self._pending:
                self._flush()

    def _before_waiting(self):
        self.flush()
        self.await_frames()

    def _number(self):
        with self._numbers:
            self._last += 1
            return self._last

    def _place(self, tensors, call):
        """Copy tensors into a block of the output memory. Waits while the memory, or the call's share, is in use."""
        described, places, total = [], [], 0
        for name, datatype, array in tensors:
            data = _joined(array) if datatype == BYTES else array
            size = len(data) if datatype == BYTES else array.nbytes
            described.append((name, datatype, array.shape, total, size))
            places.append(data)
            total += -(-size // ALIGNMENT) * ALIGNMENT
        block = None
        if total:
            block = self._blocks.allocate(total, call, self._before_waiting)
        parts = [_U16.pack(len(described))]
        for (name, datatype, shape, offset, size), data in zip(described, places):
            offset = offset + block if size else 0
            if datatype == BYTES:
                self._outputs[offset : offset + size] = data
            elif size:
                np.ndarray(shape, _dtypes[datatype], self._outputs, offset)[...] = data
            parts += (
                string(name),
                bytes((datatype, len(shape))),
                _DIMENSIONS[len(shape)].pack(*shape),
                _PLACE.pack(offset, size),
            )
        return b"".join(parts), block

    def _respond(self, call, flags, tensors, error, values, wait):
        outputs, block, failure = b"\0\0", None, b""
        if not error:
            try:
                outputs, block = self._place(tensors, call)
            except _NobodyWaits:
                if not flags & FINAL:
                    return
                error = (CANCELLED, "the request was cancelled")
        if error:
            flags |= ERROR
            failure = _U8.pack(error[0]) + text(cut(error[1]))
        try:
            self.send(frame(RESPONSE, _RESPONSE.pack(call.number, flags), failure, parameters(values), outputs), wait)
        except BaseException:
            self._blocks.release(block)
            raise
        if flags & FINAL:
            self._calls.pop(call.number, None)

    # --- what the appliance sends ---

    def _read(self):
        """Read frames until there is a job. The caller has set _reading. The end of the appliance is that of the process."""
        try:
            while not self._arrived:
                data = self._connection.recv(1 << 18)
                if not data:
                    os._exit(1)
                self._rest = self._frames(self._rest + data if self._rest else data)
        except OSError:
            os._exit(1)
        except BaseException:
            traceback.print_exc()
            leave(1)
        with self._turn:
            self._reading = False
            self._jobs += self._arrived
            self._arrived.clear()
            passed, self._passed = self._passed, None
        if passed:
            passed.release()

    def _frames(self, data):
        """Handle the whole frames of data, and return what is left of it."""
        at = 0
        while len(data) - at >= _HEAD.size:
            length, kind = _HEAD.unpack_from(data, at)
            if not 1 <= length <= LONGEST_FRAME:
                raise ProtocolError("a frame of %d bytes" % length)
            end = at + 4 + length
            if len(data) < end:
                break
            handler = self._handlers.get(kind)
            if handler is None:
                raise ProtocolError("a frame of kind %d" % kind)
            handler(_Cursor(data[at + _HEAD.size : end]))
            at = end
        return data[at:]

    def _run(self, cursor):
        run, flags, count = cursor.unpack(_RUN)
        calls = [Call(self, cursor) for _ in range(count)]
        for call in calls:
            self._calls[call.number] = weakref.ref(call)
        self._arrived.append(functools.partial(self._batch, run, calls))

    def _batch(self, run, calls):
        """Execute a batch on the main thread."""
        block = None
        for call in calls:
            for tensor in call.tensors:
                if tensor[4]:
                    block = tensor[3] if block is None else min(block, tensor[3])
            call.inputs = read_tensors(self._inputs, call.tensors)
        if block is not None:
            self.send(numbered(READ, block), wait=True)
        try:
            self._backend.execute(calls)
        except BaseException as error:  # a model may call sys.exit
            self.fail(calls, error_code(error), explain(error, self.start))
        self.send(numbered(DONE, run))

    def fail(self, calls, code, message):
        """Fail all calls that have no last answer."""
        for call in calls:
            if not call.ended:
                call.fail(message, code, wait=True)

    def forget_call(self, number):
        """Forget a call that nobody can answer any more."""
        self._calls.pop(number, None)

    def _cancel(self, cursor):
        reference = self._calls.get(cursor.unpack(_U64)[0])
        call = reference and reference()
        if call is not None:
            call.cancelled = True
            self._blocks.wake()

    def _taken(self, cursor):
        self._blocks.release(cursor.unpack(_U64)[0])

    def _reply(self, cursor):
        number, flags = cursor.unpack(_RESPONSE)
        with self._numbers:
            frames = self._execs.pop(number, None) if flags & FINAL else self._execs.get(number)
            if frames is not None:
                frames.put((flags, cursor))
        if frames is None:  # forgotten
            self.reply(flags, cursor, copy=False)

    def reply(self, flags, cursor, copy=True):
        """Read a reply, and give back its memory."""
        error = cursor.error() if flags & ERROR else None
        model, (version,), values, tensors = cursor.string(), cursor.unpack(_I64), cursor.parameters(), cursor.tensors()
        outputs = read_tensors(self._inputs, tensors) if copy else []
        blocks = [offset for _, _, _, offset, size in tensors if size]
        if blocks:
            self.send(numbered(READ, min(blocks)))
        return Reply(outputs, error, values, model, version, bool(flags & FINAL))

    def drop(self, number):
        """Let the appliance end a request whose replies nobody reads."""
        self.send(numbered(DROP, number))

    def forget(self, number, frames, dropped):
        """End a request whose replies nobody reads any more, and give back the memory of those that have come."""
        with self._numbers:
            live = self._execs.pop(number, None) is not None
        if live and not dropped:
            self.drop(number)
        while not frames.empty():
            self.reply(*frames.get_nowait(), copy=False)

    def _stop(self, cursor):
        self._arrived.append(None)

    def _ping(self, cursor):
        self.send(frame(PONG, cursor.take(8), _U64.pack(0)))

    def _answer(self, cursor):
        waiter = self._controls.pop(cursor.unpack(_U64)[0], None)
        if waiter is not None:
            waiter.put(json.loads(cursor.text()))

    def _check(self, cursor):
        number = cursor.take(8)
        threading.Thread(target=self._checked, args=(number,), name="edgewise-check", daemon=True).start()

    def _checked(self, number):
        try:
            result = self._backend.check()
        except BaseException as error:
            result = explain(error, self.start)
        reason = "" if result is True else str(result)
        self.send(frame(CHECKED, number, _U8.pack(result is True), text(cut(reason))))


class _Timer:
    """Wakes a thread when it was not postponed for a time. Many batches of a time postpone it by one system call."""

    _Spec = ctypes.c_long * 4  # struct itimerspec: seconds and nanoseconds of the interval, and of the first time

    def __init__(self):
        system = ctypes.PyDLL(None)  # whose calls are so short that they keep the interpreter's lock
        self._descriptor = system.timerfd_create(1, os.O_CLOEXEC)  # CLOCK_MONOTONIC
        self._settime = system.timerfd_settime
        self._soon, self._later = (self._Spec(0, 0, 0, nanoseconds) for nanoseconds in (1, LAST_RELIEF))
        self._expires = 0  # when it does, or would if it had not expired since

    def postpone(self):
        """Let it expire in RELIEF to LAST_RELIEF."""
        now = time.monotonic_ns()
        if self._expires - now < RELIEF:
            self._expires = now + LAST_RELIEF
            self._settime(self._descriptor, 0, self._later, None)

    def expire(self):
        """Let it expire now."""
        self._settime(self._descriptor, 0, self._soon, None)
        self._expires = 0  # the next one who postpones it sets it again

    def wait(self):
        os.read(self._descriptor, 8)


class Call:
    """One request of a client, open until its last answer. Any thread may call the methods, one at a time."""

    __slots__ = (
        "_server",
        "number",
        "id",
        "correlation",
        "flags",
        "priority",
        "timeout",
        "parameters",
        "wanted",
        "tensors",
        "inputs",
        "cancelled",
        "ended",
        "__weakref__",
    )

    def __init__(self, server, cursor):
        self._server = server
        self.ended = True  # until it is read
        self.number, self.id = cursor.numbered()
        (
            self.correlation,
            self.flags,
            self.priority,
            self.timeout,
            self.parameters,
            self.wanted,
            self.tensors,
        ) = cursor.request()
        self.inputs = None
        self.cancelled = False
        self.ended = False

    def answer(self, outputs, final=True, values=None, wait=False):
        """Send a response. With wait it goes with the next frame, which the end of the batch brings at the latest."""
        self._open(final)
        try:
            self._server._respond(self, FINAL if final else 0, outputs, None, values, wait)
        except BaseException:
            self.ended = False
            raise

    def fail(self, message, code=INTERNAL, final=True, values=None, wait=False):
        """Send an error as a response."""
        self._open(final)
        self._server._respond(self, FINAL if final else 0, (), (code, message), values, wait)

    def end(self, wait=False):
        """End the call without a further response."""
        self._open(True)
        self._server._respond(self, FINAL | EMPTY, (), None, None, wait)

    def _open(self, final):
        if self.ended:
            raise BackendError("the request has its last response")
        self.ended = final

    def __del__(self):
        if not getattr(self, "ended", True):
            self._server.release(functools.partial(_abandoned, self._server, self.number))


def _abandoned(server, number):
    """Fail a call that the model has let go of: nobody can answer it any more."""
    server.forget_call(number)
    message = "the model released the request without its last response"
    server.send(frame(RESPONSE, _RESPONSE.pack(number, FINAL | ERROR), _U8.pack(INTERNAL), text(message), b"\0\0\0\0"))


current_call = contextvars.ContextVar("edgewise_call", default=0)  # the call on whose behalf requests are sent


class Request:
    """A request to a model of the appliance."""

    def __init__(self, model, inputs, outputs=(), version=-1, decoupled=False, **more):
        self.model = model
        self.inputs = inputs
        self.outputs = outputs
        self.version = version
        self.decoupled = decoupled
        self.call = more.get("call", 0)
        self.id = more.get("id", "")
        self.correlation = more.get("correlation", 0)
        self.flags = more.get("flags", 0)
        self.priority = more.get("priority", 0)
        self.timeout = more.get("timeout", 0)
        self.parameters = more.get("parameters")

    def encode(self):
        """Return the request without its inputs."""
        number, name = (0, self.correlation) if isinstance(self.correlation, str) else (self.correlation, "")
        return b"".join(
            [
                string(self.id),
                _U64.pack(number),
                string(name),
                _NUMBERS.pack(self.flags, self.priority, self.timeout),
                parameters(self.parameters),
                _U16.pack(len(self.outputs)),
                *map(string, self.outputs),
            ]
        )


class Reply:
    """A response of a model of the appliance. error is None, or a tuple of code and message."""

    __slots__ = ("outputs", "error", "parameters", "model", "version", "final")

    def __init__(self, outputs, error, values, model, version, final):
        self.outputs = outputs
        self.error = error
        self.parameters = values
        self.model = model
        self.version = version
        self.final = final


class Replies:
    """Iterates over the responses to a request. The appliance holds back the next ones until these are read."""

    def __init__(self, server, number):
        self._server = server
        self._number = number
        self._ended = self._dropped = False
        self.frames = queue.SimpleQueue()

    def __iter__(self):
        return self

    def __next__(self):
        if self._ended:
            raise StopIteration
        if self.frames.empty():
            self._server.await_frames()
        flags, cursor = self.frames.get()
        self._ended = bool(flags & FINAL)
        return self._server.reply(flags, cursor)

    def cancel(self):
        """Ask the appliance to end the request. Its last response still comes."""
        if not self._ended and not self._dropped:
            self._dropped = True
            self._server.drop(self._number)

    def __del__(self):
        if not self._ended:
            self._server.release(functools.partial(self._server.forget, self._number, self.frames, self._dropped))


class _Blocks:
    """Allocates blocks of the output memory: first fit, so that the same pages are used again."""

    def __init__(self, size):
        self._size = size
        self._free = [(0, size)] if size else []  # (offset, size), in order
        self._used = {}  # offset -> (size, call number or None)
        self._untaken = {}  # call number -> blocks
        self._lock = threading.Lock()  # guards all of these
        self._changed = threading.Condition(self._lock)
        self._waiting = 0  # threads

    def allocate(self, size, call, before_waiting):
        """Return the offset of a block. Waits until there is one, and the call has fewer than 64 in use.

        It does not wait for a call that was cancelled.
        """
        if size > self._size:
            raise BackendError("tensors of %d bytes do not fit into the output memory of %d bytes" % (size, self._size))
        owner = None if call is None else call.number
        with self._lock:
            while True:
                offset = self._find(size) if self._untaken.get(owner, 0) < UNTAKEN_RESPONSES else None
                if offset is not None:
                    self._used[offset] = (size, owner)
                    if owner is not None:
                        self._untaken[owner] = self._untaken.get(owner, 0) + 1
                    return offset
                if call is not None and call.cancelled:
                    raise _NobodyWaits()
                before_waiting()
                self._waiting += 1
                self._changed.wait()
                self._waiting -= 1

    def wake(self):
        """Let those who wait see that their call was cancelled."""
        with self._lock:
            self._changed.notify_all()

    def _find(self, size):
        for i, (offset, free) in enumerate(self._free):
            if free >= size:
                if free == size:
                    del self._free[i]
                else:
                    self._free[i] = (offset + size, free - size)
                return offset
        return None

    def release(self, offset):
        """Free a block. None is no block."""
        if offset is None:
            return
        with self._lock:
            if offset not in self._used:
                raise ProtocolError("no block begins at %d" % offset)
            size, owner = self._used.pop(offset)
            if owner is not None:
                self._untaken[owner] -= 1
                if not self._untaken[owner]:
                    del self._untaken[owner]
            self._merge(offset, size)
            if self._waiting:
                self._changed.notify_all()

    def _merge(self, offset, size):
        i = bisect.bisect(self._free, (offset, 0))
        if i < len(self._free) and self._free[i][0] == offset + size:
            size += self._free.pop(i)[1]
        if i > 0 and sum(self._free[i - 1]) == offset:
            offset, before = self._free[i - 1]
            self._free[i - 1] = (offset, before + size)
        else:
            self._free.insert(i, (offset, size))


def encode_files(files):
    """Return files for a load request, whose contents travel as base64."""
    return {name: base64.b64encode(data).decode() for name, data in files.items()}
