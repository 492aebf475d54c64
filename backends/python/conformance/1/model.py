"""The conformance model of docs/backends.md: it does what the parameter "do" of a request says."""

import json
import threading
import time

import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
POLL = 0.005  # seconds between two looks at whether a request was cancelled


def echo(request):
    outputs = []
    for source, target in (("X", "Y"), ("S", "T")):
        tensor = pb_utils.get_input_tensor_by_name(request, source)
        if tensor is not None:
            outputs.append(pb_utils.Tensor(target, tensor.as_numpy()))
    return pb_utils.InferenceResponse(outputs)


def cancelled():
    return pb_utils.InferenceResponse(
        error=pb_utils.TritonError("the request was cancelled", pb_utils.TritonError.CANCELLED)
    )


def inner(request, parameters):
    return pb_utils.InferenceRequest(
        model_name=parameters["model"],
        inputs=[pb_utils.get_input_tensor_by_name(request, "X")],
        requested_output_names=[],
        trace=request.trace(),
    )


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.decoupled = pb_utils.using_decoupled_model_transaction_policy(config)
        family = pb_utils.MetricFamily("conformance_total", "Requests with metric.", pb_utils.MetricFamily.COUNTER)
        self.metric = family.Metric()

    def execute(self, requests):
        if not self.decoupled:
            return [self.one(request) for request in requests]
        for request in requests:
            threading.Thread(target=self.stream, args=(request,), daemon=True).start()

    def one(self, request):
        parameters = json.loads(request.parameters())
        return getattr(self, "do_" + parameters.get("do", "echo"))(request, parameters)

    def do_echo(self, request, parameters):
        return echo(request)

    def do_error(self, request, parameters):
        return pb_utils.InferenceResponse(
            error=pb_utils.TritonError(parameters["message"], pb_utils.TritonError.INVALID_ARG)
        )

    def do_wait(self, request, parameters):
        while not request.is_cancelled():
            time.sleep(POLL)
        return cancelled()

    def do_zeros(self, request, parameters):
        return pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros((1, parameters["count"]), np.float32))])

    def do_parameters(self, request, parameters):
        parameters.update(
            id=request.request_id(),
            correlation=request.correlation_id(),
            flags=request.flags(),
            timeout=request.timeout(),
        )
        return pb_utils.InferenceResponse([], parameters=parameters)

    def do_exec(self, request, parameters):
        return inner(request, parameters).exec()

    def do_log(self, request, parameters):
        pb_utils.Logger.log_info("a line of the conformance model")
        return echo(request)

    def do_metric(self, request, parameters):
        self.metric.increment(2)
        return echo(request)

    def stream(self, request):
        sender = request.get_response_sender()
        parameters = json.loads(request.parameters())
        if parameters["do"] == "many":
            for i in range(parameters["count"]):
                if sender.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([[i]], np.float32))]))
        elif parameters["do"] == "exec":
            for response in inner(request, parameters).exec(decoupled=True):
                if response.has_error() or response.output_tensors():
                    sender.send(response)
        else:
            while not sender.is_cancelled():
                time.sleep(POLL)
        sender.send(flags=FINAL)
