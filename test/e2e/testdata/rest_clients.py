"""What clients of TensorFlow Serving, KServe v1 and TorchServe do, with requests and numpy: rest_clients.py URL SAMPLES."""

import base64
import io
import json
import sys

import numpy as np
import requests

url, samples = sys.argv[1:]
face = open(f"{samples}/face.jpg", "rb").read()


def check(condition, *what):
    if not condition:
        sys.exit(f"wrong: {what}")


def answer(r):
    check(r.status_code == 200, r.request.method, r.request.url, r.status_code, r.text[:500])
    return r.json()


# What every server of them is compared with: the v2 protocol.
rng = np.random.default_rng(1)
pictures = rng.standard_normal((2, 3, 224, 224)).astype(np.float32)
tensor = {"name": "input", "datatype": "FP32", "shape": list(pictures.shape), "data": pictures.ravel().tolist()}
v2 = answer(requests.post(f"{url}/v2/models/mobilenet/infer", json={"inputs": [tensor]}))
want = np.array(v2["outputs"][0]["data"], np.float32).reshape(2, 1000)

# TensorFlow Serving, as its RESTful API and its example client resnet_client.py have it.
status = answer(requests.get(f"{url}/v1/models/mobilenet"))
check(status["model_version_status"][0]["state"] == "AVAILABLE", status)
version = int(status["model_version_status"][0]["version"])
signature = answer(requests.get(f"{url}/v1/models/mobilenet/metadata"))["metadata"]["signature_def"]["signature_def"]
check(signature["serving_default"]["inputs"]["input"]["dtype"] == "DT_FLOAT", signature)

predict = f"{url}/v1/models/mobilenet:predict"
rows = answer(requests.post(predict, data=json.dumps({"signature_name": "serving_default", "instances": pictures.tolist()})))
check(np.array_equal(np.array(rows["predictions"], np.float32), want), "rows")
named = [{"input": p.tolist()} for p in pictures]
rows = answer(requests.post(f"{url}/v1/models/mobilenet/versions/{version}:predict", json={"instances": named}))
check(np.array_equal(np.array(rows["predictions"], np.float32), want), "rows with names")
column = answer(requests.post(f"{url}/v1/models/mobilenet/labels/live:predict", json={"inputs": {"input": pictures.tolist()}}))
check(np.array_equal(np.array(column["outputs"], np.float32), want), "columns")
classes = answer(requests.post(f"{url}/v1/models/mobilenet:classify", json={"examples": [{"input": pictures[0].tolist()}]}))
best = max(classes["results"][0], key=lambda pair: pair[1])
check(best[0] == f"class {want[0].argmax()}" and np.float32(best[1]) == want[0].max(), best)

faces = answer(requests.post(f"{url}/v1/models/faces:predict",
                             json={"instances": [{"b64": base64.b64encode(face).decode()}]}))["predictions"]
check(len(faces) == 1 and len(faces[0]["box"][0]) == 4 and len(faces[0]["score"]) == len(faces[0]["box"]), faces)

strange = pictures.copy()
strange[0, 0, 0, 0], strange[0, 0, 0, 1] = np.nan, -np.inf
check("NaN" in json.dumps(strange.tolist()), "Python writes bare words")
answer(requests.post(predict, json=None, data=json.dumps({"instances": strange.tolist()})))

wrong = requests.post(predict, json={"instances": [[1, 2], [3]]})
check(wrong.status_code == 400 and "instances[1]" in wrong.json()["error"], wrong.text)
missing = requests.post(f"{url}/v1/models/none:predict", json={"instances": [1]})
check(missing.status_code == 404 and missing.json()["error"] == "Servable not found for request: Latest(none)", missing.text)

# KServe v1.
check("mobilenet" in answer(requests.get(f"{url}/v1/models"))["models"], "the list of models")
ready = answer(requests.get(f"{url}/v1/models/mobilenet"))
check(ready["name"] == "mobilenet" and ready["ready"] is True, ready)

# TorchServe, as its README and its inference API have it.
check(answer(requests.get(f"{url}/ping")) == {"status": "Healthy"}, "ping")
found = answer(requests.post(f"{url}/predictions/faces", data=face))
check(found == faces[0], found)
check(answer(requests.put(f"{url}/predictions/faces/1.0", data=face)) == found, "by PUT")
check(answer(requests.post(f"{url}/predictions/faces", files={"data": open(f"{samples}/face.jpg", "rb")})) == found, "by a form")
check(answer(requests.post(f"{url}/predictions/faces", json={"data": {"b64": base64.b64encode(face).decode()}})) == found, "by JSON")
top = answer(requests.post(f"{url}/predictions/mobilenet", json={"data": pictures[0].tolist()}))
order = [f"class {i}" for i in np.argsort(-want[0])[:5]]
check(list(top) == order and np.float32(top[order[0]]) == want[0].max(), top)
array = io.BytesIO()
np.save(array, pictures)
both = answer(requests.post(f"{url}/predictions/mobilenet", data=array.getvalue()))
check([list(t)[0] for t in both] == [f"class {i}" for i in want.argmax(1)], both)
check(list(answer(requests.post(f"{url}/predictions/mobilenet", data=pictures[0].tobytes()))) == order, "bytes")
refused = requests.post(f"{url}/predictions/mobilenet", data=face)
check(refused.status_code == 400 and refused.json()["type"] == "BadRequestException" and "ensemble" in refused.json()["message"],
      refused.text)
check(requests.post(f"{url}/predictions/none", data=face).json()["code"] == 404, "an unknown model")
print("all is well")
