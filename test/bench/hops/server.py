"""Preparation of pictures behind gRPC, with the messages of the v2 protocol: server.py GENERATED PREPARING."""

import concurrent.futures
import sys

sys.path[:0] = sys.argv[1:3]  # of protoc's modules, and of the functions

import grpc
import grpc_service_pb2 as pb
import grpc_service_pb2_grpc as service
import numpy as np
import preparing

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Service(service.GRPCInferenceServiceServicer):
    def ModelInfer(self, request, context):
        raw = request.raw_input_contents[0]
        if request.inputs[0].name == "image":
            tensor = preparing.of_file(raw[4:])
        else:
            tensor = preparing.of_pixels(np.frombuffer(raw, np.uint8).reshape(request.inputs[0].shape))
        answer = pb.ModelInferResponse(model_name="prepare", model_version="1", id=request.id)
        answer.outputs.add(name="tensor", datatype="FP32", shape=tensor.shape)
        answer.raw_output_contents.append(tensor.tobytes())
        return answer


server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=OPTIONS)
service.add_GRPCInferenceServiceServicer_to_server(Service(), server)
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print("listening on 127.0.0.1:%d" % port, flush=True)
server.wait_for_termination()
