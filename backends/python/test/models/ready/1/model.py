import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Is ready until the first request, and cannot say it after the second."""

    def initialize(self, args):
        self.seen = 0

    async def is_ready(self):
        if self.seen == 2:
            raise ValueError("asked too often")
        return self.seen == 0

    def execute(self, requests):
        self.seen += len(requests)
        return [pb_utils.InferenceResponse() for _ in requests]
