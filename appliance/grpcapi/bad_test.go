package grpcapi

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
)

// changed is a good request after change.
func changed(change func(r *request)) *request {
	r := raw(4)
	change(r)
	return r
}

// tensor is a request of one input with contents.
func tensor(datatype string, shape []int64, c *contents) *request {
	return &request{ModelName: "echo", Inputs: []*input{{Name: "x", Datatype: datatype, Shape: shape, Contents: c}}}
}

func with(p params) *request { return changed(func(r *request) { r.Parameters = p }) }

func ofOutput(p params) *request {
	return changed(func(r *request) { r.Outputs = []*wanted{{Name: "y", Parameters: p}} })
}

func ofInput(p params) *request {
	return changed(func(r *request) { r.RawInputContents, r.Inputs[0].Parameters = nil, p })
}

func TestBadRequestsAreRefused(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxDecodedBytes = 100 })
	long := strings.Repeat("n", 1025)
	const invalid = codes.InvalidArgument
	for _, test := range []struct {
		name string
		req  *request
		code codes.Code
		text string
	}{
		{
			"no model", changed(func(r *request) { r.ModelName = "" }), codes.NotFound,
			"Request for unknown model: '' is not found",
		},
		{
			"unknown model", changed(func(r *request) { r.ModelName = "dog" }), codes.NotFound,
			"Request for unknown model: 'dog' is not found",
		},
		{
			"impossible model", changed(func(r *request) { r.ModelName = "../dog" }), codes.NotFound,
			"Request for unknown model: '../dog' is not found",
		},
		{
			"model that is not ready", changed(func(r *request) { r.ModelName = "cold" }), codes.Unavailable,
			"is not at ready state",
		},
		{
			"unknown version", changed(func(r *request) { r.ModelVersion = "9" }), codes.NotFound,
			"Request for unknown model: 'echo' version 9 is not found",
		},
		{
			"version that is no number", changed(func(r *request) { r.ModelVersion = "abc" }), invalid,
			"failed to get model version from specified version string 'abc'",
		},
		{
			"version 0", changed(func(r *request) { r.ModelVersion = "0" }), invalid,
			"failed to get model version from specified version string '0'",
		},
		{
			"no inputs", changed(func(r *request) { r.Inputs, r.RawInputContents = nil, nil }), invalid,
			"expected 1 inputs but got 0 inputs for model 'echo'",
		},
		{"long id", changed(func(r *request) { r.Id = long }), invalid, "the id of the request has 1025 bytes, at most " +
			"1024 are allowed"},
		{
			"long input name", changed(func(r *request) { r.Inputs[0].Name = long }), invalid,
			"the name of an input has 1025 bytes",
		},
		{
			"long output name", changed(func(r *request) { r.Outputs = []*wanted{{Name: long}} }), invalid,
			"the name of an output has 1025 bytes",
		},
		{
			"output twice", changed(func(r *request) { r.Outputs = []*wanted{{Name: "y"}, {Name: "y"}} }), invalid,
			"output 'y' already exists in request",
		},
		{
			"unknown datatype", changed(func(r *request) { r.Inputs[0].Datatype = "FP31" }), invalid,
			"input 'x': 'FP31' is no datatype",
		},
		{
			"too many dimensions", changed(func(r *request) { r.Inputs[0].Shape = make([]int64, 33) }), invalid,
			"the shape of input 'x' has more than 32 dimensions",
		},
		{
			"elements of a shape", changed(func(r *request) { r.Inputs[0].Shape = []int64{1 << 32, 1 << 32} }), invalid,
			"causes total element count to exceed maximum size of 9223372036854775807",
		},
		{
			"bytes of a shape",
			changed(func(r *request) { r.Inputs[0].Shape = []int64{1 << 62}; r.Inputs[0].Datatype = "FP32" }), invalid,
			"byte size",
		},
		{
			"negative dimension", changed(func(r *request) { r.Inputs[0].Shape = []int64{-1, 2} }), invalid,
			"shape [-1,2] has a negative dimension",
		},
		{
			"too many tensors", changed(func(r *request) { r.Inputs = make([]*input, 1025) }), invalid,
			"the request has more than 1024 inputs and outputs",
		},
		{
			"too many raw contents", changed(func(r *request) { r.RawInputContents = make([][]byte, 1025) }), invalid,
			"the request has more than 1024 inputs and outputs",
		},
		{
			"one raw content too many", changed(func(r *request) { r.RawInputContents = append(r.RawInputContents, nil) }),
			invalid, "the request for model 'echo' has 1 raw_input_contents more than inputs that take them",
		},
		{
			"one raw content too few",
			changed(func(r *request) { r.Inputs = append(r.Inputs, &input{Name: "z", Datatype: "FP32"}) }), invalid,
			"unable to find data for input tensor 'z' for model 'echo' in request.",
		},
		{
			"raw and typed contents", changed(func(r *request) { r.Inputs[0].Contents = &contents{} }), invalid,
			"contents field must not be specified when using raw_input_contents for 'x' for model 'echo'",
		},
		{"no data", tensor("FP32", []int64{1}, nil), invalid, "unable to find data for input tensor 'x' for model 'echo' " +
			"in request."},
		{"no data of a scalar", tensor("FP32", nil, nil), invalid, "unable to find data"},
		{
			"contents of another type", tensor("FP32", []int64{1}, &contents{IntContents: []int32{1}}), invalid,
			"unexpected explicit tensor data for input tensor 'x' for model 'echo' of type 'INT32', expected datatype 'FP32'",
		},
		{
			"contents of two types", tensor("FP32", []int64{1},
				&contents{Fp32Contents: []float32{1}, Fp64Contents: []float64{1}}), invalid,
			"of type 'FP64', expected datatype 'FP32'",
		},
		{
			"typed FP16", tensor("FP16", []int64{1}, &contents{Fp32Contents: []float32{1}}), invalid,
			"elements of type FP16 can not be sent in contents, send them in raw_input_contents",
		},
		{
			"typed BF16", tensor("BF16", []int64{1}, &contents{UintContents: []uint32{1}}), invalid,
			"elements of type BF16 can not be sent in contents",
		},
		{
			"INT8 out of range", tensor("INT8", []int64{2}, &contents{IntContents: []int32{1, 128}}), invalid,
			"input 'x': element 1 of its contents is 128, which INT8 does not hold",
		},
		{
			"INT16 out of range", tensor("INT16", []int64{1}, &contents{IntContents: []int32{-32769}}), invalid,
			"element 0 of its contents is -32769, which INT16 does not hold",
		},
		{
			"UINT8 out of range", tensor("UINT8", []int64{1}, &contents{UintContents: []uint32{256}}), invalid,
			"is 256, which UINT8 does not hold",
		},
		{
			"UINT16 out of range", tensor("UINT16", []int64{1}, &contents{UintContents: []uint32{65536}}), invalid,
			"is 65536, which UINT16 does not hold",
		},
		{
			"too much after conversion", tensor("INT64", []int64{13}, &contents{Int64Contents: make([]int64, 13)}), invalid,
			"the tensors of a request sent in typed contents may take 100 bytes",
		},
		{
			"too many strings after conversion", tensor("BYTES", []int64{26}, &contents{BytesContents: make([][]byte, 26)}),
			invalid, "may take 100 bytes",
		},
		{
			"reserved parameter", with(params{"triton_x": boolParam(true)}), invalid,
			"parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys starting with " +
				"'triton_' are allowed: triton_enable_empty_final_response",
		},
		{
			"final response of another kind", with(params{"triton_enable_empty_final_response": intParam(1)}), invalid,
			"invalid value type for 'triton_enable_empty_final_response' parameter, expected bool_param.",
		},
		{
			"sequence_id of another kind", with(params{"sequence_id": boolParam(true)}), invalid,
			"invalid value type for 'sequence_id' parameter, expected int64_param, uint64_param or string_param.",
		},
		{
			"sequence_start of another kind", with(params{"sequence_start": intParam(1)}), invalid,
			"invalid value type for 'sequence_start' parameter, expected bool_param.",
		},
		{
			"sequence_end of another kind", with(params{"sequence_end": textParam("true")}), invalid,
			"invalid value type for 'sequence_end' parameter, expected bool_param.",
		},
		{
			"priority of another kind", with(params{"priority": textParam("1")}), invalid,
			"invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
		},
		{"negative priority", with(params{"priority": intParam(-1)}), invalid, "invalid value -1 for 'priority' parameter"},
		{
			"timeout of another kind", with(params{"timeout": doubleParam(1)}), invalid,
			"invalid value type for 'timeout' parameter",
		},
		{"negative timeout", with(params{"timeout": intParam(-1)}), invalid, "invalid value -1 for 'timeout' parameter"},
		{"parameter without value", with(params{"x": {}}), invalid, `parameter "x" has no value`},
		{"long parameter name", with(params{long: boolParam(true)}), invalid, "the name of a parameter has 1025 bytes"},
		{
			"classification of another kind", ofOutput(params{"classification": textParam("2")}), invalid,
			"output 'y': invalid value type for 'classification' parameter, expected int64_param.",
		},
		{
			"classification of nothing", ofOutput(params{"classification": intParam(0)}), invalid,
			"invalid value 0 for 'classification' parameter, expected value to be >= 1",
		},
		{
			"classification in shared memory",
			ofOutput(params{
				"classification": intParam(1), "shared_memory_region": textParam("r"),
				"shared_memory_byte_size": intParam(1),
			}), invalid, "shared memory can't be used with classification: output 'y'",
		},
		{"classification of bytes", changed(func(r *request) {
			r.Inputs[0].Datatype, r.Inputs[0].Shape, r.RawInputContents = "BYTES", []int64{1, 1}, [][]byte{{0, 0, 0, 0}}
			r.Outputs = []*wanted{{Name: "y", Parameters: params{"classification": intParam(1)}}}
		}), invalid, "class result not available for output due to unsupported type 'BYTES'"},
		{
			"region of another kind", ofInput(params{"shared_memory_region": intParam(1)}), invalid,
			"input 'x': invalid value type for 'shared_memory_region' parameter, expected string_param.",
		},
		{
			"region without name", ofInput(params{"shared_memory_region": textParam("")}), invalid,
			"input 'x': 'shared_memory_region' names none",
		},
		{
			"region without size", ofInput(params{"shared_memory_region": textParam("r")}), invalid,
			"'shared_memory_byte_size' is missing",
		},
		{
			"size without region", ofInput(params{"shared_memory_byte_size": intParam(1)}), invalid,
			"'shared_memory_region' is missing",
		},
		{
			"negative offset", ofInput(params{"shared_memory_region": textParam("r"), "shared_memory_offset": intParam(-1)}),
			invalid, "invalid value -1 for 'shared_memory_offset' parameter",
		},
		{"region and contents", changed(func(r *request) {
			r.Inputs[0].Parameters, r.Inputs[0].Contents = params{
				"shared_memory_region":    textParam("r"),
				"shared_memory_byte_size": intParam(1),
			}, &contents{}
		}), invalid, "unexpected 'contents' for input 'x' of model 'echo': it is in shared memory"},
		{
			"unknown region", ofInput(params{"shared_memory_region": textParam("r"), "shared_memory_byte_size": intParam(1)}),
			codes.NotFound, "Unable to find shared memory region: 'r'",
		},
		{"too many parameters", with(many(257)), invalid, "the request has more than 256 parameters"},
		{"too many tensor parameters", ofOutput(many(257)), invalid, "a tensor has more than 256 parameters"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ts.client.ModelInfer(t.Context(), test.req)
			wantStatus(t, err, test.code, test.text)
		})
	}
}

func many(n int) params {
	p := params{}
	for i := range n {
		p[strings.Repeat("x", i+1)] = boolParam(true)
	}
	return p
}

// verbatim sends bytes as a message.
type verbatim struct{}

func (verbatim) Name() string                    { return "proto" }
func (verbatim) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (verbatim) Unmarshal(b []byte, v any) error { return proto.Unmarshal(b, v.(proto.Message)) }

func TestBadMessagesAreRefused(t *testing.T) {
	ts := start(t, nil)
	for _, test := range []struct{ name, message, text string }{
		{"cut off", "\x0a\x04ec", "the message is not well-formed: unexpected EOF"},
		{"cut off in an input", "\x0a\x04echo\x2a\x02\x0a\x09", "the message is not well-formed"},
		{"field number 0", "\x00\x00", "the message is not well-formed"},
		{"name that is no text", "\x0a\x04echo\x2a\x03\x0a\x01\xff", "the name of an input is not valid UTF-8"},
		{"id that is no text", "\x0a\x04echo\x1a\x01\xff", "the id of the request is not valid UTF-8"},
		{"model that is no text", "\x0a\x01\xff", "the name of the model is not valid UTF-8"},
		{
			"half a float", "\x0a\x04echo\x2a\x10\x0a\x01x\x12\x04FP32\x2a\x05\x32\x03\x00\x00\x00",
			"3 bytes of packed FP32 elements",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := ts.conn.Invoke(t.Context(), inference.GRPCInferenceService_ModelInfer_FullMethodName, []byte(test.message),
				&inference.ModelInferResponse{}, grpc.ForceCodec(verbatim{}))
			wantStatus(t, err, codes.InvalidArgument, test.text)
		})
	}
}

func TestLimitsOfMessages(t *testing.T) {
	ts := start(t, func(c *Config) { c.MaxMessageBytes = 10_000; c.MaxInflightBytes = 10_000 })
	if _, err := ts.client.ModelInfer(t.Context(), raw(9_000)); err != nil {
		t.Errorf("a message within the limits: %v", err)
	}
	_, err := ts.client.ModelInfer(t.Context(), raw(10_001))
	wantStatus(t, err, codes.ResourceExhausted, "larger than max")
	zeros := raw(1)
	zeros.RawInputContents[0] = make([]byte, 1_000_000)
	roomy := start(t, func(c *Config) { c.MaxMessageBytes = 10_000; c.MaxInflightBytes = 100_000 })
	for _, compressor := range []string{"gzip", "deflate"} {
		_, err = roomy.client.ModelInfer(t.Context(), zeros, grpc.UseCompressor(compressor))
		wantStatus(t, err, codes.ResourceExhausted, "larger than max")
		_, err = roomy.client.ModelMetadata(t.Context(), &inference.ModelMetadataRequest{Name: strings.Repeat("x", 2<<20)},
			grpc.UseCompressor(compressor))
		wantStatus(t, err, codes.Internal, "larger than max (1048576 bytes)")
		_, err = ts.client.ModelInfer(t.Context(), zeros, grpc.UseCompressor(compressor)) // more than the memory, first
		wantStatus(t, err, codes.Unavailable, "grpc.max_inflight_bytes")
	}
	long := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("y", maxHeaderBytes+1))
	if _, err = ts.client.ServerLive(long, &inference.ServerLiveRequest{}); status.Code(err) == codes.OK {
		t.Errorf("metadata of %d bytes is taken", maxHeaderBytes+1)
	}
	_, err = ts.client.ModelInfer(t.Context(), raw(9_960)) // fits a message, and with its place in memory not the memory
	wantStatus(t, err, codes.Unavailable, "grpc.max_inflight_bytes")
}

func TestErrorsOfEveryKindHaveTheirCode(t *testing.T) {
	ts := start(t, nil)
	for _, test := range []struct {
		err  error
		code codes.Code
		text string
	}{
		{edgewise.Errorf("x", edgewise.Busy, "the queue is full"), codes.Unavailable, "the queue is full"},
		{edgewise.Errorf("x", edgewise.Guest, "a trap"), codes.FailedPrecondition, "a trap"},
		{edgewise.Errorf("x", edgewise.TooLarge, "too big"), codes.InvalidArgument, "too big"},
		{edgewise.Errorf("x", edgewise.Exhausted, "no disk"), codes.ResourceExhausted, "no disk"},
		{edgewise.Errorf("x", edgewise.Unsupported, "never"), codes.Unimplemented, "never"},
		{context.Canceled, codes.Canceled, "the request was canceled"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, "Deadline Exceeded: the time given for this request has passed"},
		{errSecret{}, codes.Internal, "internal error; the server's log has the details"},
	} {
		ts.engine.onInfer(func(context.Context, *edgewise.Request) error { return test.err })
		_, err := ts.client.ModelInfer(t.Context(), raw(1))
		wantStatus(t, err, test.code, test.text)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the client reads %v", err)
		}
	}
	ts.engine.onInfer(func(context.Context, *edgewise.Request) error { panic("a secret") })
	_, err := ts.client.ModelInfer(t.Context(), raw(1))
	wantStatus(t, err, codes.Internal, "internal error; the server's log has the details")
	if n := ts.Statistics().Panics; n != 1 || !strings.Contains(ts.log.String(), "a secret") ||
		!strings.Contains(ts.log.String(), "a secret path") {
		t.Errorf("%d panics, log:\n%s", n, ts.log)
	}
}

type errSecret struct{}

func (errSecret) Error() string { return "a secret path" }
