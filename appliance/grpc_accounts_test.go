package appliance

import (
	"context"
	"crypto/tls"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/api/inference"
	"github.com/edgewise-ai/edgewise/appliance/config"
)

func (h *running) callers(with credentials.TransportCredentials) inference.GRPCInferenceServiceClient {
	h.t.Helper()
	conn, err := grpc.NewClient(h.grpc, grpc.WithTransportCredentials(with))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return inference.NewGRPCInferenceServiceClient(conn)
}

func TestTheGRPCDoorTakesTheSameKeys(t *testing.T) {
	h := runBox(t, nil)
	anna := h.claim()
	camera := h.key(anna, admin.KeyNew{Name: "camera", Rights: []string{"infer"}, Models: []string{"face*"}}).header.Get("Authorization")
	loader := h.key(anna, admin.KeyNew{Name: "loader", Rights: []string{"operate", "read"}}).header.Get("Authorization")
	once := h.key(anna, admin.KeyNew{Name: "once", Rights: []string{"read"}, Rate: 0.001}).header.Get("Authorization")
	for _, with := range []credentials.TransportCredentials{
		insecure.NewCredentials(),
		credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}),
	} {
		client := h.callers(with)
		ask := func(key string, call func(ctx context.Context) error) codes.Code {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if key != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", key)
			}
			return status.Code(call(ctx))
		}
		live := func(ctx context.Context) error {
			_, err := client.ServerLive(ctx, &inference.ServerLiveRequest{})
			return err
		}
		described := func(ctx context.Context) error {
			_, err := client.ServerMetadata(ctx, &inference.ServerMetadataRequest{})
			return err
		}
		model := func(name string) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := client.ModelMetadata(ctx, &inference.ModelMetadataRequest{Name: name})
				return err
			}
		}
		infer := func(name string) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := client.ModelInfer(ctx, &inference.ModelInferRequest{ModelName: name})
				return err
			}
		}
		stream := func(ctx context.Context) error {
			s, err := client.ModelStreamInfer(ctx)
			if err != nil {
				return err
			}
			_, err = s.Recv()
			return err
		}
		index := func(ctx context.Context) error {
			_, err := client.RepositoryIndex(ctx, &inference.RepositoryIndexRequest{})
			return err
		}
		load := func(ctx context.Context) error {
			_, err := client.RepositoryModelLoad(ctx, &inference.RepositoryModelLoadRequest{ModelName: "none"})
			return err
		}
		for name, test := range map[string]struct {
			key  string
			call func(context.Context) error
			want codes.Code
		}{
			"health needs nothing":       {"", live, codes.OK},
			"no key":                     {"", described, codes.Unauthenticated},
			"no key, a stream":           {"", stream, codes.Unauthenticated},
			"a wrong key":                {"Bearer ek_0", described, codes.Unauthenticated},
			"another kind":               {"Basic abc", described, codes.Unauthenticated},
			"its own model":              {camera, model("face_2"), codes.NotFound},
			"another model":              {camera, model("text"), codes.PermissionDenied},
			"an inference of its own":    {camera, infer("face_2"), codes.NotFound},
			"an inference of another":    {camera, infer("text"), codes.PermissionDenied},
			"all models, bound to some":  {camera, index, codes.PermissionDenied},
			"a right that it lacks":      {camera, load, codes.PermissionDenied},
			"a right that it has":        {loader, load, codes.NotFound},
			"an inference without infer": {loader, infer("text"), codes.PermissionDenied},
		} {
			if got := ask(test.key, test.call); got != test.want && !(test.want == codes.NotFound && got == codes.InvalidArgument) {
				t.Errorf("%s: %v, want %v", name, got, test.want)
			}
		}
		ask(once, described)
		if got := ask(once, described); got != codes.Unavailable {
			t.Errorf("over its rate: %v", got)
		}
	}
	var page admin.AuditPage
	if anna.ask("GET", "/api/v1/audit?action=model", nil, &page); len(page.Entries) != 2 ||
		page.Entries[0].Actor != "key:loader" || page.Entries[0].Target != "none" || page.Entries[0].Error == "" {
		t.Errorf("the audit log: %+v", page.Entries)
	}
}

func TestPlainTextIsRefusedWhereTLSIsRequired(t *testing.T) {
	h := runBox(t, func(c *config.Config) { c.TLS.Mode = config.TLSRequire })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := h.callers(insecure.NewCredentials()).ServerLive(ctx, &inference.ServerLiveRequest{}); err == nil {
		t.Error("gRPC in plain text is taken")
	}
	if _, err := h.callers(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})).ServerLive(ctx,
		&inference.ServerLiveRequest{}); err != nil {
		t.Error(err)
	}
	plain := h.visitor()
	plain.client.CheckRedirect = nil
	if !strings.HasPrefix(h.base, "https://") {
		t.Errorf("the page is at %s", h.base)
	}
}

// TestALabelIsAVersionAtBothDoors moves a label, and clients that name it go along.
func TestALabelIsAVersionAtBothDoors(t *testing.T) {
	h, anna := runReal(t)
	key := h.key(anna, admin.KeyNew{Name: "line", Rights: []string{"infer", "read"}})
	client := h.callers(insecure.NewCredentials())
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", key.header.Get("Authorization"))
	input := &inference.ModelInferRequest_InferInputTensor{
		Name: "x", Datatype: "FP32", Shape: []int64{1, 4},
		Contents: &inference.InferTensorContents{Fp32Contents: []float32{1, 2, 3, 4}},
	}
	anna.live("net", adding(1))
	anna.live("net", adding(2))
	for _, version := range []int64{1, 2} {
		if status, text := anna.ask("PUT", "/api/v1/models/net/labels/beta", map[string]int64{"version": version}, nil); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		want := strconv.FormatInt(version, 10)
		answer, err := client.ModelInfer(ctx, &inference.ModelInferRequest{
			ModelName: "net", ModelVersion: "beta",
			Inputs: []*inference.ModelInferRequest_InferInputTensor{input},
		})
		if err != nil || answer.ModelVersion != want {
			t.Errorf("gRPC, version %s: %v %v", want, answer, err)
		}
		var rest struct {
			Version string `json:"model_version"`
		}
		body := map[string]any{"inputs": []any{map[string]any{"name": "x", "datatype": "FP32", "shape": []int{1, 4}, "data": []int{1, 2, 3, 4}}}}
		if status, text := key.ask("POST", "/v2/models/net/versions/beta/infer", body, &rest); status != 200 || rest.Version != want {
			t.Errorf("REST, version %s: %d %s", want, status, text)
		}
	}
}
