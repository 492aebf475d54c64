"""Triton's Python models over the protocol: what serve.py and triton_python_backend_utils.py do with them."""

import json
import os
import queue
import shutil
import sys
import tempfile
import unittest

from appliance import MODELS, Appliance, Failed, configuration, np, wire

INT, FLOAT, STRING = "TYPE_INT32", "TYPE_FP32", "TYPE_STRING"
DECOUPLED = {"model_transaction_policy": {"decoupled": True}}


def model(name, *args, models=None, **more):
    start = {key: more.pop(key) for key in ("complete", "describe", "taking", "log", "environment") if key in more}
    return Appliance(os.path.join(MODELS, name), configuration(name, *args, **more), models=models, **start)


def source(text, **files):
    """Return the folder of a model of this text."""
    folder = tempfile.mkdtemp()
    os.mkdir(folder + "/1")
    for name, content in {"1/model.py": text, **files}.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(content)
    return folder


class Written(unittest.TestCase):
    """Tests with models of a few lines."""

    def folder(self, text, **files):
        folder = source(text, **files)
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def failure(self, text, files=None, version="1", **more):
        with self.assertRaises(Failed) as caught:
            Appliance(self.folder(text, **(files or {})), configuration("m", **more), version=version)
        return str(caught.exception)


class Loading(Written):
    def test_a_syntax_error_names_file_and_line(self):
        self.assertEqual(self.failure("x = 1\nfor\n"), "SyntaxError: invalid syntax (1/model.py, line 2)")

    def test_a_missing_module_is_named_with_the_line_that_wants_it(self):
        self.assertEqual(
            self.failure("import os\nimport no_such_thing\n"),
            "ModuleNotFoundError: No module named 'no_such_thing'\n\nAt:\n  1/model.py(2): <module>\n",
        )

    def test_a_file_without_the_class_is_refused(self):
        self.assertEqual(self.failure("x = 1"), "1/model.py has no class TritonPythonModel")

    def test_a_model_without_execute_is_refused(self):
        self.assertEqual(
            self.failure("class TritonPythonModel: pass"), "Python model model.py does not implement `execute` method."
        )

    def test_an_exception_of_initialize_has_its_lines_from_the_innermost(self):
        text = "import helper\nclass TritonPythonModel:\n  def initialize(self, args):\n    helper.fail()\n  def execute(self, r): pass\n"
        self.assertEqual(
            self.failure(text, {"1/helper.py": "def fail():\n  raise ValueError('no luck')\n"}),
            "ValueError: no luck\n\nAt:\n  1/helper.py(2): fail\n  1/model.py(4): initialize\n",
        )

    def test_a_model_that_exits_in_initialize_is_refused(self):
        text = "import sys\nclass TritonPythonModel:\n  def initialize(self, args):\n    sys.exit(3)\n  def execute(self, r): pass\n"
        self.assertIn("SystemExit: 3", self.failure(text))

    def test_a_missing_file_is_named(self):
        self.assertEqual(
            self.failure("", default_model_filename="other.py"), "Python model file not found in '1/other.py'"
        )

    def test_a_model_imports_its_neighbours_and_by_relative_names(self):
        text = (
            "import beside, above\nfrom . import beside as same\nimport numpy as np\nimport triton_python_backend_utils as pb\n"
            "class TritonPythonModel:\n  def execute(self, requests):\n"
            "    out = np.array([beside.x + above.x + same.x, __name__, beside.serve.y], object)\n"
            "    return [pb.InferenceResponse([pb.Tensor('OUT', out)])]\n"
        )
        files = {"1/beside.py": "x = 'a'\nimport serve\n", "above.py": "x = 'b'\n", "1/serve.py": "y = 'theirs'\n"}
        with Appliance(self.folder(text, **files), configuration("m", (), [("OUT", STRING, [-1])])) as box:
            self.assertEqual(box.infer()[0].outputs["OUT"].tolist(), [b"aba", b"1.model", b"theirs"])

    def test_the_configuration_is_completed(self):
        with model("complete", complete=True) as box:
            completed = box.ready["configuration"]
            self.assertEqual(completed["input"], [{"name": "IN", "data_type": FLOAT, "dims": [4], "optional": True}])
            self.assertEqual(completed["output"], [{"name": "OUT", "data_type": FLOAT, "dims": [4]}])
            self.assertEqual((completed["max_batch_size"], completed["dynamic_batching"]), (4, {}))
            self.assertEqual(box.infer(("IN", np.ones((1, 4), np.float32)))[0].outputs["OUT"].tolist(), [[2, 2, 2, 2]])

    def test_only_the_configuration_is_given_when_no_more_is_wanted(self):
        box = model("complete", complete=True, describe=True)
        self.assertEqual(box.ready["configuration"]["max_batch_size"], 4)
        box.close(0)

    def test_the_configuration_stays_when_completion_is_off(self):
        box = model("complete", complete=False, describe=True)
        self.assertEqual(box.ready["configuration"]["input"], [])
        box.close(0)

    def test_auto_complete_config_must_return_a_configuration(self):
        text = "class TritonPythonModel:\n  @staticmethod\n  def auto_complete_config(config): return 1\n  def execute(self, r): pass\n"
        with self.assertRaisesRegex(
            Failed, "^auto_complete_config function in model 'm' must return a valid pb.ModelConfig object.$"
        ):
            Appliance(self.folder(text), configuration("m"), complete=True)

    def test_a_conflict_with_the_configuration_is_refused(self):
        with self.assertRaisesRegex(
            Failed,
            "ValueError: unable to load model 'complete', configuration expects datatype TYPE_INT32 "
            "for input 'IN', model provides TYPE_FP32\n\nAt:\n  1/model.py\\(9\\): auto_complete_config",
        ):
            model("complete", [("IN", INT, [4])], complete=True)


class Environments(Written):
    TEXT = (
        "import numpy as np\nimport triton_python_backend_utils as pb\nimport its_own\nclass TritonPythonModel:\n"
        "  def execute(self, requests):\n"
        "    return [pb.InferenceResponse([pb.Tensor('OUT', np.array([its_own.x], object))])]\n"
    )
    HERE = "lib/python%d.%d/site-packages/its_own.py" % sys.version_info[:2]

    def answer(self, folder, path=None, **more):
        parameters = {"parameters": {"EXECUTION_ENV_PATH": {"string_value": path}}} if path else {}
        with Appliance(folder, configuration("m", (), [("OUT", STRING, [-1])], **parameters), **more) as box:
            return box.infer()[0].outputs["OUT"].tolist()

    def test_a_venv_in_the_version_or_the_model_is_used(self):
        for place in ("1/venv/", "venv/"):
            self.assertEqual(self.answer(self.folder(self.TEXT, **{place + self.HERE: "x = 'venv'"})), [b"venv"])

    def test_execution_env_path_names_a_folder_of_the_model(self):
        folder = self.folder(self.TEXT, **{"env/" + self.HERE: "x = 'named'"})
        self.assertEqual(self.answer(folder, "$$TRITON_MODEL_DIRECTORY/env"), [b"named"])
        self.assertEqual(self.answer(folder, folder + "/env"), [b"named"])

    def test_its_packages_come_before_those_of_the_system(self):
        folder = self.folder(
            self.TEXT.replace("import its_own", "import json, its_own"),
            **{
                "venv/" + self.HERE: "import wave; x = wave.x",
                "venv/" + self.HERE.replace("its_own", "wave"): "x = 'w'",
            }
        )
        self.assertEqual(self.answer(folder), [b"w"])

    def test_pythonpath_of_the_backend_is_used(self):
        extra = self.folder("", **{"its_own.py": "x = 'path'"})
        self.assertEqual(self.answer(self.folder(self.TEXT), environment={"PYTHONPATH": extra}), [b"path"])

    def test_what_cannot_be_used_is_said(self):
        folder = self.folder(self.TEXT, **{"old/lib/python3.6/site-packages/x.py": "", "env.tar.gz": "", "empty/x": ""})
        for path, message in (
            ("$$TRITON_MODEL_DIRECTORY/../..", "leaves the folder of the model"),
            ("$$TRITON_MODEL_DIRECTORY/env.tar.gz", "is a file: unpack it"),
            ("$$TRITON_MODEL_DIRECTORY/none", "No such file or directory"),
            ("$$TRITON_MODEL_DIRECTORY/old", "is made for python3.6, and the backend runs python3."),
            ("$$TRITON_MODEL_DIRECTORY/empty", "has no folder lib/python3."),
        ):
            with self.subTest(path), self.assertRaisesRegex(Failed, message):
                self.answer(folder, path)


class Executing(unittest.TestCase):
    def test_a_batch_is_answered_request_by_request(self):
        io = [("INPUT0", FLOAT, [4]), ("INPUT1", FLOAT, [4])], [("OUTPUT0", FLOAT, [4]), ("OUTPUT1", FLOAT, [4])]
        with model("add_sub", *io) as box:
            one, other = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)
            calls = box.run([("INPUT0", one), ("INPUT1", other)], [("INPUT0", other), ("INPUT1", one)])
            for call, sign in zip(calls, (1, -1)):
                response = box.next()
                self.assertEqual((response.call, response.final, response.error), (call, True, None))
                self.assertEqual(response.outputs["OUTPUT0"].tolist(), (one + other).tolist())
                self.assertEqual(response.outputs["OUTPUT1"].tolist(), (sign * (one - other)).tolist())
            box.dones.get(timeout=60)
            self.assertEqual(box.reads, [0])
            only = box.infer(("INPUT0", one), ("INPUT1", other), wanted=["OUTPUT1"])[0]
            self.assertEqual(list(only.outputs), ["OUTPUT1"])

    def test_every_data_type_arrives_and_returns(self):
        arrays = [np.array([[1, 0, 1]], name) for name in wire._NAMES.values() if name not in ("object", "uint16")]
        arrays += [
            np.array([[7, 8]], np.uint16),
            np.array([[b"\0x", b""], ["\u00fc".encode(), b"y" * 70000]], np.object_),
            np.zeros((0, 3), np.float32),
            np.array(5, np.int64),
            np.empty((0,), np.object_),
        ]
        inputs = [("I%d" % i, array) for i, array in enumerate(arrays)] + [("BF16", np.array([16256, 1], np.uint16))]
        config = configuration("every_input", (), [("ABOUT", STRING, [1])])
        config["output"] += [{"name": "OUT_" + name} for name, _ in inputs]
        with Appliance(os.path.join(MODELS, "every_input"), config) as box:
            response = box.infer(*inputs)[0]
            self.assertIsNone(response.error)
            about = json.loads(response.outputs["ABOUT"][0])
            self.assertEqual(about["types"], [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 3, 13, 11, 9, 13, 14])
            for name, array in inputs:
                got = response.outputs["OUT_" + name]
                self.assertEqual((got.shape, got.dtype), (array.shape, array.dtype), name)
                if array.dtype == object or name == "BF16":
                    self.assertEqual(got.tolist(), array.tolist())
            self.assertEqual(response.datatypes["OUT_BF16"], wire.BF16)

    def test_a_request_tells_what_the_client_said(self):
        with model("every_input", (), [("ABOUT", STRING, [1])]) as box:
            said = {"id": "r1", "correlation": 7, "flags": 3, "timeout": 99}
            parameters = {"a": True, "b": 5, "c": "x", "d": 0.5, "edgewise.traceparent": "00-1"}
            response = box.infer(("IN", np.zeros(1, np.float32)), parameters=parameters, **said)[0]
            about = json.loads(response.outputs["ABOUT"][0])
            self.assertEqual({key: about[key] for key in said}, said)
            self.assertEqual(about["parameters"], {"a": True, "b": 5, "c": "x", "d": 0.5})
            self.assertEqual(json.loads(about["trace"]), {"traceparent": "00-1"})
            self.assertEqual((about["wanted"], about["cpu"], about["batch"]), (["ABOUT"], [True], 1))
            self.assertEqual(response.parameters, {"answer": 42, "sure": True, "who": "me"})
            self.assertEqual(json.loads(box.infer(correlation="text")[0].outputs["ABOUT"][0])["correlation"], "text")
            args = about["args"]
            self.assertEqual(json.loads(args.pop("model_config"))["name"], "every_input")
            folder = os.path.join(MODELS, "every_input")
            self.assertEqual(
                args,
                {
                    "model_instance_kind": "CPU",
                    "model_instance_device_id": "0",
                    "model_instance_name": "every_input_0_0",
                    "model_repository": folder,
                    "model_version": "1",
                    "model_name": "every_input",
                },
            )
            self.assertEqual(about["directory"], os.path.join(folder, "1"))

    def test_memory_of_answers_is_used_again(self):
        with model("every_input", (), [("ABOUT", STRING, [1]), ("OUT_IN", FLOAT, [-1])]) as box:
            places = {box.infer(("IN", np.ones(1 << 20, np.float32)))[0].blocks[0] for _ in range(30)}
            self.assertEqual(len(places), 1)


class Faults(unittest.TestCase):
    NAME = "Failed to process the request(s) for model 'faulty_0_0', message: "

    @classmethod
    def setUpClass(cls):
        cls.box = model("faulty", [("IN", STRING, [1])], [("OUT", FLOAT, [1])])

    @classmethod
    def tearDownClass(cls):
        cls.box.stop()

    def ask(self, what, count=1):
        self.box.run(*[[("IN", np.array([what], np.object_))]] * count)
        responses = [self.box.next() for _ in range(count)]
        self.assertTrue(all(response.final for response in responses))
        self.box.dones.get(timeout=60)
        return responses

    def error(self, what, code, message):
        for response in self.ask(what):
            self.assertEqual(response.error, (code, message))
        self.assertIsNone(self.ask("errors")[0].error)  # the next request is served

    def test_an_error_belongs_to_its_request(self):
        good, bad = self.ask("errors", 2)
        self.assertEqual((good.error, bad.error), (None, (wire.NOT_FOUND, "none of it")))

    def test_an_error_is_internal_when_its_model_says_nothing(self):
        self.error("default_error", wire.INTERNAL, "an error")

    def test_an_exception_fails_all_requests_of_a_batch(self):
        message = self.NAME + "ValueError: out of luck\n\nAt:\n  1/model.py(31): raises\n  1/model.py(17): execute\n"
        self.assertEqual([each.error for each in self.ask("raises", 2)], [(wire.INTERNAL, message)] * 2)
        self.assertIn((wire.ERRORS, message), self.box.logs)
        self.assertIn("TritonModelException: out of luck\n\nAt:", self.ask("raises_ours")[0].error[1])
        self.assertIn("SystemExit: 3", self.ask("exits")[0].error[1])

    def test_a_wrong_return_of_execute_is_an_error_in_the_words_of_triton(self):
        wrong = self.NAME + "Expected a list in the execute return, found type '<class 'tuple'>'."
        self.error("tuples", wire.INTERNAL, wrong)
        self.error(
            "short",
            wire.INTERNAL,
            self.NAME + "Number of InferenceResponse objects do not match the number of InferenceRequest "
            "objects. InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0\n",
        )
        self.error(
            "numbers",
            wire.INTERNAL,
            self.NAME + "Expected an 'InferenceResponse' object in the execute function return list, "
            "found type '<class 'int'>'.",
        )

    def test_a_request_that_is_let_go_is_answered(self):
        for what in ("none", "nothing"):
            self.error(what, wire.INTERNAL, "the model released the request without its last response")

    def test_a_model_may_answer_by_the_sender(self):
        self.assertEqual([each.outputs["OUT"].tolist() for each in self.ask("sender", 2)], [[1], [1]])

    def test_a_second_answer_is_refused(self):
        self.assertIsNone(self.ask("twice")[0].error)
        self.assertTrue(
            any("Non-decoupled model cannot send more than one response." in text for _, text in self.box.logs)
        )
        self.assertIn(
            "Non-decoupled model cannot send complete final before sending a response.",
            self.ask("only_final")[0].error[1],
        )

    def test_outputs_have_their_declared_types(self):
        self.assertEqual(self.ask("double")[0].outputs["OUT"].dtype, np.float32)
        self.assertTrue(
            any("output 'OUT' has data type FP64 and is converted to FP32" in text for _, text in self.box.logs)
        )
        self.error(
            "wrong_type", wire.INTERNAL, "output 'OUT' has data type STRING, the configuration of the model says FP32"
        )
        self.assertIn("numpy's data type complex128 is none of Triton's", self.ask("complex")[0].error[1])

    def test_outputs_that_nobody_asked_for_are_left_out(self):
        self.assertEqual(list(self.ask("undeclared")[0].outputs), ["OUT"])

    def test_an_answer_larger_than_the_memory_is_an_error(self):
        self.error(
            "huge", wire.INTERNAL, "tensors of 20971520 bytes do not fit into the output memory of 16777216 bytes"
        )

    def test_arrays_in_other_orders_are_answered(self):
        self.assertEqual(self.ask("strided")[0].outputs["OUT"].tolist(), [[0, 3], [1, 4], [2, 5]])

    def test_a_request_is_executed_again_when_the_model_asks_for_it(self):
        self.box.run([("IN", np.array([b"again"], np.object_))])
        self.assertEqual(self.box.next().outputs["OUT"].tolist(), [1])
        self.box.dones.get(timeout=60)
        self.assertIn(
            "Expected a None object in the execute function return list for reschduled request",
            self.ask("rescheduled_answer")[0].error[1],
        )


class Decoupled(unittest.TestCase):
    IO = [("IN", INT, [-1])], [("OUT", INT, [1])]

    def test_responses_arrive_in_order_and_end_with_an_empty_one(self):
        with model("repeat", *self.IO, **DECOUPLED) as box:
            *responses, last = box.infer(("IN", np.arange(1000, dtype=np.int32)))
            self.assertEqual([int(each.outputs["OUT"][0]) for each in responses], list(range(1000)))
            self.assertEqual([each.parameters["index"] for each in responses], list(range(1000)))
            self.assertTrue(last.empty and last.final and not any(each.final for each in responses))

    def test_a_sender_waits_until_its_responses_are_taken(self):
        with model("repeat", *self.IO, taking=False, **DECOUPLED) as box:
            box.run([("IN", np.arange(200, dtype=np.int32))])
            box.dones.get(timeout=60)  # execute waits for nobody
            got = [box.next() for _ in range(64)]
            with self.assertRaises(queue.Empty):
                box.responses.get(timeout=0.2)
            box.take(got[0])
            self.assertEqual(int(box.next().outputs["OUT"][0]), 64)
            box.run([("IN", np.arange(3, dtype=np.int32))])  # another call is served meanwhile
            others = [box.next() for _ in range(4)]
            self.assertEqual([int(each.outputs["OUT"][0]) for each in others[:3]], [0, 1, 2])
            box.taking = True
            for each in got[1:] + others[:3]:
                box.take(each)
            while not box.next().final:
                pass

    def test_a_cancelled_request_is_told_to_the_sender(self):
        with model("repeat", *self.IO, taking=False, **DECOUPLED) as box:
            (call,) = box.run([("IN", np.arange(100, dtype=np.int32))])
            got = [box.next() for _ in range(64)]
            box.cancel(call)
            box.taking = True
            for each in got:
                box.take(each)
            responses = [box.next()]
            while not responses[-1].final:
                responses.append(box.next())
            self.assertLess(len(responses), 36)

    def test_a_coroutine_answers_after_execute(self):
        with model("coroutine", *self.IO, **DECOUPLED) as box:
            calls = [box.run([("IN", np.array([n], np.int32))])[0] for n in (50, 3)]
            ended = {}
            while len(ended) < 2:
                response = box.next()
                ended.update({response.call: response} if response.final else {})
            self.assertEqual(sorted(ended), calls)

    def test_an_exception_of_a_coroutine_ends_the_request(self):
        with model("coroutine", *self.IO, **DECOUPLED) as box:
            box.run([("IN", np.array([-2], np.int32))])
            responses = [box.next() for _ in range(3)]
            self.assertIn(
                "message: ValueError: a negative number\n\nAt:\n  1/model.py(18): execute", responses[2].error[1]
            )

    def test_execute_of_a_decoupled_model_returns_nothing(self):
        with model(
            "add_sub",
            [("INPUT0", FLOAT, [1]), ("INPUT1", FLOAT, [1])],
            [("OUTPUT0", FLOAT, [1]), ("OUTPUT1", FLOAT, [1])],
            **DECOUPLED
        ) as box:
            one = np.zeros(1, np.float32)
            self.assertEqual(
                box.infer(("INPUT0", one), ("INPUT1", one))[0].error[1],
                "Failed to process the request(s) for model 'add_sub_0_0', message: Python model 'add_sub_0_0' is using the "
                "decoupled mode and the execute function must return None.",
            )


class Calling(unittest.TestCase):
    """Requests of a model to other models."""

    def setUp(self):
        def plus_one(request):
            self.seen.append(request)
            return [[("OUT", request.inputs["IN"] + 1)]]

        def stream(request):
            count = int(request.inputs["IN"][0])
            return [[("OUT", np.array([i], np.int32))] for i in range(count)] + [[]]

        def control(request):
            return (
                {"error": {"code": wire.NOT_FOUND, "message": "no such model"}}
                if request.get("load") == "broken"
                else {"ready": True}
            )

        self.seen = []
        self.box = model(
            "caller", (), [("OUT", STRING, [1])], models={"plus": plus_one, "stream": stream, "control": control}
        )
        self.addCleanup(self.box.stop)

    def ask(self, how, name="plus"):
        response = self.box.infer(parameters={"how": how, "model": name})[0]
        self.assertIsNone(response.error)
        return response.outputs["OUT"][0].decode()

    def test_a_request_carries_all_that_the_model_gives_it(self):
        self.assertEqual(self.ask("once"), "21")
        (request,) = self.seen
        self.assertEqual((request.model, request.version, request.id, request.correlation), ("plus", 3, "inner", "s"))
        self.assertEqual(
            (request.flags, request.timeout, request.parameters, request.wanted), (3, 7, {"a": 1}, ["OUT"])
        )
        self.assertEqual((request.call, request.decoupled), (2, False))

    def test_many_requests_run_at_once(self):
        self.assertEqual(json.loads(self.ask("together")), list(range(1, 21)))

    def test_responses_of_a_decoupled_model_are_iterated_and_iterated_again(self):
        self.assertEqual(json.loads(self.ask("stream", "stream")), [[0, 1, 2, 3, 4]] * 2)
        self.assertEqual(json.loads(self.ask("async_stream", "stream")), [0, 1, 2, 3, 4])

    def test_a_stream_is_cancelled(self):
        self.assertEqual(self.ask("cancel", "stream"), "cancelled")
        self.assertEqual(len(self.box.drops), 1)

    def test_the_memory_of_replies_that_nobody_reads_is_given_back(self):
        self.ask("abandon", "stream")
        self.ask("once")  # sent after what the other thread gives back
        for _ in range(100):
            if len(self.box.reads) >= 51:
                break
            self.ask("once")
        self.assertGreaterEqual(len(self.box.reads), 51)

    def test_an_error_of_the_other_model_is_read_with_its_code(self):
        self.assertEqual(self.ask("error", "missing"), "NOT_FOUND no model 'missing'")

    def test_models_are_loaded_and_unloaded(self):
        self.assertEqual(
            self.ask("control", "plus"), "True; no such model; BLS is only supported during the 'execute' function."
        )
        self.assertEqual(
            self.box.controls,
            [
                {"ready": "plus", "version": "1"},
                {"load": "plus", "config": "{}", "files": {"file:1/model.onnx": "AAE="}},
                {"unload": "plus", "unload_dependents": True},
                {"load": "broken"},
            ],
        )


class Rest(unittest.TestCase):
    def test_metrics_and_log_lines_are_told(self):
        with model("metrics", [("IN", FLOAT, [-1])], [("OUT", STRING, [-1])]) as box:
            box.infer(("IN", np.array([2.5, 1], np.float32)))
            got = box.infer(("IN", np.array([7], np.float32)))[0].outputs["OUT"].tolist()
            self.assertEqual(got[:2], [b"2", b"7"])
            self.assertEqual(
                [each.decode() for each in got[2:]],
                [
                    "Failed to increment metric value: TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative "
                    "values.",
                    "Failed to set metric value: TRITONSERVER_METRIC_KIND_COUNTER does not support Set",
                    "Failed to get metric value: TRITONSERVER_METRIC_KIND_HISTOGRAM does not support Value",
                    "Failed to observe metric value: TRITONSERVER_METRIC_KIND_GAUGE does not support Observe",
                    "Failed to create metric. Unexpected buckets found.",
                    "Failed to create metric. Labels must be a dictionary.",
                    "Failed to create metric. Missing required buckets.",
                ],
            )
            self.assertEqual(
                box.metrics[0], {"op": "family", "family": "seen", "description": "requests seen", "kind": "counter"}
            )
            self.assertIn(
                {"op": "metric", "family": "sizes", "labels": {"a": "b"}, "buckets": [1.0, 10.0]}, box.metrics
            )
            self.assertIn({"op": "observe", "family": "sizes", "labels": {"a": "b"}, "value": 2.0}, box.metrics)
            self.assertIn(
                {"op": "increment", "family": "seen", "labels": {"model": "metrics"}, "value": 1.0}, box.metrics
            )
            self.assertEqual(
                box.logs[:5],
                [
                    (wire.INFO, "info"),
                    (wire.WARNING, "warn"),
                    (wire.ERRORS, "error"),
                    (wire.INFO, "plain"),
                    (wire.ERRORS, "level"),
                ],
            )

    def test_a_model_says_itself_whether_it_is_ready(self):
        with model("ready") as box:
            self.assertTrue(box.ready["checks"])
            self.assertEqual(box.check(), (True, ""))
            box.infer()
            self.assertEqual(box.check(), (False, "is_ready() returned False"))
            box.infer()
            ready, reason = box.check()
            self.assertFalse(ready)
            self.assertIn("ValueError: asked too often", reason)

    def test_a_process_ends_when_the_appliance_is_gone(self):
        box = model("ready")
        box._socket.shutdown(2)
        box.close(1)


if __name__ == "__main__":
    unittest.main()
