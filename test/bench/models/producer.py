"""Sends numbers until its request is cancelled, or without looking; or waits for that, and sends one. The input is what it
does. 0 asks for the time on the system's monotonic clock, in ns, at which it last saw a request cancelled."""

import time

import numpy as np
import triton_python_backend_utils as pb

TELL, SEND, WAIT, BLIND = range(4)
FINAL = pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL


def response(number):
    return pb.InferenceResponse([pb.Tensor("output", np.array([number], np.int64))])


class TritonPythonModel:
    ended = 0

    def execute(self, requests):
        for request in requests:
            self.answer(request.get_response_sender(), pb.get_input_tensor_by_name(request, "input").as_numpy()[0])

    def answer(self, sender, do):
        if do == TELL:
            sender.send(response(self.ended), FINAL)
            return
        sender.send(response(0))
        while do == BLIND or not sender.is_cancelled():
            if do == WAIT:
                time.sleep(0.001)
            else:
                sender.send(response(1))
        self.ended = time.monotonic_ns()
        sender.send(flags=FINAL)
