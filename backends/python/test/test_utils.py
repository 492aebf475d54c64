"""What triton_python_backend_utils.py does without a connection."""

import gc
import json
import struct
import unittest

from appliance import np, wire

import edgewise_dlpack  # after appliance, which finds it
import triton_python_backend_utils as pb

CONFIG = {
    "name": "m",
    "max_batch_size": 4,
    "input": [{"name": "a", "data_type": "TYPE_FP32", "dims": [2]}],
    "output": [],
}


def config(**more):
    return pb.ModelConfig(json.dumps({**CONFIG, **more}))


class Configurations(unittest.TestCase):
    def refused(self, message, function, *arguments):
        with self.assertRaises(ValueError) as caught:
            function(*arguments)
        self.assertEqual(str(caught.exception), message)

    def test_the_batch_size_may_not_be_smaller_than_configured(self):
        self.refused(
            "configuration specified max_batch_size 4, but in auto-complete-config function for model 'm' specified "
            "max_batch_size 3",
            config().set_max_batch_size,
            3,
        )
        changed = config()
        changed.set_max_batch_size(8)
        self.assertEqual(changed.as_dict()["max_batch_size"], 8)

    def test_another_scheduler_excludes_dynamic_batching(self):
        for other in ("sequence_batching", "ensemble_scheduling"):
            self.refused(
                "Configuration specified scheduling_choice as '%s', but auto-complete-config function for model 'm' tries to "
                "set scheduling_choice as 'dynamic_batching'" % other,
                config(**{other: {}}).set_dynamic_batching,
            )
        kept = config(dynamic_batching={"max_queue_delay_microseconds": 5})
        kept.set_dynamic_batching()
        self.assertEqual(kept.as_dict()["dynamic_batching"], {"max_queue_delay_microseconds": 5})

    def test_a_tensor_has_its_properties_and_no_others(self):
        place = "in auto-complete-config function for model 'm'"
        one = config()
        self.refused(
            "input 'b' %s contains property other than 'name', 'data_type', 'dims' and 'optional'." % place,
            one.add_input,
            {"name": "b", "reshape": {}},
        )
        self.refused(
            "output 'b' %s contains property other than 'name', 'data_type' and 'dims'." % place,
            one.add_output,
            {"name": "b", "optional": True},
        )
        self.refused("input %s is missing 'name' property." % place, one.add_input, {"data_type": "TYPE_FP32"})
        self.refused("input 'b' %s is missing 'data_type' property." % place, one.add_input, {"name": "b"})
        self.refused(
            "output 'b' %s is missing 'dims' property." % place, one.add_output, {"name": "b", "data_type": "TYPE_FP32"}
        )

    def test_a_configured_tensor_is_filled_in_but_not_contradicted(self):
        self.refused(
            "unable to load model 'm', configuration expects datatype TYPE_FP32 for input 'a', model provides TYPE_INT8",
            config().add_input,
            {"name": "a", "data_type": "TYPE_INT8", "dims": [2]},
        )
        self.refused(
            "model 'm', tensor 'a': the model expects dims [3] but the model configuration specifies dims [2]",
            config().add_input,
            {"name": "a", "data_type": "TYPE_FP32", "dims": [3]},
        )
        optional = config(input=[{"name": "a", "data_type": "TYPE_FP32", "dims": [2], "optional": True}])
        self.refused(
            "model 'm', tensor 'a': the model expects optional False but the model configuration specifies optional True",
            optional.add_input,
            {"name": "a", "data_type": "TYPE_FP32", "dims": [2], "optional": False},
        )
        filled = config(input=[{"name": "a", "data_type": "TYPE_INVALID", "dims": []}])
        filled.add_input({"name": "a", "data_type": "TYPE_INT8", "dims": [9]})
        self.assertEqual(filled.as_dict()["input"], [{"name": "a", "data_type": "TYPE_INT8", "dims": [9]}])

    def test_the_transaction_policy_is_set_once(self):
        self.refused(
            "model transaction property in auto-complete-config function for model 'm' contains property other than 'decoupled'.",
            config().set_model_transaction_policy,
            {"x": 1},
        )
        changed = config()
        changed.set_model_transaction_policy({"decoupled": True})
        self.assertTrue(pb.using_decoupled_model_transaction_policy(changed.as_dict()))
        self.refused(
            "trying to change decoupled property in auto-complete-config for model 'm', which is already set to 'True'.",
            changed.set_model_transaction_policy,
            {"decoupled": False},
        )


class Functions(unittest.TestCase):
    def test_types_are_numbered_as_tritons(self):
        names = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 object".split()
        for number, name in enumerate(names, 1):
            self.assertEqual(np.dtype(pb.triton_to_numpy_type(number)), np.dtype(name))
            self.assertEqual(pb.numpy_to_triton_type(np.dtype(name)), number)
        self.assertIs(pb.triton_string_to_numpy("TYPE_STRING"), np.object_)
        self.assertRaises(KeyError, pb.triton_string_to_numpy, "TYPE_BF16")
        self.assertIsNone(pb.triton_to_numpy_type(14))

    def test_strings_are_serialized_after_their_length(self):
        array = np.array([[b"ab", "\u00fc"], [b"", 7]], np.object_)
        data = pb.serialize_byte_tensor(array)
        self.assertEqual(data, b"\2\0\0\0ab\2\0\0\0\xc3\xbc\0\0\0\0\1\0\0\0007")
        self.assertEqual(pb.deserialize_bytes_tensor(data).tolist(), [b"ab", b"\xc3\xbc", b"", b"7"])
        self.assertEqual(
            (pb.serialize_byte_tensor(np.empty(0, object)), pb.serialize_byte_tensor(np.ones(1))), ((), None)
        )
        self.assertRaises(struct.error, pb.deserialize_bytes_tensor, b"\1\0")

    def test_tensors_are_found_by_their_names(self):
        response = pb.InferenceResponse([pb.Tensor("x", np.ones(2))])
        self.assertEqual(pb.get_output_tensor_by_name(response, "x").shape(), [2])
        self.assertIsNone(pb.get_output_tensor_by_name(response, "y"))
        self.assertEqual(pb.get_input_config_by_name(CONFIG, "a")["dims"], [2])
        self.assertIsNone(pb.get_output_config_by_name(CONFIG, "a"))

    def test_wrong_arguments_are_refused(self):
        one = pb.Tensor("x", np.ones(1))
        for error, function in (
            (pb.TritonModelException, lambda: pb.Tensor("", np.ones(1))),
            (TypeError, lambda: pb.Tensor("x", [1])),
            (pb.TritonModelException, lambda: pb.InferenceResponse([None])),
            (TypeError, lambda: pb.InferenceResponse([1])),
            (TypeError, lambda: pb.InferenceResponse(error="x")),
            (pb.TritonModelException, lambda: pb.InferenceResponse(parameters={"a": None})),
            (pb.TritonModelException, lambda: pb.InferenceResponse(parameters={1: 1})),
            (TypeError, lambda: pb.InferenceRequest(inputs=[one])),
            (
                pb.TritonModelException,
                lambda: pb.InferenceRequest(inputs=[None], requested_output_names=[], model_name="m"),
            ),
            (
                pb.TritonModelException,
                lambda: pb.InferenceRequest(inputs=[], requested_output_names=[""], model_name="m"),
            ),
            (pb.TritonModelException, lambda: pb.InferenceRequest("", 0.5, [one], [], "m")),
            (TypeError, lambda: pb.TritonError(7)),
        ):
            self.assertRaises(error, function)

    def test_an_error_has_a_code(self):
        self.assertEqual(pb.TritonError("x").code(), pb.TritonError.INTERNAL)
        self.assertEqual(
            (pb.TritonError("x", pb.TritonError.CANCELLED).code().name, pb.TritonError("y").message()),
            ("CANCELLED", "y"),
        )


class DLPack(unittest.TestCase):
    def test_memory_is_shared_in_both_directions(self):
        array = np.arange(6, dtype=np.int16).reshape(2, 3)
        read = np.from_dlpack(pb.Tensor("x", array))
        self.assertEqual((read.tolist(), read.ctypes.data), (array.tolist(), array.ctypes.data))
        tensor = pb.Tensor.from_dlpack("y", array)
        self.assertEqual(
            (tensor.name(), tensor.as_numpy().ctypes.data, tensor.triton_dtype()), ("y", array.ctypes.data, 7)
        )
        self.assertEqual(pb.Tensor("x", array).__dlpack_device__(), (1, 0))

    def test_every_data_type_goes_both_ways(self):
        for name in "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64".split():
            array = np.array([[1, 0]], name)
            tensor = pb.Tensor.from_dlpack("x", pb.Tensor("x", array).to_dlpack())
            self.assertEqual((tensor.as_numpy().tolist(), tensor.as_numpy().dtype), (array.tolist(), array.dtype))
        half = pb.Tensor.from_dlpack("x", edgewise_dlpack.capsule_of(np.array([16256], np.uint16), wire.BF16))
        self.assertEqual(half.triton_dtype(), wire.BF16)
        self.assertRaisesRegex(
            pb.TritonModelException, "^Tensor dtype is BF16 and cannot be converted to NumPy.", half.as_numpy
        )
        self.assertEqual(pb.Tensor.from_dlpack("x", np.empty((0, 2), np.int8)).shape(), [0, 2])

    def test_memory_lives_as_long_as_it_is_used_and_no_longer(self):
        before = len(edgewise_dlpack._lent)
        capsule = pb.Tensor("x", np.full(1000, 5)).to_dlpack()
        tensor = pb.Tensor.from_dlpack("x", capsule)
        del capsule
        gc.collect()
        part = tensor.as_numpy()[10:]
        del tensor
        self.assertEqual((int(part.sum()), len(edgewise_dlpack._lent)), (990 * 5, before + 1))
        del part
        pb.Tensor("x", np.ones(3)).to_dlpack()  # never read
        self.assertEqual(len(edgewise_dlpack._lent), before)

    def test_what_cannot_be_shared_is_refused(self):
        for message, function in (
            (
                "DLPack does not have support for string tensors.",
                lambda: pb.Tensor("x", np.array([b"x"], object)).to_dlpack(),
            ),
            ("Tensor name cannot be an empty string.", lambda: pb.Tensor.from_dlpack("", np.ones(1))),
            ("Provided tensor is not supported.", lambda: pb.Tensor.from_dlpack("x", [1])),
            ("DLPack tensor is not contiguous.", lambda: pb.Tensor.from_dlpack("x", np.ones((2, 3)).T)),
            ("none of Triton's", lambda: pb.Tensor.from_dlpack("x", np.ones(2, complex))),
        ):
            self.assertRaisesRegex(pb.TritonModelException, message, function)
        capsule = pb.Tensor("x", np.ones(3)).to_dlpack()
        pb.Tensor.from_dlpack("x", capsule)
        self.assertRaisesRegex(pb.TritonModelException, "was read before", pb.Tensor.from_dlpack, "x", capsule)


class Memory(unittest.TestCase):
    """The blocks of the output memory."""

    def blocks(self, size):
        return wire._Blocks(size)

    def test_the_first_free_block_is_used_and_neighbours_are_joined(self):
        blocks = self.blocks(256)
        places = [blocks.allocate(64, None, None) for _ in range(4)]
        self.assertEqual(places, [0, 64, 128, 192])
        for place in (64, 192, 128):
            blocks.release(place)
        self.assertEqual(blocks.allocate(192, None, None), 64)
        blocks.release(0)
        blocks.release(64)
        self.assertEqual(blocks._free, [(0, 256)])

    def test_what_was_not_given_is_not_taken_back(self):
        self.assertRaises(wire.ProtocolError, self.blocks(64).release, 0)

    def test_what_never_fits_is_refused_at_once(self):
        self.assertRaises(wire.BackendError, self.blocks(64).allocate, 65, None, None)


if __name__ == "__main__":
    unittest.main()
