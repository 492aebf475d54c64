"""Answers each request with what can be asked about it, as JSON, and its inputs under the names of the outputs."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        responses = []
        for request in requests:
            about = {
                "id": request.request_id(),
                "correlation": request.correlation_id(),
                "flags": request.flags(),
                "timeout": request.timeout(),
                "parameters": json.loads(request.parameters()),
                "wanted": sorted(request.requested_output_names()),
                "trace": request.trace().get_context(),
                "types": [tensor.triton_dtype() for tensor in request.inputs()],
                "shapes": [tensor.shape() for tensor in request.inputs()],
                "cpu": [tensor.is_cpu() for tensor in request.inputs()],
                "batch": len(requests),
                "args": self.args,
                "directory": pb_utils.get_model_dir(),
            }
            outputs = [pb_utils.Tensor("ABOUT", np.array([json.dumps(about)], np.object_))]
            for tensor in request.inputs():
                outputs.append(
                    pb_utils.Tensor.from_dlpack("OUT_" + tensor.name(), tensor)
                    if tensor.triton_dtype() == 14
                    else pb_utils.Tensor("OUT_" + tensor.name(), tensor.as_numpy())
                )
                if tensor.triton_dtype() not in (13, 14):
                    tensor.as_numpy().fill(0)  # the model may write to its inputs
            responses.append(pb_utils.InferenceResponse(outputs, parameters={"answer": 42, "sure": True, "who": "me"}))
        return responses
