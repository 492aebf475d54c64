package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/kserve"
)

var _ edgewise.Inferer = (*Client)(nil)

// Infer sends a request with binary tensors in both directions. The outputs are in memory of the response's own.
func (c *Client) Infer(ctx context.Context, req *edgewise.Request) (*edgewise.Response, error) {
	return c.InferAs(ctx, req, kserve.Binary, kserve.Binary)
}

// InferAs sends a request with its inputs in one form and asks for the outputs in another.
func (c *Client) InferAs(ctx context.Context, req *edgewise.Request, in, out kserve.Form) (*edgewise.Response, error) {
	body, jsonSize, err := kserve.AppendInferRequest(nil, req, in, out)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if jsonSize < len(body) {
		header = http.Header{"Content-Type": {"application/octet-stream"}, kserve.HeaderLength: {strconv.Itoa(jsonSize)}}
	}
	if req.Sequence.Active() {
		header.Set(kserve.HeaderSequence, kserve.SequenceHeader(req.Sequence))
	}
	res, err := c.do(ctx, http.MethodPost, inferencePath(req.Model)+"/infer", header, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := c.readAnswer(res)
	if err != nil {
		return nil, err
	}
	resp, err := decodeInfer(res, answer)
	if err != nil {
		return nil, edgewise.Errorf("client.Infer", edgewise.Internal, "%w: %w", ErrAnswer, err)
	}
	return resp, nil
}

func decodeInfer(res *http.Response, answer []byte) (resp *edgewise.Response, err error) {
	size := -1
	if text := res.Header.Get(kserve.HeaderLength); text != "" {
		if size, err = kserve.ParseHeaderLength(text, len(answer)); err != nil {
			return nil, err
		}
	}
	return kserve.DecodeInferResponse(answer, size, kserve.Limits{}.WithDefaults())
}

// GenerateStream sends a request to a decoupled model and calls each with every response as it comes, as one JSON object;
// see kserve.AppendGenerateRequest for shapes. event is valid until each returns, whose error ends the request. A
// response that the model could not make is returned as an error when the others have come.
func (c *Client) GenerateStream(
	ctx context.Context, req *edgewise.Request, shapes map[string]edgewise.Shape, each func(event []byte) error,
) error {
	const op = "client.GenerateStream"
	body, err := kserve.AppendGenerateRequest(nil, req, shapes)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	res, err := c.do(ctx, http.MethodPost, inferencePath(req.Model)+"/generate_stream", header, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	var failure error
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, int(min(c.most, math.MaxInt32)))
	for lines.Scan() {
		event, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		if err := failed(op, event); err != nil {
			failure = err
		} else if err := each(event); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return unreachable(ctx, op, c.base, err)
	}
	return failure
}

// failed returns the error that an event tells, nil for a response.
func failed(op string, event []byte) error {
	var body struct {
		kserve.ErrorBody
		Model *string `json:"model_name"` // of a response
	}
	if json.Unmarshal(event, &body) != nil || body.Model != nil || body.Error == "" {
		return nil
	}
	return body.Err(op, http.StatusOK)
}

func inferencePath(id edgewise.ModelID) string {
	path := "/v2/models/" + url.PathEscape(id.Name)
	if id.Version != 0 {
		path += "/versions/" + strconv.FormatInt(id.Version, 10)
	}
	return path
}

// ServerMetadata returns the box's name, version and extensions.
func (c *Client) ServerMetadata(ctx context.Context) (*kserve.ServerMetadata, error) {
	var m kserve.ServerMetadata
	return &m, c.call(ctx, http.MethodGet, "/v2", nil, &m)
}

// ModelMetadata returns a model's signature. Errors: NotFound, Unavailable.
func (c *Client) ModelMetadata(ctx context.Context, id edgewise.ModelID) (*kserve.ModelMetadata, error) {
	var m kserve.ModelMetadata
	return &m, c.call(ctx, http.MethodGet, inferencePath(id), nil, &m)
}

// ModelConfig returns a model's configuration as JSON. Errors: NotFound, Unavailable.
func (c *Client) ModelConfig(ctx context.Context, id edgewise.ModelID) (json.RawMessage, error) {
	var raw json.RawMessage
	err := c.call(ctx, http.MethodGet, inferencePath(id)+"/config", nil, &raw)
	return raw, err
}

// ModelReady returns nil when requests to id are answered.
func (c *Client) ModelReady(ctx context.Context, id edgewise.ModelID) error {
	return c.call(ctx, http.MethodGet, inferencePath(id)+"/ready", nil, nil)
}

// Statistics returns the statistics of one version, of a model, or of all models when id is zero.
func (c *Client) Statistics(ctx context.Context, id edgewise.ModelID) (*kserve.StatisticsBody, error) {
	path := "/v2/models/stats"
	if id.Name != "" {
		path = inferencePath(id) + "/stats"
	}
	var s kserve.StatisticsBody
	return &s, c.call(ctx, http.MethodGet, path, nil, &s)
}

// Index lists the versions and their states.
func (c *Client) Index(ctx context.Context) ([]kserve.IndexEntry, error) {
	var entries []kserve.IndexEntry
	err := c.call(ctx, http.MethodPost, "/v2/repository/index", kserve.IndexRequest{}, &entries)
	return entries, err
}

// Load makes a model ready and waits for it.
func (c *Client) Load(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, "/v2/repository/models/"+url.PathEscape(name)+"/load", nil, nil)
}

// Unload stops serving a model.
func (c *Client) Unload(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, "/v2/repository/models/"+url.PathEscape(name)+"/unload", nil, nil)
}

// Live returns nil when the appliance is live.
func (c *Client) Live(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/v2/health/live", nil, nil)
}

// Ready returns nil when the appliance accepts requests and every wanted model is ready.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/v2/health/ready", nil, nil)
}
