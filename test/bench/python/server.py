"""A process of pre- and post-processing behind a socket, as it is written where a server has no steps: Pillow and numpy, vectorised,
and the model in a box that is asked over a kept connection with binary tensors.

    server.py BOX                  BOX: host:port; prints the port that it listens on

POST /classify and POST /detect take a picture file, POST /measure 64 floats, POST /speech a WAV file. They answer with JSON.
POST /steps/NAME does what a step does, or two, with numpy alone and no model: tensors in, one after the other, and tensors out.
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


SIDE = 416


def taps(source, target):
    """The two samples around each center, and how much the second one counts."""
    at = np.clip((np.arange(target) + 0.5) * (source / target) - 0.5, 0, source - 1)
    first = np.minimum(at.astype(np.int64), max(source - 2, 0))
    return first, np.minimum(first + 1, source - 1), (at - first).astype(np.float32)


def frame(pixels, width=640, height=480):
    """Pixels in, the square tensor of a detector out: bilinear, with the proportions kept, the rest grey."""
    picture = np.frombuffer(pixels, np.uint8).reshape(height, width, 3)
    scale = min(SIDE / width, SIDE / height)
    w, h = (max(1, min(SIDE, int(n * scale + 0.5))) for n in (width, height))
    x, y = (SIDE - w) // 2, (SIDE - h) // 2
    left, right, across = taps(width, w)
    upper, lower, down = taps(height, h)
    rows = picture[upper].astype(np.float32)  # rows first: there are fewer of them, and they are whole
    rows += (picture[lower] - rows) * down[:, None, None]
    small = rows[:, left]
    small += (rows[:, right] - small) * across[None, :, None]
    np.floor(small + np.float32(0.5), out=small)
    tensor = np.full((1, 3, SIDE, SIDE), 114 / 255, np.float32)
    np.multiply(small.transpose(2, 0, 1), np.float32(1 / 255), out=tensor[0, :, y : y + h, x : x + w])
    return tensor, (w / width, h / height, x, y, width, height)


def probe(tensor):
    flat = tensor.reshape(-1)
    return np.array([flat[SIDE * (100 + 61 * i) + 37 + 90 * i + SIDE * SIDE * (i % 3)] for i in range(4)], np.float32)


def boxes(head, m):
    found = yolo(head.reshape(1, 84, -1), m)
    return (
        np.array([f["box"] for f in found], np.float32),
        np.array([f["score"] for f in found], np.float32),
        np.array([f["class"] for f in found], np.int32),
    )


def faces(scores, values, m, size=256, least=0.5, iou=0.3):
    """The anchors of BlazeFace: those that overlap the surest become one, at their mean weighted by score."""
    centers = [np.stack(np.meshgrid((np.arange(n) + 0.5) / n, (np.arange(n) + 0.5) / n), -1).reshape(-1, 2).repeat(k, 0) for n, k in ((16, 2), (8, 6))]
    sure = np.flatnonzero(scores >= -np.log(1 / least - 1))
    sure = sure[np.argsort(-scores[sure], kind="stable")]
    score, value, center = 1 / (1 + np.exp(-scores[sure])), values[sure] / size, np.concatenate(centers)[sure]
    value[:, :2] += center
    value[:, 4:] += np.tile(center, 6)
    low, high = value[:, :2] - value[:, 2:4] / 2, value[:, :2] + value[:, 2:4] / 2
    area, found, left = value[:, 2] * value[:, 3], [], np.arange(len(sure))
    while len(left):
        best = left[0]
        common = np.maximum(np.minimum(high[left], high[best]) - np.maximum(low[left], low[best]), 0).prod(axis=1)
        same = common > iou * (area[left] + area[best] - common)
        same[0] = True
        ones = left[same]
        found.append((score[best], (value[ones] * score[ones, None]).sum(axis=0) / score[ones].sum()))
        left = left[~same]
    mean = np.array([f[1] for f in found])
    points = (np.concatenate([mean[:, :2] - mean[:, 2:4] / 2, mean[:, :2] + mean[:, 2:4] / 2, mean[:, 4:]], axis=1).reshape(len(found), -1, 2) * size - [m[2], m[3]]) / [m[0], m[1]]
    place = points.reshape(len(found), -1)
    return place[:, :4].astype(np.float32), np.array([f[0] for f in found], np.float32)


with open("cmd/edgewise/demo/ppocr_keys_v1.txt", encoding="utf-8") as keys:
    ALPHABET = [""] + keys.read().removesuffix("\n").split("\n") + [" "]


def ctc(probability):
    """The likeliest class of each column, without repetitions and columns without a character."""
    best = probability.argmax(axis=2)
    fresh = (best > 0) & (np.diff(best, axis=1, prepend=0) != 0)
    text, confidence = b"", []
    for line, kept, p in zip(best, fresh, probability):
        some = line[kept]
        letters = kept & (line != len(ALPHABET) - 1)
        confidence.append(p[letters, line[letters]].mean() if letters.any() else 0)
        one = " ".join(word for word in "".join(ALPHABET[c] for c in some).split(" ") if word).encode()
        text += len(one).to_bytes(4, "little") + one
    return np.frombuffer(text, np.uint8), np.array(confidence, np.float32)


def frames(file):
    """Frames of 512 samples, each with the last 64 of the one before it."""
    with wave.open(io.BytesIO(file)) as w:
        samples = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float32) / 32768
    n = -(-len(samples) // FRAME)
    padded = np.zeros(CONTEXT + n * FRAME, np.float32)
    padded[CONTEXT : CONTEXT + len(samples)] = samples
    return (np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(padded, CONTEXT + FRAME)[::FRAME]),)


def floats(body, at=0):
    return np.frombuffer(body, np.float32, offset=at)


def steps(name, body):
    """Returns the tensors that the steps of a name make of a body."""
    pixels = 640 * 480 * 3
    if name == "frame":
        tensor, m = frame(body)
        return probe(tensor), np.array(m, np.float32)
    if name == "yolo":
        return boxes(floats(body), (1, 1, 0, 0, 1e9, 1e9))
    if name == "detect":
        tensor, m = frame(body[:pixels])
        return (probe(tensor), *boxes(floats(body, pixels), m))
    if name == "anchors":
        f = floats(body)
        scores, values = np.concatenate([f[:512], f[512 * 17 : 512 * 17 + 384]]), np.concatenate([f[512 : 512 * 17], f[512 * 17 + 384 : 896 * 17]])
        return faces(scores, values.reshape(896, 16), f[896 * 17 :])
    if name == "ctc":
        return ctc(floats(body).reshape(5, 40, -1))
    return frames(body)


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
        if head.startswith("POST /steps/"):
            parts = [memoryview(np.ascontiguousarray(t)).cast("B") for t in steps(head.split(" ")[1][len("/steps/") :], body)]
            size = sum(len(p) for p in parts)
            client.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n" % size, *parts)
            continue
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
    print(listener.getsockname()[1], flush=True)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock, sys.argv[1]), daemon=True).start()


main()
