"""A client of the gRPC protocol made with Debian's own tools: python3 grpc_client.py GENERATED ADDRESS REGION."""

import mmap
import os
import struct
import sys

sys.path.insert(0, sys.argv[1])  # where protoc has put the generated modules

import grpc
import grpc_service_pb2 as pb
import grpc_service_pb2_grpc as service

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def request(values, id="", raw=True):
    """Asks the model echo, which answers with what it got."""
    r = pb.ModelInferRequest(model_name="echo", id=id)
    t = r.inputs.add(name="x", datatype="FP32", shape=[1, len(values)])
    if raw:
        r.raw_input_contents.append(struct.pack("<%df" % len(values), *values))
    else:
        t.contents.fp32_contents.extend(values)
    return r


def check(answer, values, id=""):
    (out,) = answer.outputs
    assert (answer.model_name, answer.model_version, answer.id) == ("echo", "1", id), answer
    assert (out.name, out.datatype, list(out.shape)) == ("y", "FP32", [1, len(values)]), out
    assert list(struct.unpack("<%df" % len(values), answer.raw_output_contents[0])) == list(values)


def infer(stub):
    four = [1.5, -2.0, 0.0, 0.25]
    check(stub.ModelInfer(request(four, "a")), four, "a")
    check(stub.ModelInfer(request(four, raw=False)), four)
    large = [float(i % 1000) for i in range(1 << 20)]
    for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate):
        check(stub.ModelInfer(request(large), compression=compression), large)
    try:
        stub.ModelInfer(pb.ModelInferRequest(model_name="dog"))
        raise AssertionError("an unknown model was found")
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.NOT_FOUND, e
        assert e.details() == "Request for unknown model: 'dog' is not found", e


def stream(stub):
    asked = [request([float(i)] * 4, str(i)) for i in range(50)]
    asked[7].model_name = "dog"
    answers = list(stub.ModelStreamInfer(iter(asked)))
    assert len(answers) == 50, len(answers)
    for i, a in enumerate(answers):
        if i == 7:
            assert "unknown model: 'dog'" in a.error_message and a.infer_response.id == "7", a
        else:
            assert a.error_message == "", a
            check(a.infer_response, [float(i)] * 4, str(i))


def step(sequence, x, start=False, end=False):
    """Asks the model sums to add x and 1 to what its sequence has come to. It begins at 100 and 0."""
    r = pb.ModelInferRequest(model_name="sums", id=str(sequence))
    r.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    r.raw_input_contents.append(struct.pack("<2f", x, 1))
    r.outputs.add(name="y")
    r.outputs.add(name="id")
    r.parameters["sequence_id"].int64_param = sequence
    r.parameters["sequence_start"].bool_param = start
    r.parameters["sequence_end"].bool_param = end
    return r


def summed(answer, sequence, total, steps):
    assert [o.name for o in answer.outputs] == ["y", "id"], answer
    assert struct.unpack("<2f", answer.raw_output_contents[0]) == (total, steps), answer
    assert struct.unpack("<q", answer.raw_output_contents[1]) == (sequence,), answer


def sequences(stub):
    for i in range(5):  # two sequences in turn, one call each
        for sequence in (42, 7):
            summed(stub.ModelInfer(step(sequence, sequence, i == 0, i == 4)), sequence, 100 + sequence * (i + 1), i + 1)
    refused(stub, step(42, 1), "inference request for sequence 42 to model 'sums' must specify the START flag on the first request of the sequence")
    refused(stub, step(0, 1, True), "inference request to model 'sums' must specify a non-zero or non-empty correlation ID")
    named = step(1, 1, True)
    named.parameters["sequence_id"].string_param = "a"
    refused(stub, named, "sequence batching control 'CORRID' data-type is 'BYTES', but model 'sums' expects 'INT64'")
    asked = [step(s, s, i == 0, i == 9) for i in range(10) for s in (1, 2, 3)]
    asked.append(step(2, 1))
    answers = list(stub.ModelStreamInfer(iter(asked)))
    assert len(answers) == 31, len(answers)
    for n, a in enumerate(answers[:30]):
        i, s = n // 3, n % 3 + 1
        assert a.error_message == "", a
        summed(a.infer_response, s, 100 + s * (i + 1), i + 1)
    assert "sequence 2 to model 'sums' must specify the START flag" in answers[30].error_message, answers[30]


    batching = stub.ModelConfig(pb.ModelConfigRequest(name="sums")).config.sequence_batching
    assert batching.max_sequence_idle_microseconds == 60000000, batching
    assert [c.control[0].kind for c in batching.control_input] == [0, 3], batching
    assert batching.state[0].initial_state[0].data_file == "begin" and list(batching.state[0].dims) == [2], batching
    stats = stub.ModelStatistics(pb.ModelStatisticsRequest(name="sums")).model_stats[0]
    assert stats.inference_stats.success.count == 40 and stats.inference_count == 40, stats


def refused(stub, request, text):
    try:
        stub.ModelInfer(request)
        raise AssertionError("not refused: " + text)
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.INVALID_ARGUMENT and e.details() == text, e


def shared(stub, region):
    path = "/dev/shm/" + region
    with open(path, "w+b") as f:
        try:
            f.truncate(4096)
            memory = mmap.mmap(f.fileno(), 4096)
            memory[0:16] = struct.pack("<4f", 1, 2, 3, 4)
            stub.SystemSharedMemoryRegister(pb.SystemSharedMemoryRegisterRequest(name="r", key="/" + region, byte_size=4096))
            assert stub.SystemSharedMemoryStatus(pb.SystemSharedMemoryStatusRequest()).regions["r"].byte_size == 4096
            r = pb.ModelInferRequest(model_name="echo")
            place(r.inputs.add(name="x", datatype="FP32", shape=[1, 4]), 0)
            place(r.outputs.add(name="y"), 1024)
            answer = stub.ModelInfer(r)
            assert answer.raw_output_contents[0] == b"", answer
            assert struct.unpack("<4f", memory[1024:1040]) == (1, 2, 3, 4)
            stub.SystemSharedMemoryUnregister(pb.SystemSharedMemoryUnregisterRequest(name="r"))
            memory.close()
        finally:
            os.unlink(path)


def place(tensor, offset):
    tensor.parameters["shared_memory_region"].string_param = "r"
    tensor.parameters["shared_memory_offset"].int64_param = offset
    tensor.parameters["shared_memory_byte_size"].int64_param = 16


def describe(stub):
    assert stub.ServerLive(pb.ServerLiveRequest()).live and stub.ServerReady(pb.ServerReadyRequest()).ready
    assert stub.ServerMetadata(pb.ServerMetadataRequest()).name == "triton"
    assert stub.ModelReady(pb.ModelReadyRequest(name="echo", version="1")).ready
    meta = stub.ModelMetadata(pb.ModelMetadataRequest(name="echo"))
    assert list(meta.versions) == ["1"] and meta.inputs[0].datatype == "FP32" and meta.inputs[0].shape[0] == -1, meta
    config = stub.ModelConfig(pb.ModelConfigRequest(name="echo")).config
    assert config.platform == "onnxruntime_onnx" and config.max_batch_size > 0, config
    stats = stub.ModelStatistics(pb.ModelStatisticsRequest(name="echo")).model_stats
    assert stats[0].inference_stats.success.count > 50, stats
    index = stub.RepositoryIndex(pb.RepositoryIndexRequest()).models
    assert [(m.name, m.version, m.state) for m in index] == [("echo", "1", "READY"), ("sums", "1", "READY")], index
    stub.RepositoryModelUnload(pb.RepositoryModelUnloadRequest(model_name="echo"))
    stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="echo"))
    assert stub.ModelReady(pb.ModelReadyRequest(name="echo")).ready


def settings(stub):
    ask = pb.TraceSettingRequest(model_name="echo")
    ask.settings["trace_level"].value.extend(["TIMESTAMPS", "TENSORS"])
    ask.settings["trace_rate"].value.append("7")
    held = stub.TraceSetting(ask).settings
    assert list(held["trace_level"].value) == ["TIMESTAMPS", "TENSORS"] and list(held["trace_rate"].value) == ["7"], held
    assert list(stub.TraceSetting(pb.TraceSettingRequest()).settings["trace_level"].value) == ["OFF"]
    clear = pb.TraceSettingRequest(model_name="echo")
    clear.settings["trace_level"].SetInParent()
    assert list(stub.TraceSetting(clear).settings["trace_level"].value) == ["OFF"]
    log = pb.LogSettingsRequest()
    log.settings["log_verbose_level"].uint32_param = 1
    log.settings["log_format"].string_param = "ISO8601"
    held = stub.LogSettings(log).settings
    assert held["log_verbose_level"].uint32_param == 1 and held["log_format"].string_param == "ISO8601" and held["log_error"].bool_param, held


with grpc.insecure_channel(sys.argv[2], options=OPTIONS) as channel:
    stub = service.GRPCInferenceServiceStub(channel)
    infer(stub)
    stream(stub)
    sequences(stub)
    shared(stub, sys.argv[3])
    describe(stub)
    settings(stub)
print("all is well")
