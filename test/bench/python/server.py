"""A process of pre- and post-processing behind a socket, as it is written where a server has no steps: Pillow and numpy, vectorised,
and the model in a box that is asked over a kept connection with binary tensors.

    server.py BOX                  BOX: host:port; prints the address that it listens at

POST /classify and POST /detect take a picture file, POST /measure 64 floats, POST /speech a WAV file. They answer with JSON.
"""
import io
import json
import socket
import sys
import threading
import wave

import numpy as np
from PIL import Image


class Connection:
    """HTTP/1.1 over a socket, no more of it than is needed: messages with Content-Length."""

    def __init__(self, sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.rest = sock, b""

    def read(self):
        """Returns the head and the body of the next message; None at the end."""
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            more = self.sock.recv(1 << 16)
            if not more:
                return None
            self.rest += more
        head = self.rest[:end].decode("latin-1")
        fields = {}
        for line in head.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        length, have = int(fields.get("content-length", 0)), self.rest[end + 4 :]
        if len(have) >= length:
            self.rest = have[length:]
            return head, fields, memoryview(have)[:length]
        body = bytearray(length)
        body[: len(have)] = have
        view, at = memoryview(body), len(have)
        while at < length:
            n = self.sock.recv_into(view[at:])
            if n == 0:
                return None
            at += n
        self.rest = b""
        return head, fields, view

    def write(self, *parts):
        if sum(len(p) for p in parts) < 1 << 16:
            self.sock.sendall(b"".join(parts))
            return
        for p in parts:
            self.sock.sendall(p)


TYPES = {"FP32": np.float32, "INT64": np.int64}


class Model:
    """A model in a box. inputs are (name, datatype, shape), outputs names."""

    def __init__(self, address, name, inputs, outputs):
        host, port = address.rsplit(":", 1)
        self.connection, self.outputs = Connection(socket.create_connection((host, int(port)))), outputs
        sizes = [int(np.prod(shape)) * np.dtype(TYPES[kind]).itemsize for _, kind, shape in inputs]
        header = json.dumps(
            {
                "inputs": [
                    {"name": n, "datatype": kind, "shape": list(shape), "parameters": {"binary_data_size": size}}
                    for (n, kind, shape), size in zip(inputs, sizes)
                ],
                "outputs": [{"name": n, "parameters": {"binary_data": True}} for n in outputs],
            }
        ).encode()
        self.head = (
            f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/octet-stream\r\n"
            f"Inference-Header-Content-Length: {len(header)}\r\nContent-Length: {len(header) + sum(sizes)}\r\n\r\n"
        ).encode() + header

    def infer(self, *tensors):
        self.connection.write(self.head, *(memoryview(t).cast("B") for t in tensors))
        head, fields, body = self.connection.read()
        if not head.startswith("HTTP/1.1 200"):
            raise RuntimeError(bytes(body[:400]).decode())
        at = int(fields["inference-header-content-length"])
        found = {}
        for o in json.loads(bytes(body[:at]))["outputs"]:
            size = o["parameters"]["binary_data_size"]
            found[o["name"]] = np.frombuffer(body[at : at + size], TYPES[o["datatype"]]).reshape(o["shape"])
            at += size
        return [found[n] for n in self.outputs]


MEAN = np.array([123.675, 116.28, 103.53], np.float32).reshape(3, 1, 1)
SCALE = 1 / np.array([58.395, 57.12, 57.375], np.float32).reshape(3, 1, 1)


FEATURE_MEAN = (np.float32(0.01) * np.arange(64, dtype=np.float32)).reshape(1, 64)
FEATURE_SCALE = 1 / (np.float32(0.5) + np.float32(0.01) * np.arange(64, dtype=np.float32)).reshape(1, 64)


def standardise(raw):
    return (np.frombuffer(raw, np.float32).reshape(1, 64) - FEATURE_MEAN) * FEATURE_SCALE


def classifier_input(file):
    picture = Image.open(io.BytesIO(file)).convert("RGB")
    shorter = min(picture.size)
    width, height = (256 * side // shorter for side in picture.size)
    x, y = round((width - 224) / 2), round((height - 224) / 2)
    picture = picture.resize((width, height), Image.BILINEAR).crop((x, y, x + 224, y + 224))
    tensor = np.empty((1, 3, 224, 224), np.float32)
    np.subtract(np.asarray(picture).transpose(2, 0, 1), MEAN, out=tensor[0])
    tensor *= SCALE
    return tensor


def labels(scores, k=5):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    best = np.argpartition(-p[0], k)[:k]
    best = best[np.argsort(-p[0][best], kind="stable")]
    return [{"label": str(c), "probability": float(p[0][c]), "class": int(c)} for c in best]


def letterbox(file, side=640):
    picture = Image.open(io.BytesIO(file)).convert("RGB")
    scale = min(side / picture.width, side / picture.height)
    w, h = (max(1, min(side, int(n * scale + 0.5))) for n in picture.size)
    x, y = (side - w) // 2, (side - h) // 2
    small = picture if (w, h) == picture.size else picture.resize((w, h), Image.BILINEAR)
    tensor = np.full((1, 3, side, side), 114 / 255, np.float32)
    np.multiply(np.asarray(small).transpose(2, 0, 1), np.float32(1 / 255), out=tensor[0, :, y : y + h, x : x + w])
    return tensor, (w / picture.width, h / picture.height, x, y, picture.width, picture.height)


def yolo(output, m, least=0.25, iou=0.45, most=300):
    head = output[0]
    score = head[4:].max(axis=0)
    sure = np.flatnonzero(score >= least)
    head, score = head[:, sure], score[sure]
    kind = head[4:].argmax(axis=0)
    x, y, w, h = head[:4]
    box = np.stack([(x - w / 2 - m[2]) / m[0], (y - h / 2 - m[3]) / m[1], (x + w / 2 - m[2]) / m[0], (y + h / 2 - m[3]) / m[1]], axis=1)
    np.clip(box, 0, np.array([m[4], m[5], m[4], m[5]], np.float32), out=box)
    order = np.argsort(-score, kind="stable")
    box, score, kind = box[order], score[order], kind[order]
    area = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
    kept, left = [], np.arange(len(score))
    while len(left) and len(kept) < most:
        best, left = left[0], left[1:]
        kept.append(best)
        low, high = np.maximum(box[left, :2], box[best, :2]), np.minimum(box[left, 2:], box[best, 2:])
        common = np.maximum(high - low, 0).prod(axis=1)
        left = left[(common <= iou * (area[left] + area[best] - common)) | (kind[left] != kind[best])]
    return [{"box": box[i].tolist(), "score": float(score[i]), "class": int(kind[i])} for i in kept]


RATE, FRAME, CONTEXT = 16000, 512, 64
SPEECH, SILENCE, MIN_SPEECH, MIN_SILENCE, PADDING = 0.5, 0.35, RATE * 250 // 1000, RATE * 100 // 1000, RATE * 30 // 1000


def speech(file, model):
    """A WAV file of 16 bits at 16 kHz in, where somebody speaks out, by Silero VAD."""
    with wave.open(io.BytesIO(file)) as w:
        samples = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float32) / 32768
    frames = -(-len(samples) // FRAME)
    padded = np.zeros(CONTEXT + frames * FRAME, np.float32)
    padded[CONTEXT : CONTEXT + len(samples)] = samples
    state, rate, likely = np.zeros((2, 1, 128), np.float32), np.array([RATE], np.int64), []
    for at in range(0, frames * FRAME, FRAME):
        p, state = model.infer(padded[at : at + CONTEXT + FRAME], state, rate)
        likely.append(float(p[0, 0]))
    found, start, silence = [], -1, -1
    for i, p in enumerate(likely + [None]):
        at, end = i * FRAME, -1
        if p is None:
            end = len(samples) if start >= 0 else -1
        elif p >= SPEECH:
            silence = -1
            start = at if start < 0 else start
        elif p < SILENCE and start >= 0:
            silence = at if silence < 0 else silence
            end = silence if at - silence >= MIN_SILENCE else -1
        if end >= 0:
            if end - start > MIN_SPEECH:
                found.append((start, end))
            start = silence = -1
    answer = []
    for i, (start, end) in enumerate(found):
        before = (start - found[i - 1][1] + 1) // 2 if i > 0 else start
        after = (found[i + 1][0] - end) // 2 if i + 1 < len(found) else len(samples) - end
        answer.append({"start": (start - min(PADDING, before)) / RATE, "end": (end + min(PADDING, after)) / RATE})
    return answer


MODELS = {
    "mlp": ([("input", "FP32", (1, 64))], ["output"]),
    "classifier": ([("input", "FP32", (1, 3, 224, 224))], ["output"]),
    "detector": ([("input", "FP32", (1, 3, 640, 640))], ["output"]),
    "vad": ([("input", "FP32", (1, CONTEXT + FRAME)), ("state", "FP32", (2, 1, 128)), ("sr", "INT64", (1,))], ["output", "stateN"]),
}


def serve(sock, address):
    client, models = Connection(sock), {}

    def model(name):
        if name not in models:
            models[name] = Model(address, name, *MODELS[name])
        return models[name]

    while (message := client.read()) is not None:
        head, _, body = message
        if head.startswith("POST /measure "):
            answer = labels(*model("mlp").infer(standardise(body)))
        elif head.startswith("POST /classify "):
            answer = labels(*model("classifier").infer(classifier_input(body)))
        elif head.startswith("POST /speech "):
            answer = speech(body, model("vad"))
        else:
            tensor, m = letterbox(body)
            answer = yolo(*model("detector").infer(tensor), m)
        text = json.dumps(answer).encode()
        client.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text), text)


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print("listening on 127.0.0.1:%d" % listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock, sys.argv[1]), daemon=True).start()


main()
