"""The appliance's side of the protocol for the tests of this folder: one process of serve.py and what is said to it.

Frames are written and read with the functions of edgewise_backend.py; the Go side has its own (api/backend).
"""

import fcntl
import json
import mmap
import os
import queue
import socket
import struct
import subprocess
import sys
import threading

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, FOLDER)

import edgewise_backend as wire  # noqa: E402

wire.use_numpy()
np = wire.np

MEMORY = 16 << 20
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


class Response:
    def __init__(self, cursor, memory):
        self.call, self.flags = cursor.unpack(wire._RESPONSE)
        self.final, self.empty = bool(self.flags & wire.FINAL), bool(self.flags & wire.EMPTY)
        self.error = cursor.error() if self.flags & wire.ERROR else None
        self.parameters = cursor.parameters()
        tensors = cursor.tensors()
        self.datatypes = {tensor[0]: tensor[1] for tensor in tensors}
        self.outputs = {name: array for name, _, array in wire.read_tensors(memory, tensors)}
        self.blocks = [tensor[3] for tensor in tensors if tensor[4]]


class Exec:
    """A request of the model to another one."""

    def __init__(self, cursor, memory):
        self.number, self.call = cursor.unpack(wire._PLACE)
        (flags,) = cursor.unpack(wire._U8)
        self.decoupled = bool(flags & wire.DECOUPLED)
        self.model = cursor.string()
        (self.version,) = cursor.unpack(wire._I64)
        self.id = cursor.string()
        (number,) = cursor.unpack(wire._U64)
        self.correlation = cursor.string() or number
        self.flags, self.priority, self.timeout = cursor.unpack(wire._NUMBERS)
        self.parameters = cursor.parameters()
        self.wanted = cursor.strings()
        tensors = cursor.tensors()
        self.inputs = {name: array for name, _, array in wire.read_tensors(memory, tensors)}
        self.blocks = [tensor[3] for tensor in tensors if tensor[4]]


class Failed(Exception):
    """The model could not be loaded."""


def memfd(size):
    file = os.memfd_create("tensors")
    os.ftruncate(file, size)
    return file


class Appliance:
    """Starts the backend for a model and answers its requests by functions: models[NAME](exec) -> list of outputs."""

    def __init__(self, directory, configuration, version="1", models=None, taking=True, **start):
        self.models = models or {}
        self.taking = taking
        self.logs, self.metrics, self.controls, self.drops, self.checked = [], [], [], [], queue.SimpleQueue()
        self.responses, self.dones, self.reads = queue.SimpleQueue(), queue.SimpleQueue(), []
        self._next = 0
        self._replies_at = MEMORY // 2
        inputs, outputs = memfd(MEMORY), memfd(MEMORY)
        self.inputs, self.outputs = mmap.mmap(inputs, MEMORY), mmap.mmap(outputs, MEMORY)
        self._socket, other = socket.socketpair()
        readable = os.open("/proc/self/fd/%d" % inputs, os.O_RDONLY)
        given = [fcntl.fcntl(each, fcntl.F_DUPFD, 20) for each in (other.fileno(), readable, outputs)]

        def place():
            for target, file in zip((3, 4, 5), given):
                os.dup2(file, target)

        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-u", os.path.join(FOLDER, "serve.py")],
            preexec_fn=place,
            pass_fds=(3, 4, 5),
            stdin=subprocess.DEVNULL,
            env={"EDGEWISE_BACKEND": "1", **start.pop("environment", {})},
        )
        for file in given + [inputs, outputs, readable]:
            os.close(file)
        other.close()
        name = configuration["name"]
        message = {
            "protocol": wire.PROTOCOL,
            "model": name,
            "version": version,
            "directory": os.path.join(directory, version),
            "model_directory": directory,
            "configuration": configuration,
            "instance": {"name": name + "_0_0", "kind": "KIND_CPU", "device": 0, "index": 0},
            "input_bytes": MEMORY,
            "output_bytes": MEMORY,
            "threads": 1,
            "complete": False,
            "describe": False,
            "log": "info",
            **start,
        }
        self._send(wire.START, wire.text(json.dumps(message)))
        self._rest = b""
        for kind, cursor in self._frames():
            if kind == wire.READY:
                break
            self._handle(kind, cursor)
        self.ready = json.loads(cursor.text())
        if "error" in self.ready:
            self.close(1)
            raise Failed(self.ready["error"]["message"])
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._send(wire.STOP)
        self.close(0)

    def close(self, status):
        got = self.process.wait(30)
        self._socket.close()
        if got != status:
            raise AssertionError("the backend ended with %s" % got)

    def _send(self, kind, *parts):
        self._socket.sendall(wire.frame(kind, *parts))

    def _frames(self):
        while True:
            while len(self._rest) >= 5:
                length, kind = wire._HEAD.unpack_from(self._rest)
                if len(self._rest) < 4 + length:
                    break
                cursor = wire._Cursor(self._rest[5 : 4 + length])
                self._rest = self._rest[4 + length :]
                yield kind, cursor
            data = self._socket.recv(1 << 16)
            if not data:
                return
            self._rest += data

    def _read(self):
        try:
            for kind, cursor in self._frames():
                self._handle(kind, cursor)
        except OSError:
            pass

    def _handle(self, kind, cursor):
        if kind == wire.RESPONSE:
            response = Response(cursor, self.outputs)
            self._take(response.blocks)
            self.responses.put(response)
        elif kind == wire.DONE:
            self.dones.put(cursor.unpack(wire._U64)[0])
        elif kind == wire.EXEC:
            request = Exec(cursor, self.outputs)
            self._take(request.blocks)
            threading.Thread(target=self._execute, args=(request,), daemon=True).start()
        elif kind == wire.LOG:
            (level,) = cursor.unpack(wire._U8)
            self.logs.append((level, cursor.text()))
        elif kind == wire.METRIC:
            self.metrics.append(json.loads(cursor.text()))
        elif kind == wire.CONTROL:
            number, request = cursor.take(8), json.loads(cursor.text())
            self.controls.append(request)
            self._send(wire.ANSWER, number, wire.text(json.dumps(self.models["control"](request))))
        elif kind == wire.READ:
            self.reads.append(cursor.unpack(wire._U64)[0])
        elif kind == wire.DROP:
            self.drops.append(cursor.unpack(wire._U64)[0])
        elif kind == wire.CHECKED:
            number, ready = cursor.unpack(struct.Struct("<QB"))
            self.checked.put((bool(ready), cursor.text()))
        elif kind != wire.PONG:
            raise AssertionError("a frame of kind %d" % kind)

    def _take(self, blocks):
        if blocks and self.taking:
            self._send(wire.TAKEN, wire._U64.pack(min(blocks)))

    def take(self, response):
        self._send(wire.TAKEN, wire._U64.pack(min(response.blocks)))

    def _execute(self, request):
        """Answer a request of the model's: each element that the model's function yields is a reply."""
        try:
            replies = list(self.models[request.model](request))
        except KeyError:
            self._reply(request.number, wire.FINAL, error=(wire.NOT_FOUND, "no model '%s'" % request.model))
            return
        for i, outputs in enumerate(replies):
            self._reply(request.number, wire.FINAL if i == len(replies) - 1 else 0, outputs)

    def _reply(self, number, flags, outputs=(), error=None):
        failure = wire._U8.pack(error[0]) + wire.text(error[1]) if error else b""
        place = self._replies_at = self._replies_at + (1 << 12)
        self._send(
            wire.REPLY,
            wire._RESPONSE.pack(number, flags | (wire.ERROR if error else 0)),
            failure,
            wire.string("other"),
            wire._I64.pack(1),
            wire.parameters({}),
            self._tensors(outputs, place),
        )

    def _tensors(self, tensors, at):
        parts = [wire._U16.pack(len(tensors))]
        for name, array in tensors:
            datatype = wire.BF16 if array.dtype == np.uint16 and name.startswith("BF16") else wire.code_of(array.dtype)
            data = wire._joined(array) if datatype == wire.BYTES else array.tobytes()
            self.inputs[at : at + len(data)] = data
            parts += (
                wire.string(name),
                bytes((datatype, array.ndim)),
                wire._DIMENSIONS[array.ndim].pack(*array.shape),
                wire._PLACE.pack(at if data else 0, len(data)),
            )
            at += -(-len(data) // wire.ALIGNMENT) * wire.ALIGNMENT
        self._end = at
        return b"".join(parts)

    def run(self, *batch, wanted=(), **fields):
        """Send a batch: a list of (name, array) for each request. Returns the numbers of the calls."""
        self._next += 1
        run, at, calls, parts = self._next, 0, [], []
        for inputs in batch:
            self._next += 1
            calls.append(self._next)
            request = wire.Request("", (), wanted, **fields)
            parts += (wire._U64.pack(self._next), request.encode(), self._tensors(inputs, at))
            at = self._end
        self._send(wire.RUN, wire._RUN.pack(run, 0, len(batch)), *parts)
        return calls

    def next(self):
        """Return the next response."""
        return self.responses.get(timeout=60)

    def infer(self, *inputs, **fields):
        """Send one request and return all its responses, and wait for the end of the batch."""
        self.run(inputs, **fields)
        responses = [self.next()]
        while not responses[-1].final:
            responses.append(self.next())
        self.dones.get(timeout=60)
        return responses

    def cancel(self, call):
        self._send(wire.CANCEL, wire._U64.pack(call))

    def check(self):
        self._send(wire.CHECK, wire._U64.pack(1))
        return self.checked.get(timeout=60)


def configuration(name, inputs=(), outputs=(), **more):
    """Return a configuration; inputs and outputs are (name, TYPE_X, dims)."""

    def listed(tensors):
        return [{"name": each[0], "data_type": each[1], "dims": list(each[2])} for each in tensors]

    return {
        "name": name,
        "backend": "python",
        "max_batch_size": 0,
        "input": listed(inputs),
        "output": listed(outputs),
        **more,
    }
