"""A client that asks over and over for a while: client.py GENERATED FILE INPUT SECONDS BOX [PREPARATION].

With the address of a preparation it asks that for the tensor and the box for the network; without, it asks the box for the
ensemble of both. It prints the time of each answer in nanoseconds.
"""

import sys
import time

sys.path.insert(0, sys.argv[1])  # where protoc has put the generated modules

import grpc
import grpc_service_pb2 as pb
import grpc_service_pb2_grpc as service

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def stub(address):
    return service.GRPCInferenceServiceStub(grpc.insecure_channel(address, options=OPTIONS))


def request(model, name, datatype, shape, raw):
    message = pb.ModelInferRequest(model_name=model)
    message.inputs.add(name=name, datatype=datatype, shape=shape)
    message.raw_input_contents.append(raw)
    return message


_, _, path, name, seconds, box, *preparation = sys.argv
with open(path, "rb") as f:
    content = f.read()
if name == "image":
    source = ("image", "BYTES", [1], len(content).to_bytes(4, "little") + content)
else:
    source = (name, "UINT8", [224, 224, 3], content)
network = stub(box)
prepare = stub(preparation[0]) if preparation else None


def ask():
    if prepare is None:
        return network.ModelInfer(request("whole", *source))
    tensor = prepare.ModelInfer(request("prepare", *source)).raw_output_contents[0]
    return network.ModelInfer(request("network", "input", "FP32", [1, 3, 224, 224], tensor))


for _ in range(20):
    last = ask()
took, now = [], time.perf_counter_ns()
end = now + int(1e9 * float(seconds))
while now < end:
    last, then = ask(), now
    now = time.perf_counter_ns()
    took.append(now - then)
print(*took)
print(last.raw_output_contents[0].hex())
