# The model over the functions before it: a picture file, or pixels.
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [pb.InferenceResponse([pb.Tensor("tensor", self.prepare(request))]) for request in requests]

    def prepare(self, request):
        source = request.inputs()[0]
        return of_file(source.as_numpy()[0]) if source.name() == "image" else of_pixels(source.as_numpy())
