"""The identity of numbers by something that is no core of this machine: each execution waits for 20 ms."""

import time

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        time.sleep(0.02)
        inputs = [pb.get_input_tensor_by_name(request, "input").as_numpy() for request in requests]
        return [pb.InferenceResponse([pb.Tensor("output", x)]) for x in inputs]
