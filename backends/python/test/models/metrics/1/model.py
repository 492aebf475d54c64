import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Counts its requests in metrics of its own, and writes a line of each level."""

    def initialize(self, args):
        family = pb_utils.MetricFamily
        self.counter = family(name="seen", description="requests seen", kind=family.COUNTER)
        self.count = self.counter.Metric(labels={"model": args["model_name"]})
        self.gauge = family("last", "the last element", pb_utils.MetricFamily.GAUGE).Metric()
        self.sizes = family("sizes", "elements", pb_utils.MetricFamily.HISTOGRAM).Metric(
            labels={"a": "b"}, buckets=[1, 10]
        )
        self.refused = []
        for attempt in (
            lambda: self.count.increment(-1),
            lambda: self.count.set(1),
            lambda: self.sizes.value(),
            lambda: self.gauge.observe(1),
            lambda: self.counter.Metric(buckets=[1]),
            lambda: self.counter.Metric(labels="x"),
            lambda: family("h", "", pb_utils.MetricFamily.HISTOGRAM).Metric(),
        ):
            try:
                attempt()
            except pb_utils.TritonModelException as error:
                self.refused.append(str(error))

    def execute(self, requests):
        responses = []
        for request in requests:
            value = request.inputs()[0].as_numpy()
            self.count.increment(1)
            self.gauge.set(float(value[0]))
            self.sizes.observe(value.size)
            log = pb_utils.Logger
            log.log_info("info"), log.log_warn("warn"), log.log_error("error"), log.log_verbose("verbose")
            log.log("plain"), log.log("level", log.ERROR)
            text = ["%g" % self.count.value(), "%g" % self.gauge.value()] + self.refused
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(text, np.object_))]))
        return responses
