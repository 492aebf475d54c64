import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Adds and subtracts two inputs."""

    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        self.types = [
            pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(self.config, name)["data_type"])
            for name in ("OUTPUT0", "OUTPUT1")
        ]

    def execute(self, requests):
        responses = []
        for request in requests:
            one = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            other = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            responses.append(
                pb_utils.InferenceResponse(
                    output_tensors=[
                        pb_utils.Tensor("OUTPUT0", (one + other).astype(self.types[0])),
                        pb_utils.Tensor("OUTPUT1", (one - other).astype(self.types[1])),
                    ]
                )
            )
        return responses
