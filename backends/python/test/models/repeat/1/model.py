import threading

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Sends the elements of IN one by one from a thread of its own, until nobody wants them. AHEAD lets execute wait for it."""

    def initialize(self, args):
        self.threads = []

    def execute(self, requests):
        for request in requests:
            elements = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            thread = threading.Thread(target=self.send, args=(request.get_response_sender(), elements), daemon=True)
            thread.start()
            self.threads.append(thread)

    def send(self, sender, elements):
        for i, element in enumerate(elements):
            if sender.is_cancelled():
                pb_utils.Logger.log_info("cancelled after %d" % i)
                break
            sender.send(
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("OUT", np.array([element], np.int32))], parameters={"index": i}
                )
            )
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def finalize(self):
        for thread in self.threads:
            thread.join()
        print("finalized", flush=True)
