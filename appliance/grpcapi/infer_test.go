package grpcapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
	"unsafe"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/appliance/blocks"
)

type (
	request  = inference.ModelInferRequest
	input    = inference.ModelInferRequest_InferInputTensor
	wanted   = inference.ModelInferRequest_InferRequestedOutputTensor
	contents = inference.InferTensorContents
	params   = map[string]*inference.InferParameter
)

func boolParam(v bool) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_BoolParam{BoolParam: v}}
}

func intParam(v int64) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Int64Param{Int64Param: v}}
}

func uintParam(v uint64) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_Uint64Param{Uint64Param: v}}
}

func textParam(v string) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_StringParam{StringParam: v}}
}

func doubleParam(v float64) *inference.InferParameter {
	return &inference.InferParameter{ParameterChoice: &inference.InferParameter_DoubleParam{DoubleParam: v}}
}

// raw is a request to echo with n bytes.
func raw(n int) *request {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * 7)
	}
	return &request{
		ModelName: "echo", Id: "a", Inputs: []*input{{Name: "x", Datatype: "UINT8", Shape: []int64{int64(n)}}},
		RawInputContents: [][]byte{data},
	}
}

func TestRawTensorsComeBackExact(t *testing.T) {
	ts := start(t, nil)
	for _, compressor := range []string{"identity", "gzip", "deflate"} {
		for _, n := range []int{0, 1, 1000, 4095, 4096, 16384, 70_000, 3_000_000} {
			t.Run(fmt.Sprintf("%s %d", compressor, n), func(t *testing.T) {
				var at uintptr
				ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
					at = uintptr(unsafe.Pointer(unsafe.SliceData(req.Inputs[0].Data)))
					return nil
				})
				req := raw(n)
				got, err := ts.client.ModelInfer(t.Context(), req, grpc.UseCompressor(compressor))
				if err != nil {
					t.Fatal(err)
				}
				if got.ModelName != "echo" || got.ModelVersion != "3" || got.Id != "a" ||
					got.Parameters["n"].GetInt64Param() != int64(n) || len(got.Outputs) != 1 {
					t.Errorf("answer %.300v", got)
				}
				if out := got.Outputs[0]; out.Name != "y" || out.Datatype != "UINT8" || len(out.Shape) != 1 ||
					out.Shape[0] != int64(n) || out.Contents != nil {
					t.Errorf("output %v", out)
				}
				if !bytes.Equal(got.RawOutputContents[0], req.RawInputContents[0]) {
					t.Error("the bytes came back changed")
				}
				if n > 0 && at%blocks.Alignment != 0 {
					t.Errorf("the tensor lay at %#x", at)
				}
			})
		}
	}
	eventually(t, "the release of every answer",
		func() bool { return ts.engine.infers.Load() == ts.engine.released.Load() })
}

func TestTypedContentsOfEveryType(t *testing.T) {
	ts := start(t, nil)
	le := binary.LittleEndian
	for _, test := range []struct {
		datatype string
		contents *contents
		want     []byte
	}{
		{"BOOL", &contents{BoolContents: []bool{true, false}}, []byte{1, 0}},
		{"INT8", &contents{IntContents: []int32{-128, 127}}, []byte{0x80, 0x7f}},
		{"INT16", &contents{IntContents: []int32{-32768, 32767}}, []byte{0, 0x80, 0xff, 0x7f}},
		{"INT32", &contents{IntContents: []int32{math.MinInt32, 1}}, []byte{0, 0, 0, 0x80, 1, 0, 0, 0}},
		{"INT64", &contents{Int64Contents: []int64{math.MinInt64, 1}}, le.AppendUint64(le.AppendUint64(nil, 1<<63), 1)},
		{"UINT8", &contents{UintContents: []uint32{0, 255}}, []byte{0, 255}},
		{"UINT16", &contents{UintContents: []uint32{1, 65535}}, []byte{1, 0, 255, 255}},
		{"UINT32", &contents{UintContents: []uint32{1, math.MaxUint32}}, []byte{1, 0, 0, 0, 255, 255, 255, 255}},
		{
			"UINT64", &contents{Uint64Contents: []uint64{1, math.MaxUint64}},
			le.AppendUint64(le.AppendUint64(nil, 1), math.MaxUint64),
		},
		{
			"FP32", &contents{Fp32Contents: []float32{1.5, float32(math.Inf(-1))}},
			le.AppendUint32(le.AppendUint32(nil, math.Float32bits(1.5)), 0xff800000),
		},
		{
			"FP64", &contents{Fp64Contents: []float64{1.5, -2}},
			le.AppendUint64(le.AppendUint64(nil, math.Float64bits(1.5)), math.Float64bits(-2)),
		},
		{"BYTES", &contents{BytesContents: [][]byte{[]byte("ab"), nil}}, []byte{2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0}},
	} {
		t.Run(test.datatype, func(t *testing.T) {
			req := &request{
				ModelName: "echo", ModelVersion: "3",
				Inputs: []*input{{Name: "x", Datatype: test.datatype, Shape: []int64{2}, Contents: test.contents}},
			}
			got, err := ts.client.ModelInfer(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.RawOutputContents[0], test.want) {
				t.Errorf("got %x, want %x", got.RawOutputContents[0], test.want)
			}
		})
	}
}

func TestParametersReachTheEngine(t *testing.T) {
	ts := start(t, nil)
	for _, test := range []struct {
		name   string
		params params
		want   edgewise.Request
	}{
		{"none", nil, edgewise.Request{}},
		{
			"sequence by number",
			params{"sequence_id": intParam(7), "sequence_start": boolParam(true)},
			edgewise.Request{Sequence: edgewise.Sequence{ID: 7, Start: true}},
		},
		{
			"sequence by large number",
			params{"sequence_id": uintParam(math.MaxUint64), "sequence_end": boolParam(true)},
			edgewise.Request{Sequence: edgewise.Sequence{ID: math.MaxUint64, End: true}},
		},
		{"sequence by name", params{"sequence_id": textParam("s")}, edgewise.Request{Sequence: edgewise.Sequence{Name: "s"}}},
		{"priority", params{"priority": uintParam(2)}, edgewise.Request{Priority: 2}},
		{"priority as int64", params{"priority": intParam(2)}, edgewise.Request{Priority: 2}},
		{"timeout", params{"timeout": intParam(1500)}, edgewise.Request{Timeout: 1500 * time.Microsecond}},
		{
			"longest timeout",
			params{"timeout": intParam(math.MaxInt64)},
			edgewise.Request{Timeout: math.MaxInt64 / 1000 * time.Microsecond},
		},
		{"custom", params{
			"b": boolParam(true), "i": intParam(-1), "s": textParam("x"), "d": doubleParam(0.5),
			"u": uintParam(3), "v": uintParam(1 << 63),
		}, edgewise.Request{Parameters: map[string]any{
			"b": true, "i": int64(-1), "s": "x", "d": 0.5, "u": int64(3),
			"v": float64(1 << 63),
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got edgewise.Request
			ts.engine.onInfer(func(_ context.Context, req *edgewise.Request) error {
				got = *req
				return nil
			})
			req := raw(1)
			req.Parameters, req.Outputs = test.params, []*wanted{{Name: "y"}}
			if _, err := ts.client.ModelInfer(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got.Parameters) != fmt.Sprint(test.want.Parameters) || got.Sequence != test.want.Sequence ||
				got.Priority != test.want.Priority || got.Timeout != test.want.Timeout {
				t.Errorf("got %+v", got)
			}
			if got.ID != "a" || got.Model.Name != "echo" || len(got.Outputs) != 1 || got.Outputs[0] != "y" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestClassification(t *testing.T) {
	ts := start(t, nil)
	req := &request{
		ModelName: "echo",
		Inputs: []*input{{
			Name: "x", Datatype: "FP32", Shape: []int64{1, 3},
			Contents: &contents{Fp32Contents: []float32{1, 10, -2}},
		}},
		Outputs: []*wanted{{Name: "y", Parameters: params{"classification": intParam(2)}}},
	}
	got, err := ts.client.ModelInfer(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	want := edgewise.AppendElement(edgewise.AppendElement(nil, "10.000000:1:one"), "1.000000:0:zero")
	if out := got.Outputs[0]; out.Datatype != "BYTES" || fmt.Sprint(out.Shape) != "[1 2]" ||
		!bytes.Equal(got.RawOutputContents[0], want) {
		t.Errorf("got %v", got)
	}
	eventually(t, "the release", func() bool { return ts.engine.released.Load() == 1 })
}

func TestSharedMemoryRoundTrip(t *testing.T) {
	ts := start(t, nil)
	for _, name := range []string{"in", "out"} {
		if _, err := ts.client.SystemSharedMemoryRegister(t.Context(),
			&inference.SystemSharedMemoryRegisterRequest{Name: name, Key: "/" + name, ByteSize: 16}); err != nil {
			t.Fatal(err)
		}
	}
	copy(ts.shared.regions["in"][4:], "12345678")
	place := func(region string, offset, size int64) params {
		return params{
			"shared_memory_region": textParam(region), "shared_memory_offset": intParam(offset),
			"shared_memory_byte_size": intParam(size),
		}
	}
	req := &request{
		ModelName: "echo", Inputs: []*input{{Name: "x", Datatype: "UINT8", Shape: []int64{8}, Parameters: place("in", 4, 8)}},
		Outputs: []*wanted{{Name: "y", Parameters: place("out", 0, 16)}},
	}
	got, err := ts.client.ModelInfer(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.RawOutputContents) != 1 || len(got.RawOutputContents[0]) != 0 ||
		string(ts.shared.regions["out"][:9]) != "12345678\x00" {
		t.Errorf("answer %v, region %q", got, ts.shared.regions["out"])
	}
	status, err := ts.client.SystemSharedMemoryStatus(t.Context(), &inference.SystemSharedMemoryStatusRequest{})
	if err != nil || len(status.Regions) != 2 || status.Regions["in"].ByteSize != 16 || status.Regions["in"].Key != "/in" {
		t.Errorf("status %v, %v", status, err)
	}
	req.Outputs[0].Parameters = place("out", 0, 7)
	_, err = ts.client.ModelInfer(t.Context(), req)
	wantStatus(t, err, codes.InvalidArgument, "shared memory size specified with the request for output 'y' (7 bytes) "+
		"should be at least 8 bytes to hold the results")
	req.Inputs[0].Parameters = place("gone", 0, 8)
	_, err = ts.client.ModelInfer(t.Context(), req)
	wantStatus(t, err, codes.NotFound, "Unable to find shared memory region: 'gone'")
}

func TestDeadlineAndCancelReachTheEngine(t *testing.T) {
	ts := start(t, nil)
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	ts.engine.onInfer(func(ctx context.Context, _ *edgewise.Request) error {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	_, err := ts.client.ModelInfer(ctx, raw(1))
	if status.Code(err) != codes.Canceled || !errors.Is(<-ended, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
	for limit := 50 * time.Millisecond; ; limit *= 2 { // a busy machine may not begin before a short deadline
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err = ts.client.ModelInfer(ctx, raw(1))
		cancel()
		if status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("after the deadline: %v", err)
		}
		select {
		case <-begun:
		default:
			continue
		}
		if cause := <-ended; cause == nil {
			t.Error("the engine did not hear of the deadline")
		}
		return
	}
}

func TestRequestTimeout(t *testing.T) {
	ts := start(t, func(c *Config) { c.RequestTimeout = 20 * time.Millisecond })
	ts.engine.onInfer(func(ctx context.Context, _ *edgewise.Request) error {
		<-ctx.Done()
		return nil
	})
	_, err := ts.client.ModelInfer(t.Context(), raw(1))
	wantStatus(t, err, codes.DeadlineExceeded, "given up")
}
