package appliance

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/test/onnxgen"
)

// revokeLimit bounds how long something may go on after its caller was revoked. It is far above a second, for a busy machine, and
// far below every other bound that could end it.
const revokeLimit = 15 * time.Second

// ends waits for the end of what goes on, after a revocation.
func ends(t *testing.T, what string, ended <-chan string) string {
	t.Helper()
	select {
	case how := <-ended:
		return how
	case <-time.After(revokeLimit):
		t.Errorf("%s goes on %v after its caller was revoked", what, revokeLimit)
		return ""
	}
}

// goesOn fails the test when something has ended.
func goesOn(t *testing.T, what string, ended <-chan string) {
	t.Helper()
	select {
	case how := <-ended:
		t.Fatalf("%s has ended before: %s", what, how)
	default:
	}
}

// followEvents listens until the stream ends, and returns when it has begun.
func (v *visitor) followEvents(t *testing.T, path string) <-chan string {
	t.Helper()
	s := v.listen(t, path)
	s.next(t)
	ended := make(chan string, 1)
	go func() {
		for s.lines.Scan() {
		}
		ended <- "end of stream"
	}()
	return ended
}

// begin sends a request whose body is still to come, and returns how it ends.
func (v *visitor) begin(t *testing.T, method, path, contentType string, body io.Reader) <-chan string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, v.running.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = v.header.Clone()
	req.Header.Set("Content-Type", contentType)
	ended := make(chan string, 1)
	go func() {
		res, err := v.client.Do(req)
		if err != nil {
			ended <- err.Error()
			return
		}
		defer func() { _ = res.Body.Close() }()
		ended <- res.Status
	}()
	return ended
}

// dial connects and sends the head of a request.
func (v *visitor) dial(t *testing.T, request, headers string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(v.running.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	head := request + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + v.header.Get("Authorization") + "\r\n" + headers + "\r\n"
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	return c
}

// openStream opens a gRPC stream and sees one message of it answered. It returns how it ends.
func (v *visitor) openStream(t *testing.T) (inference.GRPCInferenceService_ModelStreamInferClient, <-chan string) {
	t.Helper()
	client := v.running.callers(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", v.header.Get("Authorization"))
	stream, err := client.ModelStreamInfer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&inference.ModelInferRequest{ModelName: "none"}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() {
		for {
			if _, err := stream.Recv(); err != nil {
				ended <- status.Code(err).String()
				return
			}
		}
	}()
	return stream, ended
}

func TestWhateverAKeyDoesEndsWithIt(t *testing.T) {
	h, anna := runReal(t)
	anna.live("slow", onnxgen.SlowOnZeros(5000).Bytes())
	anna.live("large", large().Bytes())
	all := admin.KeyNew{Name: "all", Rights: []string{"read", "infer", "operate", "admin"}}
	input := `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,16],"data":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}]}`
	for _, test := range []struct {
		name  string
		begin func(t *testing.T, v *visitor) <-chan string
		want  string // how it ends; empty: however
	}{
		{"events", func(t *testing.T, v *visitor) <-chan string { return v.followEvents(t, "/api/v1/events") }, "end of stream"},
		{"the log", func(t *testing.T, v *visitor) <-chan string { return v.followEvents(t, "/api/v1/events?topics=log") }, "end of stream"},
		{"a gRPC stream", func(t *testing.T, v *visitor) <-chan string {
			_, ended := v.openStream(t)
			return ended
		}, codes.Unauthenticated.String()},
		{"an inference", func(t *testing.T, v *visitor) <-chan string {
			return h.began(t, v.begin(t, "POST", "/v2/models/slow/infer", "application/json", strings.NewReader(input)))
		}, "401 Unauthorized"},
		{"generate_stream", func(t *testing.T, v *visitor) <-chan string {
			return h.began(t, v.begin(t, "POST", "/v2/models/slow/generate_stream", "application/json",
				strings.NewReader(`{"x":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`)))
		}, "401 Unauthorized"},
		{"a gRPC inference", func(t *testing.T, v *visitor) <-chan string {
			client, ended := h.callers(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})), make(chan string, 1)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", v.header.Get("Authorization"))
			go func() {
				_, err := client.ModelInfer(ctx, &inference.ModelInferRequest{
					ModelName: "slow", Inputs: []*inference.ModelInferRequest_InferInputTensor{{
						Name: "x", Datatype: "FP32",
						Shape: []int64{1, 16},
					}}, RawInputContents: [][]byte{make([]byte, 64)},
				})
				ended <- status.Code(err).String()
			}()
			return h.began(t, ended)
		}, codes.Unauthenticated.String()},
		{"an upload", func(t *testing.T, v *visitor) <-chan string {
			c := v.dial(t, "POST /api/v1/models/other/versions", "Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n")
			if _, err := io.WriteString(c, strings.Repeat("x", 100_000)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the upload", func() bool {
				begun, err := filepath.Glob(filepath.Join(h.app.config.DataDir, "staging", "*"))
				return err == nil && len(begun) > 0
			})
			ended := make(chan string, 1)
			go func() {
				text, _ := io.ReadAll(c)
				ended <- string(text)
			}()
			return ended
		}, ""},
		{"a download of the backup", func(t *testing.T, v *visitor) <-chan string {
			c := v.dial(t, "GET /api/v1/backup", "")
			if err := c.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 12)); err != nil {
				t.Fatal(err)
			}
			ended := make(chan string, 1)
			go func() {
				for !strings.Contains(h.log.String(), "a backup broke off") && t.Context().Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
				ended <- "broken off"
			}()
			return ended
		}, "broken off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h.t = t
			v := h.key(anna, all)
			ended := test.begin(t, v)
			goesOn(t, test.name, ended)
			anna.deleteKeys(t)
			if how := ends(t, test.name, ended); test.want != "" && how != "" && how != test.want {
				t.Errorf("it ended with %s, want %s", how, test.want)
			}
		})
	}
}

// began waits until an inference is in progress, and returns how that ends.
func (h *running) began(t *testing.T, ended <-chan string) <-chan string {
	t.Helper()
	eventually(t, "the inference", func() bool {
		goesOn(t, "the inference", ended)
		return h.app.rest.Statistics().InflightBytes > 0 || h.app.grpc.Statistics().InflightBytes > 0
	})
	return ended
}

// deleteKeys deletes every key.
func (v *visitor) deleteKeys(t *testing.T) {
	t.Helper()
	for _, k := range v.keys() {
		if status, text := v.ask("DELETE", "/api/v1/keys/"+k.ID, nil, nil); status != http.StatusNoContent {
			t.Fatalf("deleting a key: %d %s", status, text)
		}
	}
}

func (v *visitor) keys() (list []admin.Key) {
	v.ask("GET", "/api/v1/keys", nil, &list)
	return list
}

// large is a model of 16 MB: more than the buffers of a connection hold.
func large() *onnxgen.Model {
	return &onnxgen.Model{Graph: onnxgen.Graph{
		Name:         "large",
		Nodes:        []onnxgen.Node{{Op: "MatMul", In: []string{"x", "w"}, Out: []string{"y"}}},
		Inputs:       []onnxgen.Value{{Name: "x", Type: onnxgen.Float, Dims: onnxgen.Batch(2048)}},
		Outputs:      []onnxgen.Value{{Name: "y", Type: onnxgen.Float, Dims: onnxgen.Batch(2048)}},
		Initializers: []onnxgen.Tensor{onnxgen.Floats("w", []int64{2048, 2048}, make([]float32, 2048*2048)...)},
	}}
}

func pointerTo[T any](v T) *T { return &v }

func TestEveryRevocationOfAKeyEndsItsStreams(t *testing.T) {
	h, anna := runReal(t)
	for _, test := range []struct {
		name   string
		change any // nil: the key is deleted
		ends   string
	}{
		{"deleted", nil, codes.Unauthenticated.String()},
		{"disabled", admin.KeyChange{Disabled: pointerTo(true)}, codes.Unauthenticated.String()},
		{"fewer rights", admin.KeyChange{Rights: &[]string{"read"}}, codes.PermissionDenied.String()},
		{"bound to models", admin.KeyChange{Models: &[]string{"face*"}}, codes.PermissionDenied.String()},
		{"renamed", admin.KeyChange{Name: pointerTo("another")}, ""},
		{"a rate", admin.KeyChange{Rate: pointerTo(1000.0)}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := h.key(anna, admin.KeyNew{Name: "camera", Rights: []string{"read", "infer"}})
			id := anna.keys()[0].ID
			stream, ended := v.openStream(t)
			events := v.followEvents(t, "/api/v1/events")
			if test.change == nil {
				anna.deleteKeys(t)
			} else if status, text := anna.ask("PATCH", "/api/v1/keys/"+id, test.change, nil); status != http.StatusOK {
				t.Fatal(status, text)
			}
			if test.ends != "" {
				if how := ends(t, "a gRPC stream", ended); how != test.ends {
					t.Errorf("the stream ended with %s, want %s", how, test.ends)
				}
				ends(t, "events", events)
			} else if err := stream.Send(&inference.ModelInferRequest{ModelName: "none"}); err != nil {
				t.Error(err)
			}
			goesOn(t, "the stream", ended)
			anna.deleteKeys(t)
		})
	}
}

func TestEveryEndOfASessionEndsItsStreams(t *testing.T) {
	const password = anna
	h, anna := runReal(t)
	for _, test := range []struct {
		name         string
		method, path string
		body         any
	}{
		{"disabled", "PATCH", "/api/v1/users/viewer", admin.UserChange{Disabled: pointerTo(true)}},
		{"another role", "PATCH", "/api/v1/users/viewer", admin.UserChange{Role: pointerTo("operator")}},
		{"another password", "PATCH", "/api/v1/users/viewer", admin.UserChange{Password: pointerTo("another staple for it")}},
		{"deleted", "DELETE", "/api/v1/users/viewer", nil},
		{"session ended", "DELETE", "/api/v1/sessions/", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			vera := h.login(anna, "viewer")
			events := vera.followEvents(t, "/api/v1/events")
			path := test.path
			if test.name == "session ended" {
				var list []admin.SessionInfo
				vera.ask("GET", "/api/v1/sessions", nil, &list)
				path += list[0].ID
			}
			if status, text := anna.ask(test.method, path, test.body, nil); status >= 300 {
				t.Fatal(status, text)
			}
			ends(t, "events", events)
			anna.ask("DELETE", "/api/v1/users/viewer", nil, nil)
		})
	}
	t.Run("logged out", func(t *testing.T) {
		vera := h.login(anna, "viewer")
		events := vera.followEvents(t, "/api/v1/events")
		if status, text := vera.ask("DELETE", "/api/v1/session", nil, nil); status != http.StatusNoContent {
			t.Errorf("the answer to one's own logout: %d %s", status, text)
		}
		ends(t, "events", events)
	})
	t.Run("one's own password keeps the session", func(t *testing.T) {
		events := anna.followEvents(t, "/api/v1/events")
		if status, text := anna.ask("PUT", "/api/v1/session/password", admin.PasswordChange{
			Old: password,
			New: "another horse battery",
		}, nil); status >= 300 {
			t.Fatal(status, text)
		}
		goesOn(t, "events", events)
	})
}

func TestMessagesOfAStreamCountAgainstTheirKey(t *testing.T) {
	h, anna := runReal(t)
	anna.live("slow", onnxgen.Slow(100).Bytes())
	slow := &inference.ModelInferRequest{
		ModelName: "slow", Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name: "x", Datatype: "FP32",
			Shape: []int64{1, 16},
		}}, RawInputContents: [][]byte{make([]byte, 64)},
	}
	client := h.callers(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}))
	for _, test := range []struct {
		name string
		key  admin.KeyNew
		send *inference.ModelInferRequest
		want []string // parts of the errors of the messages, in order; empty: there is none
	}{
		{
			"rate",
			admin.KeyNew{Name: "rare", Rights: []string{"infer"}, Rate: 0.001},
			&inference.ModelInferRequest{ModelName: "none"},
			[]string{"unknown model", "may make 0.001 requests a second"},
		},
		{
			"concurrency",
			admin.KeyNew{Name: "two", Rights: []string{"infer"}, Concurrency: 2},
			slow,
			[]string{"", "", "has 2 requests in progress, which is its limit"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			key := h.key(anna, test.key).header.Get("Authorization")
			open := func() inference.GRPCInferenceService_ModelStreamInferClient {
				stream, err := client.ModelStreamInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", key))
				if err != nil {
					t.Fatal(err)
				}
				return stream
			}
			stream := open()
			for range test.want {
				if err := stream.Send(test.send); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range test.want {
				answer, err := stream.Recv()
				if err != nil || !strings.Contains(answer.GetErrorMessage(), want) || want == "" && answer.GetErrorMessage() != "" {
					t.Errorf("%v %v, want %s", answer.GetErrorMessage(), err, want)
				}
			}
		})
	}
}

func TestACallThatIsRefusedHoldsNoPlaceOfItsKey(t *testing.T) {
	h, anna := runReal(t)
	key := h.key(anna, admin.KeyNew{Name: "reader", Rights: []string{"read"}, Concurrency: 1}).header.Get("Authorization")
	client := h.callers(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}))
	for range 3 {
		_, err := client.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "authorization", key),
			&inference.ModelInferRequest{ModelName: "none"})
		if status.Code(err) != codes.PermissionDenied {
			t.Errorf("%v", err)
		}
	}
}
