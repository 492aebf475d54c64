import asyncio
import json

import numpy as np
import triton_python_backend_utils as pb_utils


def request(model, value, **more):
    return pb_utils.InferenceRequest(
        model_name=model,
        requested_output_names=["OUT"],
        inputs=[pb_utils.Tensor("IN", np.array([value], np.int32))],
        **more
    )


def value(response):
    if response.has_error():
        raise pb_utils.TritonModelException(response.error().message())
    return int(pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()[0])


class TritonPythonModel:
    """Calls the model of the parameter "model" in the way of the parameter "how"."""

    def initialize(self, args):
        try:
            request("any", 1).exec()
        except pb_utils.TritonModelException as error:
            self.refused = str(error)

    async def execute(self, requests):
        return [await self.answer(each) for each in requests]

    async def answer(self, each):
        how = json.loads(each.parameters())
        result = await getattr(self, how["how"])(how["model"], each)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([result], np.object_))])

    async def once(self, model, each):
        return str(
            value(
                request(
                    model.encode(),
                    20,
                    request_id="inner",
                    correlation_id="s",
                    model_version=3,
                    flags=3,
                    timeout=7,
                    trace=each.trace(),
                    parameters={"a": 1},
                    preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU),
                ).exec()
            )
        )

    async def together(self, model, each):
        responses = await asyncio.gather(*[request(model, i).async_exec() for i in range(20)])
        return json.dumps([value(response) for response in responses])

    async def stream(self, model, each):
        responses = request(model, 5).exec(decoupled=True)
        first = [value(response) for response in responses if response.output_tensors()]
        return json.dumps([first, [value(response) for response in responses if response.output_tensors()]])

    async def async_stream(self, model, each):
        return json.dumps(
            [
                value(response)
                for response in await request(model, 5).async_exec(decoupled=True)
                if response.output_tensors()
            ]
        )

    async def cancel(self, model, each):
        responses = request(model, 5).exec(decoupled=True)
        next(responses)
        responses.cancel()
        return "cancelled"

    async def abandon(self, model, each):
        for _ in range(10):
            next(request(model, 5).exec(decoupled=True))
        return "abandoned"

    async def error(self, model, each):
        error = request(model, 1).exec().error()
        return "%s %s" % (error.code().name, error.message())

    async def control(self, model, each):
        ready = pb_utils.is_model_ready(model, "1")
        pb_utils.load_model(model, config="{}", files={"file:1/model.onnx": b"\0\1"})
        pb_utils.unload_model(model_name=model, unload_dependents=True)
        try:
            pb_utils.load_model("broken")
        except pb_utils.TritonModelException as error:
            return "%s; %s; %s" % (ready, error, self.refused)
