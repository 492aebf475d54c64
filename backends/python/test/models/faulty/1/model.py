import os
import sys

import numpy as np
import triton_python_backend_utils as pb_utils


def answer():
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([1], np.float32))])


class TritonPythonModel:
    """Does in execute what the element of IN says."""

    def execute(self, requests):
        what = requests[0].inputs()[0].as_numpy()[0].decode()
        return getattr(self, what)(requests)

    def errors(self, requests):
        responses = [
            pb_utils.InferenceResponse(error=pb_utils.TritonError("none of it", pb_utils.TritonError.NOT_FOUND))
            for _ in requests
        ]
        responses[0] = answer()
        return responses

    def default_error(self, requests):
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError("an error"))]

    def raises(self, requests):
        raise ValueError("out of luck")

    def raises_ours(self, requests):
        raise pb_utils.TritonModelException("out of luck")

    def exits(self, requests):
        sys.exit(3)

    def short(self, requests):
        return [answer() for _ in requests][1:]

    def tuples(self, requests):
        return tuple(answer() for _ in requests)

    def numbers(self, requests):
        return [7 for _ in requests]

    def nothing(self, requests):
        return None

    def none(self, requests):
        return [None for _ in requests]

    def twice(self, requests):
        for request in requests:
            request.get_response_sender().send(answer())
        return [answer() for _ in requests]

    def sender(self, requests):
        for request in requests:
            request.get_response_sender().send(answer())
            request.get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return [None for _ in requests]

    def only_final(self, requests):
        requests[0].get_response_sender().send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def wrong_type(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([b"x"], np.object_))])]

    def double(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([1.5], np.float64))])]

    def undeclared(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OTHER", np.zeros(1, np.float32)), answer().output_tensors()[0]]
            )
        ]

    def complex(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(1, complex))])]

    def huge(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.zeros(5 << 20, np.float32))])]

    def strided(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.arange(6, dtype=">f4").reshape(2, 3).T)])]

    def again(self, requests):
        for request in requests:
            if getattr(self, "seen", 0) < 3:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        self.seen = getattr(self, "seen", 0) + 1
        return [None if self.seen < 4 else answer() for _ in requests]

    def rescheduled_answer(self, requests):
        requests[0].set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
        return [answer()]

    def dies(self, requests):
        os.abort()
