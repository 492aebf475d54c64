"""A recurrent network in numpy over 128 steps of 16 values: what numpy takes for a call is most of it, whether an execution has
one row or many."""

import numpy as np
import triton_python_backend_utils as pb

STEPS, WIDTH = 128, 16


class TritonPythonModel:
    def initialize(self, args):
        self.weights = np.random.default_rng(1).standard_normal((WIDTH, WIDTH), np.float32) / WIDTH

    def execute(self, requests):
        rows = [pb.get_input_tensor_by_name(request, "input").as_numpy() for request in requests]
        steps = np.concatenate(rows).reshape(-1, STEPS, WIDTH)
        state = np.zeros_like(steps[:, 0])
        for step in range(STEPS):
            state = np.tanh(state @ self.weights + steps[:, step])
        responses, at = [], 0
        for row in rows:
            responses.append(pb.InferenceResponse([pb.Tensor("output", state[at : at + len(row)])]))
            at += len(row)
        return responses
